"""Which alerts follow from facts, by the second."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.alerts.models import Alert
from apps.alerts.rules import (
    SWITCHES,
    ClusterFacts,
    ExecutionFacts,
    ExtenderFacts,
    Limits,
    StepFacts,
    due_on_cluster,
)
from apps.executions.pausing import CAUSES_OF_BANS
from apps.executions.states import StepKind, StepState
from apps.plans.policies import FREEZE, OTHER_CONSOLE, OUTSIDE, SAFE_MODE

NOW = datetime(2031, 5, 4, 12, tzinfo=UTC)


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def due_of(*, steps=(), **facts):
    usual = {
        "number": 7, "state": "running", "cause": "", "reason": "why", "visited_at": ago(5),
        "deadline_at": NOW + timedelta(hours=1), "changed_at": ago(9),
    }  # fmt: skip
    execution = ExecutionFacts(**(usual | facts), steps=tuple(steps))
    found = due_on_cluster(ClusterFacts(True, ago(1), (execution,)), NOW, Limits())
    return [str(one.kind) for one in found]


def evicted(seconds):
    return StepFacts(StepKind.EVICT_POD, StepState.VERIFIED, 1, "pod a", finished_at=ago(seconds))


def landing(*, gates=True, sent=(), **seen):
    return StepFacts(
        StepKind.AWAIT_REPLACEMENT, StepState.BLOCKED, 1, "pod a", gates=gates, sent=sent,
        seen={"replacement": "u2", **seen},
    )  # fmt: skip


def test_nothing_is_due_on_an_ordinary_day():
    assert due_of(steps=[evicted(30), landing()]) == []


@pytest.mark.parametrize(
    ("beat", "fresh", "facts", "words"),
    [
        (60, 60, {}, ""),
        (61, 61, {}, "has fallen silent. Pods with accelerators wait"),
        (
            61,
            61,
            {"is_ignorable": True},
            "has fallen silent. The scheduler places pods with accelerators without",
        ),
        (8 * 86_400, 8 * 86_400, {}, ""),
        (3, 93, {}, ""),
        (3, 94, {}, "sees the cluster no more. Pods with accelerators wait"),
        (3, 94, {"abstains": True}, "sees the cluster no more. It lets every node pass"),
    ],
)
def test_an_extender_that_falls_silent_or_blind_is_told_with_what_it_means(beat, fresh, facts, words):
    usual = {"is_ignorable": False, "abstains": False, "stale_after": timedelta(seconds=30)}
    extender = ExtenderFacts(beat_at=ago(beat), fresh_at=ago(fresh), **(usual | facts))
    found = list(due_on_cluster(ClusterFacts(True, ago(1), extender=extender), NOW, Limits()))
    assert [words in one.what for one in found] == [True] * bool(words)


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        ({"state": "needs_human"}, ["needs-person"]),
        ({"state": "paused", "cause": "failures-in-row"}, ["paused-by-switch"]),
        ({"state": "paused", "cause": "kill-switch-cluster"}, ["paused-by-switch"]),
        ({"state": "paused", "cause": "freeze-window"}, []),
        ({"visited_at": ago(61)}, ["not-visited"]),
        ({"visited_at": ago(60)}, []),
        ({"steps": [evicted(61), landing()]}, ["gated-long"]),
        ({"steps": [evicted(61), landing(sent=["pin"])]}, []),
        ({"steps": [evicted(301), landing(sent=["pin"])]}, ["replacement-pending"]),
        ({"steps": [evicted(301), landing(gates=False)]}, ["replacement-pending"]),
        ({"steps": [evicted(301), landing(sent=["pin"], landed_on="b")]}, []),
        ({"steps": [StepFacts(StepKind.HOLD_TARGET, "blocked", 1, "b", "hold-taken")]}, ["hold-lost"]),
        ({"steps": [StepFacts(StepKind.CORDON_NODE, "blocked", 0, "b", "database-old")]}, ["safe-mode"]),
        (
            {"steps": [StepFacts(StepKind.RECONFIGURE_MIG, StepState.ISSUED, 0, "b", issued_at=ago(601))]},
            ["mig-pending"],
        ),
    ],
)
def test_what_is_due(facts, kinds):
    assert due_of(**facts) == kinds


def test_whatever_a_person_has_to_lift_is_told():
    by_themselves = {CAUSES_OF_BANS[kind] for kind in (FREEZE, OUTSIDE)}
    # One alert for all executions: test_console_lease, test_two_databases.
    of_the_cluster = {CAUSES_OF_BANS[kind] for kind in (OTHER_CONSOLE, SAFE_MODE)}
    assert set(CAUSES_OF_BANS.values()) <= SWITCHES | by_themselves | of_the_cluster


@pytest.mark.parametrize("kind", [StepKind.HAND_OVER, StepKind.RELEASE])
def test_a_cordon_is_overdue_until_its_node_is_opened(kind):
    cordon = StepFacts(StepKind.CORDON_NODE, StepState.VERIFIED, 0, "node b", seen={"cordoned": True})
    back = StepFacts(kind, StepState.VERIFIED, 0, "node b")
    not_yet = StepFacts(kind, StepState.PENDING, 0, "node b")
    assert due_of(deadline_at=ago(1), steps=[cordon, not_yet]) == ["cordon-overdue"]
    assert due_of(deadline_at=ago(1), steps=[cordon, back]) == []
    assert due_of(steps=[cordon]) == []


def test_a_silent_watch_and_steering_that_is_away():
    facts = ClusterFacts(True, ago(121), steering=("warning", "No form."), looked_at=ago(4))
    assert [str(one.kind) for one in due_on_cluster(facts, NOW, Limits())] == ["watch-old", "steering-away"]
    assert not list(due_on_cluster(ClusterFacts(False, ago(9999)), NOW, Limits()))


@pytest.mark.parametrize(
    ("cause", "title"),
    [
        ("failures-in-row", "The same step failed several times in a row"),
        ("kill-switch", "The kill switch stopped it"),
        ("", "Executions are stopped by the kill switch"),
    ],
)
def test_what_paused_an_execution_is_called_by_its_cause(cause, title):
    """Nobody looks for a switch that is off because an execution met errors."""
    assert Alert(kind="paused-by-switch", runbook=cause).title == title
