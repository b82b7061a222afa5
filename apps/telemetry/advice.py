"""Low use: which pods hold GPUs that do little, over the sliding window. Pure; advice, never a move."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from apps.planner.inventory import Gpu, Node, Pod
from apps.prometheus.readings import Device, Unit
from apps.telemetry.windows import Use

MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class Held:
    """A GPU or MIG instance that a pod holds, and how busy it was. pod: "namespace/name"."""

    pod: str
    node: str
    gpu: Gpu
    unit: Unit
    use: Use


@dataclass(frozen=True, slots=True)
class LowPod:
    """A pod of whose units some are low. units: all that it holds. average: percent, over the low ones."""

    pod: str
    node: str
    low: int
    units: int
    average: float
    used_mib: float | None


@dataclass(frozen=True, slots=True)
class LowUse:
    """pods: the least busy first; more: how many of them are left out. unmeasured: held units of which
    nothing is known; why: how many each."""

    pods: tuple[LowPod, ...]
    units: int
    low_units: int
    unmeasured: int
    why: Mapping[str, int]
    more: int = 0


def find_low_use(held: Iterable[Held], *, below: float) -> LowUse:
    by_pod: dict[tuple[str, str], list[Held]] = defaultdict(list)
    why: dict[str, int] = defaultdict(int)
    units = 0
    for one in held:
        units += 1
        by_pod[one.pod, one.node].append(one)
        if one.use.average is None:
            why[one.unit.missing.get("utilisation") or one.use.reason] += 1
    pods = [low for (pod, node), group in by_pod.items() if (low := _low(pod, node, group, below))]
    return LowUse(
        tuple(sorted(pods, key=lambda one: (one.average, one.pod))),
        units,
        sum(one.low for one in pods),
        sum(why.values()),
        dict(sorted(why.items(), key=lambda pair: -pair[1])),
    )


def shorten(found: LowUse, most: int) -> LowUse:
    """Only the least busy pods, and the most frequent reasons."""
    return replace(
        found,
        pods=found.pods[:most],
        more=max(0, len(found.pods) - most),
        why=dict(tuple(found.why.items())[:MOST_REASONS]),
    )


def _low(pod: str, node: str, group: list[Held], below: float) -> LowPod | None:
    averages = [one.use.average for one in group if one.use.is_low(below) and one.use.average is not None]
    if not averages:
        return None
    used = [one.unit.used_mib for one in group if one.unit.used_mib is not None]
    return LowPod(
        pod, node, len(averages), len(group), sum(averages) / len(averages), sum(used) if used else None
    )


def held_units(
    node: Node, gpu: Gpu, device: Device, pods: Mapping[str, Pod], use: Mapping[str, Use]
) -> Iterator[Held]:
    """By the ledger for whole GPUs; by the exporter's labels for the rest. pods: by uid."""
    told = [
        pods[one.pod_uid].key for one in node.holdings or () if one.device == gpu.key and one.pod_uid in pods
    ]
    for unit in device.units:
        names = told if told and not unit.instance else [one.key for one in unit.workloads]
        for name in dict.fromkeys(names):  # two containers of a pod hold one GPU, not two
            yield Held(name, node.name, gpu, unit, use[unit.instance])
