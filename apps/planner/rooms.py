"""What is left on each node, and the mutable model that placements are tried on.

One ledger per device: whole GPUs, fractions and MIG devices of the same card are never sold
twice. A `Rooms` can go back to a checkpoint. Not in here: rules about who may go where
(fitting), which GPUs belong together (topology), what to move (defrag).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from apps.planner import topology
from apps.planner.inventory import LinkClass, Node, Pod
from apps.planner.resources import Demand, asks_gpu, demand_of
from apps.planner.snapshot import Snapshot

WHOLE = 1000
Taken = tuple[tuple[int, int], ...]
"""(position in node.gpus, milli) of each device a pod holds."""


class Room:
    """The remaining room of one node.

    left: resources but whole GPUs; may be negative (overcommitted). gpu_left: milli left per
    position of node.gpus; 0 where the device cannot be given out whole (unhealthy, cut by MIG).
    by_device: False where devices are shared in time, so that only counts mean something.
    located: whether it is known which devices each pod holds.
    """

    __slots__ = ("node", "left", "gpu_left", "usable", "by_device", "located", "ports", "pods", "taken")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.left: dict[str, int] = dict(node.allocatable)
        self.by_device = True
        offered = self.left.pop(node.gpu_resource, 0) if node.gpu_resource else 0
        positions = [at for at, gpu in enumerate(node.gpus) if gpu.healthy and not gpu.instances]
        if offered > len(node.gpus):
            self.by_device, positions = False, []
            self.left[node.gpu_resource] = offered
        self.usable: tuple[int, ...] = tuple(positions)
        self.gpu_left = [WHOLE if at in self.usable else 0 for at in range(len(node.gpus))]
        self.located = node.holdings is not None
        self.ports: Counter[int] = Counter()
        self.pods: dict[str, Pod] = {}
        self.taken: dict[str, Taken] = {}

    def copy(self) -> Room:
        twin = Room.__new__(Room)
        twin.node, twin.usable = self.node, self.usable
        twin.by_device, twin.located = self.by_device, self.located
        twin.left, twin.gpu_left, twin.ports = dict(self.left), list(self.gpu_left), self.ports.copy()
        twin.pods, twin.taken = dict(self.pods), dict(self.taken)
        return twin

    def free_positions(self) -> tuple[int, ...]:
        return tuple(at for at in self.usable if self.gpu_left[at] == WHOLE)

    @property
    def free_gpus(self) -> int:
        return len(self.free_positions())

    @property
    def idle_milli(self) -> int:
        return sum(self.gpu_left)

    @property
    def pods_left(self) -> int | None:
        return self.left.get("pods")

    def shortages(self, demand: Demand) -> list[str]:
        """The names of the resources that do not suffice, GPUs as "gpu", ports as "port N"."""
        short = ["gpu"] if demand.gpus and not self.has_gpus(demand) else []
        short.extend(name for name, amount in demand.resources if self.left.get(name, 0) < amount)
        if self.left.get("pods", 1) < 1:
            short.append("pods")
        short.extend(f"port {port}" for port in demand.ports if self.ports[port])
        return short

    def fits(self, demand: Demand) -> bool:
        left = self.left
        for name, amount in demand.resources:
            if left.get(name, 0) < amount:
                return False
        if left.get("pods", 1) < 1 or (demand.ports and any(self.ports[port] for port in demand.ports)):
            return False
        if not demand.gpus:
            return True
        return self.has_gpus(demand) and (demand.link is None or self.has_group(demand))

    def has_gpus(self, demand: Demand) -> bool:
        if demand.gpu_resource != self.node.gpu_resource:
            return False
        if not self.by_device:
            return demand.milli == WHOLE and self.left.get(demand.gpu_resource, 0) >= demand.gpus
        return sum(1 for at in self.usable if self.gpu_left[at] >= demand.milli) >= demand.gpus

    def has_group(self, demand: Demand) -> bool:
        """Whether free GPUs with the wanted links remain; unknown links or holdings are a no."""
        if demand.link in (None, LinkClass.NODE):
            return True
        assert demand.link is not None
        free = self.free_positions()
        if not self.located and len(free) < len(self.usable):
            return False
        return topology.largest_group(self.node, free, demand.link) >= demand.gpus

    def choose_devices(self, demand: Demand) -> Taken:
        """A fraction goes to the tightest device, whole GPUs to the best linked group."""
        if not demand.gpus or not self.by_device or demand.gpu_resource != self.node.gpu_resource:
            return ()
        if demand.milli < WHOLE:
            fitting = [at for at in self.usable if self.gpu_left[at] >= demand.milli]
            fitting.sort(key=lambda at: (self.gpu_left[at], at))
            return tuple((at, demand.milli) for at in fitting[: demand.gpus])
        free = self.free_positions()
        group: tuple[int, ...] | None = None
        if self.node.topology is not None and 1 <= demand.gpus < len(free):
            group = topology.best_group(self.node, free, demand.gpus, demand.link)
        return tuple((at, WHOLE) for at in (group or free[: demand.gpus]))

    def add(self, pod: Pod, demand: Demand, taken: Taken) -> None:
        self._count(demand, -1)
        for at, milli in taken:
            self.gpu_left[at] -= milli
        self.pods[pod.uid] = pod
        self.taken[pod.uid] = taken

    def drop(self, pod: Pod, demand: Demand) -> Taken:
        self._count(demand, 1)
        taken = self.taken.pop(pod.uid)
        for at, milli in taken:
            self.gpu_left[at] += milli
        del self.pods[pod.uid]
        return taken

    def _count(self, demand: Demand, sign: int) -> None:
        for name, amount in demand.resources:
            self.left[name] = self.left.get(name, 0) + sign * amount
        if "pods" in self.left:
            self.left["pods"] += sign
        if not self.by_device and demand.gpus and demand.gpu_resource == self.node.gpu_resource:
            self.left[demand.gpu_resource] += sign * demand.gpus
        for port in demand.ports:
            self.ports[port] -= sign


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
        self.anti_pods: dict[str, str] = {}
        self.where: dict[str, str] = {}
        self._demands: dict[str, Demand] = {}
        self._shared: dict[tuple[object, ...], Demand] = {}
        self._journal: list[Change] = []
        for name, room in self.by_node.items():
            self._settle(name, room)
        self._journal.clear()

    def copy(self) -> Rooms:
        twin = Rooms.__new__(Rooms)
        twin.snapshot, twin.gpu_names = self.snapshot, self.gpu_names
        twin.by_node = {name: room.copy() for name, room in self.by_node.items()}
        twin.anti_pods, twin.where = dict(self.anti_pods), dict(self.where)
        twin._demands, twin._shared, twin._journal = self._demands, self._shared, []
        return twin

    def demand(self, pod: Pod) -> Demand:
        known = self._demands.get(pod.uid)
        if known is None:
            signature = (tuple(sorted(pod.requests.items())), pod.gpu_milli, pod.link, pod.host_ports)
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
            if pod.pod_anti_affinity:
                self.anti_pods[pod.uid] = node_name
        else:
            del self.where[pod.uid]
            self.anti_pods.pop(pod.uid, None)

    def _settle(self, name: str, room: Room) -> None:
        """Put the pods that run there: those with known devices first, the others beside them."""
        known = _held_devices(room)
        waiting: list[Pod] = []
        for pod in self.snapshot.pods_on(name):
            if pod.hold:
                continue
            demand = self.demand(pod)
            taken = known.get(pod.uid, ())
            if not demand.gpus or not room.by_device or demand.gpu_resource != room.node.gpu_resource:
                self.place(pod, name, ())
            elif taken and all(room.gpu_left[at] >= milli for at, milli in taken):
                self.place(pod, name, taken)
            else:
                waiting.append(pod)
        waiting.sort(key=lambda pod: (-self.demand(pod).gpu_milli, pod.uid))
        for pod in (*waiting, *self.snapshot.reserving_by_node.get(name, ())):
            # Which devices the kubelet gave it, or will give it, is not known.
            room.located = False
            self.place(pod, name)
        _retire_devices(room)


def free_room(snapshot: Snapshot) -> Rooms:
    """The remaining room of every node, as the snapshot tells it."""
    return Rooms(snapshot)


def _held_devices(room: Room) -> Mapping[str, Taken]:
    if not room.node.holdings or not room.by_device:
        return {}
    position = {gpu.uuid: at for at, gpu in enumerate(room.node.gpus) if gpu.uuid}
    held: dict[str, list[tuple[int, int]]] = {}
    for holding in room.node.holdings:
        at = position.get(holding.device)
        if at is not None and at in room.usable:
            held.setdefault(holding.pod_uid, []).append((at, holding.milli))
    return {uid: tuple(sorted(devices)) for uid, devices in held.items()}


def _retire_devices(room: Room) -> None:
    """Where the node offers fewer whole GPUs than stand in it, free ones are not given out."""
    if not room.by_device:
        return
    surplus = len(room.usable) - room.node.allocatable.get(room.node.gpu_resource, 0)
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
