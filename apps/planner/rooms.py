"""All nodes' rooms: the mutable model that placements are tried on, with a way back to a checkpoint.

One account per device: whole GPUs, shares of cores and memory and MIG devices of the same card are never
sold twice. Not in here: one node's arithmetic (room), rules about who may go where (fitting), which GPUs
belong together (topology), what to move (defrag).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from apps.planner.company import Company
from apps.planner.inventory import Node, Pod
from apps.planner.resources import LEAST, Demand, asks_gpu, demand_of
from apps.planner.room import WHOLE, Room, Taken
from apps.planner.shares import asked_of
from apps.planner.snapshot import Snapshot

__all__ = ["WHOLE", "Change", "Room", "Rooms", "Taken", "free_room", "is_free_node", "is_open_node"]


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the journal: the pod came to (sign +1) or left (-1) the node."""

    sign: int
    node_name: str
    pod: Pod
    taken: Taken


class Rooms:
    """All nodes' rooms, with a journal to go back by."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.gpu_names = frozenset(node.gpu_resource for node in snapshot.nodes.values() if node.gpu_resource)
        self.by_node: dict[str, Room] = {name: Room(snapshot.nodes[name]) for name in sorted(snapshot.nodes)}
        self.where: dict[str, str] = {}
        self._demands: dict[str, Demand] = {}
        self._shared: dict[tuple[object, ...], Demand] = {}
        self._journal: list[Change] = []
        self._company: Company | None = None
        for name, room in self.by_node.items():
            self._settle(name, room)
        self._journal.clear()

    def copy(self) -> Rooms:
        twin = Rooms.__new__(Rooms)
        twin.snapshot, twin.gpu_names = self.snapshot, self.gpu_names
        twin.by_node = {name: room.copy() for name, room in self.by_node.items()}
        twin.where, twin._company = dict(self.where), None
        twin._demands, twin._shared, twin._journal = self._demands, self._shared, []
        return twin

    def demand(self, pod: Pod) -> Demand:
        known = self._demands.get(pod.uid)
        if known is None:
            signature = (
                tuple(sorted(pod.requests.items())),
                *(pod.gpu_milli, pod.gpu_memory_mib, pod.reservation, pod.link, pod.host_ports),
            )
            known = self._shared.get(signature)
            if known is None:
                known = self._shared[signature] = demand_of(pod, self.gpu_names)
            self._demands[pod.uid] = known
        return known

    def fits(self, pod: Pod, node_name: str) -> bool:
        return self.by_node[node_name].fits(self.demand(pod))

    def place(self, pod: Pod, node_name: str, taken: Taken | None = None) -> None:
        room, demand = self.by_node[node_name], self.demand(pod)
        devices = room.choose_devices(demand) if taken is None else taken
        room.add(pod, demand, devices)
        self._note(Change(1, node_name, pod, devices))

    def remove(self, pod: Pod) -> None:
        node_name = self.where[pod.uid]
        self._note(Change(-1, node_name, pod, self.by_node[node_name].drop(pod, self.demand(pod))))

    @property
    def company(self) -> Company:
        """Who is in whose company; counted from the first question on."""
        if self._company is None:
            placed = [(self.by_node[name].pods[uid], name) for uid, name in self.where.items()]
            self._company = Company(self.snapshot.nodes, placed)
        return self._company

    def checkpoint(self) -> int:
        return len(self._journal)

    def undo(self, mark: int) -> None:
        """Back to the state of that checkpoint."""
        while len(self._journal) > mark:
            change = self._journal.pop()
            room = self.by_node[change.node_name]
            if change.sign > 0:
                room.drop(change.pod, self.demand(change.pod))
            else:
                room.add(change.pod, self.demand(change.pod), change.taken)
            self._track(change.pod, change.node_name, -change.sign)

    def _note(self, change: Change) -> None:
        self._journal.append(change)
        self._track(change.pod, change.node_name, change.sign)

    def _track(self, pod: Pod, node_name: str, sign: int) -> None:
        if sign > 0:
            self.where[pod.uid] = node_name
        else:
            del self.where[pod.uid]
        if self._company is not None:
            self._company.note(pod, node_name, sign)

    def _settle(self, name: str, room: Room) -> None:
        """Put the pods that run there: those with known devices first, the others beside them."""
        known = _held_devices(room)
        waiting: list[tuple[Pod, Taken, int]] = []
        for pod in self.snapshot.pods_on(name):
            if pod.hold:
                continue
            seats, told = known.get(pod.uid, ((), 0))
            taken = _clamped(room, seats)
            asked = asked_of(room.node, pod).devices if room.by_device else 0
            if taken is None or asked > told:
                waiting.append((pod, taken or (), asked if taken is None else asked - told))
            else:
                self.place(pod, name, taken)
        waiting.sort(key=lambda entry: (-self.demand(entry[0]).gpu_milli, entry[0].uid))
        for pod, taken, missing in waiting:
            # Which devices the kubelet gave it is not known, or not of all of them.
            room.located = False
            taken = _clamped(room, taken) or ()
            self.place(pod, name, (*taken, *_seats_for(room, pod, missing, taken)))
        for pod in self.snapshot.reserving_by_node.get(name, ()):
            room.located = False
            self.place(pod, name)
        _retire_devices(room)


def free_room(snapshot: Snapshot) -> Rooms:
    """The remaining room of every node, as the snapshot tells it."""
    return Rooms(snapshot)


def _held_devices(room: Room) -> Mapping[str, tuple[Taken, int]]:
    """By pod: its seats on devices that are in use, and of how many devices a source tells in all."""
    if not room.node.holdings or not room.by_device:
        return {}
    position = {gpu.key: at for at, gpu in enumerate(room.node.gpus)}
    held: dict[str, list[tuple[int, int, int]]] = {}
    told: Counter[str] = Counter()
    for holding in room.node.holdings:
        at = position.get(holding.device)
        if at is None:
            continue
        told[holding.pod_uid] += 1
        if at in room.usable:
            milli = max(holding.milli, LEAST)
            held.setdefault(holding.pod_uid, []).append(room.take(at, milli, holding.memory_mib))
    return {uid: (tuple(sorted(held.get(uid, ()))), count) for uid, count in told.items()}


def _clamped(room: Room, seats: Taken) -> Taken | None:
    """No device gives more than it has. None where another has the whole of it: the sources err."""
    taken: list[tuple[int, int, int]] = []
    spare = {at: room.gpu_left[at] for at, _, _ in seats}
    for at, milli, memory in seats:
        if milli >= WHOLE and taken and taken[-1][0] == at:
            continue  # two containers of one pod on the same whole device
        if milli >= WHOLE > spare[at]:
            return None
        given = min(milli, spare[at])
        spare[at] -= given
        taken.append((at, given, memory))
    return tuple(taken)


def _seats_for(room: Room, pod: Pod, missing: int, taken: Taken) -> Taken:
    """Devices for what nobody places, as many as are left beside those that it is known to have."""
    asked = asked_of(room.node, pod)
    milli = max(asked.milli, LEAST)
    demand = Demand(
        gpu_resource=room.node.gpu_resource, gpus=missing, milli=milli, memory_mib=asked.memory_mib
    )
    left = {at: room.gpu_left[at] for at, _, _ in taken}
    for at in left:
        room.gpu_left[at] = 0
    found = room.choose_devices(demand)
    for at, milli in left.items():
        room.gpu_left[at] = milli
    return found


def _retire_devices(room: Room) -> None:
    """Where the node offers fewer whole GPUs than stand in it, free ones are not given out."""
    if not room.by_device:
        return
    offered = room.node.allocatable.get(room.node.gpu_resource, 0)
    if room.counts_units:
        offered = -(-offered // room.node.shares_per_gpu)
    surplus = len(room.usable) - offered
    for at in reversed(room.usable):
        if surplus <= 0:
            break
        if room.gpu_left[at] == WHOLE:
            room.gpu_left[at] = 0
            surplus -= 1
            room.usable = tuple(position for position in room.usable if position != at)


def is_open_node(node: Node) -> bool:
    """Ready, fresh and not cordoned: a node that pods may be planned onto."""
    return node.ready and node.stale_since is None and not node.unschedulable


def is_free_node(snapshot: Snapshot, node: Node) -> bool:
    """A GPU node that is open and on which no pod asks for GPUs (CPU pods do not count)."""
    return (
        bool(node.gpus)
        and is_open_node(node)
        and not any(asks_gpu(pod) for pod in snapshot.pods_on(node.name) if not pod.hold)
    )
