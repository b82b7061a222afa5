"""The extender's policy of a cluster: who changes it, what it makes of the scheduler's configuration."""

import base64
import json
from datetime import timedelta

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.errors import Denied
from apps.accounts.models import RoleGrant
from apps.audit.models import AuditEntry
from apps.clusters.models import Cluster
from apps.placing import services
from apps.placing.addresses import is_secret_of, secret_of
from apps.placing.api import configuration_for
from apps.placing.configuration import make_configuration
from apps.placing.models import PlacementPolicy, Verdict
from apps.placing.queries import placement_policy_of, standing_of
from apps.placing.tasks import forget_old_verdicts
from apps.simulator.controllers.scheduler.configuration import parse_scheduler_settings
from tests.plans.situations import make_cluster, person, picture, see

pytestmark = pytest.mark.django_db(transaction=True)
ADDRESS = "/api/v1/placement-policies/east/"


@pytest.fixture
def cluster():
    return make_cluster()


@pytest.fixture
def admin(cluster):
    return person("root", "admin", cluster=cluster)


def verdict(number, **facts):
    usual = {"verb": "filter", "at": timezone.now(), "pod_uid": f"u{number}", "pod_key": "ml/web-0"}
    nothing = {"picture_age_seconds": None, "fitting": 0, "refused": {}, "top": [], "node": "", "note": ""}
    return {**usual, **nothing, "scoring": "packing", "offered": 3, **facts}


def test_it_is_edited_over_rest_by_admins_who_looked_at_it_and_written_to_the_ledger(client, cluster, admin):
    client.force_login(admin)
    seen = client.get(ADDRESS)
    assert (seen.json()["scoring"], seen.json()["version"]) == ("packing", 0)

    def put(body, tag):
        return client.patch(
            ADDRESS, json.dumps(body), content_type="application/json", headers={"If-Match": tag}
        )

    changed = put({"scoring": "fgd", "reserved_mib": 512}, seen["ETag"])
    assert (changed.status_code, changed.json()["scoring"], changed.json()["version"]) == (200, "fgd", 1)
    assert put({"weight": 3}, seen["ETag"]).status_code == 412
    refused = put({"weight": 0}, changed["ETag"])
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "weight")
    (entry,) = AuditEntry.objects.filter(action="placement_policy.changed")
    assert entry.detail["before"] == {"scoring": "packing", "reserved_mib": 0}
    with pytest.raises(Denied):
        services.change_placement_policy(
            actor=person("ada", "planner"), cluster=cluster, wishes={"weight": 5}
        )
    assert PlacementPolicy.objects.get().weight == 10


def test_the_shown_configuration_is_one_that_a_scheduler_reads_and_names_what_is_found_in_the_cluster(
    client, cluster, admin, settings, tmp_path
):
    settings.EXTENDER_URL = "https://extender.example:8444"
    settings.EXTENDER_CA_FILE = str(tmp_path / "ca.crt")
    (tmp_path / "ca.crt").write_text("PEM")
    see(cluster, picture())
    services.change_placement_policy(
        actor=admin, cluster=cluster, wishes={"binds": True, "is_ignorable": False}
    )
    told = yaml.safe_load(configuration_for(cluster, shows_secret=True).text)
    (extender,) = told["extenders"]
    secret = secret_of(placement_policy_of(cluster))
    assert extender["urlPrefix"] == f"https://extender.example:8444/extender/east/{secret}"
    assert extender["managedResources"] == [{"name": "nvidia.com/gpu", "ignoredByScheduler": False}]
    assert (extender["ignorable"], extender["bindVerb"], extender["enableHTTPS"]) == (False, "bind", True)
    assert base64.b64decode(extender["tlsConfig"]["caData"]) == b"PEM"
    plain = make_configuration(placement_policy_of(cluster), "http://127.0.0.1:1/x", ["nvidia.com/gpu"])
    (read,) = parse_scheduler_settings(plain).extenders
    assert (read.bind_verb, read.takes_names, read.weight, read.timeout_seconds) == ("bind", True, 10, 5.0)
    plain = make_configuration(PlacementPolicy(cluster=cluster), "http://127.0.0.1:1/x", ["nvidia.com/gpu"])
    assert parse_scheduler_settings(plain).extenders[0].timeout_seconds == 1.0


def test_the_secret_is_shown_to_admins_alone_and_a_renewed_one_makes_the_old_useless(
    client, cluster, admin, settings
):
    settings.EXTENDER_URL = "https://extender.example:8444"
    old = secret_of(placement_policy_of(cluster))
    address = f"{ADDRESS}scheduler-configuration/"
    client.force_login(person("ada", "viewer"))
    assert old not in client.get(address).content.decode()
    client.force_login(admin)
    assert old in client.get(address).content.decode()
    services.renew_address(actor=admin, cluster=cluster)
    assert not is_secret_of(placement_policy_of(cluster), old)


def test_how_the_extender_stands_is_told_by_its_beats(cluster):
    policy, now = placement_policy_of(cluster), timezone.now()
    assert not standing_of(cluster, policy, now).is_alive
    services.note_beat(cluster_id=cluster.pk, started_at=now, picture_age_seconds=2.0, asked_at=now)
    found = standing_of(cluster, policy, timezone.now())
    assert (found.is_alive, found.is_fresh, found.is_asked) == (True, True, True)
    services.note_beat(cluster_id=cluster.pk, started_at=now, picture_age_seconds=31.0)
    assert not standing_of(cluster, policy, timezone.now()).is_fresh
    late = standing_of(cluster, policy, timezone.now() + timedelta(seconds=21))
    assert (late.is_alive, late.sentence[:34]) == (False, "The extender has been silent since")


