"""Whether a gang is larger than the whole cluster: how many of its pods empty nodes could hold at once.

An upper bound, so that "never" is always true: daemons and fixed pods are left out of the account.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from apps.planner.inventory import Node, Pod
from apps.planner.mig.most import count_instances
from apps.planner.mig.nodes import MIG_PREFIX
from apps.planner.resources import Demand
from apps.planner.rooms import Rooms

BOUNDLESS = 10**9
"""Instances where nobody knows how the model is cut."""


def find_gang_bound(
    rooms: Rooms, homes: Sequence[tuple[Pod, Sequence[Node]]], counts: Mapping[str, int], needed: int
) -> str:
    """A sentence where `needed` of the pods cannot stand at once, "" otherwise. homes: of each pod, the
    exemplars of the nodes that could take it; counts: how many nodes are like each exemplar."""
    demands = [rooms.demand(pod) for pod, _ in homes]
    smallest = _smallest_of(demands)
    if smallest is None or needed < 2:
        return ""
    nodes = {node.name: node for _, found in homes for node in found}
    most = sum(counts[name] * _count_pods(node, smallest) for name, node in sorted(nodes.items()))
    if most >= needed:
        return ""
    what = f"{smallest.gpus} GPU{'' if smallest.gpus == 1 else 's'}" if smallest.gpus else "that size"
    return (
        f"The gang needs {needed} pods of {what} at once; with every node empty there would be room "
        f"for {most:.0f}."
    )


def _smallest_of(demands: Sequence[Demand]) -> Demand | None:
    """What each pod asks for at least; None where they ask for different GPUs."""
    if len({(one.gpu_resource, one.milli) for one in demands}) != 1:
        return None
    names = set.intersection(*({name for name, _ in one.resources} for one in demands))
    least = {name: min(dict(one.resources)[name] for one in demands) for name in sorted(names)}
    first = demands[0]
    return Demand(
        resources=tuple(least.items()),
        gpu_resource=first.gpu_resource,
        gpus=min(one.gpus for one in demands),
        milli=first.milli,
    )


def _count_pods(node: Node, demand: Demand) -> float:
    """How many such pods one empty node holds, however its GPUs are cut."""
    limits = [
        _most_of(node, name) // amount
        for name, amount in (*demand.resources, ("pods", 1))
        if name != "pods" or "pods" in node.allocatable
    ]
    if demand.gpus:
        whole = max(node.allocatable.get(demand.gpu_resource, 0), len(node.gpus))
        limits.append(whole * max(1000 // max(demand.milli, 1), 1) // demand.gpus)
    return min(limits, default=0)


def _most_of(node: Node, resource: str) -> float:
    if not resource.startswith(MIG_PREFIX):
        return max(node.allocatable.get(resource, 0), node.capacity.get(resource, 0))
    most = count_instances(node, resource.removeprefix(MIG_PREFIX))
    return most if math.isfinite(most) else BOUNDLESS
