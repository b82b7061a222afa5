"""Gated pods that several moves of one owner share. Reads the ledger; nothing is written.

The webhook gates exactly one pod for each move. The standing policy cannot: it gates every new pod of the
owner and marks it with one of the moves, whichever its object was read first. There each move takes a gated
pod with the mark of any of them, leaves as many as the others still need, and frees the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.executions.context import Context
from apps.executions.flow import is_finished, is_in_flight_step
from apps.executions.models import Step
from apps.executions.replacements import find_strangers
from apps.executions.sightings import migration
from apps.executions.states import StepKind
from apps.executions.steering_forms import Form, form_of

Json = dict[str, Any]


def marks_of(context: Context, step: Step) -> set[str]:
    """What the annotation of a pod that was gated for this move may say."""
    return {step.params["steering"], *(other.params["steering"] for other in _sharers(context, step))}


def taken_by_others(context: Context, step: Step) -> list[str]:
    """UIDs of pods that other moves wait for."""
    others = [s for s in _awaiting(context) if s.move != step.move]
    return [uid for uid in (_chosen(other) for other in others) if uid]


def spared_for_others(context: Context, step: Step) -> int:
    """How many gated pods moves of the same owner still need: evicted, and none is known yet."""
    waiting = [s for s in _sharers(context, step) if not is_finished(s) and not _chosen(s)]
    evictions = [context.of_move(other.move, StepKind.EVICT_POD) for other in waiting]
    return sum(eviction is not None and is_in_flight_step(eviction) for eviction in evictions)


def find_gated(context: Context, step: Step, pods: Iterable[Json]) -> tuple[Json, ...]:
    """Pods of this move that wait behind our gate and that no other move needs."""
    marks = marks_of(context, step)
    marked = [pod for pod in pods if migration(pod) in marks]
    kept = set(taken_by_others(context, step))
    return find_strangers(marked, kept=kept, spared=spared_for_others(context, step))


def _sharers(context: Context, step: Step) -> list[Step]:
    """The waits of the other moves whose pods may carry this move's mark."""
    if form_of(step.params) != Form.PARAMETER:
        return []
    owner = step.params["workload_uid"]
    return [s for s in _awaiting(context) if s.move != step.move and s.params["workload_uid"] == owner]


def _awaiting(context: Context) -> list[Step]:
    return [step for step in context.steps if step.kind == StepKind.AWAIT_REPLACEMENT]


def _chosen(step: Step) -> str:
    return str(step.observed.get("seen", {}).get("replacement", ""))
