"""Nothing new is begun on a node that shows less than before: a GPU, links or a layout is gone.

What is in the air is landed. Told by the newest snapshot's summary, so asking costs one row. What drift is:
`planner.drift`.
"""

from __future__ import annotations

from apps.clusters import queries as clusters
from apps.executions.decisions import Decision, stop
from apps.executions.models import Execution, Step
from apps.executions.states import StepKind

BEGINNING = (
    StepKind.HOLD_TARGET,
    StepKind.STEER,
    StepKind.EVICT_POD,
    StepKind.HAND_OVER,
    StepKind.RECONFIGURE_MIG,
)


def why_drifted(execution: Execution, step: Step) -> Decision | None:
    """A stop, where the step would begin something on a drifted node; None where it may go on."""
    if step.kind not in BEGINNING:
        return None
    node = step.params.get("target") or step.params.get("node") or ""
    row = clusters.latest_snapshot(execution.plan.cluster)
    sentence = (row.summary.get("drifted") or {}).get(node) if row is not None else None
    if not sentence:
        return None
    return stop(
        f"Node {node} has drifted: {sentence}.",
        "Cancel this execution and ask for a new plan, or, if the node is meant to be so, accept it on the "
        "node's page and resume.",
    )
