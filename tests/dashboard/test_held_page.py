"""What we hold now: kept, shown and told; and everything released by an admin's order, over HTTP."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.audit.models import AuditEntry
from apps.executions.held import looking, releases
from apps.executions.holdings import LEFT_OVER, Held, held_to_dict
from apps.executions.models import ClusterHoldings, ClusterRelease
from tests.cluster_fixtures import simulated_cluster  # noqa: F401
from tests.dashboard.conftest import log_in, make_person
from tests.executions.stage import Stage
from tests.executions.test_rights import limit_to

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/clusters/gpu-east-1/held/"
NOW = datetime.now(UTC)


def body(client, path=PAGE):
    return client.get(path).content.decode()


def test_what_was_found_is_shown_as_text_with_age_owner_and_deadline(cluster, picture):
    client = log_in(make_person("v.one", "viewer", cluster=cluster))
    assert "Nobody has looked yet" in body(client)
    late = Held("cordon", "node <b>a</b>", "7-ab", "freed", NOW - timedelta(hours=2), NOW, LEFT_OVER)
    ClusterHoldings.objects.create(
        cluster=cluster,
        held=[held_to_dict(late)],
        looked_at=NOW,
        tried_at=NOW,
        unread=["Steering is not seen"],
    )
    page = body(client)
    assert "node &lt;b&gt;a&lt;/b&gt;" in page
    assert "overdue" in page
    assert "Steering is not seen." in page
    assert "Look now" not in page
    assert "Show what would be released" not in page
    told = client.get("/api/v1/holdings/gpu-east-1/").json()
    assert (told["held"][0]["standing"], told["held"][0]["is_overdue"]) == ("left over", True)
    assert told["held"][0]["age_seconds"] >= 7200
    assert client.post("/api/v1/holdings/gpu-east-1/look/").status_code == 403
    assert client.post(f"{PAGE}rehearse/").status_code == 302
    assert not ClusterRelease.objects.exists()
    stranger = log_in(make_person("s.tranger"))
    assert stranger.get(PAGE).status_code == 404
    assert stranger.get("/api/v1/holdings/gpu-east-1/").status_code == 404


def test_a_look_is_due_when_it_is_asked_for_or_old(cluster):
    assert looking.due_clusters() == [cluster.pk]
    now = datetime.now(UTC)
    row = ClusterHoldings.objects.create(cluster=cluster, tried_at=now)
    assert looking.due_clusters() == []
    log_in(make_person("o.per", "operator", cluster=cluster)).post(f"{PAGE}look/")
    assert looking.due_clusters() == [cluster.pk]
    ClusterHoldings.objects.filter(pk=row.pk).update(tried_at=now - timedelta(seconds=301))
    assert looking.due_clusters() == [cluster.pk]


@pytest.fixture
def stage(simulated_cluster):  # noqa: F811
    """A node that a console of another life keeps, and a credential without deploy/rbac/holdings.yaml."""
    stage = Stage(simulated_cluster(scene="small", time_scale=20))
    ask = stage.simulated.ask
    node = ask("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
    taint = {"key": "defrag.gpu.internal/held", "value": "cafe", "effect": "NoSchedule"}
    ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": [taint]}})
    limit_to(stage, "reader.yaml", "executor.yaml", "steering.yaml")
    stage.node = node
    return stage


def test_an_admin_is_shown_what_would_go_types_the_name_and_it_goes(stage):
    row = looking.look_now(stage.cluster.pk)
    assert [one["where"] for one in row.held if one["what"] == "taint"] == [f"node {stage.node}"]
    assert row.unread == [
        "Steering configurations are not seen: the right to list mutatingwebhookconfigurations."
        "admissionregistration.k8s.io is missing: kubectl apply -f deploy/rbac/holdings.yaml"
    ]
    page = "/clusters/sim/held/"
    admin = log_in(make_person("a.dmin", "admin", cluster=stage.cluster))
    admin.post(f"{page}release/", {"name": "sim", "rehearsal": "1"})
    assert "was not shown in the last 15 min" in body(admin, page)
    admin.post(f"{page}rehearse/", {"of_others": "on"})
    admin.post(f"{page}rehearse/")
    assert "a worker is at it on sim already" in body(admin, page).lower()
    (rehearsal,) = releases.due_releases()
    assert releases.work_on_release(rehearsal)
    assert not releases.work_on_release(rehearsal)
    assert f"taint on node {stage.node}" in body(admin, page)
    assert stage.traces() == [f"taint {stage.node}"]
    order = {"name": "sum", "rehearsal": str(rehearsal)}
    admin.post(f"{page}release/", order)
    assert releases.due_releases() == []
    admin.post(f"{page}release/", order | {"name": "sim"})
    (ordered,) = releases.due_releases()
    killed = datetime.now(UTC) - timedelta(seconds=releases.LEASE_SECONDS + 1)
    ClusterRelease.objects.filter(pk=ordered).update(begun_at=killed, tries=1)
    assert releases.work_on_release(ordered)
    assert stage.traces() == []
    done = AuditEntry.objects.filter(cluster="sim", actor__username="a.dmin").order_by("id")
    assert [one.action for one in done] == [
        "cluster.release_rehearsed", "cluster.release_ordered", "cluster.released",
    ]  # fmt: skip
    told = admin.get("/api/v1/holdings/sim/").json()
    assert told["last_release"]["released"] == [f"taint on node {stage.node}"]
    assert [one["standing"] for one in told["held"] if one["standing"] != "stays"] == []
    assert "1 request released" in body(admin, page)
