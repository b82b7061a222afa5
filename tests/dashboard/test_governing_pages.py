"""Audit, clusters, users: who may look, and what a mistake is told."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction

from apps.accounts.models import Role
from apps.audit.models import AuditEntry
from apps.audit.services import record
from apps.clusters.models import Cluster
from apps.plans.models import Plan
from tests.dashboard.conftest import log_in, make_cluster, make_person, make_picture
from tests.dashboard.test_grid_pages import text_of

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_auditor_of_one_cluster_reads_only_its_entries(cluster):
    other = make_cluster("gpu-west-1")
    with transaction.atomic():
        record(
            actor=None,
            action="plan.approved",
            subject="plans.Plan:1",
            cluster="gpu-east-1",
            detail={"a": [1]},
        )
        record(actor=None, action="plan.approved", subject="plans.Plan:2", cluster="gpu-west-1")
        record(actor=None, action="person.created", subject="accounts.User:1")
    page = text_of(log_in(make_person("east", Role.AUDITOR, cluster=cluster)).get("/audit/"))
    assert "plans.Plan:1" in page
    assert "a : [1]" in page
    assert "plans.Plan:2" not in page
    assert "accounts.User:1" not in page
    everything = text_of(log_in(make_person("all", Role.AUDITOR)).get("/audit/"))
    assert "accounts.User:1" in everything
    assert other.name in everything


def test_the_ledger_can_be_filtered_and_paged(admin, cluster):
    with transaction.atomic():
        for number in range(120):
            record(actor=None, action="plan.proposed", subject=f"plans.Plan:{number}", cluster="gpu-east-1")
    client = log_in(admin)
    first = client.get("/audit/?action=plan.proposed")
    assert first.content.decode().count('title="plans.Plan:') == 100  # a hundred rows and the placeholder
    assert "Older entries" in text_of(first)
    assert "No entry matches" in text_of(client.get("/audit/?action=nonsense"))
    assert client.get("/audit/?before=abc").status_code == 200


def test_who_is_no_auditor_is_told_so(viewer, cluster):
    response = log_in(viewer).get("/audit/")
    assert response.status_code == 403
    assert "You may not audit on the console as a whole: ask an admin" in text_of(
        response
    ) or "you may not audit" in (text_of(response))
    assert ">Audit<" not in log_in(viewer).get("/clusters/").content.decode()


def test_the_clusters_page_shows_version_age_and_problems(viewer, cluster, picture):
    cluster.watch_error = "https://10.0.0.1:6443 does not answer: is the API server up?"
    cluster.save()
    page = text_of(log_in(viewer).get("/clusters/"))
    assert "v1.33.4" in page
    assert "does not answer: is the API server up?" in page
    assert "Add a cluster" not in page


@pytest.mark.parametrize(
    ("name", "kubeconfig", "line"),
    [
        ("gpu-new", "this is: [no kubeconfig", "kubeconfig"),
        ("Not A Name", "x", "is no name for a cluster"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_one_clear_line(admin, name, kubeconfig, line):
    page = log_in(admin).post("/clusters/", {"name": name, "kubeconfig": kubeconfig}, follow=True)
    assert line in text_of(page)
    assert page.content.decode().count('role="alert"') == 1
    assert not Cluster.objects.exists()


def test_a_refused_kubeconfig_keeps_what_was_typed_and_shows_nothing_of_a_file(admin):
    client = log_in(admin)
    page = client.post("/clusters/", {"name": "gpu-new", "kubeconfig": "typed: [here"}, follow=True)
    assert 'value="gpu-new"' in page.content.decode()
    assert "typed: [here</textarea>" in page.content.decode()
    upload = SimpleUploadedFile("config", b"secret: [token")
    page = client.post("/clusters/", {"name": "gpu-new", "file": upload}, follow=True)
    assert 'value="gpu-new"' in page.content.decode()
    assert "secret: [token</textarea>" not in page.content.decode()


def test_an_admin_stops_and_starts_watching_and_nobody_else(admin, viewer, cluster):
    client, watched = log_in(admin), Cluster.objects.filter(is_active=True)
    address = f"/clusters/{cluster.name}/change/"
    assert "Look after a cluster" not in text_of(log_in(viewer).get("/clusters/"))
    assert "you may not administer" in text_of(log_in(viewer).post(f"{address}leave/", follow=True)).lower()
    assert watched.exists()
    assert "is not watched any more" in text_of(client.post(f"{address}leave/", follow=True))
    assert not watched.exists()
    assert "Start watching" in text_of(client.get("/clusters/"))
    client.post(f"{address}watch/")
    assert watched.exists()
    refused = client.post(f"{address}credential/", {"kubeconfig": "no: [kubeconfig"}, follow=True)
    assert refused.content.decode().count('role="alert"') == 1
    assert client.post(f"{address}explode/").status_code == 404


def test_a_dump_is_removed_unless_there_are_plans_for_it(admin, cluster):
    client = log_in(admin)
    dump = make_cluster("monday")
    Cluster.objects.filter(pk=dump.pk).update(source=Cluster.Source.DUMP)
    make_picture(dump)
    kept = make_cluster("tuesday")
    Cluster.objects.filter(pk=kept.pk).update(source=Cluster.Source.DUMP)
    make_picture(kept)
    Plan.objects.create(cluster=kept, title="t", created_by=admin, edited_by=admin)
    assert "is removed" in text_of(client.post("/clusters/monday/change/remove/", follow=True))
    assert "there are plans for it" in text_of(client.post("/clusters/tuesday/change/remove/", follow=True))
    assert "is a connected cluster" in text_of(
        client.post("/clusters/gpu-east-1/change/remove/", follow=True)
    )
    assert set(Cluster.objects.values_list("name", flat=True)) == {"tuesday", "gpu-east-1"}
    assert kept.snapshots.exists()
    assert (
        AuditEntry.objects.filter(action="cluster.removed").values_list("cluster", flat=True).get()
        == "monday"
    )


def test_a_binary_or_huge_file_is_refused_with_a_line(admin):
    client = log_in(admin)
    for content in (b"\xff\xfe\x00binary", b"a" * 300_000):
        upload = SimpleUploadedFile("config", content)
        page = client.post("/clusters/", {"name": "gpu-new", "file": upload}, follow=True)
        assert "kubeconfig" in text_of(page)
        assert page.content.decode().count('role="alert"') == 1


def test_only_an_admin_of_the_whole_console_adds_clusters(viewer):
    page = log_in(viewer).post("/clusters/", {"name": "gpu-new", "kubeconfig": "x"}, follow=True)
    assert "you may not administer" in text_of(page).lower()


def test_users_and_their_roles_are_for_admins(admin, viewer, cluster):
    make_person("east.only", Role.OPERATOR, cluster=cluster)
    page = text_of(log_in(admin).get("/people/"))
    assert "east.only operator on gpu-east-1" in page
    assert "viewer on every cluster" in page
    assert log_in(viewer).get("/people/").status_code == 403


def test_a_refusal_is_a_whole_sentence(viewer, cluster):
    page = text_of(log_in(viewer).get("/people/"))
    assert "You may not administer on the console as a whole: ask an admin for a role that may." in page
