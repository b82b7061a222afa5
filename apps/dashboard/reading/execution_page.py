"""The page of an execution in words: progress, lanes, steps by move, what blocks, what a stop would do."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.safestring import SafeString

from apps.dashboard.drawings.meters import draw_progress
from apps.dashboard.reading.events import plain_reason
from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.move_now import DONE, NOT_BEGUN, STUCK, TO_COME, MoveNow, tell_move
from apps.dashboard.reading.words import plural
from apps.executions.blueprint import MOVE_KINDS
from apps.executions.models import Step
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.planner.plan import Move, Plan

STATES: Mapping[str, tuple[str, str, str]] = {
    ExecutionState.QUEUED: ("Queued", "", "ring"),
    ExecutionState.PREFLIGHT: ("Preflight", "info", "half"),
    ExecutionState.RUNNING: ("Running", "info", "half"),
    ExecutionState.PAUSED: ("Paused", "warn", "tri"),
    ExecutionState.VERIFYING: ("Verifying", "info", "half"),
    ExecutionState.SUCCEEDED: ("Succeeded", "ok", "ok"),
    ExecutionState.CANCELLING: ("Cancelling", "warn", "half"),
    ExecutionState.CANCELLED: ("Cancelled", "", "x"),
    ExecutionState.ROLLING_BACK: ("Rolling back", "warn", "half"),
    ExecutionState.ROLLED_BACK: ("Rolled back", "", "ok"),
    ExecutionState.FAILED: ("Failed", "bad", "x"),
    ExecutionState.NEEDS_HUMAN: ("Needs a person", "bad", "oct"),
}
SIGNS: Mapping[str, str] = {
    StepState.PENDING: "ring",
    StepState.INTENT: "intent",
    StepState.ISSUED: "half",
    StepState.VERIFIED: "ok",
    StepState.BLOCKED: "oct",
    StepState.SUPERSEDED: "dash",
    StepState.FAILED: "x",
    StepState.COMPENSATING: "half",
    StepState.COMPENSATED: "ok",
}
KIND_WORDS: Mapping[str, str] = {
    StepKind.HOLD_TARGET: "Hold target",
    StepKind.CORDON_NODE: "Cordon",
    StepKind.CHECKPOINT: "Checkpoint",
    StepKind.STEER: "Steer",
    StepKind.EVICT_POD: "Evict",
    StepKind.AWAIT_REPLACEMENT: "Replacement",
    StepKind.RECONFIGURE_MIG: "Cut anew",
    StepKind.NAME_LAYOUT: "Name layout",
    StepKind.PREEMPT_POD: "Preempt",
    StepKind.HAND_OVER: "Hand over",
    StepKind.RELEASE: "Release",
    StepKind.HOLD_NODE: "Hold by taint",
    StepKind.RELEASE_NODE: "End hold",
    StepKind.LOWER_MEMORY: "Lower memory",
}
MOVE_COLUMNS = (StepKind.HOLD_TARGET, *MOVE_KINDS)
NODE_COLUMNS = (
    StepKind.NAME_LAYOUT,
    StepKind.CORDON_NODE,
    StepKind.RECONFIGURE_MIG,
    StepKind.HOLD_NODE,
    StepKind.RELEASE_NODE,
    StepKind.CHECKPOINT,
    StepKind.PREEMPT_POD,
    StepKind.HAND_OVER,
    StepKind.RELEASE,
)
UNDER_WAY = {StepState.INTENT, StepState.ISSUED, StepState.COMPENSATING}


@dataclass(frozen=True, slots=True)
class StepCell:
    """One step in a table. offset: time since the start, when it is finished."""

    kind: str
    state: str
    symbol: str
    offset: str
    note: str

    @property
    def head(self) -> str:
        return KIND_WORDS[self.kind]


@dataclass(frozen=True, slots=True)
class MoveRow:
    move: Move | None
    number: int
    mark: Mark | None
    cells: tuple[StepCell | None, ...]
    now: MoveNow


@dataclass(frozen=True, slots=True)
class WaveRows:
    number: int
    done: int
    rows: tuple[MoveRow, ...]


@dataclass(frozen=True, slots=True)
class NodeRow:
    name: str
    cells: tuple[StepCell | None, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """done: seen in the cluster and left there. undone: taken back. dropped: not needed (any more), and
    therefore not part of the total."""

    picture: SafeString
    done: int
    total: int
    running: int
    blocked: int
    pending: int
    undone: int
    dropped: int
    moves_done: int
    moves: int

    @property
    def blocked_words(self) -> str:
        return f"{plural(self.blocked, 'step')} blocked"


def count_progress(steps: Sequence[Step]) -> Progress:
    states = Counter(_bucket(step) for step in steps)
    moves = _by_move(steps)
    done = sum(_has_moved((step.kind, step.state) for step in mine) for mine in moves.values())
    dropped = states.pop("d", 0)
    total = len(steps) - dropped
    label = f"{states['v']} of {total} steps done, {states['r']} under way, {states['b']} blocked"
    return Progress(
        draw_progress(states, "vrbpu", label),
        states["v"],
        total,
        states["r"],
        states["b"],
        states["p"],
        states["u"],
        dropped,
        done,
        len(moves),
    )


def _by_move(steps: Iterable[Step]) -> dict[int, list[Step]]:
    moves: dict[int, list[Step]] = defaultdict(list)
    for step in steps:
        if step.move:
            moves[step.move].append(step)
    return dict(moves)


def _bucket(step: Step) -> str:
    if step.state in DONE:
        return {StepState.COMPENSATED: "u", StepState.SUPERSEDED: "d"}.get(StepState(step.state), "v")
    return "r" if step.state in UNDER_WAY else "b" if step.state in STUCK else "p"


def list_moves(
    steps: Sequence[Step], plan: Plan, marks: Mapping[str, Mark], start: datetime | None, *, is_over: bool
) -> list[WaveRows]:
    """Every move of the plan, also before its steps exist. is_over: nothing of it comes any more."""
    without = NOT_BEGUN if is_over else TO_COME
    mine: dict[tuple[int, str], Step] = {(step.move, step.kind): step for step in steps if step.move}
    by_move = _by_move(steps)
    for step in steps:
        if step.kind == StepKind.HOLD_NODE:  # it holds room for each of these moves
            for number in step.params["moves"]:
                mine[number, StepKind.HOLD_TARGET] = step
                by_move[number] = [step, *by_move.get(number, [])]
    waves: dict[int, list[MoveRow]] = defaultdict(list)
    for move in plan.moves:
        cells = tuple(_cell(mine.get((move.order, kind)), start) for kind in MOVE_COLUMNS)
        now = tell_move(by_move.get(move.order, [])) if mine else without
        waves[move.wave].append(MoveRow(move, move.order, marks.get(move.pod_uid), cells, now))
    return [
        WaveRows(number, sum(_is_done(row) for row in rows), tuple(rows))
        for number, rows in sorted(waves.items())
    ]


def _is_done(row: MoveRow) -> bool:
    return _has_moved((cell.kind, cell.state) for cell in row.cells if cell)


def _has_moved(steps: Iterable[tuple[str, str]]) -> bool:
    """By kind and state: its pod stands at its new place. What is given back afterwards changes nothing of
    that, nor does rolling back."""
    return (StepKind.AWAIT_REPLACEMENT, StepState.VERIFIED) in steps


def node_kinds(steps: Iterable[Step]) -> list[StepKind]:
    """The columns of the nodes table: only steps that some node has."""
    had = {step.kind for step in steps if not step.move}
    return [kind for kind in NODE_COLUMNS if kind in had]


def list_nodes(steps: Sequence[Step], kinds: Sequence[StepKind], start: datetime | None) -> list[NodeRow]:
    """The steps of whole nodes: our cordons, hand-overs and their release."""
    found: dict[str, dict[str, Step]] = defaultdict(dict)
    for step in steps:
        if not step.move:
            found[step.target][step.kind] = step
    return [
        NodeRow(target.removeprefix("node "), tuple(_cell(mine.get(kind), start) for kind in kinds))
        for target, mine in found.items()
    ]


def _cell(step: Step | None, start: datetime | None) -> StepCell | None:
    if step is None:
        return None
    offset = ""
    if step.finished_at is not None and start is not None:
        seconds = int(max(0, (step.finished_at - start).total_seconds()))
        offset = f"+{seconds // 60}:{seconds % 60:02d}"
    quiet = (StepState.VERIFIED, StepState.PENDING, StepState.SUPERSEDED)
    note = plain_reason(step.reason) if step.state not in quiet else ""
    return StepCell(step.kind, step.state, SIGNS[step.state], offset, note)
