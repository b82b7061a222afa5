"""Nothing new is begun on a node that somebody else has in hands; what is in the air is landed.

Told by the newest snapshot's summary, so asking costs one row. Who that may be: `planner.maintenance`.
"""

from __future__ import annotations

from collections.abc import Iterable

from apps.clusters import queries as clusters
from apps.executions import ledger
from apps.executions.locks import Lease
from apps.executions.models import Execution, Step
from apps.executions.states import FINISHED, ExecutionState

CAUSE = "node-maintained"


def pause_for_maintenance(lease: Lease, execution: Execution) -> bool:
    """True where the running execution was paused. A person resumes it when the other is done."""
    row = clusters.latest_snapshot(execution.plan.cluster)
    maintained = (row.summary.get("maintained") or {}) if row is not None else {}
    if not maintained:
        return False
    open_steps = Step.objects.filter(execution=execution).exclude(state__in=FINISHED)
    sentence = tell_maintained(maintained, nodes_of(open_steps))
    if not sentence:
        return False
    words = f"Paused: {sentence}. Resume it when that is over, or cancel it."
    ledger.move_execution(lease, ExecutionState.PAUSED, words, cause=CAUSE)
    return True


def nodes_of(steps: Iterable[Step]) -> list[str]:
    """The nodes that these steps still need."""
    named = [step.params.get(key, "") for step in steps for key in ("node", "source", "target")]
    return list(dict.fromkeys(name for name in named if name))


def tell_maintained(maintained: dict[str, str], needed: Iterable[str]) -> str:
    """Pure: a clause about the first of these nodes that somebody else is at, "" if nobody is."""
    for name in needed:
        if maintained.get(name):
            return f"node {name} is in somebody else's hands, {maintained[name]}"
    return ""
