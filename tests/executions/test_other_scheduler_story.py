"""A gang of KAI: moving one of its pods is planned and shown, and refused with what KAI would do to the rest.

Over HTTP against the simulated cluster: at review, and once more before an execution begins.
"""

import json

import pytest

from apps.clusters.services import record_snapshot
from apps.executions import runner, services
from apps.executions.preflight import run_dry_runs
from apps.executions.states import ExecutionState
from apps.plans import services as plan_services
from apps.plans.computing import compute_draft
from apps.plans.queries import current_version, open_plan
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.owners import Owner, make_template
from tests.dashboard.conftest import log_in
from tests.executions.stage import Stage
from tests.plans.situations import approve

pytestmark = pytest.mark.django_db(transaction=True)
LOOSE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
KIND = {
    "group": "scheduling.run.ai",
    "scope": "Namespaced",
    "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
    "versions": [
        {
            "name": "v2alpha2",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": LOOSE, "status": LOOSE}}},
        }
    ],
}


def kai_scene():
    """gpu-1 holds one pod of the gang, gpu-2 the other three; gpu-3 and gpu-4 have four GPUs free each."""
    scene = SceneBuilder(seed=5)
    for number in range(1, 5):
        scene.add_node(f"gpu-{number}", "a100-sxm4-80gb", pool="train", rack="r1", zone="east-1a")
    notes = {"pod-group-name": "train", "defrag.gpu.internal/image-pull": "180s"}
    template = make_template("train", gpus=2, annotations=notes, labels={"kai.scheduler/queue": "research"})
    template["spec"]["schedulerName"] = "kai-scheduler"
    gang = scene.add_owner(Owner("StatefulSet", "work", "train", template))
    scene.put(gang, "gpu-1", (0, 1))
    for at in range(3):
        scene.put(gang, "gpu-2", (2 * at, 2 * at + 1))
    kept = make_template("steady", gpus=4, annotations={"defrag.gpu.internal/protect": "true"})
    steady = scene.add_owner(Owner("StatefulSet", "work", "steady", kept))
    for name in ("gpu-3", "gpu-4"):
        scene.put(steady, name, (0, 1, 2, 3))
    crd = "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "podgroups.scheduling.run.ai"
    scene.add_object(*crd, spec=KIND)
    spec = {"minMember": 4, "queue": "research"}
    scene.add_object("scheduling.run.ai/v2alpha2", "PodGroup", "work", "train", spec=spec)
    return scene.build()


@pytest.fixture
def kai(webhook, transactional_db, simulated_cluster, settings, tmp_path):
    settings.STEERING_URL = webhook.environment["STEERING_URL"]
    settings.STEERING_CA_FILE = webhook.environment["STEERING_CA_FILE"]
    dump = tmp_path / "kai.json"
    dump.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": kai_scene()}))
    return Stage(simulated_cluster(dump=dump, time_scale=20))


def plan_with(stage, *waivers):
    """Asked for over REST with these waivers, searched, proposed and approved by another person."""
    row = record_snapshot(cluster_id=stage.cluster.pk, snapshot=stage.picture())
    type(stage.cluster).objects.filter(pk=stage.cluster.pk).update(watched_at=row.taken_at)
    asked = {"cluster": "sim", "goal": "free-nodes", "waivers": list(waivers)}
    answer = log_in(stage.author).post("/api/v1/plans/", json.dumps(asked), "application/json")
    assert answer.status_code == 201, answer.content
    number = answer.json()["id"]
    compute_draft(number)
    plan = plan_services.propose_plan(plan_id=number, actor=stage.author)
    plan.refresh_from_db()
    approve(plan, stage.approver)
    return plan, open_plan(current_version(plan))


def refused_execution(stage, plan):
    execution = services.start_execution(actor=stage.operator, plan_id=plan.pk)
    runner.advance(execution.pk, seconds=20)
    execution.refresh_from_db()
    assert execution.state == ExecutionState.FAILED, stage.told(execution)
    assert execution.state_reason.startswith("Nothing was touched.")
    return execution.state_reason


def test_one_pod_of_a_kai_gang_is_refused_by_name_and_number_and_nothing_is_evicted(kai):
    client = log_in(kai.author)
    asked = {"cluster": "sim", "goal": "free-nodes"}
    wish = {"reason": "the node is wanted"}
    plan, found = plan_with(kai, {"pod": "work/train-0", **wish})
    assert [(move.pod, move.source) for move in found.moves] == [("work/train-0", "gpu-1")]
    assert found.freed_nodes == ("gpu-1",)
    (run,) = [run for run in run_dry_runs(version_id=current_version(plan).pk) if run.pod == "work/train-0"]
    assert not run.allowed
    assert "60 s < 180 s image pull: all 4 would die" in run.message
    assert "no hold of ours is proved under KAI" in run.message
    assert "60 s < 180 s image pull: all 4 would die" in refused_execution(kai, plan)

    plan, found = plan_with(kai, {"gang": "work/train", **wish})
    assert len(found.moves) == 4
    assert set(found.freed_nodes) == {"gpu-1", "gpu-2"}
    messages = [run.message for run in run_dry_runs(version_id=current_version(plan).pk)]
    assert sum("moves as a whole. Its price is 4 restarts and about" in one for one in messages) == 4
    assert "no hold of ours is proved under KAI" in refused_execution(kai, plan)

    assert kai.requests("POST", "/eviction") == []
    assert kai.requests("PATCH") == []
    for waiver in ({"gang": "work/none", **wish}, {"gang": "work/train", "pod": "work/train-0", **wish}):
        answer = client.post("/api/v1/plans/", json.dumps({**asked, "waivers": [waiver]}), "application/json")
        assert answer.status_code == 422, answer.content
