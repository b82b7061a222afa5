"""What free-nodes plans are measured against: a plain rule of thumb, and another solver's optimum.

Written apart from the planner: nothing of its boards, shapes and programs is used here.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import product

from ortools.sat.python import cp_model

from apps.planner.inventory import Node, Pod
from apps.planner.movability import MovabilityRules
from apps.planner.resources import asks_gpu
from apps.planner.selectors import matches_labels, node_matches_terms, tolerates
from apps.planner.snapshot import Snapshot

GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Best:
    freed: int
    moves: int
    proven: bool
    seconds: float


class Plainly:
    """Empty the least used node, best fit elsewhere: where the fewest GPUs are idle."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.nodes = snapshot.nodes
        self.guests = {name: [pod for pod in snapshot.pods_on(name) if asks_gpu(pod)] for name in self.nodes}
        self.left = {name: _left(snapshot, name) for name in self.nodes}
        self.devices = {name: _devices(node) for name, node in self.nodes.items()}
        rules = MovabilityRules(snapshot)
        self.fixed = {
            pod.uid for pods in self.guests.values() for pod in pods if not rules.judge(pod).movable
        }

    def count(self, max_moves: int) -> int:
        """How many nodes it frees."""
        freed, taken = 0, set[str]()
        for name in sorted((one for one in self.guests if self.guests[one]), key=self._use):
            pods = self.guests[name]
            if name in taken or len(pods) > max_moves or any(pod.uid in self.fixed for pod in pods):
                continue
            placed: list[tuple[str, Pod, list[int]]] = []
            for pod in sorted(pods, key=lambda pod: -pod.requests.get(GPU, 0) * pod.gpu_milli):
                target = self._best_fit(pod, name)
                if target is None:
                    break
                placed.append((target, pod, self._sit(pod, target)))
            if len(placed) < len(pods):
                for target, pod, seats in placed:
                    self._rise(pod, target, seats)
                continue
            self.guests[name] = []
            taken.update(target for target, _, _ in placed)
            max_moves -= len(pods)
            freed += 1
        return freed

    def _use(self, name: str) -> tuple[int, int]:
        return sum(1000 - milli for milli in self.devices[name]), len(self.guests[name])

    def _best_fit(self, pod: Pod, source: str) -> str | None:
        wanted = pod.requests.get(GPU, 0)
        found = [
            (sum(self.devices[name]), name)
            for name, guests in self.guests.items()
            if guests
            and name != source
            and sum(milli >= pod.gpu_milli for milli in self.devices[name]) >= wanted
            and all(self.left[name].get(one, 0) >= amount for one, amount in _asked(pod).items())
            and _may_run(pod, self.nodes[name])
        ]
        return min(found)[1] if found else None

    def _sit(self, pod: Pod, name: str) -> list[int]:
        devices = self.devices[name]
        fitting = [at for at, milli in enumerate(devices) if milli >= pod.gpu_milli]
        seats = sorted(fitting, key=lambda at: devices[at])[: pod.requests.get(GPU, 0)]
        for at in seats:
            devices[at] -= pod.gpu_milli
        self.left[name].subtract(_asked(pod))
        return seats

    def _rise(self, pod: Pod, name: str, seats: list[int]) -> None:
        for at in seats:
            self.devices[name][at] += pod.gpu_milli
        self.left[name].update(_asked(pod))


