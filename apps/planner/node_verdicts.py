"""What all nodes say to one pod's shape at once: reasons counted, nodes that fit, the best node.

On tables of numbers, since a large cluster asks it for hundreds of shapes; links, host ports and
rules between pods are asked node by node. The rules themselves are `fitting`'s.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from apps.planner.fitting import RESOURCE_REASONS, Fitting, Reason, reason_of
from apps.planner.inventory import LinkClass, Pod
from apps.planner.resources import Demand
from apps.planner.rooms import WHOLE, is_open_node
from apps.planner.scheduler_words import KINDS, ORDER

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Verdict:
    """What the nodes say to one pod's shape. main: the reason that most often comes first on nodes
    that the pod's fixed wishes allow, else the most frequent one. free_gpus, models, most_on_a_node: of
    those nodes. free_elsewhere: on the open others of that model (of all models, where those are several).
    has_larger: whether one of the others has more GPUs than any of those. first: nodes by the kind of reason
    that kube-scheduler, asking in its own order, would count them under (scheduler_words)."""

    counts: Counter[str] = field(default_factory=Counter)
    fits: list[str] = field(default_factory=list)
    free_gpus: int = 0
    best_node: str = ""
    best_free: int = 0
    models: Counter[str] = field(default_factory=Counter)
    free_elsewhere: int = 0
    most_on_a_node: int = 0
    has_larger: bool = False
    main: Reason | None = None
    first: Counter[str] = field(default_factory=Counter)


class NodeTable:
    """The rooms as they are now, in the order of the nodes' names."""

    def __init__(self, fitting: Fitting) -> None:
        self.fitting = fitting
        self.rooms = list(fitting.rooms.by_node.values())
        self.names = [room.node.name for room in self.rooms]
        kinds: dict[tuple[object, ...], int] = {}
        self.kind = np.array(
            [kinds.setdefault(fitting.node_kind(name), len(kinds)) for name in self.names], dtype=np.int64
        )
        self.first_of_kind = [int(np.argmax(self.kind == number)) for number in range(len(kinds))]
        resources = [room.node.gpu_resource for room in self.rooms]
        self.resource = np.array(resources, dtype=object)
        self.by_device = np.array([room.by_device for room in self.rooms], dtype=bool)
        self.counts_units = np.array([room.counts_units for room in self.rooms], dtype=bool)
        self.free = np.array([room.free_gpus for room in self.rooms], dtype=np.int64)
        self.counted = np.array(
            [
                room.left.get(room.node.gpu_resource, 0) if room.counts_units or not room.by_device else 0
                for room in self.rooms
            ],
            dtype=np.int64,
        )
        self.is_open = np.array([is_open_node(room.node) for room in self.rooms], dtype=bool)
        self.model = np.array([room.node.model for room in self.rooms], dtype=object)
        offered = [room.node.allocatable.get(room.node.gpu_resource, 0) for room in self.rooms]
        self.offered = np.array(offered, dtype=np.int64)
        self.pods_left = np.array([room.left.get("pods", 1) for room in self.rooms], dtype=np.int64)
        self._left: dict[str, Ints] = {}
        self._enough: dict[int, Ints] = {WHOLE: self.free}

    def judge(self, pod: Pod) -> Verdict:
        demand = self.fitting.rooms.demand(pod)
        verdict = Verdict()
        static = self._static_masks(pod)
        masks = self._room_masks(demand)
        masks += self._slow_masks(pod, demand)
        blocked = np.zeros(len(self.names), dtype=bool)
        refused = np.zeros(len(self.names), dtype=bool)
        for reason, mask in static:
            verdict.counts[str(reason)] += int(mask.sum())
            refused |= mask
        eligible = ~refused & (self.resource == demand.gpu_resource)
        main: Counter[Reason] = Counter()
        for reason, mask in masks:
            verdict.counts[str(reason)] += int(mask.sum())
            main[reason] += int((eligible & mask & ~blocked).sum())
            blocked |= mask
        verdict.counts = +verdict.counts
        verdict.fits = [self.names[at] for at in np.flatnonzero(~refused & ~blocked)]
        if demand.gpus:
            self._find_free_gpus(verdict, eligible)
        verdict.main = _main_reason(verdict, +main)
        verdict.first = _count_first([*static, *masks], len(self.names))
        return verdict

    def _static_masks(self, pod: Pod) -> list[tuple[Reason, Flags]]:
        by_reason: dict[Reason, list[int]] = {}
        for number, at in enumerate(self.first_of_kind):
            for reason in self.fitting.static_reasons(pod, self.rooms[at].node):
                by_reason.setdefault(reason, []).append(number)
        return [(reason, np.isin(self.kind, numbers)) for reason, numbers in by_reason.items()]

    def _room_masks(self, demand: Demand) -> list[tuple[Reason, Flags]]:
        """In the order in which `fitting` tells them."""
        masks: list[tuple[Reason, Flags]] = []
        if demand.gpus:
            other = self.resource != demand.gpu_resource
            counted = self.counted >= demand.gpus
            devices = self._count_enough(demand.milli) >= demand.gpus
            turns = counted & (demand.milli == WHOLE)
            enough = np.where(self.by_device, devices & (counted | ~self.counts_units), turns)
            masks += [(Reason.NO_SUCH_GPU, other), (Reason.GPU, ~other & ~enough)]
        short: dict[Reason, Flags] = {}
        for name, amount in demand.resources:
            reason = reason_of(name)
            mask = self._left_of(name) < amount
            short[reason] = short[reason] | mask if reason in short else mask
        full = self.pods_left < 1
        short[Reason.PODS] = short[Reason.PODS] | full if Reason.PODS in short else full
        return masks + list(short.items())

    def _slow_masks(self, pod: Pod, demand: Demand) -> list[tuple[Reason, Flags]]:
        """Whatever only the rooms themselves can tell."""
        has_wish = demand.ports or demand.memory_mib is not None or demand.link not in (None, LinkClass.NODE)
        if not has_wish and not self.fitting.needs_neighbours(pod):
            return []
        known = {Reason.GPU, Reason.NO_SUCH_GPU, Reason.PODS, Reason.MIG, Reason.OTHER}
        known |= set(RESOURCE_REASONS.values())
        found: dict[Reason, Flags] = {}
        for at, room in enumerate(self.rooms):
            for reason in self.fitting.passing_reasons(pod, room.node):
                if reason not in known:
                    found.setdefault(reason, np.zeros(len(self.names), dtype=bool))[at] = True
        return sorted(found.items(), key=lambda entry: list(Reason).index(entry[0]))

    def _left_of(self, name: str) -> Ints:
        if name not in self._left:
            self._left[name] = np.array([room.left.get(name, 0) for room in self.rooms], dtype=np.int64)
        return self._left[name]

    def _count_enough(self, milli: int) -> Ints:
        if milli not in self._enough:
            self._enough[milli] = np.array(
                [sum(1 for at in room.usable if room.gpu_left[at] >= milli) for room in self.rooms],
                dtype=np.int64,
            )
        return self._enough[milli]

    def _find_free_gpus(self, verdict: Verdict, eligible: Flags) -> None:
        all_free = np.where(self.by_device, self.free, np.maximum(self.counted, 0))
        free = np.where(eligible, all_free, 0)
        verdict.free_gpus = int(free.sum())
        verdict.models = Counter(self.rooms[at].node.model for at in np.flatnonzero(eligible))
        others = ~eligible
        verdict.most_on_a_node = int(self.offered[eligible].max(initial=0))
        verdict.has_larger = bool((self.offered[others] > verdict.most_on_a_node).any())
        if len(verdict.models) == 1:
            others &= self.model == next(iter(verdict.models))
        # What is cordoned or away counts as free nowhere.
        others &= self.is_open
        verdict.free_elsewhere = int(all_free[others].sum())
        if verdict.free_gpus:
            at = int(np.argmax(free))
            verdict.best_free, verdict.best_node = int(free[at]), self.names[at]


def _count_first(masks: list[tuple[Reason, Flags]], nodes: int) -> Counter[str]:
    """Nodes by the first kind of refusal in kube-scheduler's order."""
    by_kind: dict[str, Flags] = {}
    for reason, mask in masks:
        kind = KINDS.get(reason)
        if kind is not None:
            by_kind[kind] = by_kind[kind] | mask if kind in by_kind else mask
    found, refused = Counter[str](), np.zeros(nodes, dtype=bool)
    for kinds in ORDER:
        here = [by_kind[kind] for kind in kinds if kind in by_kind]
        for kind in kinds:
            if kind in by_kind:
                found[kind] = int((by_kind[kind] & ~refused).sum())
        for mask in here:
            refused = refused | mask
    return +found


def _main_reason(verdict: Verdict, main: Counter[Reason]) -> Reason | None:
    order = list(Reason)
    if main:
        return max(main, key=lambda reason: (main[reason], -order.index(reason)))
    if verdict.counts and not verdict.fits:
        return max(
            (reason for reason in order if verdict.counts[str(reason)]),
            key=lambda reason: verdict.counts[str(reason)],
        )
    return None
