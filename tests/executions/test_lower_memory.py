"""Waiting pods ask for less GPU memory: the step's decisions, its undo, and the whole story over HTTP."""

import json
from copy import deepcopy
from types import SimpleNamespace

import pytest

from apps.clusters.services import record_snapshot
from apps.executions import services
from apps.executions.checks.lowering import tell_held_back
from apps.executions.decisions import Verdict
from apps.executions.memory_asks import find_statements, patch_of, the_statement, with_amount
from apps.executions.models import Step
from apps.executions.preflight import run_dry_runs
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.executions.steps import lower_memory
from apps.plans import services as services_of_plans
from apps.plans.computing import compute_draft
from apps.plans.queries import current_version, open_plan
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.owners import Owner, make_template
from tests.cluster_fixtures import wait_until
from tests.executions import things
from tests.executions.crashing import Killer
from tests.executions.stage import Stage
from tests.executions.test_stories import carry
from tests.plans.situations import approve

MEM = "aliyun.com/gpu-mem"
PARAMS = {
    "owner": "StatefulSet ml/web", "owner_kind": "StatefulSet", "namespace": "ml", "name": "web",
    "uid": "uid-web", "resource": MEM, "before": 7, "after": 6, "before_mib": 7168, "after_mib": 6144,
    "renews": True, "pods": ["uid-web-0"],
}  # fmt: skip


def owner(amount="7", **metadata):
    resources = {"limits": {MEM: amount, "memory": "2Gi"}, "requests": {MEM: amount}}
    template = {"metadata": {}, "spec": {"containers": [{"name": "main", "resources": resources}]}}
    known = {"name": "web", "namespace": "ml", "uid": "uid-web", "resourceVersion": "5"}
    return {"metadata": {**known, **metadata}, "spec": {"template": template}}


def pod(number=0, on=""):
    return {"metadata": {"name": f"web-{number}", "uid": f"uid-web-{number}"}, "spec": {"nodeName": on}}


def look(found, *pods, sent=(), issued=False, undo=False, **params):
    seen = {"earlier": {"limits": "7", "requests": "7"}} if sent else {}
    step = things.step("lower_memory", move=0, sent=sent, seen=seen, **{**PARAMS, **params})
    step.issued_at = "2026-01-01" if issued else None
    facts = lower_memory.Facts(found, tuple(pods))
    return lower_memory.decide_undo(step, facts) if undo else lower_memory.decide(step, facts, late=False)


def test_the_template_is_changed_only_as_it_was_approved_and_while_no_pod_has_a_node():
    first = look(owner(), pod())
    assert (first.verdict, first.effect) == (Verdict.ACT, "lower")
    assert first.seen == {"earlier": {"limits": "7", "requests": "7"}}
    for found, pods, cause in (
        (None, [pod()], "owner-changed"),
        (owner(uid="uid-other"), [pod()], "owner-changed"),
        (owner("9"), [pod()], "owner-changed"),
        (owner("a bit"), [pod()], "owner-changed"),
        (owner(), [pod(on="gpu-1")], "owner-runs"),
    ):
        stopped = look(found, *pods)
        assert (stopped.verdict, stopped.cause) == (Verdict.STOP, cause)
    assert look(owner("6"), pod()).verdict == Verdict.MOOT


def test_pods_with_the_earlier_request_are_made_anew_where_their_owner_does_not():
    renewed = look(owner("6"), pod(), pod(1), sent=["lower"])
    assert (renewed.effect, renewed.arguments["pod"]["metadata"]["uid"]) == ("renew", "uid-web-0")
    assert look(owner("6"), pod(1), sent=["lower", "renew"]).verdict == Verdict.DONE
    assert look(owner("6"), pod(on="gpu-1"), sent=["lower"]).verdict == Verdict.DONE
    assert look(owner("6"), pod(), sent=["lower"], renews=False).verdict == Verdict.DONE
    leaving = pod()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert look(owner("6"), leaving, sent=["lower"]).verdict == Verdict.WAIT


@pytest.mark.parametrize(
    ("kind", "is_told"), [("Deployment", True), ("StatefulSet", True), ("GPURequest", False)]
)
def test_a_pod_that_got_a_node_between_the_look_and_the_patch_is_named(kind, is_told):
    found = owner("6")
    if kind == "GPURequest":
        found = {"kind": kind, "metadata": found["metadata"], "spec": {"gpuMem": 6}}
    stated = {"owner_kind": kind, "renews": kind == "StatefulSet"}
    after = look(found, pod(on="gpu-1"), sent=["lower"], **stated)
    assert after.verdict == Verdict.DONE
    assert ("Pod web-0 got a node right before, with the earlier request" in after.reason) == is_told
    assert "right before" not in look(found, pod(1, on="gpu-1"), sent=["lower"], **stated).reason


