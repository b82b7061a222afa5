"""How long a pod takes from its place on a node until it is Ready: measured per image and node where known.

Pods with GPUs start slowly (47 s on average against 6 s for others), so waits and expected starts count it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median

from apps.planner.costs import DEFAULT_COSTS
from apps.planner.inventory import Pod
from apps.planner.resources import asks_gpu
from apps.planner.snapshot import Snapshot

LONGEST = 3600.0
"""What took longer was hardly the start: a pod that lost its readiness and found it again."""
Measured = Mapping[tuple[str, str], tuple[float, ...]]
"""(image, node) -> seconds from place to Ready."""


class StartTimes:
    """measured: as `measure_starts` gives it, and more of the same from earlier snapshots."""

    def __init__(self, *measured: Measured) -> None:
        self._exact: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._by_image: dict[str, list[float]] = defaultdict(list)
        for part in measured:
            for (image, node), seconds in part.items():
                self._exact[image, node].extend(seconds)
                self._by_image[image].extend(seconds)

    def of(self, pod: Pod, node: str) -> tuple[float, str]:
        """Seconds, and what they rest on."""
        here = self._exact.get((pod.image, node)) if pod.image else None
        if here:
            return median(here), f"measured with this image on {node}"
        anywhere = self._by_image.get(pod.image) if pod.image else None
        if anywhere:
            return median(anywhere), "measured with this image on other nodes"
        if asks_gpu(pod):
            return DEFAULT_COSTS.gpu_restart_seconds, "the average of pods with GPUs"
        return DEFAULT_COSTS.cpu_restart_seconds, "the average of pods without GPUs"


def measure_starts(snapshot: Snapshot) -> dict[tuple[str, str], tuple[float, ...]]:
    """Of the pods that run now. Only those that became Ready soon after: a later readiness is no start."""
    return group_starts(
        (pod.image, pod.node_name, pod.ready_at - pod.scheduled_at)
        for pod in snapshot.pods.values()
        if pod.image and pod.node_name and pod.ready_at is not None and pod.scheduled_at is not None
    )


def group_starts(
    found: Iterable[tuple[str, str, float]],
) -> dict[tuple[str, str], tuple[float, ...]]:
    """found: image, node, seconds; what cannot be a start is left out."""
    grouped: dict[tuple[str, str], list[float]] = defaultdict(list)
    for image, node, seconds in found:
        if 0 <= seconds <= LONGEST:
            grouped[image, node].append(seconds)
    return {key: tuple(sorted(values)) for key, values in grouped.items()}
