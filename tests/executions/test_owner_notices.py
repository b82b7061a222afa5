"""Owners are told of moves by Events, once, and what goes wrong there holds nothing up."""

import pytest

from apps.executions.models import Execution, OwnerNotice
from apps.executions.owner_notices import due_notices, tell_owners
from apps.executions.runner import advance
from apps.executions.states import StepKind, StepState
from tests.executions.things import step

pytestmark = pytest.mark.django_db(transaction=True)


def moved(state, *, evict, landing, seen=None):
    execution = Execution(pk=7, plan_id=3, state=state)
    evicted = step(StepKind.EVICT_POD, state=evict)
    evicted.attempts = 1
    return execution, [evicted, step(StepKind.AWAIT_REPLACEMENT, state=landing, seen=seen)]


@pytest.mark.parametrize(
    ("state", "evict", "landing", "words"),
    [
        ("running", StepState.PENDING, StepState.PENDING, ["announced"]),
        ("running", StepState.VERIFIED, StepState.VERIFIED, ["announced", "moved"]),
        ("cancelled", StepState.SUPERSEDED, StepState.SUPERSEDED, ["announced", "stopped"]),
        ("succeeded", StepState.SUPERSEDED, StepState.SUPERSEDED, ["announced"]),
    ],
)
def test_what_is_due_follows_from_the_ledger(state, evict, landing, words):
    assert [one.word for one in due_notices(*moved(state, evict=evict, landing=landing))] == words


def test_where_it_landed_is_told():
    seen = {"landed_on": "node-b", "replacement_name": "lora-2"}
    told = list(due_notices(*moved("running", evict="verified", landing="verified", seen=seen)))
    assert told[1].message.startswith("pod ml/lora-1 was moved: lora-2 runs on node-b")


def test_events_go_out_once_even_if_the_answer_was_lost(stage):
    execution, found = stage.start()
    while Execution.objects.filter(pk=execution.pk, started_at=None).exists():
        advance(execution.pk, seconds=0)
    tell_owners()
    first = OwnerNotice.objects.filter(execution=execution, word="announced")
    assert first.count() == len(found.moves)
    assert not first.filter(sent_at=None).exists()
    OwnerNotice.objects.update(sent_at=None)  # a crash before the answer was written down
    tell_owners()
    assert not OwnerNotice.objects.filter(sent_at=None).exists()
    events = stage.simulated.ask("GET", "/api/v1/events")["items"]
    mine = [one for one in events if one["reason"] == "MoveAnnounced"]
    assert len(mine) == len(found.moves)
    assert all(one["involvedObject"]["uid"] for one in mine)
