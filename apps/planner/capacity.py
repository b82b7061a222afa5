"""What a node could take, as numbers for the program: shapes of pods, capacities, packings.

Shapes are pods that differ in nothing that placement asks. Nodes with equal capacity for the
shapes at hand are one class. Rules between pods are left out here (a relaxation): the board
asks them when the program's answer is put on it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

from apps.planner.inventory import LinkClass, Pod
from apps.planner.placement import Board
from apps.planner.resources import Demand
from apps.planner.rooms import WHOLE, Room
from apps.planner.topology import largest_group

MOST_STATES = 1500
MOST_PACKINGS = 200
FEW_STATES = 250
FEW_SHAPES = 6
"""For a node that stands alone: listing pays only where it is quick, counts do as well."""
MOST_WAYS = 130
"""To sit down with parts of several GPUs: two of sixteen, four of nine."""
MANY = 10**6
"""As many as nobody asks for."""
Packing = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """pod: any one of that shape, to ask rules with. besides: amounts of what is no resource, but runs out
    on a node in the same way (a host port, the one place for pods that keep each other away)."""

    key: Hashable
    demand: Demand
    pod: Pod
    besides: tuple[tuple[str, int], ...] = ()

    def amount(self, name: str, by_device: bool = True) -> int:
        """Of a resource, of pods, or of what is counted besides."""
        found = next((amount for key, amount in self.besides if key == name), 0)
        return found or amount_of(self.demand, name, by_device)

    @property
    def is_share(self) -> bool:
        return 0 < self.demand.milli < WHOLE


@dataclass(frozen=True, slots=True)
class Capacity:
    """What arrivals of the shapes at hand meet on a node.

    devices: milli left, sorted, of the GPUs (empty if shared in time). left: amounts of the
    resources that could run short, others are left out. most: per shape, how many fit alone.
    """

    devices: tuple[int, ...]
    left: tuple[tuple[str, int], ...]
    most: tuple[int, ...]

    @property
    def is_useless(self) -> bool:
        return not any(self.most)

    @property
    def free_gpus(self) -> int:
        return sum(1 for milli in self.devices if milli == WHOLE)


def shape_key(board: Board, pod: Pod) -> Hashable:
    """Pods with rules about neighbours are shapes of their own, by their labels and rules; others by the
    rules that speak of them."""
    rules: Hashable = board.fitting.shunned_by(pod)
    if pod.pod_affinity or pod.pod_anti_affinity or pod.spread:
        rules = (
            pod.namespace,
            tuple(sorted(pod.labels.items())),
            pod.pod_affinity,
            pod.pod_anti_affinity,
            pod.spread,
        )
    return (board.shape(pod), rules)


def capacity_of(
    room: Room, shapes: Sequence[Shape], allowed: Sequence[bool], keep_all: bool = False
) -> Capacity:
    """Exact for each shape alone; what cannot bind is left out, so that more nodes look alike.

    keep_all: leave nothing out, since others will start there too.
    """
    most = tuple(
        count_alone(room, shape.demand) if may else 0 for shape, may in zip(shapes, allowed, strict=True)
    )
    names = sorted({name for shape in shapes for name, _ in shape.demand.resources} | {"pods"})
    left: list[tuple[str, int]] = []
    for name in names:
        if name == "pods" and "pods" not in room.left:
            continue
        have = room.left.get(name, 0)
        could_use = _most_used(room, shapes, most, name)
        if keep_all or could_use > have:
            left.append((name, max(have, 0)))
    shares = any(shape.is_share and count for shape, count in zip(shapes, most, strict=True))
    return describe_capacity(room, left, most, shares or keep_all)


def describe_capacity(
    room: Room, left: list[tuple[str, int]], most: tuple[int, ...], fractions: bool
) -> Capacity:
    """left: of what could run short. fractions: whether parts of devices count, or only whole ones."""
    if not room.by_device and room.node.gpu_resource:
        left = [*left, (room.node.gpu_resource, max(room.left.get(room.node.gpu_resource, 0), 0))]
    devices = tuple(sorted(room.gpu_left[at] for at in room.usable)) if room.by_device else ()
    if not fractions:
        devices = tuple(milli for milli in devices if milli == WHOLE)
    return Capacity(devices, tuple(left), most)


def count_alone(room: Room, demand: Demand) -> int:
    """How many pods of one demand fit on the node, were no others to come."""
    if not room.fits(demand):
        return 0
    most = [room.left.get(name, 0) // amount for name, amount in demand.resources]
    if "pods" in room.left:
        most.append(room.left["pods"])
    if demand.ports:
        most.append(1)
    if demand.gpus:
        most.append(count_by_devices(room, demand))
    return min(most, default=MANY)


def count_by_devices(room: Room, demand: Demand) -> int:
    """As `count_alone`, as far as the GPUs are concerned; the make of the GPUs is not asked."""
    most = MANY
    if room.counts_units:
        most = max(room.left.get(demand.gpu_resource, 0), 0) // demand.gpus
    if not room.by_device:
        return most
    if demand.milli < WHOLE:
        return min(most, room.count_shares(demand, room.gpu_left, room.memory_left))
    free = room.free_positions()
    linked = len(free)
    if demand.link not in (None, LinkClass.NODE):
        assert demand.link is not None
        linked = max(largest_group(room.node, free, demand.link), len(free) if demand.gpus == 1 else 0)
    return min(most, len(free) // demand.gpus if linked >= demand.gpus else 0)


def amount_of(demand: Demand, name: str, by_device: bool = True) -> int:
    if name == "pods":
        return 1
    if name == demand.gpu_resource and not by_device:
        return demand.gpus
    return next((amount for key, amount in demand.resources if key == name), 0)


def list_packings(
    capacity: Capacity, shapes: Sequence[Shape], most_states: int = MOST_STATES
) -> list[Packing] | None:
    """The maximal sets of arrivals, as counts per shape; None if they are too many to list.

    Exact in cores: parts of one GPU or of several are tried on all devices that differ. Memory of shares is
    left out.
    """
    order = [at for at, count in enumerate(capacity.most) if count]
    order.sort(key=lambda at: (-shapes[at].demand.gpu_milli, at))
    amounts = tuple(
        tuple(shape.amount(name, bool(capacity.devices)) for name, _ in capacity.left) for shape in shapes
    )
    if any(_ways(shapes[at], capacity) > MOST_WAYS for at in order):
        return None
    found: set[Packing] = set()
    seen: set[tuple[int, tuple[int, ...], tuple[int, ...], Packing]] = set()
    stack = [(0, capacity.devices, tuple(amount for _, amount in capacity.left), (0,) * len(shapes))]
    while stack:
        state = stack.pop()
        if state in seen:
            continue
        seen.add(state)
        if len(seen) > most_states:
            return None
        step, devices, left, packing = state
        if step == len(order):
            more = (at for at in order if packing[at] < capacity.most[at])
            if not any(_take(shapes[at].demand, amounts[at], devices, left) for at in more):
                found.add(packing)
            continue
        at = order[step]
        stack.append((step + 1, devices, left, packing))
        if packing[at] >= capacity.most[at]:
            continue
        after = _take(shapes[at].demand, amounts[at], devices, left)
        grown = (*packing[:at], packing[at] + 1, *packing[at + 1 :])
        stack.extend((step, rest, spare, grown) for rest, spare in after)
    maximal = keep_maximal(found)
    return maximal if len(maximal) <= MOST_PACKINGS else None


def _ways(shape: Shape, capacity: Capacity) -> int:
    """In how many ways a pod may sit down on the devices, at most."""
    return comb(len(capacity.devices), shape.demand.gpus) if shape.is_share else 1


def keep_maximal(packings: set[Packing]) -> list[Packing]:
    kept: list[Packing] = []
    for packing in sorted(packings, key=lambda one: (-sum(one), one)):
        if any(packing) and not any(
            all(a <= b for a, b in zip(packing, other, strict=True)) for other in kept
        ):
            kept.append(packing)
    return sorted(kept, reverse=True)


def _take(
    demand: Demand, amounts: tuple[int, ...], devices: tuple[int, ...], left: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every different state after one more arrival of that demand. amounts: that it takes of what is left."""
    spare = tuple([have - amount for have, amount in zip(left, amounts, strict=True)])
    if spare and min(spare) < 0:
        return []
    if not demand.gpus or not devices:
        return [(devices, spare)]
    if demand.milli < WHOLE:
        return [(rest, spare) for rest in _after_parts(demand, devices)]
    fitting = [at for at, milli in enumerate(devices) if milli >= demand.milli][-demand.gpus :]
    if len(fitting) < demand.gpus:
        return []
    rest = [milli - demand.milli if at in fitting else milli for at, milli in enumerate(devices)]
    return [(tuple(sorted(rest)), spare)]


def _after_parts(demand: Demand, devices: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Devices after a part was taken of as many as are asked, in every way that makes a difference."""
    fitting = [milli for milli in devices if milli >= demand.milli]
    states = []
    for chosen in sorted(set(combinations(fitting, demand.gpus))):
        rest = list(devices)
        for milli in chosen:
            rest.remove(milli)
        states.append(tuple(sorted([*rest, *(milli - demand.milli for milli in chosen)])))
    return states


def _most_used(room: Room, shapes: Sequence[Shape], most: Sequence[int], name: str) -> int:
    """An upper bound on what all arrivals together could use of a resource, from the GPUs they need."""
    idle = room.idle_milli if room.by_device else 0
    rates: list[float] = []
    free = 0
    for shape, count in zip(shapes, most, strict=True):
        amount = amount_of(shape.demand, name) if count else 0
        if not amount:
            continue
        if shape.demand.gpu_milli and room.by_device:
            rates.append(amount / shape.demand.gpu_milli)
        else:
            free += amount * count
    return free + int(max(rates, default=0.0) * idle + 0.999999)
