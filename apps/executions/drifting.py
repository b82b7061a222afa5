"""Nothing new is begun on a node that shows less than before: a GPU, links or a layout is gone.

What is in the air is landed. Told by the newest snapshot's summary, so asking costs one row. What drift is:
`planner.drift`.
"""

from __future__ import annotations

from collections.abc import Mapping

from apps.clusters import queries as clusters
from apps.clusters.models import Cluster
from apps.executions.decisions import Decision, stop
from apps.executions.models import Execution, Step
from apps.executions.states import StepKind
from apps.planner.plan import Plan

BEGINNING = (
    StepKind.HOLD_TARGET,
    StepKind.HOLD_NODE,
    StepKind.STEER,
    StepKind.EVICT_POD,
    StepKind.HAND_OVER,
    StepKind.RECONFIGURE_MIG,
)


def drifted_nodes(cluster: Cluster, plan: Plan) -> list[str]:
    """A sentence for each node that the plan would begin something on and that has drifted. A node that is
    only left may have: whoever leaves it needs nothing of it."""
    told = _told(cluster)
    used = [move.target for move in plan.moves]
    used += [cut.node for cut in plan.reconfigurations] + [one.node for one in plan.hand_overs]
    return [f"node {name} has drifted: {told[name]}" for name in dict.fromkeys(used) if told.get(name)]


def _told(cluster: Cluster) -> Mapping[str, str]:
    row = clusters.latest_snapshot(cluster)
    return (row.summary.get("drifted") or {}) if row is not None else {}


def why_drifted(execution: Execution, step: Step) -> Decision | None:
    """A stop, where the step would begin something on a drifted node; None where it may go on."""
    if step.kind not in BEGINNING:
        return None
    node = step.params.get("target") or step.params.get("node") or ""
    sentence = _told(execution.plan.cluster).get(node)
    if not sentence:
        return None
    return stop(
        f"Node {node} has drifted: {sentence}.",
        "Cancel this execution and ask for a new plan, or, if the node is meant to be so, accept it on the "
        "node's page and resume.",
        cause="node-drifted",
    )
