"""Giving back that the cluster refuses, or does not answer: a person is told; it ends once that is mended."""

from types import SimpleNamespace

import pytest

from apps.executions import ledger, locks, runner, services, stepping
from apps.executions.cause import Way
from apps.executions.decisions import blocked
from apps.executions.models import Execution, Step, StepEvent
from apps.executions.settling import settle_by_hand
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.executions.stops import list_stops
from tests.executions.test_decision_table import cluster, execution, operator  # noqa: F401
from tests.executions.test_stories import carry, carry_until, has_sent

pytestmark = pytest.mark.django_db(transaction=True)
State = ExecutionState
OURS = {"user_agent_regex": "gpu-defrag"}
REFUSED = {
    "name": "no",
    "action": "status",
    "code": 403,
    "reason": "Forbidden",
    "match": {**OURS, "method": "PATCH", "path_regex": "/nodes/"},
}


def stops_of(execution):  # noqa: F811
    return list_stops(execution, list(execution.steps.all()))


def test_what_is_refused_while_it_is_given_back_reaches_a_person_and_ends_once_that_is_mended(
    stage, settings
):
    execution, _ = stage.start()  # noqa: F811
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold"))
    stage.simulated.ask("POST", "/_sim/faults", REFUSED)
    services.cancel(execution_id=execution.pk, actor=stage.operator, reason="no")
    assert carry(execution).state == State.NEEDS_HUMAN, stage.told(execution)
    stop = stops_of(execution)[0]
    assert (stop.cause.code, stop.needs_person) == ("undo-refused", True)
    assert set(stop.ways) == {Way.ROLL_BACK, Way.CANCEL, Way.SETTLE}
    assert "Still held: cordon on" in stop.seen
    assert "roll back again" in stop.runbook
    assert all(trace.startswith("cordon") for trace in stage.traces())  # the rest was given back meanwhile
    sent = len(stage.requests("PATCH", "/nodes/"))
    carry(execution, seconds=1)
    assert len(stage.requests("PATCH", "/nodes/")) == sent

    stage.simulated.ask("DELETE", "/_sim/faults")
    services.roll_back(execution_id=execution.pk, actor=stage.operator, reason="the right is back")
    assert carry(execution).state == State.ROLLED_BACK, stage.told(execution)
    assert stage.traces() == []

    settings.EXECUTION_STEP_SECONDS = 1
    again = services.start_execution(actor=stage.operator, plan_id=execution.plan_id)
    carry_until(again, lambda: has_sent(again, StepKind.EVICT_POD, "evict"))
    stage.simulated.ask("POST", "/_sim/faults", {"name": "gone", "action": "reset", "match": OURS})
    services.roll_back(execution_id=again.pk, actor=stage.operator, reason="no")
    carry_until(again, lambda: Execution.objects.get(pk=again.pk).state == State.NEEDS_HUMAN)
    assert again.cause == "undo-unreachable", stage.told(again)
    assert stops_of(again)[0].ways[:2] == (Way.ROLL_BACK, Way.SETTLE)
    stage.simulated.ask("DELETE", "/_sim/faults")
    settings.EXECUTION_STEP_SECONDS = 60
    services.roll_back(execution_id=again.pk, actor=stage.operator, reason="it answers again")
    assert carry(again).state == State.ROLLED_BACK, stage.told(again)
    assert stage.traces() == []
    assert sorted(stage.evicted()) == sorted(set(stage.evicted()))


def add(execution, position, kind, state, **observed):  # noqa: F811
    params = {"node": "node-a", "pod": "ml/a", "hold": "h", "target": "node-b", "why": "freed"}
    facts = {"position": position, "kind": kind, "state": state, "target": f"thing {position}"}
    return Step.objects.create(execution=execution, params=params, observed=observed, **facts)


def test_a_cluster_without_a_way_in_is_told_and_one_word_ends_what_nobody_can_give_back(
    execution,  # noqa: F811
    operator,  # noqa: F811
    settings,
):
    """Its credential cannot be read: no look, no request. The eviction may or may not have gone out."""
    add(execution, 1, StepKind.CORDON_NODE, StepState.VERIFIED, sent=["cordon"], seen={"cordoned": True})
    add(execution, 2, StepKind.HOLD_TARGET, StepState.VERIFIED, sent=["create_hold"])
    add(execution, 3, StepKind.EVICT_POD, StepState.INTENT, sent=["evict"])
    add(execution, 4, StepKind.AWAIT_REPLACEMENT, StepState.PENDING)
    Execution.objects.update(state=State.RUNNING)
    services.cancel(execution_id=execution.pk, actor=operator, reason="no")
    runner.advance(execution.pk)
    execution.refresh_from_db()
    assert execution.state == State.CANCELLING  # a credential that is being changed comes back sooner

    settings.EXECUTION_STEP_SECONDS = 0
    runner.advance(execution.pk)
    execution.refresh_from_db()
    assert (execution.state, execution.cause) == (State.NEEDS_HUMAN, "undo-unreachable")
    stops = stops_of(execution)
    assert [stop.kind for stop in stops] == [
        StepKind.CORDON_NODE,
        StepKind.HOLD_TARGET,
        StepKind.EVICT_POD,
    ]
    assert all("Still held: cordon on node-a, hold on node-b." in stop.seen for stop in stops)
    settle_by_hand(execution_id=execution.pk, actor=operator, reason="the cluster was taken apart")
    runner.advance(execution.pk)
    execution.refresh_from_db()
    assert execution.state == State.CANCELLED, list(StepEvent.objects.values_list("message", flat=True))
    assert execution.outcome["not_known"] == ["ml/a"]
    assert "but for what a person dealt with: thing 1, thing 2" in execution.state_reason
    assert not execution.claims.exists()


def test_what_cannot_be_given_back_now_is_asked_again_and_does_not_count_as_given_back(
    execution,  # noqa: F811
    monkeypatch,
):
    Execution.objects.update(state=State.CANCELLING)
    step = Step.objects.create(
        execution=execution, position=99, kind=StepKind.CORDON_NODE, target="a", state=StepState.COMPENSATING
    )
    later = blocked("not now", "wait", cause="no-room")
    module = SimpleNamespace(observe=lambda *args: None, decide_undo=lambda *args: later)
    monkeypatch.setattr(stepping, "module_of", lambda step: module)
    execution.refresh_from_db()
    lease = locks.Lease(execution.pk, execution.fence, 60)
    context = SimpleNamespace(lease=lease, execution=execution, now=ledger.database_time())
    assert not stepping.undo_step(context, step, during=[State.CANCELLING])
    assert (step.state, step.reason) == (StepState.COMPENSATING, "not now")
    assert step.retry_at is not None


@pytest.mark.parametrize(
    ("state", "ended"), [(State.PREFLIGHT, State.FAILED), (State.VERIFYING, State.NEEDS_HUMAN)]
)
def test_an_error_of_our_own_is_tried_a_few_times_and_then_told(execution, monkeypatch, state, ended):  # noqa: F811
    def fail(*args, **facts):
        raise KeyError("secret of a pod")

    monkeypatch.setattr(runner, "_visit", fail)
    Execution.objects.update(state=state)
    for _ in range(3):
        execution.refresh_from_db()
        assert execution.state == state
        assert runner.advance(execution.pk)
    execution.refresh_from_db()
    assert (execution.state, execution.cause) == (ended, "console-failed")
    assert "KeyError" in execution.state_reason
    assert "secret" not in execution.state_reason
    seen = StepEvent.objects.filter(execution=execution).count()
    runner.advance(execution.pk)
    assert StepEvent.objects.filter(execution=execution).count() == seen