def best_by_pattern(snapshot: Snapshot, max_moves: int, limit: float) -> Best:
    """For clusters of equal nodes, whole GPUs and nothing else that binds: nodes with the same pods are one
    pattern, and what comes to a pattern is one of the multisets that its free GPUs hold."""
    sizes = sorted({pod.requests[GPU] for pod in snapshot.pods.values()})
    width = max(len(node.gpus) for node in snapshot.nodes.values())
    patterns = Counter(
        tuple(sum(pod.requests[GPU] == size for pod in snapshot.pods_on(name)) for size in sizes)
        for name in snapshot.nodes
    )
    model = cp_model.CpModel()
    empty = {one: model.new_int_var(0, most, "") for one, most in patterns.items() if any(one)}
    come: dict[int, list[cp_model.LinearExpr]] = defaultdict(list)
    for one, column in empty.items():
        free = width - sum(count * size for count, size in zip(one, sizes, strict=True))
        used = [column]
        for arrivals in product(*(range(free // size + 1) for size in sizes)):
            if any(arrivals) and sum(a * size for a, size in zip(arrivals, sizes, strict=True)) <= free:
                takes = model.new_int_var(0, patterns[one], "")
                used.append(takes)
                for at, count in enumerate(arrivals):
                    come[at].append(takes * count)
        model.add(sum(used) <= patterns[one])
    for at in range(len(sizes)):
        model.add(sum(come[at]) >= sum(one[at] * column for one, column in empty.items()))
    moves = sum(sum(one) * column for one, column in empty.items())
    model.add(moves <= max_moves)
    return _solve(model, sum(empty.values()), moves, max_moves, limit)


def best_by_pod(snapshot: Snapshot, max_moves: int, limit: float) -> Best:
    """One variable per pod and node (shares: and device). Not for rules between pods."""
    rules = MovabilityRules(snapshot)
    guests = {name: [pod for pod in snapshot.pods_on(name) if asks_gpu(pod)] for name in snapshot.nodes}
    model = cp_model.CpModel()
    empty = {
        name: model.new_bool_var("")
        for name, pods in guests.items()
        if pods and all(rules.judge(pod).movable for pod in pods)
    }
    goes: dict[str, list[tuple[Pod, cp_model.IntVar]]] = defaultdict(list)
    for source, column in empty.items():
        for pod in guests[source]:
            ways = []
            for name, node in snapshot.nodes.items():
                if name != source and guests[name] and _may_run(pod, node):
                    ways.append(model.new_bool_var(""))
                    goes[name].append((pod, ways[-1]))
            model.add(sum(ways) == column)
    for name, comers in goes.items():
        _limit(model, snapshot, name, comers)
        if name in empty:
            for _, way in comers:
                model.add_implication(way, empty[name].negated())
    moves = sum(len(guests[name]) * column for name, column in empty.items())
    model.add(moves <= max_moves)
    return _solve(model, sum(empty.values()), moves, max_moves, limit)


def _limit(
    model: cp_model.CpModel, snapshot: Snapshot, name: str, comers: list[tuple[Pod, cp_model.IntVar]]
) -> None:
    for resource, have in _left(snapshot, name).items():
        model.add(sum(_asked(pod).get(resource, 0) * way for pod, way in comers) <= have)
    devices = _devices(snapshot.nodes[name])
    seats: list[list[cp_model.LinearExpr]] = [[] for _ in devices]
    for pod, way in comers:
        places = []
        for at, milli in enumerate(devices):
            if milli >= pod.gpu_milli:
                places.append(model.new_bool_var(""))
                seats[at].append(places[-1] * pod.gpu_milli)
        model.add(sum(places) == pod.requests.get(GPU, 0) * way)
    for at, taken in enumerate(seats):
        model.add(sum(taken) <= devices[at])


def _solve(
    model: cp_model.CpModel,
    freed: cp_model.LinearExprT,
    moves: cp_model.LinearExprT,
    max_moves: int,
    limit: float,
) -> Best:
    begun = time.process_time()
    model.maximize(freed * (max_moves + 1) - moves)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = limit
    status = solver.solve(model)
    seconds = time.process_time() - begun
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Best(0, 0, False, seconds)
    return Best(solver.value(freed), solver.value(moves), status == cp_model.OPTIMAL, seconds)


def _may_run(pod: Pod, node: Node) -> bool:
    return (
        matches_labels(pod.node_selector, node.labels)
        and node_matches_terms(node, pod.node_terms)
        and tolerates(pod, node.taints)
    )


def _asked(pod: Pod) -> Counter[str]:
    return Counter({"pods": 1, **{name: amount for name, amount in pod.requests.items() if name != GPU}})


def _left(snapshot: Snapshot, name: str) -> Counter[str]:
    node = snapshot.nodes[name]
    left = Counter({one: amount for one, amount in node.allocatable.items() if one != GPU})
    for pod in snapshot.pods_on(name):
        left.subtract(_asked(pod))
    return left


def _devices(node: Node) -> list[int]:
    devices = [1000] * len(node.gpus)
    for one in node.holdings or ():
        devices[next(at for at, gpu in enumerate(node.gpus) if gpu.uuid == one.device)] -= one.milli
    return devices
