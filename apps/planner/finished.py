"""Pods that are over, told together: a workload that fails in a loop leaves thousands alike.

They hold nothing, whatever their reason. Not in here: why they ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from apps.planner.inventory import Pod
from apps.planner.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class FinishedGroup:
    """Pods of one workload that ended the same way. owner: "" for bare pods, which are told one by one.
    nodes: on how many they ran. example: the key of one."""

    namespace: str
    owner: str
    phase: str
    count: int
    nodes: int
    example: str


def group_finished(snapshot: Snapshot) -> tuple[FinishedGroup, ...]:
    """The largest group first."""
    alike: dict[tuple[str, str, str], list[Pod]] = defaultdict(list)
    for pod in _finished(snapshot.pods.values()):
        alike[pod.namespace, pod.workload or pod.uid, pod.phase].append(pod)
    found = [
        FinishedGroup(
            namespace=namespace,
            owner=snapshot.workload_name(pods[0]) if pods[0].workload else "",
            phase=phase,
            count=len(pods),
            nodes=len({pod.node_name for pod in pods if pod.node_name}),
            example=min(pod.key for pod in pods),
        )
        for (namespace, _, phase), pods in alike.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.count, one.namespace, one.owner, one.example)))


def _finished(pods: Iterable[Pod]) -> Iterable[Pod]:
    return (pod for pod in pods if pod.phase in ("Succeeded", "Failed"))
