"""A plan that takes a pod back to where it was moved off is refused before anything is touched."""

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.executions.models import Execution, Step
from apps.executions.preflight import examine, run_dry_runs
from apps.executions.returning import returning_moves
from apps.executions.states import StepKind, StepState
from apps.planner.plan import Goal, Move, Plan
from apps.planner.returning import Moved, find_returns
from tests.plans.situations import draft, make_cluster, person


def moving(uid, source, target):
    return Plan(Goal.FREE_NODES, moves=(Move(1, 1, uid, "ml/a", source, target, 1, 1.0, "why"),))


def test_a_pod_is_followed_through_its_successors():
    history = [Moved("a1", "a2", "n1", "n2"), Moved("a2", "a3", "n2", "n3"), Moved("b1", "b2", "n9", "n3")]
    back = find_returns(moving("a3", "n3", "n1").moves, history)
    assert back == {"a3": "it was moved off n1 within the last 2 h: this would undo it."}
    again = find_returns(moving("a3", "n3", "n4").moves, history)
    assert again == {"a3": "it was moved 2 times within the last 2 h: it is left where it is."}
    assert find_returns(moving("b2", "n3", "n4").moves, history) == {}
    assert find_returns(moving("new", "n3", "n1").moves, history) == {}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("minutes", "state", "is_refused"),
    [(30, "succeeded", True), (150, "succeeded", False), (30, "rolled_back", False)],
)
def test_what_was_carried_out_lately_counts_and_what_was_rolled_back_does_not(minutes, state, is_refused):
    cluster = make_cluster()
    ada = person("ada", "planner", cluster=cluster)
    plan = draft(cluster, ada)
    execution = Execution.objects.create(plan=plan, version=plan.versions.get(), started_by=ada, state=state)
    now = timezone.now()
    Step.objects.create(
        execution=execution,
        position=1,
        move=1,
        kind=StepKind.AWAIT_REPLACEMENT,
        state=StepState.VERIFIED,
        params={"uid": "old", "source": "n1", "target": "n2"},
        observed={"seen": {"replacement": "new"}},
        finished_at=now - timedelta(minutes=minutes),
    )
    assert bool(returning_moves(cluster, moving("new", "n2", "n1"), now)) is is_refused
    assert returning_moves(cluster, moving("new", "n2", "n3"), now) == {}


@pytest.mark.django_db(transaction=True)
def test_the_reviewers_see_it_and_an_execution_does_not_begin(stage):
    plan, found = stage.approved_plan()
    version, first = plan.versions.get(), found.moves[0]
    earlier = Execution.objects.create(plan=plan, version=version, started_by=stage.author, state="succeeded")
    moved = {"uid": "old", "source": first.target, "target": first.source}
    Step.objects.create(
        execution=earlier,
        position=1,
        kind=StepKind.AWAIT_REPLACEMENT,
        state=StepState.VERIFIED,
        params=moved,
        observed={"seen": {"replacement": first.pod_uid}},
        finished_at=timezone.now(),
    )
    runs = {run.pod_uid: run for run in run_dry_runs(version_id=version.pk)}
    assert "this would undo it" in runs[first.pod_uid].message
    assert [uid for uid, run in runs.items() if not run.allowed] == [first.pod_uid]
    findings = examine(version, stage.gateway)
    assert [one for one in findings.refusals if first.pod in one and "would undo it" in one]
