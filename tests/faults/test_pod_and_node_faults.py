"""What pods, replacements, nodes and mig-manager may do to a move: what the step then decides. No cluster."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.executions.decisions import Verdict
from apps.executions.replacements import Found
from apps.executions.spare import why_no_room
from tests.executions import test_decisions_mig as mig
from tests.executions.test_decisions_moves import NOW, decide_eviction, decide_wait
from tests.executions.test_decisions_nodes import OURS, decide_cordon
from tests.executions.things import node, pod

PINNED = {"nodeSelector": {"kubernetes.io/hostname": "node-b"}}


def on_target(**facts):
    return Found(pod("lora-2", on="node-b", steering="steer-7-1", **facts), by_gate=True)


@pytest.mark.fault("replacement: never Ready", "replacement: image pull back-off", invariants=[17])
def test_a_replacement_that_does_not_become_ready_is_waited_for_and_then_told():
    assert decide_wait(on_target(), hold=None).verdict == Verdict.WAIT
    late = decide_wait(on_target(), hold=None, late=True)
    assert late.verdict == Verdict.STOP
    assert "does not become Ready" in late.reason
    assert "events" in late.runbook


@pytest.mark.fault("replacement: Ready, then crash", invariants=[17])
def test_a_replacement_that_crashes_starts_its_time_of_readiness_anew():
    ready_before = {"ready_since": (NOW - timedelta(seconds=60)).isoformat()}
    slow = {"min_ready_seconds": 30}
    crashed = decide_wait(on_target(), hold=None, params=slow, seen=ready_before)
    assert (crashed.verdict, crashed.seen["ready_since"]) == (Verdict.WAIT, "")
    again = decide_wait(on_target(ready=True), hold=None, params=slow, seen=crashed.seen)
    assert again.verdict == Verdict.WAIT
    assert (
        decide_wait(on_target(ready=True), hold=None, params=slow, seen=ready_before).verdict == Verdict.DONE
    )


@pytest.mark.fault("replacement: its volume is in another zone", invariants=[17])
def test_a_pinned_replacement_that_no_node_can_take_is_told_and_its_room_is_not_blamed():
    stuck = Found(pod("lora-2", steering="steer-7-1", nominated="node-b", spec=PINNED), by_gate=True)
    assert decide_wait(stuck, hold=None, sent=["pin"]).verdict == Verdict.WAIT
    late = decide_wait(stuck, hold=None, sent=["pin"], late=True)
    assert late.verdict == Verdict.STOP
    assert "has found no node" in late.reason


@pytest.mark.fault("pods: stuck finalizer", invariants=[34])
def test_a_pod_that_cannot_go_is_waited_for_and_never_forced():
    for late in (False, True):
        waiting = decide_wait(on_target(ready=True), hold=None, is_old_gone=False, late=late)
        assert (waiting.verdict, waiting.effect) == (Verdict.WAIT, "")
    leaving = decide_eviction(sent=["evict"], pod=pod(on="node-a", leaving=True))
    assert leaving.effect != "evict"


@pytest.mark.fault("pods: owner scaled down", "pods: HPA", invariants=[17])
def test_an_owner_that_makes_no_replacement_is_told_by_name():
    assert decide_wait(Found(None)).verdict == Verdict.WAIT
    late = decide_wait(Found(None), late=True)
    assert late.verdict == Verdict.STOP
    assert "scaled down" in late.runbook
    assert decide_wait(Found(None), late=True, left_by_itself=True).verdict == Verdict.MOOT


@pytest.mark.fault("pods: owner in mid-rollout", invariants=[3, 17])
def test_a_pod_of_another_revision_is_neither_evicted_nor_taken():
    assert decide_eviction(pod=pod(on="node-a", owner="uid-of-the-next-revision")).verdict == Verdict.STOP
    assert decide_eviction(pod=pod(on="node-a", gpus=2)).verdict == Verdict.STOP
    other = decide_wait(on_target(ready=True, gpus=2), hold=None)
    assert other.verdict == Verdict.STOP
    assert "other devices" in other.reason


@pytest.mark.fault("node: NotReady", "node: another maintenance lock", invariants=[13])
def test_nothing_is_evicted_towards_a_node_that_is_not_ready_or_that_another_has_cordoned():
    wanted = {"nvidia.com/gpu": 1}
    assert why_no_room(node("node-b", ready=False), [], wanted, node_uid="uid-node-b")
    taken = why_no_room(node("node-b", cordoned=True), [], wanted, node_uid="uid-node-b")
    blocked = decide_eviction(no_room=taken)
    assert (blocked.verdict, blocked.effect) == (Verdict.BLOCKED, "")
    assert "cordoned" in blocked.reason
    theirs = decide_cordon(node(cordoned=True))
    assert (theirs.effect, theirs.seen["cordoned"]) == ("", False)
    assert decide_cordon(node(cordoned=False, cordon=OURS)).verdict == Verdict.STOP


@pytest.mark.fault("MIG: layout lost on reboot", invariants=[25, 28])
def test_a_layout_that_is_lost_after_success_is_no_success():
    stood = {"as_planned_since": (mig.NOW - timedelta(seconds=30)).isoformat()}
    lost = mig.look("gpu5", "success", offers={"nvidia.com/gpu": 8})
    first = mig.decide(mig.asked(seen=stood), lost)
    assert (first.verdict, first.seen["as_planned_since"]) == (Verdict.WAIT, "")
    since = {"wrong_since": (mig.NOW - timedelta(seconds=400)).isoformat()}
    told = mig.decide(mig.asked(seen=since), lost)
    assert told.verdict == Verdict.STOP
    assert "does not offer what was promised" in told.reason
    assert "stays cordoned" in told.reason


def test_the_moment_of_these_tests_is_utc():
    assert datetime(2026, 1, 1, 12, tzinfo=UTC) == NOW == mig.NOW
