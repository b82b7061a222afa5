"""What people may decide in each state of an execution, and what comes of it. The table is written out, not
derived: a transition that is added by mistake fails here. And of people who decide at once, one gets it."""

import threading

import pytest
from django.db import connections

from apps.executions import services
from apps.executions.cause import Way
from apps.executions.errors import WrongState
from apps.executions.models import Claim, Execution, Step
from apps.executions.repairing import repair_nodes
from apps.executions.settling import settle_by_hand
from apps.executions.states import ALLOWED, TERMINAL, ExecutionState, StepKind, StepState
from apps.executions.ways import mark_of_standing, ways_on
from tests.plans.situations import approve, make_cluster, person, proposed

pytestmark = pytest.mark.django_db(transaction=True)
DECISIONS = {
    "pause": services.pause,
    "resume": services.resume,
    "cancel": services.cancel,
    "roll back": services.roll_back,
    "repair": repair_nodes,
    "settle": settle_by_hand,
}
NO_RESUME = "so there is nothing to resume"
NO_PAUSE = "cannot become paused"
NO_CANCEL = "cannot become cancelling"
NO_ROLL_BACK = "cannot become rolling_back"
NO_SETTLE = "has nothing that waits to be settled by hand"
NO_REPAIR = "has no node whose MIG change could be repaired"
UNDER_WAY = "is being carried out already"
NOTHING_BEGAN = (NO_PAUSE, NO_RESUME, "=cancelling", "=rolling_back", NO_REPAIR, NO_SETTLE, UNDER_WAY)
ENDED = (NO_PAUSE, NO_RESUME, NO_CANCEL, NO_ROLL_BACK, NO_REPAIR, NO_SETTLE, "=queued")
TABLE = {
    # pause, resume, cancel, roll back, repair, settle, start again; "=": the new state, else the refusal
    "queued": NOTHING_BEGAN,
    "preflight": NOTHING_BEGAN,
    "running": ("=paused", NO_RESUME, "=cancelling", "=rolling_back", NO_REPAIR, NO_SETTLE, UNDER_WAY),
    "paused": ("paused already", "=running", "=cancelling", "=rolling_back", "=paused", NO_SETTLE, UNDER_WAY),
    "verifying": NOTHING_BEGAN,
    "needs_human": (
        NO_PAUSE,
        "=running",
        "=cancelling",
        "=rolling_back",
        "=needs_human",
        "=rolling_back",  # settling goes on with the stop that was asked for last
        UNDER_WAY,
    ),
    "cancelling": (NO_PAUSE, NO_RESUME, NO_CANCEL, "=rolling_back", NO_REPAIR, NO_SETTLE, UNDER_WAY),
    "rolling_back": (NO_PAUSE, NO_RESUME, NO_CANCEL, NO_ROLL_BACK, NO_REPAIR, NO_SETTLE, UNDER_WAY),
    "succeeded": (*ENDED[:-1], "was carried out by execution"),
    "cancelled": ENDED,
    "rolled_back": ENDED,
    "failed": ENDED,
}


@pytest.fixture
def cluster():
    return make_cluster()


@pytest.fixture
def operator(cluster):
    return person("omar", "operator", cluster=cluster)


@pytest.fixture
def execution(cluster, operator):
    plan = proposed(cluster, person("ada", "planner", cluster=cluster))
    approve(plan, person("ben", "approver", cluster=cluster))
    return services.start_execution(actor=operator, plan_id=plan.pk)


def stand_at(execution, state):
    Execution.objects.filter(pk=execution.pk).update(state=state, is_frozen=False)


def add_step(execution, kind, state, **observed):
    """A step that waits for a person."""
    return Step.objects.create(
        execution=execution,
        kind=kind,
        state=state,
        position=1,
        target="node node-a",
        params={"node": "node-a"},
        observed={"needs_person": True, **observed},
    )


def prepare(execution, decision):
    """What the decision needs beside the state; without it the state alone would not be asked."""
    if decision == "settle":
        return add_step(execution, StepKind.CORDON_NODE, StepState.COMPENSATING)
    if decision == "repair":
        seen = {"before": "all-disabled"}
        return add_step(
            execution, StepKind.RECONFIGURE_MIG, StepState.BLOCKED, sent=["relabel"], seen=seen, cause="x"
        )
    return None


