"""The checker's own books: who is where, on which devices, and whether that fits each node.

Written apart from the planner's rooms. Not in here: what a plan may do (verification).
"""

from __future__ import annotations

from collections import defaultdict

from apps.planner.inventory import Node, Pod
from apps.planner.snapshot import Snapshot

Seat = tuple[int, int, int]
"""(position of the device, milli, MiB)"""


class Ledger:
    """Who is where, and whether that fits each node. Its own arithmetic."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.placed: dict[str, str] = {}
        self.shy: dict[str, str] = {}
        self.on_node: dict[str, dict[str, Pod]] = defaultdict(dict)
        self.devices: dict[str, list[int]] = {}
        self.memory: dict[str, list[int | None]] = {}
        self.held: dict[str, list[Seat]] = {}
        for node in snapshot.nodes.values():
            kept = {one.device for one in node.holdings or () if one.kept_by}
            self.devices[node.name] = [
                1000 if gpu.healthy and not gpu.instances and gpu.key not in kept else 0 for gpu in node.gpus
            ]
            self.memory[node.name] = [gpu.memory_mib for gpu in node.gpus]
        for pod in snapshot.pods.values():
            if pod.is_holding and not pod.hold and pod.node_name in snapshot.nodes:
                self._note(pod, pod.node_name)
                self.on_node[pod.node_name][pod.uid] = pod
        for node in snapshot.nodes.values():
            self._seat_known(node)
            for uid in sorted(self.on_node[node.name]):
                if uid not in self.held:
                    self._seat(node, self.on_node[node.name][uid])
        self._keep_reserved()

    def _keep_reserved(self) -> None:
        """Room that another migration holds on paper is as good as taken."""
        for pod in self.snapshot.pods.values():
            node = self.snapshot.nodes.get(pod.nominated_node)
            if node is None or pod.node_name or pod.terminating or not (pod.hold or pod.steering):
                continue
            self.on_node[node.name][pod.uid] = pod
            self._seat(node, pod)

    def leave(self, pod: Pod) -> None:
        name = self.placed.pop(pod.uid)
        self.shy.pop(pod.uid, None)
        del self.on_node[name][pod.uid]
        for seat in self.held.pop(pod.uid, []):
            self._use(name, seat, -1)

    def arrive(self, pod: Pod, node: Node, *, alias: str = "") -> list[str]:
        """Put the pod there; the faults say what does not fit. alias: a second body of the same pod."""
        faults = self.overfull(pod, node)
        uid = alias or pod.uid
        self.on_node[node.name][uid] = pod
        if not alias:
            self._note(pod, node.name)
        if not self._seat(node, pod, uid):
            faults.append(f"{pod.key} finds no GPUs on {node.name}")
        return faults

    def _note(self, pod: Pod, name: str) -> None:
        self.placed[pod.uid] = name
        if pod.pod_anti_affinity:
            self.shy[pod.uid] = name

    def overfull(self, pod: Pod, node: Node) -> list[str]:
        faults = []
        guests = self.on_node[node.name].values()
        for name, amount in pod.requests.items():
            if amount <= 0 or self._is_by_devices_alone(node, name) or _is_of_placeholder(pod, node, name):
                continue
            used = sum(
                guest.requests.get(name, 0) for guest in guests if not _is_of_placeholder(guest, node, name)
            )
            if used + amount > node.allocatable.get(name, 0):
                faults.append(f"{pod.key} needs {name} that {node.name} does not have")
        if "pods" in node.allocatable and len(guests) + 1 > node.allocatable["pods"]:
            faults.append(f"{node.name} takes no further pod")
        if set(pod.host_ports) & {port for guest in guests for port in guest.host_ports}:
            faults.append(f"a host port of {pod.key} is taken on {node.name}")
        return faults

    def _is_by_devices_alone(self, node: Node, resource: str) -> bool:
        """No number of units limits it: as many are offered as devices stand there."""
        return resource == node.gpu_resource and node.allocatable.get(resource, 0) <= len(node.gpus)

    def _counts_devices(self, node: Node) -> bool:
        """Not where turns or MIG instances go by the name of GPUs; shares of memory are on devices."""
        deals_turns = not node.sharing or node.sharing.lower() in ("time-slicing", "time-sharing", "mps")
        return not deals_turns or node.allocatable.get(node.gpu_resource, 0) <= len(node.gpus)

    def _wanted(self, pod: Pod, node: Node) -> tuple[int, int]:
        number = pod.requests.get(node.gpu_resource, 0) if node.gpu_resource else 0
        if pod.reservation:
            return 0, 0
        # A share of the memory alone takes next to nothing of the cores, yet its card is no longer whole.
        return (max(number, 1), max(pod.gpu_milli, 1)) if pod.gpu_milli < 1000 else (number, 1000)

    def _withheld(self, node: Node) -> int:
        """Devices that stand in the node but are not offered."""
        standing = sum(1 for gpu in node.gpus if gpu.healthy and not gpu.instances)
        return max(0, standing - node.allocatable.get(node.gpu_resource, 0))

    def _seat_known(self, node: Node) -> None:
        positions = {gpu.key: at for at, gpu in enumerate(node.gpus)}
        for holding in node.holdings or ():
            if holding.device in positions and holding.pod_uid in self.on_node[node.name]:
                at = positions[holding.device]
                milli = min(max(holding.milli, 1), max(self.devices[node.name][at], 0))
                seat = (at, milli, _memory_of(node, at, max(holding.milli, 1), holding.memory_mib))
                self._use(node.name, seat)
                self.held.setdefault(holding.pod_uid, []).append(seat)

    def _seat(self, node: Node, pod: Pod, uid: str = "") -> bool:
        number, milli = self._wanted(pod, node)
        if not number or not self._counts_devices(node):
            return True
        share = pod.gpu_memory_mib if milli < 1000 else None
        left, memory = self.devices[node.name], self.memory[node.name]
        needs = [_memory_of(node, at, milli, share) for at in range(len(left))]
        fitting = sorted(
            (amount, at)
            for at, amount in enumerate(left)
            if amount >= milli and _suffices(memory[at], needs[at], share)
        )
        if len(fitting) - (self._withheld(node) if milli == 1000 else 0) < number:
            return False
        for _, at in fitting[:number]:
            self._use(node.name, (at, milli, needs[at]))
            self.held.setdefault(uid or pod.uid, []).append((at, milli, needs[at]))
        return True

    def _use(self, name: str, seat: Seat, sign: int = 1) -> None:
        at, milli, mib = seat
        self.devices[name][at] -= sign * milli
        before = self.memory[name][at]
        self.memory[name][at] = None if before is None else before - sign * mib


def _memory_of(node: Node, at: int, milli: int, told: int | None) -> int:
    """MiB that a share takes: as told, else in proportion to its cores."""
    whole = node.gpus[at].memory_mib
    return (whole or 0) * milli // 1000 if told is None or whole is None else told


def _suffices(left: int | None, need: int, told: int | None) -> bool:
    return told is None if left is None else left >= need


def _is_of_placeholder(pod: Pod, node: Node, resource: str) -> bool:
    return pod.reservation and resource == node.gpu_resource
