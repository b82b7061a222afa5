"""The five numbers on top of the grid, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.dashboard.reading.measures import Measures
from apps.dashboard.reading.nodes import NodeView
from apps.dashboard.reading.picture import Totals
from apps.dashboard.reading.words import amount
from apps.planner.fragmentation import WAITING
from apps.planner.resources import asks_gpu
from apps.planner.snapshot import Snapshot


def tell_tiles(
    totals: Totals, measures: Measures, views: Sequence[NodeView], *, is_waited_for: bool
) -> dict[str, Any]:
    """is_waited_for: a pod that asks for a GPU is pending, so what is stranded is measured by what waits;
    asked only where the report does not say it.

    shares: for the meter, what is used and what is stranded, of what is schedulable.
    """
    if measures.stranded_by:
        is_waited_for = measures.stranded_by == WAITING
    stranded = measures.stranded_gpus
    share = (stranded or 0) / totals.schedulable if totals.schedulable else 0.0
    return {
        "totals": totals,
        "measures": measures,
        "used": amount(totals.used_milli),
        "used_percent": f"{totals.used_share * 100:.0f}",
        "used_note": _used_note(totals),
        "shares": (totals.used_share, share),
        "stranded": amount((stranded or 0) * 1000),
        "idle": amount((measures.idle_gpus or 0) * 1000),
        "stranded_note": _stranded_note(measures, is_waited_for),
        "gang_note": _gang_note(measures, views),
    }


def is_gpu_waited_for(picture: Snapshot) -> bool:
    return any(asks_gpu(pod) for pod in picture.pending_pods)


def _used_note(totals: Totals) -> str:
    """What of the schedulable GPUs is not allocated, and what is allocated beside them."""
    words, rest = f"{totals.free:,} free whole", totals.rest_milli
    if rest >= 50:
        words += f", {amount(rest)} in GPUs cut by MIG or shared: idle, or not told"
    if totals.closed_milli >= 50:
        words += f"; {amount(totals.closed_milli)} more held on nodes that take no pods"
    return words


def _stranded_note(measures: Measures, is_waited_for: bool) -> str:
    if not measures.idle_gpus:
        return "nothing is free"
    if not measures.stranded_gpus:
        return (
            "each could serve something that waits" if is_waited_for else "each fits a shape that runs here"
        )
    return "nothing that waits can use them" if is_waited_for else "no shape that runs here can use them"


def _gang_note(measures: Measures, views: Sequence[NodeView]) -> str:
    gang = measures.gang
    if gang is None or not gang.gpus_per_pod:
        return "no node can be measured"
    if gang.pods:
        return f"{gang.link}, each on one node"
    best = max(
        (view for view in views if view.is_schedulable),
        key=lambda view: (view.group, view.free),
        default=None,
    )
    if best is None or not best.free:
        return f"no node has {gang.gpus_per_pod} linked GPUs free; none has any"
    if best.link is None:
        return f"no node has {gang.gpus_per_pod} free; {best.node.name} has {best.free}"
    group = f"best {best.group} by {best.link_word}, {best.node.name}"
    return f"no {gang.gpus_per_pod}-GPU node is free; {group}"
