"""Every plan of a tiny cluster, tried one by one: what the planner must reach.

Its own arithmetic on the drawing's terms (GPUs, shares, CPU), nothing of the planner's.
"""

from __future__ import annotations

from itertools import combinations

from apps.planner.inventory import Pod
from apps.planner.snapshot import Snapshot
from tests.drawing import GPU


class Tiny:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.names = sorted(snapshot.nodes)
        self.devices = {name: [1000] * len(snapshot.nodes[name].gpus) for name in self.names}
        self.cpu = {name: snapshot.nodes[name].allocatable["cpu"] for name in self.names}
        self.guests: dict[str, list[Pod]] = {name: [] for name in self.names}
        positions = {gpu.uuid: at for node in snapshot.nodes.values() for at, gpu in enumerate(node.gpus)}
        self.seats = {
            pod.uid: [
                (positions[one.device], one.milli)
                for one in snapshot.nodes[pod.node_name].holdings or ()
                if one.pod_uid == pod.uid
            ]
            for pod in snapshot.pods.values()
            if pod.node_name
        }
        for pod in snapshot.pods.values():
            if pod.node_name:
                self.guests[pod.node_name].append(pod)
                self.cpu[pod.node_name] -= pod.requests["cpu"]
                for at, milli in self.seats[pod.uid]:
                    self.devices[pod.node_name][at] -= milli

    def asks(self, pod: Pod) -> bool:
        return GPU in pod.requests

    def was_free(self, name: str) -> bool:
        return not any(self.asks(pod) for pod in self.guests[name])

    def can_host_all(self, pods: list[Pod], targets: list[str]) -> bool:
        """Whether all pods fit on the targets at once, beside what runs there now."""
        if not pods:
            return True
        pod, rest = pods[0], pods[1:]
        tried = set()
        for name in targets:
            for seats in self.seatings(pod, self.devices[name]):
                state = (name, tuple(sorted(self._after(name, seats))))
                if self.cpu[name] < pod.requests["cpu"] or state in tried:
                    continue
                tried.add(state)
                self._sit(name, pod, seats, 1)
                fits = self.can_host_all(rest, targets)
                self._sit(name, pod, seats, -1)
                if fits:
                    return True
        return False

    def seatings(self, pod: Pod, devices: list[int]) -> list[list[tuple[int, int]]]:
        count = pod.requests.get(GPU, 0)
        fitting = [at for at, left in enumerate(devices) if left >= pod.gpu_milli]
        if count > 1 or pod.gpu_milli == 1000:
            return [[(at, 1000) for at in fitting[:count]]] if len(fitting) >= count else []
        return [[(at, pod.gpu_milli)] for at in fitting]

    def _after(self, name: str, seats: list[tuple[int, int]]) -> list[int]:
        left = list(self.devices[name])
        for at, milli in seats:
            left[at] -= milli
        return left

    def _sit(self, name: str, pod: Pod, seats: list[tuple[int, int]], sign: int) -> None:
        self.cpu[name] -= sign * pod.requests["cpu"]
        for at, milli in seats:
            self.devices[name][at] -= sign * milli


def best_freeing(snapshot: Snapshot, max_moves: int) -> tuple[int, int]:
    """(most nodes freed, fewest moves for that many)."""
    tiny = Tiny(snapshot)
    candidates = [
        name
        for name in tiny.names
        if not tiny.was_free(name) and not any(pod.protections for pod in tiny.guests[name] if tiny.asks(pod))
    ]
    for number in range(len(candidates), 0, -1):
        fewest = None
        for sources in combinations(candidates, number):
            pods = [pod for name in sources for pod in tiny.guests[name] if tiny.asks(pod)]
            targets = [name for name in tiny.names if name not in sources and not tiny.was_free(name)]
            better = fewest is None or len(pods) < fewest
            if len(pods) <= max_moves and better and tiny.can_host_all(pods, targets):
                fewest = len(pods)
        if fewest is not None:
            return number, fewest
    return 0, 0


def fewest_unlocking_moves(snapshot: Snapshot, pods: list[Pod], max_moves: int) -> int | None:
    """Fewest moves after which all pods can start, nodes that lose pods taking none in."""
    tiny = Tiny(snapshot)
    movable = [pod for guests in tiny.guests.values() for pod in guests if not pod.protections]
    for number in range(min(max_moves, len(movable)) + 1):
        if any(_unlocks(tiny, list(victims), pods) for victims in combinations(movable, number)):
            return number
    return None


def _unlocks(tiny: Tiny, victims: list[Pod], pods: list[Pod]) -> bool:
    sources = {pod.node_name for pod in victims}
    return any(
        _start_beside(tiny, victims, sources, pods, starts)
        for starts in _spread_out(len(pods), tiny.names, sources)
    )


def _start_beside(
    tiny: Tiny, victims: list[Pod], sources: set[str], pods: list[Pod], starts: dict[str, int]
) -> bool:
    """First the pods that start where nobody leaves sit down, then the moved ones find places."""
    sat: list[tuple[str, Pod, list[tuple[int, int]]]] = []
    try:
        for name in starts:
            gone = [pod for pod in victims if pod.node_name == name]
            for pod in gone:
                tiny._sit(name, pod, tiny.seats[pod.uid], -1)
            fits = _sit_down(tiny, name, pods[0], starts[name], sat)
            for pod in gone:
                tiny._sit(name, pod, tiny.seats[pod.uid], 1)
            if not fits:
                return False
        targets = [name for name in tiny.names if name not in sources]
        ordered = sorted(victims, key=lambda pod: -pod.requests.get(GPU, 0) * pod.gpu_milli)
        kept = [one for one in targets if not tiny.was_free(one)]
        whole = [pod for pod in ordered if tiny.asks(pod)]
        others = [pod for pod in ordered if not tiny.asks(pod)]
        return _host_both(tiny, whole, kept, others, targets)
    finally:
        for name, pod, seats in sat:
            tiny._sit(name, pod, seats, -1)


def _host_both(tiny: Tiny, whole: list[Pod], kept: list[str], others: list[Pod], targets: list[str]) -> bool:
    if not whole:
        return tiny.can_host_all(others, targets)
    pod = whole[0]
    for name in kept:
        for seats in tiny.seatings(pod, tiny.devices[name]):
            if tiny.cpu[name] < pod.requests["cpu"]:
                continue
            tiny._sit(name, pod, seats, 1)
            fits = _host_both(tiny, whole[1:], kept, others, targets)
            tiny._sit(name, pod, seats, -1)
            if fits:
                return True
    return False


def _sit_down(tiny: Tiny, name: str, pod: Pod, number: int, sat: list) -> bool:
    for _ in range(number):
        seats = tiny.seatings(pod, tiny.devices[name])
        if not seats or tiny.cpu[name] < pod.requests["cpu"]:
            return False
        tiny._sit(name, pod, seats[0], 1)
        sat.append((name, pod, seats[0]))
    return True


def _spread_out(number: int, names: list[str], must: set[str]) -> list[dict[str, int]]:
    """Every way to start that many pods on the nodes, each node that loses pods getting at least one."""
    if not names:
        return [{}] if number == 0 else []
    first, rest = names[0], names[1:]
    found = []
    for here in range(1 if first in must else 0, number + 1):
        for others in _spread_out(number - here, rest, must):
            found.append({first: here, **others} if here else others)
    return found