def test_after_a_crash_it_is_sent_again_only_where_it_did_not_arrive():
    assert look(owner(), pod(), sent=["lower"]).effect == "lower"
    assert look(owner("6"), sent=["lower"]).verdict == Verdict.DONE
    back = look(owner(), pod(), sent=["lower"], issued=True)
    assert (back.verdict, back.cause) == (Verdict.STOP, "owner-changed")


def test_it_is_undone_by_the_exact_earlier_value_unless_that_would_restart_somebody():
    assert look(owner(), undo=True).reason == "nothing was changed"
    again = look(owner("6"), pod(), sent=["lower"], undo=True)
    assert (again.effect, again.arguments["earlier"]) == ("restore", {"limits": "7", "requests": "7"})
    assert look(owner(), sent=["lower"], undo=True).verdict == Verdict.DONE
    for found, pods in ((owner("6"), [pod(on="gpu-1")]), (owner("5"), [pod()]), (None, [])):
        assert look(found, *pods, sent=["lower"], undo=True).verdict == Verdict.MOOT


def test_each_way_of_stating_it_is_found_and_changed_alone():
    found = owner()
    stated = the_statement(found, MEM)
    patch = patch_of(found, stated, with_amount(stated, 6))
    assert patch == {
        "metadata": {"uid": "uid-web", "resourceVersion": "5"},
        "spec": {
            "template": {
                "spec": {
                    "containers": [
                        {"name": "main", "resources": {"limits": {MEM: "6"}, "requests": {MEM: "6"}}}
                    ]
                }
            }
        },
    }
    kai = deepcopy(found)
    kai["spec"]["template"]["metadata"]["annotations"] = {"gpu-memory": "6000"}
    (one,) = find_statements(kai, "")
    assert patch_of(kai, one, with_amount(one, 5000))["spec"]["template"] == {
        "metadata": {"annotations": {"gpu-memory": "5000"}}
    }
    hami = json.loads(json.dumps(found).replace(MEM, "nvidia.com/gpumem"))
    assert the_statement(hami, "").amounts == {7}
    hami["spec"]["template"]["metadata"]["annotations"] = {"gpu-memory": "6000"}
    assert the_statement(hami, "") is None


def test_our_own_kind_is_patched_in_its_one_field_and_none_of_its_pods_is_touched():
    metadata = {"name": "big", "namespace": "ml", "uid": "uid-web", "resourceVersion": "5"}
    request = lower_memory.as_kind({"metadata": metadata, "spec": {"gpuMem": 25_000, "gpuType": "A30"}})
    mine = {"owner_kind": "GPURequest", "name": "big", "resource": "", "before": 25_000, "after": 24_000}
    found = look(request, pod(), **mine, renews=False)
    assert (found.effect, found.seen) == ("lower", {"earlier": {"spec": 25_000}})
    stated = found.arguments["stated"]
    assert patch_of(request, stated, with_amount(stated, 24_000)) == {
        "metadata": {"uid": "uid-web", "resourceVersion": "5"},
        "spec": {"gpuMem": 24_000},
    }
    lowered = {**request, "spec": {"gpuMem": 24_000}}
    assert look(lowered, pod(), sent=["lower"], **mine, renews=False).verdict == Verdict.DONE
    assert look(request, pod(on="n1"), **mine).cause == "owner-runs"
    named = {"metadata": {"labels": {"defrag.gpu.internal/request": "big"}}}
    assert lower_memory.naming("big", [named, pod()]) == [named]


def test_a_waiting_pod_is_evicted_only_as_it_was_seen():
    """One that got a node after the look has another resourceVersion, and the API server refuses."""
    seen = pod()
    seen["metadata"]["resourceVersion"] = "41"
    renewed = look(owner("6"), seen, sent=["lower"])
    sent = []
    gateway = SimpleNamespace(evict_pod=lambda *where, **guard: sent.append((where, guard)))
    step = things.step("lower_memory", move=0, **PARAMS)
    lower_memory.apply(SimpleNamespace(gateway=gateway), step, renewed)
    assert sent == [(("ml", "web-0"), {"uid": "uid-web-0", "version": "41"})]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"paused": True}, "it is paused"),
        ({"updateStrategy": {"rollingUpdate": {"partition": 2}}}, "leave out pods below number 2"),
        ({"updateStrategy": {"rollingUpdate": {"partition": 0}}, "paused": False}, ""),
        ({}, ""),
    ],
)
def test_an_owner_that_holds_its_updates_back_is_found_before_it_is_changed(spec, said):
    found = list(tell_held_back({"spec": spec}))
    assert bool(found) == bool(said)
    assert said in "".join(found)