def test_a_list_of_policies_asks_as_much_for_three_clusters_as_for_one(
    client, cluster, django_assert_num_queries
):
    ada = person("ada", "viewer", cluster=cluster)
    client.force_login(ada)
    services.note_beat(cluster_id=cluster.pk, started_at=timezone.now(), picture_age_seconds=2.0)
    with CaptureQueriesContext(connection) as one:
        rows = client.get("/api/v1/placement-policies/").json()["results"]
    assert rows[0]["extender"]["is_alive"]
    for name in ("west", "north"):
        RoleGrant.objects.create(user=ada, role="viewer", cluster=make_cluster(name))
    with django_assert_num_queries(len(one)):
        assert len(client.get("/api/v1/placement-policies/").json()["results"]) == 3


def test_verdicts_are_read_by_those_who_see_the_cluster_and_the_oldest_go(client, cluster):
    refused = {"no 2-GPU group with the wanted bandwidth (NVLink)": 2, "no GPU topology metadata": 1}
    services.keep_verdicts(cluster_id=cluster.pk, verdicts=[verdict(n, refused=refused) for n in range(5)])
    services.keep_verdicts(
        cluster_id=cluster.pk, verdicts=[verdict(9, at=timezone.now() - timedelta(days=15), pod_key="ml/old")]
    )
    address = "/api/v1/verdicts/?cluster=east&pod=ml/web-0"
    client.force_login(person("ada", "viewer"))
    rows = client.get(address).json()["results"]
    assert [row["pod_uid"] for row in rows] == ["u4", "u3", "u2", "u1", "u0"]
    assert rows[0]["refused"][0] == {
        "reason": "no 2-GPU group with the wanted bandwidth (NVLink)",
        "nodes": 2,
    }
    client.force_login(person("eve", "viewer", cluster=make_cluster("west")))
    assert client.get(address).json()["results"] == []
    assert services.drop_old_verdicts(cluster_id=cluster.pk, now=timezone.now(), most=2) == 4
    assert set(Verdict.objects.values_list("pod_uid", flat=True)) == {"u3", "u4"}


def test_the_page_shows_the_configuration_and_why_a_pod_is_there_and_takes_an_edit(
    client, cluster, admin, settings
):
    settings.EXTENDER_URL = "https://extender.example:8444"
    see(cluster, picture())
    part = {"name": "packing", "points": 87.5, "words": "for 7 of 8 GPUs used"}
    top = [{"node": "node-b", "score": 10, "points": 87.5, "parts": [part]}]
    refused = {"no GPU topology metadata": 2}
    services.keep_verdicts(
        cluster_id=cluster.pk,
        verdicts=[verdict(1, pod_key="ml/train", top=top, verb="prioritize"), verdict(2, refused=refused)],
    )
    page = "/clusters/east/placement/"
    client.force_login(admin)
    shown = client.get(f"{page}?pod=ml/train")
    text = shown.content.decode()
    assert shown["Cache-Control"] == "no-store"
    assert secret_of(placement_policy_of(cluster)) in text
    assert "It is on node-b now." in text
    assert "for 7 of 8 GPUs used" in text
    assert "no GPU topology metadata" not in text
    assert "for 7 of 8 GPUs used" in client.get(f"{page}?uid=uid-train").content.decode()
    form = {"version": "0", "scoring": "fgd", "when_stale": "abstain", "weight": "5", "gang_seconds": "30"}
    sent = {**form, "stale_after_seconds": "20", "reserved_mib": "0", "binds": "yes"}
    client.post(f"{page}save/", sent)
    saved = placement_policy_of(cluster)
    assert (saved.scoring, saved.weight, saved.binds, saved.is_ignorable) == ("fgd", 5, True, False)
    late = client.post(f"{page}save/", {**sent, "weight": "6"}, follow=True).content.decode()
    assert "omebody changed this policy" in late
    assert placement_policy_of(cluster).weight == 5
    client.force_login(person("ada", "viewer"))
    seen = client.get(page).content.decode()
    assert "/extender/east/SECRET" in seen
    assert "no GPU topology metadata" in seen


def test_a_dump_is_offered_no_configuration_and_nothing_to_press(client, cluster, admin):
    Cluster.objects.filter(pk=cluster.pk).update(source=Cluster.Source.DUMP)
    see(cluster, picture())
    client.force_login(admin)
    text = client.get("/clusters/east/placement/").content.decode()
    assert "A dump has no scheduler" in text
    assert "KubeSchedulerConfiguration" not in text
    assert "Renew the address" not in text


def test_old_verdicts_go_also_where_no_extender_runs_any_more(cluster):
    old = timezone.now() - timedelta(days=15)
    services.keep_verdicts(cluster_id=cluster.pk, verdicts=[verdict(0, at=old), verdict(1)])
    forget_old_verdicts()
    assert [row.pod_uid for row in Verdict.objects.all()] == ["u1"]
