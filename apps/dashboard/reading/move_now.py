"""Where each move stands now, in one word with its since and deadline, and all of them in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.dashboard.reading.events import plain_reason
from apps.executions.causes import cause_of
from apps.executions.models import Step
from apps.executions.states import StepKind, StepState

DONE = {StepState.VERIFIED, StepState.SUPERSEDED, StepState.COMPENSATED}
STUCK = {StepState.BLOCKED, StepState.FAILED}
"""A step that failed is over for the engine; a page shows it as one that stands still."""
HOLDING = (StepKind.HOLD_TARGET, StepKind.HOLD_NODE)
"""By paper for one move, or by a taint for all that go to a node."""
WORDS = {
    StepKind.CHECKPOINT: ("saving its work", "half"),
    StepKind.STEER: ("held", "half"),
    StepKind.EVICT_POD: ("steered", "half"),
    StepKind.AWAIT_REPLACEMENT: ("evicted", "half"),
    StepKind.RELEASE: ("landed", "ok"),
}
"""By the step that is next: what has been reached before it."""
BUDGET, PERSON, BLOCKED, LANDED, FLYING, COMING, BACK = (
    "waiting for its disruption budget",
    "waiting for a person",
    "blocked",
    "moved",
    "under way",
    "to come",
    "given up",
)
ORDER = (FLYING, BUDGET, BLOCKED, PERSON, BACK, COMING)


@dataclass(frozen=True, slots=True)
class MoveNow:
    """group: what it counts as in the sentence. word: what is reached. waits: for what, "" for nothing.
    deadline: of the step that it is at."""

    group: str
    word: str
    symbol: str
    waits: str = ""
    since: datetime | None = None
    deadline: datetime | None = None


TO_COME = MoveNow(COMING, "to come", "ring")
NOT_BEGUN = MoveNow(BACK, "not begun", "dash")
"""Of an execution that ended before it had steps."""


def tell_move(steps: Sequence[Step]) -> MoveNow:
    """steps: all of one move, in order; first what holds its room."""
    mine = {step.kind: step for step in steps}
    landed = mine.get(StepKind.AWAIT_REPLACEMENT)
    if landed is not None and landed.state == StepState.VERIFIED:
        node = landed.observed.get("seen", {}).get("landed_on") or landed.params.get("target", "")
        return MoveNow(LANDED, f"landed on {node}" if node else "landed", "ok", since=landed.finished_at)
    open_steps = [step for step in steps if step.state not in DONE]
    if not open_steps:
        return _tell_dropped(steps)
    step = open_steps[0]
    if any(one.state in (StepState.COMPENSATING, StepState.COMPENSATED) for one in steps):
        return MoveNow(
            BACK, "being taken back", "half", plain_reason(step.reason), step.intent_at, step.deadline_at
        )
    if step.observed.get("needs_person") or step.state in STUCK:
        return _tell_stuck(step)
    if step.kind in HOLDING:
        if step.state == StepState.PENDING:
            return MoveNow(COMING, "to come", "ring")
        return MoveNow(
            FLYING, "being held", "half", plain_reason(step.reason), step.intent_at, step.deadline_at
        )
    own = [one for one in steps if one.kind not in HOLDING]
    if all(one.state == StepState.PENDING for one in own):
        held = next((mine[kind] for kind in HOLDING if kind in mine), None)
        is_held = held is not None and held.state == StepState.VERIFIED
        since = held.finished_at if held is not None else None
        return MoveNow(COMING, "held" if is_held else "to come", "ring", since=since)
    word, symbol = WORDS.get(StepKind(step.kind), ("under way", "half"))
    return MoveNow(FLYING, word, symbol, plain_reason(step.reason), _since(step, steps), step.deadline_at)


def _tell_stuck(step: Step) -> MoveNow:
    cause = cause_of(step.observed.get("cause", ""))
    is_budget = cause.code == "budget-used-up" and not step.observed.get("needs_person")
    group = BUDGET if is_budget else PERSON if step.observed.get("needs_person") else BLOCKED
    reached = WORDS.get(StepKind(step.kind), ("stopped", "oct"))[0]
    return MoveNow(group, f"{reached}, {group}", "oct", cause.title, step.intent_at, step.deadline_at)


def _tell_dropped(steps: Sequence[Step]) -> MoveNow:
    evicted = any(s.kind == StepKind.EVICT_POD and s.state == StepState.VERIFIED for s in steps)
    if evicted:
        return MoveNow(BACK, "evicted, then left to its owner", "tri")
    reason = next((s.reason for s in steps if s.kind == StepKind.EVICT_POD), "")
    return MoveNow(BACK, "not moved", "dash", reason)


def _since(step: Step, steps: Sequence[Step]) -> datetime | None:
    """When the step before it ended: from then on this one is what is waited for."""
    ended = [one.finished_at for one in steps if one.finished_at and one.position < step.position]
    return max(ended, default=step.intent_at)


def sum_up(moves: Iterable[MoveNow]) -> str:
    """ "4 of 7 moved, 1 waiting for its disruption budget, 2 to come"; "" without moves."""
    counts = Counter(move.group for move in moves)
    total = sum(counts.values())
    if not total:
        return ""
    rest = [f"{counts[group]} {group}" for group in ORDER if counts[group]]
    return ", ".join([f"{counts[LANDED]} of {total} moved", *rest])
