"""Room that the extender keeps instead of a paper hold: when its word counts, and what is done where not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from apps.executions.decisions import Verdict
from apps.executions.holds import HoldFacts, give_over, repair_hold
from apps.executions.kept_rooms import WORD_SECONDS, RoomFacts, _why_late, why_void
from apps.executions.models import KeptRoom, SchedulerProof
from apps.executions.states import Obedience, StepKind
from apps.executions.steps import evict_pod, hold_target
from apps.placing.models import ExtenderBeat
from tests.executions.things import PARAMS, hold, pod, step

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GPU = "nvidia.com/gpu"
ASKED = {GPU: 1, "cpu": 1000}
PROOF = SchedulerProof(result=Obedience.OBEYS, address_number=1, resources=[GPU], holder="cp-1_a")
OPEN = RoomFacts(KeptRoom(pk=4), "", is_kept=True, is_new=True)


def repair(room, paper=None):
    return repair_hold(HoldFacts(paper, "7", room=room), PARAMS)


def test_a_room_is_opened_waited_for_and_then_nothing_is_sent():
    assert repair(RoomFacts(None, "")).effect == "keep_room"
    assert repair(replace(OPEN, is_kept=False)).verdict == Verdict.WAIT
    assert repair(OPEN) is None
    facts = hold_target.Facts(HoldFacts(None, "7", room=OPEN))
    assert hold_target.decide(step(StepKind.HOLD_TARGET), facts, late=False).verdict == Verdict.DONE


@pytest.mark.parametrize(
    "room",
    [
        replace(OPEN, against="the extender's last word is 9 s old"),
        replace(OPEN, against="another scheduler leads than at the proof"),
        replace(OPEN, is_kept=False, is_new=False),
    ],
)
def test_a_word_that_is_late_or_void_is_given_up_before_the_eviction_and_the_hold_goes_on_paper(room):
    facts = evict_pod.Facts(pod(on="node-a"), HoldFacts(None, "7", room=room), steered_for=9.0)
    assert evict_pod.decide(step(StepKind.EVICT_POD), facts, late=False).effect == "close_room"
    closed = RoomFacts(KeptRoom(pk=4, closed_at=NOW), "its room was given up before")
    assert repair(closed).effect == "create_hold"
    assert repair(closed, hold()) is None


def test_without_the_policy_or_beside_a_paper_hold_all_is_as_it_was():
    assert repair(RoomFacts()).effect == "create_hold"
    assert repair(RoomFacts(None, ""), hold(nominated="")).effect == "nominate_hold"


def test_what_kept_the_room_is_given_over_or_given_back():
    facts = hold_target.Facts(HoldFacts(None, "7", room=OPEN))
    assert hold_target.decide_undo(step(StepKind.HOLD_TARGET), facts).effect == "close_room"
    assert give_over(None, OPEN.row, "over").effect == "close_room"
    assert give_over(hold(), None, "over").effect == "delete_hold"
    assert give_over(None, None, "over") is None


@pytest.mark.parametrize(
    ("changes", "number", "holder", "asked", "why"),
    [
        ({}, 1, "cp-1_a", ASKED, ""),
        ({"result": Obedience.IGNORES}, 1, "cp-1_a", ASKED, "not proved to obey"),
        ({}, 2, "cp-1_a", ASKED, "address was renewed"),
        ({}, 1, "cp-1_b", ASKED, "another scheduler leads"),
        ({}, 1, "", ASKED, "cannot be read"),
        ({}, 1, "cp-1_a", {"nvidia.com/mig-1g.5gb": 1}, "about nvidia.com/mig-1g.5gb"),
    ],
)
def test_a_proof_holds_for_the_scheduler_address_and_resources_that_it_was_made_with(
    changes, number, holder, asked, why
):
    row = SchedulerProof(
        **{"result": PROOF.result, "address_number": 1, "resources": [GPU], "holder": "cp-1_a"} | changes
    )
    found = why_void(row, number, asked, holder)
    assert why in found
    assert bool(found) == bool(why)
    assert why_void(None, number, asked, holder)


def test_the_word_is_late_by_its_age():
    assert not _why_late(ExtenderBeat(beat_at=NOW - timedelta(seconds=WORD_SECONDS)), NOW)
    assert _why_late(ExtenderBeat(beat_at=NOW - timedelta(seconds=WORD_SECONDS + 1)), NOW)
    assert _why_late(None, NOW)
