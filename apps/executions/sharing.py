"""What the moves of one owner share: a webhook configuration or Steering object, admissions, gated pods.

Reads the ledger and the steering rows; nothing is written. The webhook gates as many pods of an owner as
evictions of its pods were sent; the standing policy gates every new pod of it. Either way a gated pod carries
the mark of all moves that are steered together: each of them takes one, leaves as many as the others still
need, and frees the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from apps.executions.context import Context
from apps.executions.flow import is_finished, is_in_flight_step
from apps.executions.models import Steering, Step
from apps.executions.replacements import find_strangers
from apps.executions.sightings import is_gated, migration, uid
from apps.executions.states import StepKind, StepState
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
    return sum(_is_evicted(context, other) for other in waiting)


def find_gated(context: Context, step: Step, pods: Iterable[Json]) -> tuple[Json, ...]:
    """Pods of this move that wait behind our gate and that no other move needs."""
    marks = marks_of(context, step)
    marked = [pod for pod in pods if migration(pod) in marks]
    kept = set(taken_by_others(context, step))
    return find_strangers(marked, kept=kept, spared=spared_for_others(context, step))


def find_stolen(context: Context, step: Step) -> Steering | None:
    """Before the move's eviction: an admission that some pod took though nothing is away for it."""
    taken = _taken(step)
    return taken[0] if len(taken) > len(_in_flight(context, step)) else None


def find_lost(context: Context, step: Step, pods: Iterable[Json]) -> Steering | None:
    """After it: an admission that some pod took which is neither there nor known to any move."""
    taken = _taken(step)
    if not taken:
        return None
    chosen = {_chosen(other) for other in _in_flight(context, step)} - {""}
    marked = [pod for pod in pods if migration(pod) == step.params["steering"]]
    if step.params.get("pins_to"):  # none of them waits behind a gate
        known = {_chosen(other) for other in _awaiting(context)}
        waiting = {uid(pod) for pod in marked} - known
    else:
        waiting = {uid(pod) for pod in marked if is_gated(pod)}
    return taken[0] if len(taken) > len(chosen | waiting) else None


def is_needed_by_others(context: Context, step: Step) -> bool:
    """Whether a move that is steered together with this one is not over yet."""
    releases = [s for s in context.steps if s.kind == StepKind.RELEASE and s.move not in (0, step.move)]
    return any(_is_together(step, other) and not is_finished(other) for other in releases)


def steered_since(context: Context, step: Step) -> datetime | None:
    """When the first of those that are steered together saw the gate in force."""
    steers = [s for s in context.steps if s.kind == StepKind.STEER and s.state == StepState.VERIFIED]
    return min((s.finished_at for s in steers if _is_together(step, s) and s.finished_at), default=None)


def _is_together(step: Step, other: Step) -> bool:
    return bool(other.params.get("steering") == step.params["steering"])


def _taken(step: Step) -> list[Steering]:
    rows = Steering.objects.filter(name=step.params["steering"], closed_at=None)
    return list(rows.exclude(admitted_uid="").order_by("pk"))


def _in_flight(context: Context, step: Step) -> list[Step]:
    """The waits of the other moves that are steered together with this one and are between eviction and
    release."""
    waits = [s for s in _awaiting(context) if s.move != step.move and _is_together(step, s)]
    return [s for s in waits if _is_evicted(context, s) and not _is_released(context, s)]


def _is_evicted(context: Context, wait: Step) -> bool:
    eviction = context.of_move(wait.move, StepKind.EVICT_POD)
    return eviction is not None and is_in_flight_step(eviction)


def _is_released(context: Context, wait: Step) -> bool:
    release = context.of_move(wait.move, StepKind.RELEASE)
    return release is not None and is_finished(release)


def _sharers(context: Context, step: Step) -> list[Step]:
    """The waits of the other moves whose pods may carry this move's mark, or whose mark this move's pod may
    carry."""
    return [s for s in _awaiting(context) if s.move != step.move and _may_share_pods(step.params, s.params)]


def _may_share_pods(mine: Json, theirs: Json) -> bool:
    if mine["steering"] == theirs["steering"]:
        return True
    is_alike = (mine["workload_uid"], mine["pod_name"]) == (theirs["workload_uid"], theirs["pod_name"])
    return is_alike and form_of(mine) == Form.PARAMETER


def _awaiting(context: Context) -> list[Step]:
    return [step for step in context.steps if step.kind == StepKind.AWAIT_REPLACEMENT]


def _chosen(step: Step) -> str:
    return str(step.observed.get("seen", {}).get("replacement", ""))
