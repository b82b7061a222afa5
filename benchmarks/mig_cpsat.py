"""The goal MIG as another solver's program, written apart from the planner: one variable per GPU and layout.

Of the planner it takes the placement tables and the snapshot alone. It reads clusters in which every pod has
one instance, all holders and start slices are known, and CPU and memory are no limit (those of mig_clusters).
A pod moves only off a GPU that is relaid, and to a node of which nothing is drained, onto an instance that is
idle or newly cut on a GPU that nobody used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from ortools.sat.python import cp_model

from apps.planner.inventory import Gpu, Node, Pod
from apps.planner.mig.catalogue import MODELS, resource_profile
from apps.planner.snapshot import Snapshot

PREFIX = "nvidia.com/mig-"
Terms = defaultdict[tuple[str, str], list[object]]
Shape = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Optimum:
    """unmet: compute slices by priority, the highest first. proven: all three, one after the other."""

    unmet: tuple[int, ...] = ()
    reconfigurations: int = 0
    moves: int = 0
    proven: bool = False


def legal_counts(model_name: str) -> list[dict[str, int]]:
    """Every set of instances that fits the GPU and that nothing can be added to, from the table's rows."""
    rows = [row for row in MODELS[model_name].profiles if "+" not in row.name and "-" not in row.name]
    found: set[tuple[tuple[str, int], ...]] = set()
    axis = MODELS[model_name].axis

    def place(at: int, taken: tuple[tuple[str, int], ...]) -> None:
        counts = Counter(name for name, _ in taken)
        if at == axis:
            used = {slot for name, start in taken for slot in range(start, start + sizes[name])}
            if taken and not any(_fits(row, start, used, counts) for row in rows for start in row.starts):
                found.add(tuple(sorted(counts.items())))
            return
        place(at + 1, taken)
        if any(start <= at < start + sizes[name] for name, start in taken):
            return
        for row in rows:
            if at in row.starts and at + row.memory_slices <= axis and counts[row.name] < row.most:
                place(at + 1, (*taken, (row.name, at)))

    sizes = {row.name: row.memory_slices for row in rows}
    place(0, ())
    return [dict(counts) for counts in sorted(found)]


def _fits(row: object, start: int, used: set[int], counts: Counter[str]) -> bool:
    slots = set(range(start, start + row.memory_slices))  # type: ignore[attr-defined]
    return not slots & used and counts[row.name] < row.most  # type: ignore[attr-defined]


class CpSatProgram:
    def __init__(self, snapshot: Snapshot, max_moves: int) -> None:
        self.snapshot, self.max_moves = snapshot, max_moves
        self.model = cp_model.CpModel()
        self.early: Terms = defaultdict(list)
        self.final: Terms = defaultdict(list)
        self.cuts: list[object] = []
        self.moves: list[object] = []
        self.leaving: dict[Shape, list[object]] = defaultdict(list)
        self.unmet: dict[int, list[object]] = defaultdict(list)
        self.closed = {name: self.model.NewBoolVar("") for name in snapshot.nodes}
        self.layouts = {name: legal_counts(name) for name in {node.model for node in snapshot.nodes.values()}}
        for node in snapshot.nodes.values():
            for gpu in node.gpus:
                self._add_gpu(node, gpu)
        self._add_moved()
        self._add_waiting()
        for terms in self.final.values():
            self.model.Add(sum(terms) >= 0)
        self.model.Add(sum(self.moves) <= max_moves)

    def solve(self, seconds: float) -> Optimum:
        found: list[int] = []
        goals = [self.unmet[rank] for rank in sorted(self.unmet, reverse=True)]
        for goal in (*goals, self.cuts, self.moves):
            total = sum(goal) if goal else 0
            self.model.Minimize(total)
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = 1
            solver.parameters.max_time_in_seconds = seconds
            if solver.Solve(self.model) != cp_model.OPTIMAL:
                return Optimum()
            found.append(round(solver.ObjectiveValue()) if goal else 0)
            self.model.Add(total <= found[-1])
        return Optimum(tuple(found[: len(goals)]), found[-2], found[-1], proven=True)

    def _add_gpu(self, node: Node, gpu: Gpu) -> None:
        holder = {one.device: self.snapshot.pods[one.pod_uid] for one in node.holdings or ()}
        have = Counter(one.profile for one in gpu.instances)
        users = [holder[one.uuid] for one in gpu.instances if one.uuid in holder]
        idle = have - Counter(_profile(pod) for pod in users)
        chosen = [(self.model.NewBoolVar(""), counts) for counts in self.layouts[node.model]]
        is_cut = sum(variable for variable, _ in chosen)
        if any(pod.protections for pod in users):
            self.model.Add(is_cut == 0)
        self.model.Add(is_cut <= 1)
        for profile, number in idle.items():
            self.final[node.name, profile].append(number * (1 - is_cut))
            self.early[node.name, profile].append(number * (1 - is_cut))
        for variable, counts in chosen:
            self.cuts.append(variable)
            for profile, number in counts.items():
                self.final[node.name, profile].append(number * variable)
                if not users:
                    self.early[node.name, profile].append(number * variable)
        if users:
            self.model.Add(self.closed[node.name] >= is_cut)
            self.moves.append(len(users) * is_cut)
            for pod in users:
                self.leaving[_shape(pod)].append(is_cut)

    def _add_moved(self) -> None:
        asked: Terms = defaultdict(list)
        for shape, terms in self.leaving.items():
            self.model.Add(sum(self._spread(shape, len(terms), asked)) == sum(terms))
        for (name, profile), arrivals in asked.items():
            self.model.Add(sum(arrivals) <= sum(self.early[name, profile]))
            self.model.Add(sum(arrivals) == 0).OnlyEnforceIf(self.closed[name])
            self.final[name, profile].append(-sum(arrivals))

    def _add_waiting(self) -> None:
        groups: dict[str, list[Pod]] = defaultdict(list)
        for pod in self.snapshot.pending_pods:
            groups[pod.gang or pod.uid].append(pod)
        wanted: dict[Shape, list[object]] = defaultdict(list)
        for pods in groups.values():
            starts = self.model.NewBoolVar("")
            self.unmet[pods[0].priority].append(sum(map(_slices, pods)) * (1 - starts))
            for pod in pods:
                wanted[_shape(pod)].append(starts)
        for shape, terms in wanted.items():
            asked: Terms = defaultdict(list)
            self.model.Add(sum(self._spread(shape, len(terms), asked)) == sum(terms))
            for key, arrivals in asked.items():
                self.final[key].append(-sum(arrivals))

    def _spread(self, shape: Shape, most: int, asked: Terms) -> list[object]:
        """How many pods of the shape go to each node that its wish allows."""
        profile, pool = shape
        found: list[object] = []
        for name, node in self.snapshot.nodes.items():
            if not pool or node.labels.get("pool") == pool:
                variable = self.model.NewIntVar(0, most, "")
                asked[name, profile].append(variable)
                found.append(variable)
        return found


def _profile(pod: Pod) -> str:
    name = next(name for name in pod.requests if name.startswith(PREFIX))
    return resource_profile(name.removeprefix(PREFIX))


def _shape(pod: Pod) -> Shape:
    return _profile(pod), pod.node_selector.get("pool", "")


def _slices(pod: Pod) -> int:
    """Compute slices of the profile; its name begins with them."""
    return int(_profile(pod).partition("g")[0])
