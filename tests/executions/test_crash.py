"""A worker killed at every boundary of the ledger leaves the same end as one that nobody disturbed."""

import pytest

from apps.audit.queries import verify_chain
from apps.executions import services
from apps.executions.models import Claim, Step
from apps.executions.states import ExecutionState, StepKind, StepState
from tests.executions.crashing import Killer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
EFFECTS = {
    "cordon_node/intent/cordon",
    "hold_target/intent/create_class",
    "hold_target/intent/create_hold",
    "hold_target/intent/nominate_hold",
    "checkpoint/intent/ask",
    "steer/intent/create_webhook",
    "evict_pod/intent/evict",
    "await_replacement/intent/nominate",
    "await_replacement/intent/delete_hold",
    "await_replacement/intent/pin",
    "release/intent/delete_webhook",
    "release/intent/close_steering",
    "hand_over/intent/taint",
    "hand_over/intent/tolerate",
    "hand_over/intent/uncordon",
    "hand_over/intent/untaint",
}


def opt_in_to_checkpoints(stage, plan):
    move = next(move for move in plan.moves if "tuner" in move.pod)
    path = f"/api/v1/namespaces/work/pods/{move.pod.partition('/')[2]}"
    asked = {"metadata": {"annotations": {"defrag.gpu.internal/checkpoint": "true"}}}
    stage.simulated.ask("PATCH", path, asked)


def test_a_worker_killed_everywhere_evicts_nothing_twice_and_comes_to_the_same_end(stage, webhook):
    execution, plan = stage.start()
    opt_in_to_checkpoints(stage, plan)
    killer = Killer(execution.pk, webhook.environment)
    killer.run_to_the_end(seconds=800)
    execution.refresh_from_db()
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert execution.outcome["matches"]
    assert sorted(stage.evicted()) == sorted(move.pod_uid for move in plan.moves)
    assert {step.state for step in Step.objects.filter(execution=execution)} <= {
        StepState.VERIFIED,
        StepState.SUPERSEDED,
    }
    assert stage.traces() == []
    assert not Claim.objects.exists()
    assert verify_chain().is_intact
    met = {boundary for boundary, _ in killer.met}
    assert met >= EFFECTS
    elsewhere = {StepKind.NAME_LAYOUT, StepKind.RECONFIGURE_MIG, StepKind.PREEMPT_POD}
    elsewhere |= {StepKind.HOLD_NODE, StepKind.RELEASE_NODE}  # test_node_hold_story
    elsewhere |= {StepKind.LOWER_MEMORY}  # test_lower_memory
    others = {*StepKind.values, "execution"} - elsewhere
    assert {boundary.partition("/")[0] for boundary in met} == others
    for effect in EFFECTS:
        assert (effect, "before") in killer.met
        assert (effect, "after") in killer.met
        assert (effect.replace("/intent/", "/issued/"), "before") in killer.met


@pytest.mark.parametrize("stop", ["cancel", "roll_back"])
def test_a_worker_killed_everywhere_while_it_stops_leaves_nothing_behind(stage, webhook, stop):
    execution, plan = stage.start()
    killer = Killer(execution.pk, webhook.environment)
    quiet = {
        StepKind.EVICT_POD,
        StepKind.STEER,
        StepKind.HOLD_TARGET,
        StepKind.CORDON_NODE,
        StepKind.CHECKPOINT,
    }

    def stop_after_the_first_eviction(boundary):
        kind = boundary.partition("/")[0]
        if not stopped and (kind in quiet or kind == "execution"):
            killer.met |= {(boundary, "before"), (boundary, "after")}
        if not stopped and boundary == "evict_pod/issued/evict":
            stopped.append(boundary)
            pressed.append(getattr(services, stop))

    stopped, pressed = [], []
    killer.on_boundary = stop_after_the_first_eviction
    killer.between = lambda: [
        pressed.pop()(execution_id=execution.pk, actor=stage.operator, reason="stop") for _ in pressed[:]
    ]
    killer.run_to_the_end(seconds=500)
    execution.refresh_from_db()
    ended = {"cancel": ExecutionState.CANCELLED, "roll_back": ExecutionState.ROLLED_BACK}[stop]
    assert execution.state == ended, stage.told(execution)
    assert len(stage.evicted()) == len(set(stage.evicted()))
    assert stage.traces() == []
    undone = {boundary for boundary, _ in killer.kills if "compensat" in boundary}
    assert undone, killer.kills
