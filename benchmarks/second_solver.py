"""The planner's questions once more, written apart: one variable per pod and node, solved by CP-SAT.

No grouping, no classes, no board; every capacity, device by device. Rules are read by the checker's own
reading (`verification_*`), not by the planner's. For clusters of up to some hundred pods whose rules one
node answers by itself. Not in here: clusters and comparisons (cross_checks).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from ortools.sat.python import cp_model

from apps.planner.inventory import Node, Pod
from apps.planner.outcome import wants_device
from apps.planner.snapshot import Snapshot
from apps.planner.verification_crowds import question_of
from apps.planner.verification_departures import Departures
from apps.planner.verification_rules import node_faults

WHOLE = 1000
HOST = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Answer:
    """best: nodes freed, or pods started. moves: the fewest for that. proven: as CP-SAT says. None for
    `best` where there is no solution."""

    best: int | None
    moves: int
    proven: bool


class PlainCluster:
    """Who may go where, and what each node has, for both questions."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        departures = Departures(snapshot)
        self.guests = {name: [pod for pod in snapshot.pods_on(name)] for name in snapshot.nodes}
        everybody = [pod for pods in self.guests.values() for pod in pods]
        self.movable = {pod.uid for pod in everybody if not self._stays(departures, pod)}
        self.was_free = {name for name, pods in self.guests.items() if not any(map(wants_device, pods))}
        self.seats: dict[str, dict[int, int]] = defaultdict(dict)
        for node in snapshot.nodes.values():
            places = {gpu.key: at for at, gpu in enumerate(node.gpus)}
            for one in node.holdings or ():
                self.seats[one.pod_uid][places[one.device]] = one.milli

    def _stays(self, departures: Departures, pod: Pod) -> bool:
        """Also a pod of a budget that is spent, or of a gang at its minimum."""
        spent = any(one.disruptions_allowed < 1 for one in departures.spending(pod))
        gang = self.snapshot.gangs.get(pod.gang)
        is_least = (
            gang is not None and gang.min_members > 1 and departures.members(pod.gang) <= gang.min_members
        )
        return bool(departures.faults(pod)) or spent or is_least

    def may_go(self, pod: Pod, node: Node) -> bool:
        return node.name != pod.node_name and not node_faults(pod, node)

    def clash(self, pod: Pod, other: Pod) -> bool:
        """Whether they cannot be on one node."""
        return bool(set(pod.host_ports) & set(other.host_ports)) or _avoids(pod, other) or _avoids(other, pod)


def _avoids(pod: Pod, other: Pod) -> bool:
    return any(
        term.topology_key == HOST and question_of(term, pod.namespace).concerns(other)
        for term in pod.pod_anti_affinity
    )


class _Model:
    """arrivals: by node, (pod, variable) of every pod that may come there. gone: by pod that may leave, the
    variable that says so."""

    def __init__(self, plain: PlainCluster) -> None:
        self.plain, self.model = plain, cp_model.CpModel()
        self.arrivals: dict[str, list[tuple[Pod, cp_model.IntVar]]] = defaultdict(list)

    def flag(self, name: str) -> cp_model.IntVar:
        return self.model.new_bool_var(name)

    def homes(
        self, pod: Pod, *, closed: set[str], losing: Mapping[str, cp_model.IntVar]
    ) -> list[cp_model.IntVar]:
        """One variable for each node it may move to. closed: that take none in; losing: that take none in
        where this variable is set."""
        found = []
        for node in self.plain.snapshot.nodes.values():
            if node.name in closed or not self.plain.may_go(pod, node):
                continue
            come = self.flag(f"{pod.uid} to {node.name}")
            found.append(come)
            self.arrivals[node.name].append((pod, come))
            if node.name in losing:
                self.model.add(come + losing[node.name] <= 1)
        return found

    def fill(self, node: Node, gone: dict[str, cp_model.IntVar]) -> None:
        """What is on the node in the end fits it. gone: of its guests, those whose room others may use."""
        arrivals, guests = self.arrivals[node.name], self.plain.guests[node.name]
        if not arrivals:
            return
        names = {name for pod, _ in arrivals for name, amount in pod.requests.items() if amount > 0}
        for name in sorted(names - {node.gpu_resource}):
            used = sum(pod.requests.get(name, 0) * self._there(pod, gone) for pod in guests)
            added = sum(pod.requests.get(name, 0) * come for pod, come in arrivals)
            self.model.add(used + added <= node.allocatable.get(name, 0)) if self._is_short(
                name, node
            ) else None
        count = sum(self._there(pod, gone) for pod in guests) + sum(come for _, come in arrivals)
        self.model.add(count <= node.allocatable["pods"])
        self._seat(node, gone)
        self._keep_apart(node, gone)

    def _is_short(self, name: str, node: Node) -> bool:
        most = sum(pod.requests.get(name, 0) for pod in self.plain.guests[node.name])
        most += sum(pod.requests.get(name, 0) for pod, _ in self.arrivals[node.name])
        return most > node.allocatable.get(name, 0)

    def _there(self, pod: Pod, gone: dict[str, cp_model.IntVar]) -> cp_model.LinearExprT:
        return 1 - gone[pod.uid] if pod.uid in gone else 1

    def _seat(self, node: Node, gone: dict[str, cp_model.IntVar]) -> None:
        usable = [at for at, gpu in enumerate(node.gpus) if gpu.healthy]
        whole = {at: self.flag(f"whole {node.name} {at}") for at in usable}
        shares: dict[int, list[cp_model.LinearExprT]] = defaultdict(list)
        asked: list[cp_model.LinearExprT] = []
        for pod, come in self.arrivals[node.name]:
            number = pod.requests.get(node.gpu_resource, 0)
            if pod.gpu_milli == WHOLE:
                asked.append(number * come)
                continue
            seats = {at: self.flag(f"seat {pod.uid} {node.name} {at}") for at in usable}
            self.model.add(sum(seats.values()) == max(number, 1) * come)
            for at, seat in seats.items():
                shares[at].append(pod.gpu_milli * seat)
        self.model.add(sum(asked) == sum(whole.values()))
        for at in usable:
            held = [
                self.plain.seats[pod.uid][at] * self._there(pod, gone)
                for pod in self.plain.guests[node.name]
                if at in self.plain.seats[pod.uid]
            ]
            self.model.add(sum(held) + sum(shares[at]) + WHOLE * whole[at] <= WHOLE)

    def _keep_apart(self, node: Node, gone: dict[str, cp_model.IntVar]) -> None:
        arrivals = self.arrivals[node.name]
        for (pod, come), (other, comes) in combinations(arrivals, 2):
            if pod.uid != other.uid and self.plain.clash(pod, other):
                self.model.add(come + comes <= 1)
        for pod, come in arrivals:
            for guest in self.plain.guests[node.name]:
                if guest.uid != pod.uid and self.plain.clash(pod, guest):
                    self.model.add(come <= 1 - self._there(guest, gone))

    def solve(self, seconds: float) -> tuple[cp_model.CpSolver, int]:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.max_time_in_seconds = seconds
        return solver, solver.solve(self.model)


