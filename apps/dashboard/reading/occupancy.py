"""Who sits on which GPU of a node, ready to be drawn.

Positions count the node's GPUs in driver order from 0. A pod whose device no source tells is
counted but not placed: it is never drawn onto a GPU as if that were known.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from apps.planner.inventory import Gpu, Node, Pod
from apps.planner.mig.models import MigModel
from apps.planner.mig.nodes import offered_profiles
from apps.planner.mig.use import model_of, single_profile

_PROFILE = re.compile(r"(\d+)g\.(\d+)gb")


@dataclass(frozen=True, slots=True)
class Bar:
    """One pod on neighbouring whole GPUs of one NUMA block. joined: goes on across the block's border."""

    pod_uid: str
    positions: tuple[int, ...]
    joined: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of one GPU. start and size as shares of it, 0 to 1. pod_uid "" is idle."""

    pod_uid: str
    start: float
    size: float
    label: str


@dataclass(frozen=True, slots=True)
class Occupancy:
    """free: positions known to be free and healthy. unsure: healthy positions of which some hold the
    `unplaced` pods (uid, milli-GPU), or of which `withheld` are cut by MIG, nobody tells which.
    free_count: GPUs that a pod could get whole, known also when their positions are not; none where the
    node offers slots or instances under the same name. is_told: some source tells who
    holds which device."""

    size: int
    free: tuple[int, ...] = ()
    bad: tuple[int, ...] = ()
    bars: tuple[Bar, ...] = ()
    parts: Mapping[int, tuple[Part, ...]] = field(default_factory=dict)
    cut_by_mig: frozenset[int] = frozenset()
    unsure: tuple[int, ...] = ()
    unplaced: tuple[tuple[str, int], ...] = ()
    withheld: int = 0
    free_count: int = 0
    is_told: bool = True

    def positions_of(self, pod_uid: str) -> tuple[int, ...]:
        whole = [place for bar in self.bars if bar.pod_uid == pod_uid for place in bar.positions]
        shared = [place for place, parts in self.parts.items() if any(p.pod_uid == pod_uid for p in parts)]
        return tuple(sorted({*whole, *shared}))


def asked_milli(node: Node, pod: Pod) -> int:
    """What the pod asks of this node's GPUs, in milli-GPU; 0 for MIG instances, also where they go by the
    name of whole GPUs, and for pods without GPUs."""
    if single_profile(node):
        return 0
    units = pod.requests.get(node.gpu_resource, 0) if node.gpu_resource else 0
    if pod.gpu_milli < 1000:
        return pod.gpu_milli * max(units, 1)
    return units * 1000 // max(node.shares_per_gpu, 1)


def occupy(node: Node, pods: Sequence[Pod]) -> Occupancy:
    """pods: those that hold resources on the node (`Snapshot.pods_on`)."""
    whole, parts = _read_holdings(node, {pod.uid for pod in pods})
    bad = tuple(place for place, gpu in enumerate(node.gpus) if not gpu.healthy)
    taken = {place for places in whole.values() for place in places} | set(parts)
    open_places = tuple(p for p in range(len(node.gpus)) if p not in taken and p not in bad)
    placed = {*whole, *(part.pod_uid for pieces in parts.values() for part in pieces)}
    unplaced = tuple(
        (pod.uid, milli) for pod in pods if pod.uid not in placed and (milli := asked_milli(node, pod))
    )
    hidden = -(-sum(milli for _, milli in unplaced) // 1000)
    withheld = _count_withheld(node)
    are_seats_open = bool(unplaced or withheld)
    bars = [bar for uid, places in whole.items() for bar in split_bars(node, uid, places)]
    return Occupancy(
        size=len(node.gpus),
        free=() if are_seats_open else open_places,
        bad=bad,
        bars=tuple(sorted(bars, key=lambda bar: bar.positions)),
        parts=parts,
        cut_by_mig=frozenset(place for place, gpu in enumerate(node.gpus) if gpu.instances),
        unsure=open_places if are_seats_open else (),
        unplaced=unplaced,
        free_count=0 if _offers_parts(node) else max(0, len(open_places) - hidden - withheld),
        withheld=withheld,
        is_told=node.holdings is not None,
    )


def _count_withheld(node: Node) -> int:
    """GPUs that look whole but are not offered whole, since MIG has cut them: which ones nobody tells."""
    looks_whole = sum(gpu.healthy and not gpu.instances for gpu in node.gpus)
    if single_profile(node):
        return looks_whole
    if not offered_profiles(node) and node.mig_strategy != "single":
        return 0
    return max(0, looks_whole - node.allocatable.get(node.gpu_resource, 0))


def _offers_parts(node: Node) -> bool:
    return node.allocatable.get(node.gpu_resource, 0) > len(node.gpus)


def _read_holdings(node: Node, known: set[str]) -> tuple[dict[str, list[int]], dict[int, tuple[Part, ...]]]:
    """Whole GPUs by pod, and the pieces of every GPU that is cut or shared."""
    place_of = {gpu.uuid: place for place, gpu in enumerate(node.gpus) if gpu.uuid}
    whole: dict[str, list[int]] = defaultdict(list)
    shares: dict[int, list[tuple[str, int]]] = defaultdict(list)
    on_instance: dict[str, str] = {}
    model = model_of(node)[0] if any(gpu.instances for gpu in node.gpus) else None
    for holding in node.holdings or ():
        if holding.pod_uid not in known:
            continue
        place = place_of.get(holding.device)
        if place is None:
            on_instance[holding.device] = holding.pod_uid
        elif holding.milli >= 1000:
            whole[holding.pod_uid].append(place)
        else:
            shares[place].append((holding.pod_uid, holding.milli))
    parts = {place: _share_parts(held) for place, held in shares.items()}
    for place, gpu in enumerate(node.gpus):
        if gpu.instances:
            parts[place] = _mig_parts(gpu, on_instance, model)
    return dict(whole), parts


def _share_parts(held: list[tuple[str, int]]) -> tuple[Part, ...]:
    """Shares side by side; when they add up to more than the device, each is drawn in proportion."""
    scale = max(1000, sum(milli for _, milli in held))
    parts, start = [], 0.0
    for uid, milli in held:
        parts.append(Part(uid, start, milli / scale, f"{milli / 10:.0f} %"))
        start += milli / scale
    if start < 0.999:
        parts.append(Part("", start, 1 - start, f"{(1 - start) * 100:.0f} % free"))
    return tuple(parts)


def _mig_parts(gpu: Gpu, on_instance: Mapping[str, str], model: MigModel | None) -> tuple[Part, ...]:
    """By the model's placement table; by gigabytes where there is none."""
    parts, after, axis = [], 0, model.axis if model else 8
    table = model.by_name if model else {}
    for instance in sorted(gpu.instances, key=lambda cut: (cut.start_slice is None, cut.start_slice or 0)):
        known = table.get(instance.profile)
        size = known.memory_slices if known else memory_slices(instance.profile, gpu.memory_mib)
        start = after if instance.start_slice is None else instance.start_slice
        after = start + size
        pod_uid = on_instance.get(instance.uuid, "") if instance.uuid else ""
        parts.append(Part(pod_uid, min(start, axis) / axis, min(size, axis) / axis, instance.profile))
    return tuple(parts)


def memory_slices(profile: str, memory_mib: int | None) -> int:
    """How many of a GPU's 8 memory slices a profile takes, from its gigabytes and the GPU's memory."""
    found = _PROFILE.match(profile)
    if not found:
        return 1
    if not memory_mib:
        return min(8, int(found[1]))
    return max(1, min(8, round(int(found[2]) * 1024 / (memory_mib / 8))))


def split_bars(node: Node, uid: str, places: list[int]) -> list[Bar]:
    """Neighbouring GPUs become one bar, ended at a NUMA border unless the pod has the whole node."""
    places = sorted(set(places))
    if len(places) == len(node.gpus):
        return [Bar(uid, tuple(places))]
    runs: list[list[int]] = []
    joined: list[bool] = []
    for place in places:
        touches = bool(runs) and runs[-1][-1] == place - 1
        if touches and node.gpus[place].numa == node.gpus[place - 1].numa:
            runs[-1].append(place)
            continue
        if touches:
            joined[-1] = True
        runs.append([place])
        joined.append(False)
    return [Bar(uid, tuple(run), on) for run, on in zip(runs, joined, strict=True)]
