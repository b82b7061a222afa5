"""The page and the resources of a cluster's preflight: who sees, who asks for a look, who switches shadow."""

import json
from datetime import UTC, datetime
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from apps.executions.cluster_preflight import keeping
from apps.executions.models import ClusterPreflight, Prediction
from apps.executions.shadow.standing import why_shadow
from tests.cluster_fixtures import simulated_cluster  # noqa: F401
from tests.dashboard.conftest import log_in, make_person
from tests.executions.stage import Stage
from tests.executions.test_rights import add_token, limit_to, rights

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/clusters/gpu-east-1/preflight/"
LINE = {
    "subject": "Other movers", "standing": "planned-only", "found": "<b>kured</b> is there.",
    "means": "It drains.", "action": "Give it a window.",
}  # fmt: skip


def keep(cluster, **facts):
    now = datetime.now(UTC)
    known = {"lines": [LINE], "looked_at": now, "tried_at": now, "may_evict": True}
    return ClusterPreflight.objects.create(cluster=cluster, **(known | facts))


def body(client, path=PAGE):
    return client.get(path).content.decode()


def test_the_page_says_what_is_found_and_never_what_a_cluster_writes_as_markup(viewer, cluster, picture):
    client = log_in(make_person("v.one", "viewer", cluster=cluster))
    assert "Nobody has looked yet" in body(client)
    keep(cluster)
    page = body(client)
    assert "&lt;b&gt;kured&lt;/b&gt; is there." in page
    assert "Planned and not carried out here:" in page
    assert "Look again" not in page
    assert "What would have been" not in page
    stranger = log_in(make_person("s.tranger"))
    assert stranger.get(PAGE).status_code == 404
    assert stranger.get("/api/v1/preflights/gpu-east-1/").status_code == 404


def test_operators_ask_for_a_look_and_admins_switch_shadow(cluster, picture):
    row = keep(cluster, error="the API server does not answer")
    operator = log_in(make_person("o.per", "operator", cluster=cluster))
    assert "The last look failed." in body(operator)
    operator.post(f"{PAGE}look/")
    row.refresh_from_db()
    assert row.tried_at is None
    assert keeping.due_clusters() == [cluster.pk]
    operator.post(f"{PAGE}shadow/")
    cluster.refresh_from_db()
    assert not cluster.is_shadow
    admin = log_in(make_person("a.dmin", "admin", cluster=cluster))
    admin.post(f"{PAGE}shadow/")
    cluster.refresh_from_db()
    assert cluster.is_shadow
    page = body(admin)
    assert "In shadow." in page
    assert "The first plans are made as soon as a fresh picture is there." in page
    answer = admin.patch("/api/v1/shadow/gpu-east-1/", json.dumps({"is_shadow": False}), "application/json")
    assert (answer.status_code, answer.json()["shadow"]) == (200, "")


def test_predictions_are_shown_and_told_over_rest(cluster, picture):
    client = log_in(make_person("v.two", "viewer", cluster=cluster))
    move = {
        "pod": "ml/a",
        "source": "n1",
        "target": "n2",
        "is_allowed": False,
        "why": "budget web allows none",
    }
    summary = {"moves": 1, "freed_nodes": 1, "free_nodes": 2, "unlocked": [], "waiting": []}
    Prediction.objects.create(
        cluster=cluster, goal="free-nodes", made_at=datetime.now(UTC), body={}, summary=summary, moves=[move],
        looks=[{"after": 300, "is_missed": False, "is_valid": True, "why": []}],
    )  # fmt: skip
    page = body(client)
    assert "What would have been" in page
    assert "budget web allows none" in page
    told = client.get("/api/v1/shadow/gpu-east-1/").json()
    assert told["validity"][0] == {"after": 300, "valid": 1, "looked": 1}
    assert (told["evictions"], told["allowed"]) == (1, 0)
    rows = client.get("/api/v1/shadow/gpu-east-1/predictions/").json()["results"]
    assert rows[0]["moves"] == [move]


def test_a_reader_is_told_what_is_planned_only_and_is_in_shadow(simulated_cluster):  # noqa: F811
    stage = Stage(simulated_cluster(scene="small", time_scale=20))
    limit_to(stage, "reader.yaml", "trust.yaml")
    out = StringIO()
    call_command("cluster_preflight", "sim", "--json", stdout=out)
    told = json.loads(out.getvalue())
    found = {(line["subject"], line["standing"]) for line in told["lines"]}
    assert ("Kubernetes version", "ok") in found
    assert ("Rights", "planned-only") in found
    assert "may not evict pods" in told["shadow"]
    assert {one["method"] for one in stage.requests() if "selfsubject" not in one["path"]} == {"GET"}
    stage.cluster.refresh_from_db()
    assert why_shadow(stage.cluster) == told["shadow"]

    add_token(stage, "limited", rights("reader.yaml", "executor.yaml", "trust.yaml"))
    call_command("cluster_preflight", "sim", stdout=out)
    assert why_shadow(stage.cluster) == ""
    assert "All" in out.getvalue()
    with pytest.raises(CommandError, match="there is no cluster 'nowhere': registered are sim") as refused:
        call_command("cluster_preflight", "nowhere")
    assert refused.value.returncode == 2
