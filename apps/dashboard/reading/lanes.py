"""The time line of an execution: which bar of which step begins and ends when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.utils.safestring import SafeString

from apps.dashboard.drawings.timeline import Bar, Lane, draw_timeline
from apps.dashboard.reading.execution_page import KIND_WORDS
from apps.dashboard.reading.move_now import DONE, HOLDING, STUCK
from apps.dashboard.reading.times import duration
from apps.executions.models import Execution, Step
from apps.executions.states import TERMINAL, StepKind, StepState
from apps.planner.plan import Move, Plan


@dataclass(frozen=True, slots=True)
class Told:
    """By step, from the events: first told of, first and last blocked. A new try gives a row new times."""

    begun: Mapping[int, datetime] = field(default_factory=dict)
    blocked: Mapping[int, datetime] = field(default_factory=dict)
    blocked_last: Mapping[int, datetime] = field(default_factory=dict)


def draw_lanes(
    execution: Execution, steps: Sequence[Step], plan: Plan, told: Told, now: datetime
) -> SafeString | str:
    start = execution.started_at or min(told.begun.values(), default=None)
    if start is None:
        return ""
    end = execution.finished_at or now
    by_move: dict[int, list[Step]] = defaultdict(list)
    by_node: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        (by_move[step.move] if step.move else by_node[step.target]).append(step)
    lanes = [
        Lane(
            str(move.order),
            move.pod.partition("/")[2],
            _bars(by_move[move.order], told, end),
            _wait_note(by_move[move.order], move),
        )
        for move in sorted(plan.moves, key=lambda move: (move.wave, move.order))
    ]
    lanes += [Lane("", target, _bars(mine, told, end)) for target, mine in by_node.items()]
    return draw_timeline(lanes, start, end, is_open=execution.state not in TERMINAL)


def _wait_note(steps: Sequence[Step], move: Move) -> str:
    own = [step for step in steps if step.kind not in HOLDING]
    waits = own and all(step.state == StepState.PENDING for step in own)
    return f"waits for its turn, wave {move.wave}" if waits else ""


def _bars(steps: Sequence[Step], told: Told, end: datetime) -> tuple[Bar, ...]:
    """The wait for a replacement begins when its pod has left, whoever is at work meanwhile."""
    left = next((s.finished_at for s in steps if s.kind == StepKind.EVICT_POD and s.state in DONE), None)
    bars: list[Bar] = []
    for step in sorted(steps, key=lambda step: step.position):
        begin = told.begun.get(step.pk) or step.intent_at or step.issued_at or step.finished_at
        if step.kind == StepKind.AWAIT_REPLACEMENT and left is not None:
            begin = left
        if begin is not None:
            bars += _bars_of(step, begin, step.finished_at or end, told)
    return tuple(bars)


def _bars_of(step: Step, begin: datetime, until: datetime, told: Told) -> Iterator[Bar]:
    """One bar; before it another for the time that the step was blocked and is not any more."""
    blocked, last = told.blocked.get(step.pk), told.blocked_last.get(step.pk)
    if blocked and last and step.state not in STUCK and begin < last < until:
        lasting = duration((last - begin).total_seconds())
        yield Bar(begin, last, "blocked", f"{KIND_WORDS[step.kind]}: was blocked, {lasting}")
        begin = last
    title = f"{KIND_WORDS[step.kind]}: {step.get_state_display().lower()}"
    yield Bar(begin, until, _bar_kind(step), f"{title}, {duration((until - begin).total_seconds())}")


def _bar_kind(step: Step) -> str:
    if step.state in STUCK:
        return "blocked"
    if step.state in (StepState.SUPERSEDED, StepState.COMPENSATED):
        return "quiet"
    return "verified" if step.state == StepState.VERIFIED else "issued"
