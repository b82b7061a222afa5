"""Nodes on which mig-manager failed at a layout of this console and has not come out as planned there since.

A GPU that cannot be reset in its machine fails so every time, and nothing in the cluster tells it before.
Whoever decides about the next plan for that node should know; it is said, nothing is refused for it.
"""

from __future__ import annotations

from apps.clusters.models import Cluster
from apps.executions.models import Step
from apps.executions.states import StepKind, StepState


def tell_failed_cuts(cluster: Cluster) -> dict[str, str]:
    """By UID of the node: a sentence about the newest failure."""
    steps = Step.objects.filter(kind=StepKind.RECONFIGURE_MIG, execution__plan__cluster=cluster)
    found: dict[str, str] = {}
    for step in steps.order_by("execution_id", "position"):
        failed_at = step.observed.get("seen", {}).get("failed_at", "")
        if failed_at:
            found[step.params["node_uid"]] = _tell(step, failed_at)
        elif step.state == StepState.VERIFIED:
            found.pop(step.params["node_uid"], None)
    return found


def _tell(step: Step, failed_at: str) -> str:
    gpus = ", ".join(str(index) for index in step.params.get("gpus", []))
    return (
        f"mig-manager failed on this node at {failed_at[:16].replace('T', ' ')} UTC in execution "
        f"{step.execution_id} (GPU {gpus}) and has not succeeded since: a GPU that cannot be reset there "
        "fails every time. Read its log before this is approved"
    )
