"""Stopping an execution: what is in the air is landed, the rest is undone, last first.

Pausing lands what is in the air and keeps the rest. Cancelling lands it, then undoes. Rolling back undoes
at once: gated pods are freed unpinned. An eviction cannot be undone, and the outcome says which were sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings

from apps.executions import ledger
from apps.executions.context import Context
from apps.executions.flow import (
    Ledger,
    goes_on_relaying,
    is_unsettled,
    preemptions_to_settle,
    steps_to_drop,
    steps_to_land,
    steps_to_undo,
)
from apps.executions.locks import Lease
from apps.executions.models import Execution, Step
from apps.executions.outlook import as_sentence, tell_outlook
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.executions.stepping import NeedsPerson, advance_each, settle_eviction, undo_step
from apps.executions.whole_gangs import has_been_over, is_settling, tell_broken_gangs
from apps.kube.errors import KubeError


def land(context: Context) -> bool:
    """Nothing new begins, but an evicted pod is still brought to its place. True if anything changed."""
    book = Ledger(context.steps)
    flying = steps_to_land(book)
    evictions = [step for step in flying if step.kind == StepKind.EVICT_POD]
    evictions += preemptions_to_settle(book)
    # While paused, an eviction that did not go out stays as it is: it may be sent after resuming. The moves
    # beside it are landed all the same.
    drop = context.execution.state == ExecutionState.CANCELLING
    if any([settle_eviction(context, step, drop=drop) for step in evictions]):
        return True
    landing = [step for step in flying if step.kind != StepKind.EVICT_POD]
    if not drop:
        landing += [step for step in context.steps if goes_on_relaying(step)]
    return advance_each(context, landing, during=(context.execution.state,))


def cancel(context: Context) -> bool:
    """Bring down what flies, drop what never began, then undo the rest."""
    try:
        if land(context):
            return True
    except NeedsPerson:
        if any(_stands_unsettled(step) for step in context.steps):
            raise
        return True  # that step is dropped on the next turn: nobody is asked twice
    book = Ledger(context.steps)
    _drop(context, steps_to_drop(book, keep_landing=True))
    if steps_to_land(book) or preemptions_to_settle(book):
        return False
    return _undo_last(context)


def _stands_unsettled(step: Step) -> bool:
    """Nobody can tell whether that pod was evicted, so nothing may go by either."""
    return is_unsettled(step) and bool(step.observed.get("needs_person"))


def roll_back(context: Context) -> bool:
    """Undo at once, without waiting for replacements."""
    unsettled = [step for step in context.steps if is_unsettled(step)]
    if unsettled:
        return any([settle_eviction(context, step, drop=True) for step in unsettled])
    _drop(context, steps_to_drop(Ledger(context.steps), keep_landing=False))
    return _undo_last(context)


def _drop(context: Context, steps: list[Step]) -> None:
    for step in steps:
        ledger.record_end(context.lease, step, StepState.SUPERSEDED, "the execution was stopped", {})


def _undo_last(context: Context) -> bool:
    steps = steps_to_undo(Ledger(context.steps))
    if not steps:
        return _close(context)
    fresh = [step for step in steps if step.state != StepState.COMPENSATING]
    for step in fresh:
        ledger.record_undo(context.lease, step)
    if fresh:
        return True
    open_steps = [step for step in steps if not step.observed.get("needs_person")]
    due = [step for step in open_steps if step.retry_at is None or step.retry_at <= context.now]
    during, moved = (context.execution.state,), False
    standing = [step for step in steps if step not in open_steps]
    for step in due:
        try:
            moved |= undo_step(context, step, during=during)
        except NeedsPerson:
            standing.append(step)  # the others are undone all the same
    others = [step for step in open_steps if step not in standing]
    is_tried_again = any(step.retry_at is not None and step.retry_at > context.now for step in others)
    if standing and not moved and not is_tried_again:
        first = standing[0]
        raise NeedsPerson(first.reason, first.observed["cause"])
    return moved


def _close(context: Context) -> bool:
    """False while it waits: of a gang that it left short a person is told before it ends."""
    told = _tell_of_gangs(context)
    if told is None:
        end_stopped(context.lease, context.execution, context.steps)
    return told is None or told


def _tell_of_gangs(context: Context) -> bool | None:
    """None if it may end, False while replacements may still come, True once a person is told."""
    execution = context.execution
    try:
        broken = [] if execution.outcome.get("gangs_told") else tell_broken_gangs(context)
    except KubeError as error:
        if not has_been_over(context.steps, context, settings.EXECUTION_STEP_SECONDS):
            raise
        broken = [f"Whether a gang was left short cannot be looked at: {error}"]
    if not broken:
        return None
    if is_settling(context.steps, context):
        return False
    words = f"{' '.join(broken)} Help it to its place; then cancel or roll back once more to close this."
    outcome = {**execution.outcome, "gangs_told": broken}
    ledger.move_execution(
        context.lease, ExecutionState.NEEDS_HUMAN, words, outcome=outcome, cause="gang-in-part"
    )
    return True


def end_stopped(lease: Lease, execution: Execution, steps: Sequence[Step]) -> None:
    """Nothing is left to give back: say what stays as it is now."""
    kinds = (StepKind.EVICT_POD, StepKind.PREEMPT_POD)
    gone = [step for step in steps if step.kind in kinds]
    moved = [step.params["pod"] for step in gone if step.state == StepState.VERIFIED]
    words = f"Evicted, which cannot be undone: {len(moved)}." if moved else "No pod was moved."
    unknown = [step.params["pod"] for step in gone if step.observed.get("settled")]
    if unknown:
        words += f" Nobody could look whether {', '.join(unknown)} was evicted: a person dealt with it."
    kept = [step.params["node"] for step in steps if _keeps_layout(step)]
    if kept:
        words += f" The MIG layout of {', '.join(kept)} stays as it is now."
    outlook = tell_outlook(execution, is_touched=bool(moved or kept or unknown))
    cause = execution.cause or "stopped-by-person"
    is_cancelled = execution.state == ExecutionState.CANCELLING
    ended = ExecutionState.CANCELLED if is_cancelled else ExecutionState.ROLLED_BACK
    by_hand = [step.target for step in steps if step.observed.get("settled") and step not in gone]
    released = "Holds, gates, taints and cordons of ours are released"
    released += f", but for what a person dealt with: {', '.join(by_hand)}." if by_hand else "."
    released += tell_left(steps)
    words = f"{words} {released} {outlook}"
    reason = f"{as_sentence(execution.state_reason)} {words}"
    outcome = {**execution.outcome, "not_undone": moved, "not_known": unknown, "layouts_kept": kept}
    ledger.move_execution(lease, ended, reason.strip(), outcome=outcome, cause=cause)


def tell_left(steps: Sequence[Step]) -> str:
    """What an ended execution leaves in the cluster because others took our name off it, or because it landed
    nobody any more; "" for nothing."""
    words, pinned = _told(steps, "left"), _told(steps, "pinned")
    told = f" Left, because it may be somebody else's: {words}. See to it by hand." if words else ""
    if pinned:
        told += (
            f" Pinned and without a node when this ended: {pinned}. Where one finds no room there, delete "
            "it: its owner makes a free one."
        )
    return told


def _told(steps: Sequence[Step], what: str) -> str:
    found = [str(step.observed.get("seen", {}).get(what, "")) for step in steps]
    return "; ".join(dict.fromkeys(one for one in found if one))


def _keeps_layout(step: Step) -> bool:
    return step.kind == StepKind.RECONFIGURE_MIG and bool(step.observed.get("seen", {}).get("kept"))
