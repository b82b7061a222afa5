"""Visits that end without a word, and visits that are none because of safe mode: no cluster is asked."""

import pytest

from apps.executions import locks, runner, safe_mode
from apps.executions.cause import Way
from apps.executions.causes import CAUSES
from apps.executions.models import Execution, StepEvent
from apps.executions.queries import versions_without_dry_run
from apps.executions.states import ExecutionState
from apps.plans.models import Plan
from apps.plans.states import PlanState
from tests.executions.test_decision_table import cluster, execution, operator  # noqa: F401
from tests.plans.situations import person, proposed

pytestmark = pytest.mark.django_db(transaction=True)
State = ExecutionState
DIED = "The worker that looked at it ended without a word"


def die_during_visit(execution):  # noqa: F811
    """As a worker that is killed: the claim stays, and runs out."""
    assert locks.claim(execution.pk, owner="dies", seconds=-1) is not None


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        (State.PREFLIGHT, State.FAILED),
        (State.CANCELLING, State.NEEDS_HUMAN),
        (State.VERIFYING, State.NEEDS_HUMAN),
    ],
)
def test_what_kills_its_worker_each_time_is_not_tried_for_ever(
    execution,  # noqa: F811
    monkeypatch,
    settings,
    state,
    ended,
):
    """A preflight that takes more memory than there is, say."""
    settings.EXECUTION_CRASHES_BEFORE_STOP = 3
    visits = []
    monkeypatch.setattr(runner, "_visit", lambda lease, *args, **facts: visits.append(lease.fence))
    Execution.objects.update(state=state)
    for number in range(3):
        execution.refresh_from_db()
        assert (execution.state, len(visits)) == (state, number)
        die_during_visit(execution)
        assert runner.advance(execution.pk)
    execution.refresh_from_db()
    assert (execution.state, execution.cause, len(visits)) == (ended, "worker-dies", 2)
    assert DIED in execution.state_reason
    assert Way.RESTART in CAUSES["worker-dies"].ways
    if ended == State.FAILED:
        assert execution.state_reason.startswith("Nothing was touched.")
        assert "start it again" in execution.state_reason


def test_deaths_with_something_done_in_between_or_of_a_claim_given_back_are_borne(
    execution,  # noqa: F811
    monkeypatch,
    settings,
):
    settings.EXECUTION_CRASHES_BEFORE_STOP = 2
    monkeypatch.setattr(runner, "_visit", lambda lease, *args, **facts: None)
    Execution.objects.update(state=State.RUNNING)
    for _ in range(4):
        die_during_visit(execution)
        runner.advance(execution.pk)
        StepEvent.objects.create(
            execution=execution, at=execution.created_at, fence=1, state="running", message="it moved"
        )
        runner.advance(execution.pk)
    execution.refresh_from_db()
    assert execution.state == State.RUNNING
    assert StepEvent.objects.filter(message__startswith=DIED).count() == 4


@pytest.mark.parametrize(
    ("state", "facts", "ended"),
    [
        (State.RUNNING, {}, (State.PAUSED, "database-old", False)),
        (State.PAUSED, {"is_frozen": True, "cause": "freeze-window"}, (State.PAUSED, "database-old", False)),
        (State.CANCELLING, {}, (State.CANCELLING, "", False)),
        (State.PREFLIGHT, {}, (State.PREFLIGHT, "", False)),
    ],
)
def test_safe_mode_counts_no_fences(execution, state, facts, ended):  # noqa: F811
    """Else an old database would soon have passed the fences in the cluster that tell how old it is."""
    Execution.objects.update(state=state, fence=7, **facts)
    safe_mode.enter(execution.plan.cluster, "an old backup was restored")
    for _ in range(3):
        assert not runner.advance(execution.pk)
    execution.refresh_from_db()
    assert execution.fence == 7
    assert (execution.state, execution.cause, execution.is_frozen) == ended


def test_one_plan_whose_questions_kill_their_worker_does_not_always_come_first(execution):  # noqa: F811
    """Else nobody would be asked about any later one."""
    place = execution.plan.cluster
    other = proposed(place, person("eve", "planner", cluster=place))
    Plan.objects.update(state=PlanState.PROPOSED)
    begun = {versions_without_dry_run()[0].plan_id for _ in range(60)}
    assert begun == {execution.plan_id, other.pk}
