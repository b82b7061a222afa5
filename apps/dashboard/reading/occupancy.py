"""Who sits on which GPU of a node, ready to be drawn.

Positions count the node's GPUs in driver order from 0. A pod whose device no source tells is
counted but not placed: it is never drawn onto a GPU as if that were known.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from apps.planner.inventory import Node, Pod
from apps.planner.ledger import ledger_of
from apps.planner.ledger_rows import DeviceLedger, NodeLedger, Taker
from apps.planner.mig.models import MigModel
from apps.planner.mig.nodes import offered_profiles
from apps.planner.mig.use import model_of, single_profile
from apps.planner.room import deals_by_device
from apps.planner.shares import WHOLE, asked_of, part_of

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
    node offers slots or instances under the same name. lost: not offered at all, nobody tells which.
    is_told: some source tells who holds which device."""

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
    lost: int = 0

    def positions_of(self, pod_uid: str) -> tuple[int, ...]:
        whole = [place for bar in self.bars if bar.pod_uid == pod_uid for place in bar.positions]
        shared = [place for place, parts in self.parts.items() if any(p.pod_uid == pod_uid for p in parts)]
        return tuple(sorted({*whole, *shared}))


def asked_milli(node: Node, pod: Pod) -> int:
    """What the pod asks of this node's GPUs, in milli-GPU; 0 for MIG instances, also where they go by the
    name of whole GPUs, and for pods without GPUs. A share is the larger of its cores and its memory. Units of
    shared GPUs can be
    asked for in a greater number than there are GPUs."""
    return round(asked_part(node, pod))


def asked_part(node: Node, pod: Pod) -> Fraction:
    """The same, not rounded: to be added up."""
    asked = asked_of(node, pod)
    part = asked.devices * part_of(node, asked)
    return min(part, Fraction(WHOLE * len(node.gpus))) if node.shares_per_gpu > 1 else part


def _no_more_than_all(node: Node, milli: int) -> int:
    return min(milli, WHOLE * len(node.gpus)) if node.shares_per_gpu > 1 else milli


def occupy(node: Node, pods: Sequence[Pod], ledger: NodeLedger | None = None) -> Occupancy:
    """pods: those that hold resources on the node (`Snapshot.pods_on`). ledger: of this node, if known."""
    ledger = ledger_of(node, pods) if ledger is None else ledger
    whole, parts = _read_takers(node, ledger)
    bad = tuple(place for place, gpu in enumerate(node.gpus) if not gpu.healthy)
    taken = {place for places in whole.values() for place in places} | set(parts)
    open_places = tuple(p for p in range(len(node.gpus)) if p not in taken and p not in bad)
    unplaced = tuple(
        (one.pod_uid, _no_more_than_all(node, one.milli)) for one in ledger.unlocated if one.devices
    )
    withheld = _count_withheld(node)
    lost = 0 if withheld else ledger.main.withheld
    are_seats_open = bool(unplaced or withheld or (lost and lost >= len(open_places)))
    bars = [bar for uid, places in whole.items() for bar in split_bars(node, uid, places)]
    hidden = max(-(-sum(milli for _, milli in unplaced) // 1000), bool(unplaced))
    return Occupancy(
        size=len(node.gpus),
        free=() if are_seats_open else open_places,
        bad=bad,
        bars=tuple(sorted(bars, key=lambda bar: bar.positions)),
        parts=parts,
        cut_by_mig=frozenset(place for place, gpu in enumerate(node.gpus) if gpu.instances),
        unsure=open_places if are_seats_open else (),
        unplaced=unplaced,
        free_count=0 if _offers_turns(node) else max(0, len(open_places) - hidden - withheld - lost),
        withheld=withheld,
        lost=lost,
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


def _offers_turns(node: Node) -> bool:
    """Turns or MIG instances under the name of whole GPUs: none is to be had whole."""
    return not deals_by_device(node) and node.allocatable.get(node.gpu_resource, 0) > len(node.gpus)


def _read_takers(node: Node, ledger: NodeLedger) -> tuple[dict[str, list[int]], dict[int, tuple[Part, ...]]]:
    """Whole GPUs by pod, and the pieces of every GPU that is cut or shared."""
    whole: dict[str, list[int]] = defaultdict(list)
    parts: dict[int, tuple[Part, ...]] = {}
    model = model_of(node)[0] if any(gpu.instances for gpu in node.gpus) else None
    for place, row in enumerate(ledger.devices):
        if row.instances:
            parts[place] = _mig_parts(row, model)
            continue
        is_whole = all((taker.milli or 0) >= 1000 for taker in row.takers)
        for taker in row.takers if is_whole else ():
            if place not in whole[taker.pod_uid]:
                whole[taker.pod_uid].append(place)
        if row.takers and not is_whole:
            parts[place] = _share_parts(row)
    return dict(whole), parts


def _share_parts(row: DeviceLedger) -> tuple[Part, ...]:
    """Shares side by side, each as large as the larger of its cores and its memory; when they add up to more
    than the device, each is drawn in proportion."""
    held = [(taker, share_of(row, taker)) for taker in row.takers]
    scale = max(1.0, sum(size for _, size in held))
    parts, start = [], 0.0
    for taker, size in held:
        parts.append(Part(taker.pod_uid, start, size / scale, name_share(row, taker)))
        start += size / scale
    if start < 0.999:
        parts.append(Part("", start, 1 - start, f"{(1 - start) * 100:.0f} % free"))
    return tuple(parts)


def share_of(row: DeviceLedger, taker: Taker) -> float:
    """As a part of the device, 0 to 1."""
    if row.units and taker.milli is None and taker.memory_mib is None:
        return 1 / row.units
    cores = min(taker.milli or 0, row.whole_milli) / row.whole_milli
    memory = taker.memory_mib / row.gpu.memory_mib if taker.memory_mib and row.gpu.memory_mib else 0.0
    return max(cores, min(memory, 1.0), 0.001)


def name_share(row: DeviceLedger, taker: Taker) -> str:
    """ "30 %, 10,000 MiB" of cores and memory; "1 of 12 slots" where nothing is divided."""
    if taker.milli is None and taker.memory_mib is None:
        return f"1 of {row.units} slots" if row.units else "a share"
    words = [] if taker.milli is None else [f"{taker.milli / 10:.0f} %"]
    words += [] if taker.memory_mib is None else [f"{taker.memory_mib:,} MiB"]
    return ", ".join(words)


def _mig_parts(row: DeviceLedger, model: MigModel | None) -> tuple[Part, ...]:
    """By the model's placement table; by gigabytes where there is none."""
    parts, after, axis = [], 0, model.axis if model else 8
    table = model.by_name if model else {}
    for one in row.instances:
        known = table.get(one.profile)
        size = known.memory_slices if known else memory_slices(one.profile, row.gpu.memory_mib)
        start = after if one.start is None else one.start
        after = start + size
        pod_uid = one.takers[0].pod_uid if one.takers else ""
        parts.append(Part(pod_uid, min(start, axis) / axis, min(size, axis) / axis, one.profile))
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