def told(decide, execution, operator):
    try:
        decide(execution_id=execution.pk, actor=operator, reason="because")
    except WrongState as refusal:
        return str(refusal)
    execution.refresh_from_db()
    return f"={execution.state}"


def started_again(execution, operator):
    try:
        return f"={services.start_execution(actor=operator, plan_id=execution.plan_id).state}"
    except WrongState as refusal:
        return str(refusal)


def test_the_table_has_each_state():
    assert set(TABLE) == set(ExecutionState.values)


@pytest.mark.parametrize("state", TABLE)
def test_each_decision_of_people_in_each_state(execution, operator, state):
    *expected, again = TABLE[state]
    for (decision, decide), result in zip(DECISIONS.items(), expected, strict=True):
        stand_at(execution, state)
        step = prepare(execution, decision)
        answer = told(decide, execution, operator)
        assert answer == result or (result[0] != "=" and result in answer), (decision, answer)
        execution.refresh_from_db()
        assert execution.state == result[1:] if result[0] == "=" else execution.state == state, decision
        if step is not None:
            step.events.all().delete()
            step.delete()
    stand_at(execution, state)
    if state in TERMINAL:
        Claim.objects.all().delete()
    answer = started_again(execution, operator)
    assert answer == again or (again[0] != "=" and again in answer), answer


@pytest.mark.parametrize("state", [state for state in TABLE if state not in TERMINAL])
def test_each_open_state_can_be_ended_by_a_person(execution, operator, state):
    """By cancel or roll back; a stop that stands still by settling, with the reason kept."""
    stand_at(execution, state)
    steps = list(Step.objects.filter(execution=execution))
    execution.refresh_from_db()
    if state in ("cancelling", "rolling_back"):
        assert ExecutionState.NEEDS_HUMAN in ALLOWED[ExecutionState(state)]  # what stands still is told
        stand_at(execution, "needs_human")
        step = prepare(execution, "settle")
        assert told(settle_by_hand, execution, operator) == "=cancelling"
        step.refresh_from_db()
        assert step.state == StepState.SUPERSEDED
        assert "omar dealt with it by hand: because" in step.reason
    else:
        assert {Way.CANCEL, Way.ROLL_BACK} <= set(ways_on(execution, steps))


@pytest.mark.parametrize(
    ("state", "pressed"),
    [
        ("running", ["pause"] * 4),
        ("paused", ["resume"] * 4),
        ("running", ["cancel"] * 4),
        ("needs_human", ["roll back"] * 4),
        ("needs_human", ["settle", "cancel", "settle", "cancel"]),
        ("paused", ["cancel", "pause", "cancel", "pause"]),
        ("running", ["start again"] * 4),
        ("failed", ["start again"] * 4),
    ],
)
def test_of_people_who_decide_at_once_one_gets_it(execution, operator, state, pressed):
    stand_at(execution, state)
    if state in TERMINAL:
        Claim.objects.all().delete()
    if "settle" in pressed:
        prepare(execution, "settle")
    start, answers = threading.Barrier(len(pressed)), []

    def press(decision):
        start.wait()
        if decision == "start again":
            answers.append(started_again(execution, operator))
        else:
            mine = Execution.objects.get(pk=execution.pk)
            answers.append(told(DECISIONS[decision], mine, operator))
        connections.close_all()

    threads = [threading.Thread(target=press, args=(one,)) for one in pressed]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [answer for answer in answers if answer.startswith("=")]
    assert len(answers) == len(pressed)
    assert len(won) == (0 if (state, pressed[0]) == ("running", "start again") else 1), answers


@pytest.mark.parametrize(("decision", "decide"), [("settle", settle_by_hand), ("repair", repair_nodes)])
def test_nobody_settles_or_repairs_what_his_page_did_not_show(execution, operator, decision, decide):
    stand_at(execution, "needs_human")
    execution.refresh_from_db()
    stale = mark_of_standing(execution, [])
    step = prepare(execution, decision)
    facts = {"execution_id": execution.pk, "actor": operator, "reason": "because"}
    with pytest.raises(WrongState, match="does not stand as your page showed it"):
        decide(**facts, seen=stale)
    step.refresh_from_db()
    assert step.observed["needs_person"]
    decide(**facts, seen=mark_of_standing(execution, [step]))
    step.refresh_from_db()
    assert not step.observed["needs_person"]
