"""What stands still, told per stop, and what an execution still holds in its cluster. Read from the ledger.

Both the page and the REST answer are made of this; how it looks is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.executions.cause import Cause, Way
from apps.executions.causes import cause_of
from apps.executions.deadlines import traces_end
from apps.executions.models import Execution, Step
from apps.executions.states import TERMINAL, ExecutionState, StepKind, StepState
from apps.executions.ways import ways_on

STANDING = (StepState.BLOCKED, StepState.FAILED)
WHOLE = (ExecutionState.PAUSED, ExecutionState.NEEDS_HUMAN, ExecutionState.FAILED)


@dataclass(frozen=True, slots=True)
class Stop:
    """One thing that stands still. step: its position, None for the whole execution. seen: what was
    observed when it stopped; now: what is seen since, "" if nothing was looked at again; is_gone: the last
    look saw nothing in the way any more. promised: what the plan says of it. ways: what may be pressed now,
    the usual one first. needs_person: it does not go on by itself."""

    step: int | None
    move: int
    kind: str
    target: str
    cause: Cause
    seen: str
    now: str
    seen_at: datetime | None
    is_gone: bool
    promised: str
    runbook: str
    attempts: int
    since: datetime | None
    retry_at: datetime | None
    needs_person: bool
    ways: tuple[Way, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """kind: cordon, hold, gate, taint or layout. name: the node or pod it is on, or its own. until: when it
    goes at the latest (an evicted pod is landed first)."""

    kind: str
    name: str
    object: str
    since: datetime | None
    until: datetime | None


def list_stops(
    execution: Execution, steps: Sequence[Step], since: Mapping[int, datetime] | None = None
) -> list[Stop]:
    """The stops of steps first, in order; then that of the whole execution where no step explains it.

    since: by step id, when it was blocked first.
    """
    allowed = ways_on(execution, steps)
    if execution.state in TERMINAL:
        found = [] if execution.state == ExecutionState.SUCCEEDED else [_whole(execution, allowed)]
        return found if execution.cause else []
    standing = [s for s in steps if s.state in STANDING or s.observed.get("needs_person")]
    stops = [_of_step(step, allowed, (since or {}).get(step.pk)) for step in standing]
    is_told = any(stop.needs_person for stop in stops)
    if execution.state in WHOLE and not (is_told and execution.state == ExecutionState.NEEDS_HUMAN):
        stops.append(_whole(execution, allowed))
    return stops


def _of_step(step: Step, allowed: Sequence[Way], since: datetime | None) -> Stop:
    observed = step.observed
    cause, stands = cause_of(observed.get("cause", "")), observed.get("stands") or {}
    needs_person = bool(observed.get("needs_person"))
    at = stands.get("at")
    return Stop(
        step=step.position,
        move=step.move,
        kind=step.kind,
        target=step.target,
        cause=cause,
        seen=step.reason,
        now=stands.get("words", "") if stands.get("words") != step.reason else "",
        seen_at=datetime.fromisoformat(at) if at else None,
        is_gone=bool(stands) and not stands["stands"],
        promised=_promise_of(step),
        runbook=observed.get("runbook") or cause.runbook,
        attempts=step.attempts,
        since=since or step.issued_at or step.intent_at,
        retry_at=step.retry_at if step.state == StepState.BLOCKED else None,
        needs_person=needs_person,
        ways=_ordered(cause, allowed, needs_person=needs_person),
    )


def _whole(execution: Execution, allowed: Sequence[Way]) -> Stop:
    cause = cause_of(execution.cause)
    outcome = execution.outcome
    return Stop(
        step=None,
        move=0,
        kind="",
        target=f"execution {execution.pk}",
        cause=cause,
        seen=execution.state_reason,
        now="",
        seen_at=None,
        is_gone=False,
        promised=" ".join(outcome.get("promised", [])) or execution.plan.title,
        runbook=cause.runbook,
        attempts=0,
        since=execution.finished_at,
        retry_at=None,
        needs_person=not execution.is_frozen,
        ways=_ordered(cause, allowed, needs_person=not execution.is_frozen),
    )


def _ordered(cause: Cause, allowed: Sequence[Way], *, needs_person: bool) -> tuple[Way, ...]:
    """What the cause recommends and the engine allows; then whatever else it allows."""
    wished = cause.ways
    if needs_person and Way.WAIT in wished:
        # What goes on by itself had its time, and stopped: looking again gives it that time anew.
        wished = (Way.RESUME, *wished)
    known = [way for way in wished if way in allowed or (way is Way.WAIT and not needs_person)]
    return tuple(dict.fromkeys([*known, *allowed]))


def _promise_of(step: Step) -> str:
    params = step.params
    if step.kind == StepKind.RECONFIGURE_MIG:
        return str(params.get("promise", ""))
    if step.kind == StepKind.HAND_OVER:
        return f"node {params['node']} for {params['display']}"
    if step.kind == StepKind.PREEMPT_POD:
        return f"pod {params['pod']} gives way on {params['source']}"
    if step.kind == StepKind.LOWER_MEMORY:
        return f"{params['owner']} asks for {params['after_mib']:,} MiB of GPU memory"
    if step.kind in (StepKind.HOLD_NODE, StepKind.RELEASE_NODE):
        return f"node {params['node']} kept for moves {', '.join(str(move) for move in params['moves'])}"
    if step.move:
        return f"pod {params['pod']} from {params['source']} to {params['target']}"
    return f"node {params['node']} {params.get('why', 'free')}" if "node" in params else ""


def list_held(execution: Execution, steps: Sequence[Step]) -> list[Held]:
    """By the ledger: what this execution put into the cluster and has not taken back. An effect that may
    have gone out counts."""
    ended = {(s.move, s.kind) for s in steps if s.state in (StepState.VERIFIED, StepState.SUPERSEDED)}
    freed = {s.params["node"] for s in steps if s.kind == StepKind.RELEASE_NODE and _is_done(s)}
    steered = {s.params["steering"] for s in steps if s.kind == StepKind.RELEASE and s.move and not _ends(s)}
    opened = {
        s.params["node"] for s in steps if s.kind == StepKind.RELEASE and not s.move and _is_done(s)
    } | {s.params["node"] for s in steps if s.kind == StepKind.HAND_OVER and _is_done(s)}
    found = []
    for step in steps:
        if _was_sent(step):
            found += _held_of(step, ended, opened, steered, freed, execution)
    return found


def _is_done(step: Step) -> bool:
    return step.state == StepState.VERIFIED


def _ends(step: Step) -> bool:
    return step.state in (StepState.VERIFIED, StepState.SUPERSEDED)


def _was_sent(step: Step) -> bool:
    gone = (StepState.COMPENSATED, StepState.SUPERSEDED, StepState.FAILED, StepState.PENDING)
    return bool(step.observed.get("sent")) and step.state not in gone


def _held_of(
    step: Step,
    ended: set[tuple[int, str]],
    opened: set[str],
    steered: set[str],
    freed: set[str],
    execution: Execution,
) -> list[Held]:
    """steered: names of the steerings that moves still need. freed: targets that are kept by no taint now."""
    params, since = step.params, step.intent_at
    until, late = execution.deadline_at, traces_end(execution)
    if step.kind == StepKind.CORDON_NODE:
        is_ours = step.observed.get("seen", {}).get("cordoned", True)
        is_kept = is_ours and params["node"] not in opened
        return [Held("cordon", params["node"], f"node {params['node']}", since, until)] if is_kept else []
    if step.kind == StepKind.HOLD_TARGET and (step.move, StepKind.RELEASE) not in ended:
        if (step.move, StepKind.AWAIT_REPLACEMENT) in ended:
            return []
        return [Held("hold", params["target"], params["hold"], since, late)]
    if step.kind == StepKind.STEER and params["steering"] in steered:
        return [Held("gate", params["owner"], params["steering"], since, late)]
    if step.kind == StepKind.HAND_OVER and not _is_done(step):
        return [Held("taint", params["node"], f"node {params['node']}", since, step.deadline_at or until)]
    if step.kind == StepKind.HOLD_NODE and params["node"] not in freed:
        return [Held("taint", params["node"], f"node {params['node']}", since, late)]
    if step.kind == StepKind.RECONFIGURE_MIG and not _is_done(step):
        return [Held("layout", params["node"], f"node {params['node']}", since, None)]
    return []
