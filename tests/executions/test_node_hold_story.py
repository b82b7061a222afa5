"""Moves of one owner to one node, over HTTP: one steering, one taint, and whoever ranks higher stays out.

Workers are killed at every boundary of what is shared: the taint, and the configuration that steers all
moves. The webhook pins each replacement when it is made, so an eviction is all that is sent for a move.
"""

import json

import pytest

from apps.audit.queries import verify_chain
from apps.executions.models import Claim, Steering, Step
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.owners import Owner, make_template
from tests.executions.crashing import Killer
from tests.executions.stage import Stage
from tests.faults.reporting import check_stage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]
SHARED = {
    "hold_node/intent/taint_target",
    "steer/intent/create_webhook",
    "evict_pod/intent/evict",
    "release/intent/delete_webhook",
    "release_node/intent/untaint_target",
}


def two_pods_beside_half_a_node():
    """node-a: two pods of one Deployment. node-b: two GPUs left, the only room there is."""
    scene = SceneBuilder(seed=5)
    scene.add_node("node-a", "a100-sxm4-80gb", 8, pool="train", rack="r1", zone="east-1a")
    large = {"cpu": 256, "memory_gib": 2048}
    scene.add_node("node-b", "a100-sxm4-80gb", 16, pool="train", rack="r1", zone="east-1a", **large)
    web = scene.add_owner(Owner("Deployment", "work", "web", make_template("web", gpus=1)))
    for index in range(2):
        scene.put(web, "node-a", (index,))
    scene.add_budget(web, maxUnavailable=1)
    for name, gpus, first in (("stays", 8, 0), ("more", 6, 8)):
        owner = scene.add_owner(Owner("Deployment", "other", name, make_template(name, gpus=gpus)))
        scene.put(owner, "node-b", tuple(range(first, first + gpus)))
    return {"apiVersion": "v1", "kind": "List", "items": scene.build()}


@pytest.fixture
def stage(webhook, transactional_db, simulated_cluster, settings, tmp_path, request):
    settings.STEERING_URL = webhook.environment["STEERING_URL"]
    settings.STEERING_CA_FILE = webhook.environment["STEERING_CA_FILE"]
    settings.EXECUTION_POLL_SECONDS = 0.05
    dump = tmp_path / "scene.json"
    dump.write_text(json.dumps(two_pods_beside_half_a_node()))
    found = Stage(simulated_cluster(dump=dump, time_scale=20))
    yield found
    check_stage(request, found)


def contend(stage):
    """Two pods of a higher rank that fit nowhere but on the target."""
    rank = {"metadata": {"name": "urgent"}, "value": 1000, "preemptionPolicy": "Never"}
    stage.simulated.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", rank)
    limits = {"nvidia.com/gpu": "1"}
    for number in (1, 2):
        spec = {
            "priorityClassName": "urgent",
            "containers": [
                {"name": "main", "image": "x", "resources": {"limits": limits, "requests": limits}}
            ],
        }
        body = {"metadata": {"name": f"urgent-{number}"}, "spec": spec}
        stage.simulated.ask("POST", "/api/v1/namespaces/work/pods", body)


def test_a_worker_killed_at_what_moves_share_leaves_the_same_end_and_nobody_gets_in(stage, webhook):
    execution, plan = stage.start("free-nodes")
    assert len(plan.moves) == 2
    killer, came = Killer(execution.pk, webhook.environment), []

    def on_boundary(boundary):
        if not {boundary, boundary.replace("/issued/", "/intent/")} & SHARED:
            killer.met |= {(boundary, "before"), (boundary, "after")}
        if boundary.startswith("evict_pod/") and not came:
            came.append(boundary)
            contend(stage)

    killer.on_boundary = on_boundary
    killer.run_to_the_end(seconds=400)
    execution.refresh_from_db()
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert came
    assert sorted(stage.evicted()) == sorted(move.pod_uid for move in plan.moves)
    assert len({row.name for row in Steering.objects.all()}) == 1
    assert len([one for one in stage.requests("POST", "webhookconfigurations") if one["status"] == 201]) == 1
    landed = Step.objects.filter(execution=execution, kind=StepKind.AWAIT_REPLACEMENT)
    assert {step.state for step in landed} == {StepState.VERIFIED}
    assert {step.observed["seen"]["landed_on"] for step in landed} == {"node-b"}
    assert not stage.requests("PATCH", "/pods/"), "neither a nomination nor a pin is sent"
    assert not stage.requests("POST", "/namespaces/gpu-defrag/pods")
    assert stage.traces() == []
    assert not Claim.objects.exists()
    assert verify_chain().is_intact
    for boundary in SHARED:
        assert {(boundary, "before"), (boundary, "after")} <= killer.met
