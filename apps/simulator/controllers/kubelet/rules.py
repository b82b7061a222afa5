"""Small rules of a kubelet: is the host full, and what a pod's annotations say about its own pace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from apps.simulator.controllers.objects import annotations_of, is_terminal, labels_of
from apps.simulator.controllers.quantities import effective_requests, parse_quantities

Json = dict[str, Any]

HUNG_ANNOTATION = "sim.gpu.internal/hung"


def find_lacking(node: Json, pods: Iterable[Json]) -> str:
    """The first ordinary resource of which the pods want more than there is, or "". Devices have
    their own check."""
    allocatable = parse_quantities((node.get("status") or {}).get("allocatable"))
    used: Counter[str] = Counter()
    for pod in pods:
        if not is_terminal(pod):
            used.update(effective_requests(pod["spec"]))
    for resource in ("cpu", "memory"):
        if allocatable[resource] and used[resource] > allocatable[resource]:
            return resource
    return ""


def read_seconds(pod: Json, what: str, default: float) -> float:
    """The annotation `sim.gpu.internal/<what>` in simulated seconds; nonsense counts as absent."""
    text = annotations_of(pod).get(f"sim.gpu.internal/{what}")
    try:
        return max(0.0, float(text)) if text else default
    except ValueError:
        return default


def is_hung(node: Json, pod: Json) -> bool:
    """Whether a fault keeps the containers of this app from ending on the node."""
    app = labels_of(pod).get("app", "")
    return bool(app) and annotations_of(node).get(HUNG_ANNOTATION) == app