@pytest.fixture
def stage(webhook, transactional_db, simulated_cluster, settings, tmp_path):
    """share-1 has 15 GiB on one card, 9 are taken. Two owners wait for 7 each; either could start with 6."""
    settings.STEERING_URL = webhook.environment["STEERING_URL"]
    settings.STEERING_CA_FILE = webhook.environment["STEERING_CA_FILE"]
    settings.EXECUTION_POLL_SECONDS = 0.05

    def build(kind):
        dump = tmp_path / "cluster.json"
        dump.write_text(json.dumps({"items": shared_cluster(kind)}))
        return Stage(simulated_cluster(dump=dump, time_scale=20))

    return build


def shared_cluster(kind):
    scene = SceneBuilder(seed=5)
    host = {"cpu": "16", "memory": "64Gi", "pods": "110", MEM: "15", "aliyun.com/gpu-count": "1"}
    scene.add_machine(
        "share-1", None, host, host, {"gpushare": "true"}, {"sim.gpu.internal/hardware": "none"}
    )

    def template(name, amount):
        made = make_template(name, cpu=1, memory_gib=2)
        for part in ("limits", "requests"):
            made["spec"]["containers"][0]["resources"][part][MEM] = str(amount)
        return made

    busy = scene.add_owner(Owner("StatefulSet", "ml", "busy", template("busy", 9)))
    scene.put(busy, "share-1")
    waiting = scene.add_owner(Owner(kind, "ml", "web", template("web", 7)))
    scene.put_pending(waiting, 20, "0/1 nodes are available: 1 Insufficient aliyun.com/gpu-mem.")
    return scene.build()


def key_of_waiting(picture):
    return next(pod.key for pod in picture.pods.values() if pod.is_pending and pod.name.startswith("web"))


def ask(stage):
    """As people do it: asked for, computed, checked, proposed, approved by somebody else."""
    picture = stage.picture()
    row = record_snapshot(cluster_id=stage.cluster.pk, snapshot=picture)
    type(stage.cluster).objects.filter(pk=stage.cluster.pk).update(watched_at=row.taken_at)
    plan = services_of_plans.request_plan(
        actor=stage.author, cluster=stage.cluster, goal="lower-memory", workload=key_of_waiting(picture)
    )
    compute_draft(plan.pk)
    services_of_plans.propose_plan(plan_id=plan.pk, actor=stage.author)
    plan.refresh_from_db()
    approve(plan, stage.approver)
    return plan, open_plan(current_version(plan))


def template_of(stage, kind):
    owner = stage.simulated.ask("GET", f"/apis/apps/v1/namespaces/ml/{kind}/web")
    return owner["spec"]["template"]["spec"]["containers"][0]["resources"]


@pytest.mark.django_db(transaction=True)
def test_an_approved_change_lets_it_start_and_nobody_else_is_touched(stage):
    on, plural = stage("Deployment"), "deployments"
    plan, found = ask(on)
    assert found.sentence == "It asks for 7,168 MiB; with 6,144 MiB it could start now, on share-1."
    assert plan.title == "Ask for 6,144 MiB instead of 7,168 for ml/web"
    run_dry_runs(version_id=plan.versions.get().pk)
    assert template_of(on, plural)["limits"][MEM] == "7"
    execution = carry(services.start_execution(actor=on.operator, plan_id=plan.pk))
    assert execution.state == ExecutionState.SUCCEEDED, on.told(execution)
    assert template_of(on, plural)["limits"][MEM] == template_of(on, plural)["requests"][MEM] == "6"
    assert template_of(on, plural)["limits"]["memory"] == "2Gi"
    assert len(on.requests("PATCH", f"/{plural}/web")) == 1
    assert on.evicted() == []
    wait_until(lambda: any(p.name.startswith("web") and p.node_name for p in on.picture().pods.values()))
    assert on.traces() == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(600)
def test_a_worker_killed_at_every_boundary_changes_it_once(stage, webhook):
    on = stage("StatefulSet")
    plan, found = ask(on)
    execution = services.start_execution(actor=on.operator, plan_id=plan.pk)
    killer = Killer(execution.pk, webhook.environment)
    killer.run_to_the_end(seconds=300)
    execution.refresh_from_db()
    assert execution.state == ExecutionState.SUCCEEDED, on.told(execution)
    assert {("lower_memory/intent/lower", "before"), ("lower_memory/intent/lower", "after")} <= killer.met
    patches = [one for one in on.requests("PATCH", "/statefulsets/web") if one["status"] == 200]
    assert len(patches) == 1
    assert on.evicted() == list(found.lowerings[0].pod_uids)
    assert Step.objects.get(execution=execution, kind=StepKind.LOWER_MEMORY).state == StepState.VERIFIED
