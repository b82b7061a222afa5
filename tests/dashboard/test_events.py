"""What an execution wrote down, as the page says it."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.dashboard.reading.events import list_events, plain_message, plain_reason
from apps.dashboard.reading.lanes import Told, draw_lanes
from apps.executions.models import Execution, Step, StepEvent
from apps.executions.states import StepKind, StepState
from apps.planner.plan import Goal, Move, Plan

START = datetime(2026, 1, 5, 14, 2, tzinfo=UTC)
REFUSED = "POST /api/v1/namespaces/ml/pods/a/eviction: Cannot evict pod as it would violate a budget."


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("message", "state", "text"),
    [
        ("create_hold: put a paper hold", "intent", "put a paper hold"),
        ("create_hold: accepted by the cluster", "issued", "create hold: accepted by the cluster"),
        ("not needed: it asks for none", "superseded", "not needed: it asks for none"),
        (REFUSED, "blocked", "Cannot evict pod as it would violate a budget."),
    ],
)  # fmt: skip
def test_messages_lose_what_only_a_program_needs(message, state, text):
    assert plain_message(message, state) == text


def test_a_reason_keeps_everything_but_the_address_of_the_call():
    assert plain_reason(REFUSED) == "Cannot evict pod as it would violate a budget."
    assert plain_reason("waits for https://x/y: no") == "waits for https://x/y: no"


def test_a_try_that_is_refused_again_and_again_is_one_line():
    step = Step(pk=7, kind=StepKind.EVICT_POD, move=2, target="pod ml/a")
    events = [
        StepEvent(step=step, at=at(60), state="blocked", message=REFUSED),
        StepEvent(step=step, at=at(30), state="blocked", message=REFUSED),
        StepEvent(step=step, at=at(20), state="intent", message="evict: evict ml/a from n-1"),
        StepEvent(step=step, at=at(10), state="blocked", message=REFUSED),
        StepEvent(step=None, at=at(0), state="running", message="by planner"),
    ]
    refused, tried, begun = list_events(events)
    assert (refused.at, refused.times, refused.since, refused.is_loud) == (at(60), 3, at(10), True)
    assert (tried.times, tried.since) == (1, None)
    assert (begun.whose, begun.text) == ("", "by planner")


@pytest.mark.parametrize(
    ("kind", "move", "whose"),
    [
        (StepKind.RECONFIGURE_MIG, 0, "Reconfigure MIG, node n-1"),
        (StepKind.CORDON_NODE, 0, "Cordon node, node n-1"),
        (StepKind.HOLD_TARGET, 3, "Move 3, hold target"),
    ],
)
def test_a_step_is_named_as_people_write_it(kind, move, whose):
    step = Step(pk=8, kind=kind, move=move, target="node n-1")
    (line,) = list_events([StepEvent(step=step, at=START, state="issued", message="cut as planned")])
    assert line.whose == whose


@pytest.mark.parametrize(
    ("state", "message", "text"),
    [
        ("paused", "by ada", "paused by ada"),
        ("paused", "ada: the network is mended", "paused: ada: the network is mended"),
        (
            "paused",
            "paused by freeze window until 06:00 (night)",
            "paused by freeze window until 06:00 (night)",
        ),
        ("paused", "Paused by the kill switch (ada: stop).", "Paused by the kill switch (ada: stop)."),
        ("cancelling", "by ada", "being cancelled by ada"),
        ("rolling_back", "by ada", "being rolled back by ada"),
        ("running", "ada: resumed", "ada: resumed"),
    ],
)
def test_what_a_person_decided_says_what_it_was(state, message, text):
    (line,) = list_events([StepEvent(step=None, at=START, state=state, message=message)])
    assert line.text == text


MOVE = Move(
    order=1, wave=1, pod_uid="u", pod="ml/a", workload_uid="w", source="n-1", target="n-2", gpus=1,
    risk="", risk_level="low", cost=1.0, reason="",
)  # fmt: skip


def lanes_of(*steps: Step, told: Told, now: datetime) -> str:
    execution = Execution(state="running", started_at=START)
    plan = Plan(goal=Goal.UNLOCK, moves=(MOVE,))
    return str(draw_lanes(execution, steps, plan, told, now))


def step(pk: int, kind: StepKind, state: StepState, **times: datetime) -> Step:
    return Step(pk=pk, position=pk, kind=kind, state=state, move=1, target="pod ml/a", **times)


def test_the_wait_for_a_replacement_runs_from_the_moment_its_pod_left():
    evicted = step(1, StepKind.EVICT_POD, StepState.VERIFIED, intent_at=at(0), finished_at=at(10))
    waiting = step(2, StepKind.AWAIT_REPLACEMENT, StepState.PENDING)
    picture = lanes_of(evicted, waiting, told=Told(), now=at(70))
    assert "Replacement: pending, 1 min" in picture
    assert 'class="lane issued"' in picture


def test_a_blocked_step_is_drawn_from_its_first_try_and_stays_seen_once_it_went_on():
    told = Told(begun={1: at(0)}, blocked={1: at(2)}, blocked_last={1: at(120)})
    blocked = step(1, StepKind.EVICT_POD, StepState.BLOCKED, intent_at=at(119))
    assert "Evict: blocked, 3 min" in lanes_of(blocked, told=told, now=at(180))
    done = step(1, StepKind.EVICT_POD, StepState.VERIFIED, intent_at=at(119), finished_at=at(130))
    picture = lanes_of(done, told=told, now=at(180))
    assert "Evict: was blocked, 2 min" in picture
    assert "Evict: verified, 10 s" in picture