def most_freed(snapshot: Snapshot, most_moves: int, *, seconds: float = 60.0, free: bool = False) -> Answer:
    """Most nodes that can be freed, and the fewest moves for that many. Only GPU pods of emptied nodes move,
    to nodes that are not emptied and were not free, into room that nobody has to leave first.

    free: none of that holds: every movable pod may move once to any node that was not free, and only the end
    must fit. What it finds beyond the first is what our restriction costs at most.
    """
    plain = PlainCluster(snapshot)
    model = _Model(plain)
    emptied = {name: model.flag(f"empty {name}") for name in _candidates(plain)}
    moved = _add_moves(model, emptied, free)
    for name, flag in emptied.items() if free else ():
        for pod in filter(wants_device, plain.guests[name]):
            model.model.add(flag <= moved[pod.uid])
    for node in snapshot.nodes.values():
        model.fill(node, moved if free else {})
    moves = sum(moved.values())
    model.model.add(moves <= most_moves)
    model.model.maximize(sum(emptied.values()) * (most_moves + 1) - moves)
    solver, status = model.solve(seconds)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answer(None, 0, False)
    best = sum(solver.value(flag) for flag in emptied.values())
    return Answer(best, sum(solver.value(flag) for flag in moved.values()), status == cp_model.OPTIMAL)


def _add_moves(model: _Model, emptied: dict[str, cp_model.IntVar], free: bool) -> dict[str, cp_model.IntVar]:
    """By pod, whether it moves; with a variable for each node that it may come to."""
    plain = model.plain
    moved: dict[str, cp_model.IntVar] = {}
    for name, guests in plain.guests.items():
        for pod in guests:
            if pod.uid not in plain.movable or not (free or (name in emptied and wants_device(pod))):
                continue
            moved[pod.uid] = model.flag(f"leave {pod.uid}") if free else emptied[name]
            homes = model.homes(pod, closed=plain.was_free, losing=emptied if wants_device(pod) else {})
            model.model.add(sum(homes) == moved[pod.uid])
    return moved


def _candidates(plain: PlainCluster) -> list[str]:
    """Nodes whose GPU pods may all leave; open ones only."""
    found = []
    for name, guests in plain.guests.items():
        node = plain.snapshot.nodes[name]
        devices = [pod for pod in guests if wants_device(pod)]
        is_open = node.ready and not node.unschedulable and node.stale_since is None
        if devices and is_open and all(pod.uid in plain.movable for pod in devices):
            found.append(name)
    return found


def fewest_moves(
    snapshot: Snapshot, pods: Iterable[Pod], most_moves: int, *, seconds: float = 60.0
) -> Answer:
    """The fewest moves after which all these pods can start. A node that loses pods takes none in; GPU pods
    never move onto a free node; all moved pods have room before the first of them leaves."""
    plain = PlainCluster(snapshot)
    model = _Model(plain)
    waiting = list(pods)
    loses = {name: model.flag(f"loses {name}") for name in snapshot.nodes}
    gone: dict[str, cp_model.IntVar] = {}
    for pod in (pod for guests in plain.guests.values() for pod in guests if pod.uid in plain.movable):
        gone[pod.uid] = model.flag(f"leave {pod.uid}")
        model.model.add(gone[pod.uid] <= loses[pod.node_name])
        homes = model.homes(pod, closed=plain.was_free if wants_device(pod) else set(), losing=loses)
        model.model.add(sum(homes) == gone[pod.uid])
    for pod in waiting:
        starts = []
        for node in snapshot.nodes.values():
            if not node_faults(pod, node):
                start = model.flag(f"{pod.uid} starts on {node.name}")
                starts.append(start)
                model.arrivals[node.name].append((pod, start))
        model.model.add(sum(starts) == 1)
    for node in snapshot.nodes.values():
        model.fill(node, gone)
    model.model.add(sum(gone.values()) <= most_moves)
    model.model.minimize(sum(gone.values()))
    solver, status = model.solve(seconds)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        moves = sum(solver.value(flag) for flag in gone.values())
        return Answer(len(waiting), moves, status == cp_model.OPTIMAL)
    return Answer(None, 0, status == cp_model.INFEASIBLE)
