"""What pausing, cancelling or rolling back would do at this moment, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apps.dashboard.reading.move_now import DONE
from apps.dashboard.reading.words import plural
from apps.executions.flow import is_relaying
from apps.executions.models import Execution, Step
from apps.executions.states import StepKind, StepState


@dataclass(frozen=True, slots=True)
class Stopping:
    """What each way to stop would do now, in sentences."""

    pause: str
    cancel: str
    roll_back: str


def tell_stopping(execution: Execution, steps: Sequence[Step]) -> Stopping:
    evicted = {
        step.move
        for step in steps
        if step.kind == StepKind.EVICT_POD and step.state in (StepState.VERIFIED, StepState.ISSUED)
    }
    landed = {step.move for step in steps if step.kind == StepKind.AWAIT_REPLACEMENT and step.state in DONE}
    flying = sorted(evicted - landed)
    cordons = sum(step.kind == StepKind.CORDON_NODE and step.state == StepState.VERIFIED for step in steps)
    until = f" until {execution.deadline_at:%H:%M} UTC at the latest" if execution.deadline_at else ""
    moves = f"({', '.join(map(str, flying))})"
    fly = f" Moves in flight {moves} land first." if flying else ""
    freed = f" Pods of moves in flight {moves} are let go and may land elsewhere." if flying else ""
    if landed:
        stay = (
            f"{plural(len(landed), 'pod')} already moved and {'stays' if len(landed) == 1 else 'stay'} there."
        )
    else:
        stay = "No pod has moved yet."
    relaying = [step.params["node"] for step in steps if is_relaying(step)]
    back = (
        f" mig.config of {', '.join(relaying)} gets its earlier value; the earlier layout is waited for."
        if relaying
        else ""
    )
    taints = _count_taints(steps)
    of_nodes = [plural(taints, "taint")] * bool(taints) + [plural(cordons, "cordon")]
    ours = f"our holds, gates{', ' if taints else ' and '}{' and '.join(of_nodes)}"
    return Stopping(
        pause=f"starts nothing new and keeps {ours}{until}.{fly}",
        cancel=f"starts nothing new, then releases {ours}.{fly}{back} {stay}",
        roll_back=f"undoes {ours} and restores labels.{freed}{back} {stay} Evictions can’t be undone.",
    )


def _count_taints(steps: Sequence[Step]) -> int:
    """On targets that moves go to."""
    done = [step for step in steps if step.state == StepState.VERIFIED]
    kept = {step.params["node"] for step in done if step.kind == StepKind.HOLD_NODE}
    return len(kept - {step.params["node"] for step in done if step.kind == StepKind.RELEASE_NODE})
