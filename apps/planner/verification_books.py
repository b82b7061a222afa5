"""The checker's own books of one node: who is there, on which devices, and whether a further pod fits.

Written apart from the planner's rooms, on facts alone; opened for the nodes that a plan touches.
Not in here: rules about who may stand beside whom (verification_company), what a plan may do (verification).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from apps.planner.inventory import Node, Pod
from apps.planner.snapshot import Snapshot
from apps.planner.verification_links import has_wish, linked_groups

Seat = tuple[int, int, int]
"""(position of the device, milli, MiB)"""
WHOLE = 1000
MOST_TRIALS = 20_000
TURNS = ("time-slicing", "time-sharing", "mps")


@dataclass(slots=True)
class Body:
    """A pod on the node. chosen: its seats are ours to choose, because it is not there yet."""

    pod: Pod
    seats: tuple[Seat, ...] = ()
    chosen: bool = False


class NodeBook:
    """bodies: by uid, or by any other word for a second body of the same pod. located: whether it is known
    of every pod there which devices it holds."""

    def __init__(self, node: Node, guests: Iterable[Pod], reserving: Iterable[Pod] = ()) -> None:
        self.node = node
        self.bodies: dict[str, Body] = {}
        self.used: Counter[str] = Counter()
        self.ports: Counter[int] = Counter()
        kept = {one.device for one in node.holdings or () if one.kept_by}
        self.left = [
            WHOLE if gpu.healthy and not gpu.instances and gpu.key not in kept else 0 for gpu in node.gpus
        ]
        self.memory: list[int | None] = [gpu.memory_mib for gpu in node.gpus]
        self.located = node.holdings is not None
        present = {pod.uid: pod for pod in guests}
        told = self._seats_told(present)
        for uid in sorted(present):
            self._enter(uid, Body(present[uid], told.get(uid, ())))
        untold = [uid for uid in sorted(present) if uid not in told and self._wanted(present[uid])[0]]
        reserved = {pod.uid: pod for pod in reserving}
        for uid, pod in reserved.items():
            self._enter(uid, Body(pod))
        for uid in (*untold, *reserved):
            self.located = False
            self._seat(uid)

    def leave(self, uid: str) -> None:
        body = self.bodies.pop(uid)
        self._count(body.pod, -1)
        self._use(body.seats, -1)

    def arrive(self, pod: Pod, uid: str = "") -> list[str]:
        """Put the pod there; the faults say what does not fit. uid: of a second body of the same pod."""
        faults = self._shortages(pod)
        word = uid or pod.uid
        self._enter(word, Body(pod, chosen=True))
        if not self._seat(word) and not self._seat_anew():
            faults.append(f"{pod.key} finds no GPUs on {self.node.name}{_linked(pod)}")
        return faults

    def _shortages(self, pod: Pod) -> list[str]:
        node, faults = self.node, []
        for name, amount in pod.requests.items():
            if amount <= 0 or self._is_by_devices_alone(name) or self._is_of_placeholder(pod, name):
                continue
            if self.used[name] + amount > node.allocatable.get(name, 0):
                faults.append(f"{pod.key} needs {name} that {node.name} does not have")
        if "pods" in node.allocatable and len(self.bodies) + 1 > node.allocatable["pods"]:
            faults.append(f"{node.name} takes no further pod")
        if any(self.ports[port] for port in pod.host_ports):
            faults.append(f"a host port of {pod.key} is taken on {node.name}")
        return faults

    def _enter(self, uid: str, body: Body) -> None:
        self.bodies[uid] = body
        self._count(body.pod, 1)
        self._use(body.seats)

    def _count(self, pod: Pod, sign: int) -> None:
        for name, amount in pod.requests.items():
            if not self._is_of_placeholder(pod, name):
                self.used[name] += sign * amount
        for port in pod.host_ports:
            self.ports[port] += sign

    def _is_of_placeholder(self, pod: Pod, resource: str) -> bool:
        return pod.reservation and resource == self.node.gpu_resource

    def _is_by_devices_alone(self, resource: str) -> bool:
        """No number of units limits it: as many are offered as devices stand there."""
        node = self.node
        return resource == node.gpu_resource and node.allocatable.get(resource, 0) <= len(node.gpus)

    def _counts_devices(self) -> bool:
        """Not where turns or MIG instances go by the name of GPUs; shares of memory are on devices."""
        node = self.node
        deals_turns = not node.sharing or node.sharing.lower() in TURNS
        return not deals_turns or node.allocatable.get(node.gpu_resource, 0) <= len(node.gpus)

    def _wanted(self, pod: Pod) -> tuple[int, int]:
        """(number of devices, milli of each)."""
        number = pod.requests.get(self.node.gpu_resource, 0) if self.node.gpu_resource else 0
        if pod.reservation:
            return 0, 0
        # A share of the memory alone takes next to nothing of the cores, yet its card is no longer whole.
        return (max(number, 1), max(pod.gpu_milli, 1)) if pod.gpu_milli < WHOLE else (number, WHOLE)

    def _seats_told(self, present: dict[str, Pod]) -> dict[str, tuple[Seat, ...]]:
        positions = {gpu.key: at for at, gpu in enumerate(self.node.gpus)}
        spare = list(self.left)
        told: dict[str, tuple[Seat, ...]] = {}
        for holding in self.node.holdings or ():
            if holding.device in positions and holding.pod_uid in present:
                at, asked = positions[holding.device], max(holding.milli, 1)
                milli = min(asked, max(spare[at], 0))
                spare[at] -= milli
                seat = (at, milli, self._memory_of(at, asked, holding.memory_mib))
                told[holding.pod_uid] = (*told.get(holding.pod_uid, ()), seat)
        return told

    def _memory_of(self, at: int, milli: int, told: int | None) -> int:
        """MiB that a share takes: as told, else in proportion to its cores."""
        whole = self.node.gpus[at].memory_mib
        return (whole or 0) * milli // WHOLE if told is None or whole is None else told

    def _use(self, seats: Iterable[Seat], sign: int = 1) -> None:
        for at, milli, mib in seats:
            self.left[at] -= sign * milli
            before = self.memory[at]
            self.memory[at] = None if before is None else before - sign * mib

    def _seat(self, uid: str) -> bool:
        """On the tightest devices; a linked group where one is wished for."""
        body = self.bodies[uid]
        for seats in self._options(body.pod):
            body.seats = seats
            self._use(seats)
            return True
        return False

    def _options(self, pod: Pod) -> Iterable[tuple[Seat, ...]]:
        """Ways to give the pod its devices, the tightest first; without end only where links are wished."""
        number, milli = self._wanted(pod)
        if not number or not self._counts_devices():
            yield ()
            return
        fitting = self._fitting(pod, milli)
        withheld = self._withheld() if milli == WHOLE else 0
        if len(fitting) - withheld < number:
            return
        if milli == WHOLE and has_wish(pod) and number > 1:
            taken = any(
                left < WHOLE for left, gpu in zip(self.left, self.node.gpus, strict=True) if gpu.healthy
            )
            if self.located or not taken:
                for group in linked_groups(self.node, sorted(seat[0] for seat in fitting), number, pod.link):
                    yield tuple((at, milli, self._memory_of(at, milli, None)) for at in group)
            return
        if number > 1 or milli == WHOLE:
            yield tuple(fitting[:number])
            return
        tried: set[tuple[int, int | None]] = set()
        for seat in fitting:
            state = self.left[seat[0]], self.memory[seat[0]]
            if state not in tried:
                tried.add(state)
                yield (seat,)

    def _fitting(self, pod: Pod, milli: int) -> list[Seat]:
        share = pod.gpu_memory_mib if milli < WHOLE else None
        found: list[tuple[int, Seat]] = []
        for at, left in enumerate(self.left):
            need, memory = self._memory_of(at, milli, share), self.memory[at]
            suffices = share is None if memory is None else memory >= need
            if left >= milli and suffices:
                found.append((left, (at, milli, need)))
        return [seat for _, seat in sorted(found)]

    def _withheld(self) -> int:
        """Devices that stand in the node but are not offered."""
        standing = sum(1 for gpu in self.node.gpus if gpu.healthy and not gpu.instances)
        return max(0, standing - self.node.allocatable.get(self.node.gpu_resource, 0))

    def _seat_anew(self) -> bool:
        """All whose seats are ours to choose sit down once more, every way tried: the largest first."""
        free = [uid for uid, body in self.bodies.items() if body.chosen]
        for uid in free:
            self._use(self.bodies[uid].seats, -1)
        free.sort(key=lambda uid: (-_bulk(self._wanted(self.bodies[uid].pod)), uid))
        before = {uid: self.bodies[uid].seats for uid in free}
        if _Trial(self, free).run(0):
            return True
        for uid, seats in before.items():
            self.bodies[uid].seats = seats
            self._use(seats)
        return False


class _Trial:
    def __init__(self, book: NodeBook, uids: list[str]) -> None:
        self.book, self.uids, self.trials = book, uids, 0

    def run(self, at: int) -> bool:
        if at == len(self.uids):
            return True
        body = self.book.bodies[self.uids[at]]
        for seats in list(self.book._options(body.pod)):
            self.trials += 1
            if self.trials > MOST_TRIALS:
                return False
            body.seats = seats
            self.book._use(seats)
            if self.run(at + 1):
                return True
            self.book._use(seats, -1)
        body.seats = ()
        return False


class Books:
    """The books of all nodes, each opened when it is asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._books: dict[str, NodeBook] = {}

    def of(self, name: str) -> NodeBook:
        known = self._books.get(name)
        if known is None:
            snapshot = self._snapshot
            guests = [pod for pod in snapshot.pods_on(name) if not pod.hold]
            reserving = snapshot.reserving_by_node.get(name, ())
            known = self._books[name] = NodeBook(snapshot.nodes[name], guests, reserving)
        return known


def _bulk(wanted: tuple[int, int]) -> int:
    return wanted[0] * wanted[1]


def _linked(pod: Pod) -> str:
    return f" tied by {pod.link}" if has_wish(pod) and pod.link is not None else ""
