"""A freed node reaches its gang while others of its rank arrive all the time: 16 nodes, 7 moves, 3 x 8."""

import itertools
import threading
import time

import pytest

from apps.executions.models import Claim
from apps.executions.sightings import is_ready
from apps.executions.states import ExecutionState, StepKind
from tests.executions.test_stories import body, carry, carry_until, contender, has_sent

pytestmark = pytest.mark.django_db(transaction=True)
PODS = "/api/v1/namespaces/work/pods"


def bindings(stage):
    """(time, "namespace/pod", node) of each binding that the API server agreed to, whosoever asked for it."""
    found = []
    for one in stage.simulated.ask("GET", "/_sim/requests")["requests"]:
        if one["method"] == "POST" and one["path"].endswith("/binding") and one["status"] == 201:
            namespace, _, name, _ = one["path"].rsplit("/", 4)[1:]
            found.append((one["time"], f"{namespace}/{name}", body(one)["target"]["name"]))
    return found


def uncordoned_at(stage, nodes):
    """When the console opened each of these nodes."""
    return {
        one["path"].rpartition("/")[2]: one["time"]
        for one in stage.requests("PATCH", "/nodes/")
        if one["path"].rpartition("/")[2] in nodes and body(one)["spec"].get("unschedulable", True) is None
    }


def test_three_nodes_are_handed_over_under_fire_and_no_stranger_is_ever_there(stage_of):
    stage = stage_of("under-fire")
    execution, plan = stage.start()
    freed = {one.node for one in plan.hand_overs}
    assert (len(stage.picture().nodes), len(plan.moves), len(freed)) == (16, 7, 3)
    carry_until(execution, lambda: has_sent(execution, StepKind.STEER, "create_webhook"))
    assert stage.evicted() == []
    stop, numbers = threading.Event(), itertools.count()

    def keep_coming():
        while not stop.wait(0.1):
            stage.simulated.ask("POST", PODS, contender(next(numbers)))

    thread = threading.Thread(target=keep_coming)
    thread.start()
    try:
        carry(execution)
        time.sleep(1)
    finally:
        stop.set()
        thread.join()
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert sorted(stage.evicted()) == sorted(move.pod_uid for move in plan.moves)
    bound = bindings(stage)
    assert any("/stranger-" in pod for _, pod, _ in bound), "no stranger ran at all, so nothing was proved"
    there = [(pod, node) for _, pod, node in bound if node in freed]
    assert sorted(node for _, node in there) == sorted(freed)
    assert all(pod.startswith("ml/big-train-") for pod, _ in there), there
    asked = stage.simulated.ask("GET", "/_sim/requests")["requests"]
    came = [one["time"] for one in asked if (one["method"], one["path"]) == ("POST", PODS)]
    opened = uncordoned_at(stage, freed)
    assert set(opened) == freed
    assert all(min(came) < at < max(came) for at in opened.values()), "before and after the uncordon"
    gang = stage.simulated.ask("GET", "/api/v1/namespaces/ml/pods")["items"]
    assert {pod["spec"]["nodeName"] for pod in gang if is_ready(pod)} == freed
    assert stage.traces() == []
    assert not Claim.objects.exists()
