"""What is left on one node: its devices by cores and memory, its resources, its ports.

Not in here: all nodes together and the way back to a checkpoint (rooms).
"""

from __future__ import annotations

from collections import Counter

from apps.planner import topology
from apps.planner.inventory import Gpu, LinkClass, Node, Pod
from apps.planner.mig.use import single_profile
from apps.planner.resources import Demand
from apps.planner.shares import WHOLE, shares_in_time

Taken = tuple[tuple[int, int, int], ...]
"""(position in node.gpus, milli, MiB) of each device a pod holds; 0 MiB where its memory is not known."""


class Room:
    """The remaining room of one node.

    left: resources but whole GPUs; may be negative (overcommitted). gpu_left: milli left per
    position of node.gpus; 0 where the device cannot be given out whole (unhealthy, cut, kept by a claim).
    memory_left: MiB left per position, None where it is not known. by_device: False where devices are
    shared in time, so that only counts mean something. counts_units: the kubelet deals out units, which
    are a limit (the only one where not by_device). located: whether it is known which devices each pod holds.
    """

    __slots__ = (
        *("node", "left", "gpu_left", "memory_left", "usable", "by_device", "counts_units", "located"),
        *("ports", "pods", "taken"),
    )

    def __init__(self, node: Node) -> None:
        self.node = node
        self.left: dict[str, int] = dict(node.allocatable)
        self.by_device, self.counts_units = True, False
        offered = self.left.pop(node.gpu_resource, 0) if node.gpu_resource else 0
        kept = {one.device for one in node.holdings or () if one.kept_by}
        positions = [
            at
            for at, gpu in enumerate(node.gpus)
            if gpu.healthy and not gpu.instances and gpu.key not in kept
        ]
        if offered > len(node.gpus):
            self.left[node.gpu_resource] = offered
            self.counts_units = True
            if not deals_by_device(node):
                self.by_device, positions = False, []
        self.usable: tuple[int, ...] = tuple(positions)
        self.gpu_left = [WHOLE if at in self.usable else 0 for at in range(len(node.gpus))]
        self.memory_left = [gpu.memory_mib for gpu in node.gpus]
        self.located = node.holdings is not None
        self.ports: Counter[int] = Counter()
        self.pods: dict[str, Pod] = {}
        self.taken: dict[str, Taken] = {}

    def copy(self) -> Room:
        twin = Room.__new__(Room)
        twin.node, twin.usable = self.node, self.usable
        twin.by_device, twin.counts_units, twin.located = self.by_device, self.counts_units, self.located
        twin.left, twin.gpu_left, twin.ports = dict(self.left), list(self.gpu_left), self.ports.copy()
        twin.memory_left = list(self.memory_left)
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
        """The names of the resources that do not suffice, GPUs as "gpu" (as "gpu memory" where only their
        memory is short), ports as "port N"."""
        short = []
        if demand.gpus and not self.has_gpus(demand):
            is_memory = demand.memory_mib is not None and self._has_cores(demand)
            short.append("gpu memory" if is_memory else "gpu")
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
        if self.counts_units and self.left.get(demand.gpu_resource, 0) < demand.gpus:
            return False
        if not self.by_device:
            return demand.milli == WHOLE
        if demand.milli == WHOLE:
            return sum(1 for at in self.usable if self.gpu_left[at] >= WHOLE) >= demand.gpus
        return len(self.fitting_positions(demand)) >= demand.gpus

    def fitting_positions(self, demand: Demand) -> list[int]:
        """Of devices with enough cores and enough memory left; memory that nobody tells is not enough."""
        return [
            at
            for at in self.usable
            if self.gpu_left[at] >= demand.milli and self.has_memory(at, self.memory_left[at], demand)
        ]

    def has_memory(self, at: int, left: int | None, demand: Demand) -> bool:
        if left is None:
            return demand.memory_mib is None
        return left >= memory_of_share(self.node.gpus[at], demand.milli, demand.memory_mib)

    def count_shares(self, demand: Demand, cores: list[int], memory: list[int | None]) -> int:
        """How many pods of such a share fit at once on devices with so much left."""
        counts = [self._count_on(at, demand, cores[at], memory[at]) for at in self.usable]
        if demand.gpus == 1:
            return sum(counts)
        # A pod sits on different devices: n pods fit if, counting n on a device at most, n x gpus do.
        number = sum(counts) // demand.gpus
        while sum(min(count, number) for count in counts) < number * demand.gpus:
            number -= 1
        return number

    def _count_on(self, at: int, demand: Demand, cores: int, memory: int | None) -> int:
        """How many such shares one device holds."""
        most = cores // demand.milli
        each = memory_of_share(self.node.gpus[at], demand.milli, demand.memory_mib)
        if memory is None:
            most = most if demand.memory_mib is None else 0
        elif each:
            most = min(most, max(memory, 0) // each)
        return max(most, 0)

    def _has_cores(self, demand: Demand) -> bool:
        enough = sum(1 for at in self.usable if self.gpu_left[at] >= demand.milli)
        return demand.gpu_resource == self.node.gpu_resource and enough >= demand.gpus

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
            fitting = self.fitting_positions(demand)
            fitting.sort(key=lambda at: (self.gpu_left[at], at))
            chosen: tuple[int, ...] = tuple(fitting[: demand.gpus])
        else:
            free = self.free_positions()
            group: tuple[int, ...] | None = None
            if self.node.topology is not None and 1 <= demand.gpus < len(free):
                group = topology.best_group(self.node, free, demand.gpus, demand.link)
            chosen = group or free[: demand.gpus]
        return tuple(self.take(at, demand.milli, demand.memory_mib) for at in chosen)

    def take(self, at: int, milli: int, memory_mib: int | None = None) -> tuple[int, int, int]:
        """An entry of what is taken."""
        return at, milli, memory_of_share(self.node.gpus[at], milli, memory_mib)

    def add(self, pod: Pod, demand: Demand, taken: Taken) -> None:
        self._count(demand, -1)
        self.shift(taken, -1)
        self.pods[pod.uid] = pod
        self.taken[pod.uid] = taken

    def drop(self, pod: Pod, demand: Demand) -> Taken:
        self._count(demand, 1)
        taken = self.taken.pop(pod.uid)
        self.shift(taken, 1)
        del self.pods[pod.uid]
        return taken

    def shift(self, taken: Taken, sign: int = -1) -> None:
        """Take devices, or give them back."""
        for at, milli, memory in taken:
            self.gpu_left[at] += sign * milli
            left = self.memory_left[at]
            if left is not None:
                self.memory_left[at] = left + sign * memory

    def _count(self, demand: Demand, sign: int) -> None:
        for name, amount in demand.resources:
            self.left[name] = self.left.get(name, 0) + sign * amount
        if "pods" in self.left:
            self.left["pods"] += sign
        if self.counts_units and demand.gpus and demand.gpu_resource == self.node.gpu_resource:
            self.left[demand.gpu_resource] += sign * demand.gpus
        for port in demand.ports:
            self.ports[port] -= sign


def deals_by_device(node: Node) -> bool:
    """Whether its units are shares of cores and memory of certain devices, and no turns or MIG instances."""
    return node.shares_per_gpu > 1 and not shares_in_time(node) and not single_profile(node)


def memory_of_share(gpu: Gpu, milli: int, memory_mib: int | None) -> int:
    """What a share takes of the card's memory: what it names, else as much as of the cores."""
    if gpu.memory_mib is None:
        return 0
    return gpu.memory_mib * milli // WHOLE if memory_mib is None else memory_mib
