"""An eviction that is answered with 429 because its owner moves the pod by itself (KubeVirt) is under way."""

import pytest

from apps.executions.states import ExecutionState, StepKind, StepState
from apps.kube.errors import MovedByItsOwner
from tests.executions.test_dry_runs import ask
from tests.executions.test_stories import carry, carry_until, has_sent, is_real_eviction, step_of

MESSAGE = (
    'admission webhook "eviction.kubevirt.io" denied the request: Eviction triggered evacuation of VMI "a"'
)


def test_a_dry_run_tells_it_of_that_pod_and_asks_the_others():
    def evict_pod(_namespace, name, **_):
        if name == "web-2":
            raise MovedByItsOwner(MESSAGE)

    assert [(run.pod, run.message) for run in ask(evict_pod) if not run.allowed] == [("ml/web-2", MESSAGE)]


@pytest.mark.django_db(transaction=True)
def test_it_is_asked_for_once_and_its_replacement_is_awaited(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.STEER, "create_webhook"))
    match = {"method": "POST", "path_regex": "/eviction$", "user_agent_regex": "gpu-defrag"}
    fault = {"action": "status", "code": 429, "reason": "TooManyRequests", "message": MESSAGE}
    stage.simulated.ask("POST", "/_sim/faults", fault | {"times": 1, "match": match})
    carry_until(execution, lambda: has_sent(execution, StepKind.EVICT_POD, "evict"))

    moved = next(
        move for move in plan.moves if step_of(execution, "evict_pod", move.order).observed.get("sent")
    )
    told = step_of(execution, "evict_pod", moved.order)
    assert told.state == StepState.VERIFIED, stage.told(execution)
    assert "its owner moves the pod by itself" in told.reason
    namespace, _, name = moved.pod.partition("/")
    # The end of the live migration: the machine's old pod goes.
    stage.simulated.ask("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}")
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    asked = [call for call in stage.requests("POST", "/eviction") if is_real_eviction(call)]
    assert len(asked) == len(plan.moves)
    assert stage.traces() == []
