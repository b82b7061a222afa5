"""Which nodes to clear for pods of one shape, when the moved pods compete for places: an exact program.

Each node's ways to be cleared and the arrivals of each shape on each target are its columns.
Counts per node are exact but for shares of GPUs and for rules between pods, which the board
asks when the answer is put on it. Not in here: the quick choice that is tried first (unlock).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from apps.planner.capacity import Capacity, Shape, amount_of, capacity_of, shape_key
from apps.planner.clearing import Clearing, NodeClearing, list_rivals
from apps.planner.clearing_table import ClearingTable
from apps.planner.emptying import send_pod
from apps.planner.inventory import Pod
from apps.planner.node_choice import most_per_node
from apps.planner.placement import Board
from apps.planner.program import Deadline, Program, Solution, scale_row
from apps.planner.resources import asks_gpu
from apps.planner.rooms import WHOLE

MOST_NODES_FOR_COST = 200
TIE = 1e-4


@dataclass(frozen=True, slots=True)
class UnlockAnswer:
    """clearings: empty if it is proven (or not) that there are none. bound: on the moves."""

    clearings: tuple[Clearing, ...]
    room: tuple[tuple[str, Hashable, int], ...]
    bound: int
    proven: bool


class UnlockProgram:
    """fewest: moves for 0, 1, … pods at least; it leaves out nodes too dear to be part of an answer."""

    def __init__(
        self,
        table: ClearingTable,
        pods: Sequence[Pod],
        most_moves: int,
        deadline: Deadline,
        fewest: Sequence[int | None],
    ) -> None:
        self.table = table
        board = self.board = table.board
        self.pods = list(pods)
        self.demand = board.final.demand(pods[0])
        self.most_moves = most_moves
        self.deadline = deadline
        self.fewest = fewest
        self.complete = True
        self.options = self._list_options()
        self.shapes = self._list_shapes()
        self.program = Program()
        self.choice_columns: list[int] = []
        self.arrival_columns: dict[int, tuple[str, Hashable]] = {}

    def solve(self) -> UnlockAnswer | None:
        """None: no answer in time."""
        if not self.options:
            return UnlockAnswer((), (), 0, self.complete)
        if self.deadline():
            return None
        if not self.choice_columns:
            self._fill()
        self.program.set_costs(self._moves())
        fewest = self.program.solve(self.deadline)
        if fewest is None:
            return None
        if not fewest.values:
            return UnlockAnswer((), (), 0, self.complete)
        bound = math.ceil(fewest.bound - 1e-6) if self.complete else 0
        cheapest = self._cheapest(round(fewest.objective))
        solution = fewest if cheapest is None or not cheapest.values else cheapest
        chosen = [
            option
            for column, option in zip(self.choice_columns, self.options, strict=True)
            if solution.values[column]
        ]
        room = tuple(
            (name, key, solution.values[column])
            for column, (name, key) in self.arrival_columns.items()
            if solution.values[column]
        )
        return UnlockAnswer(tuple(chosen), room, bound, fewest.proven and self.complete)

    def _cheapest(self, moves: int) -> Solution | None:
        columns = zip(self.choice_columns, self.options, strict=True)
        self.program.set_costs({column: option.cost - TIE * option.frees for column, option in columns})
        self.program.add_row(self._moves(), high=moves)
        solution = self.program.solve(self.deadline, most_nodes=MOST_NODES_FOR_COST)
        self.program.drop_last_row()
        return solution

    def _moves(self) -> dict[int, float]:
        columns = zip(self.choice_columns, self.options, strict=True)
        return {column: float(len(option.victims)) for column, option in columns}

    def forbid(self, answer: UnlockAnswer) -> None:
        """Not these clearings together again: the board found no places for their pods."""
        columns = zip(self.choice_columns, self.options, strict=True)
        chosen = [column for column, option in columns if option in answer.clearings]
        self.program.add_row(dict.fromkeys(chosen, 1.0), high=len(chosen) - 1)
        self.complete = False

    def realise(self, answer: UnlockAnswer) -> bool:
        """Put the answer on the board; False leaves the board as it was."""
        board = self.board
        mark = board.checkpoint()
        places: dict[Hashable, Counter[str]] = defaultdict(Counter)
        for name, key, count in answer.room:
            places[key][name] += count
        waiting = list(self.pods)
        board.closed.update(one.node for one in answer.clearings if one.victims)
        for one in sorted(answer.clearings, key=lambda one: (bool(one.victims), one.node)):
            moved = all(send_pod(board, pod, one.node, places) is not None for pod in _largest(board, one))
            starting, waiting = waiting[: one.starts], waiting[one.starts :]
            if not moved or not all(_start(board, pod, one.node) for pod in starting):
                board.undo(mark)
                return False
        return True

    def _list_options(self) -> list[Clearing]:
        found: list[Clearing] = []
        clearings: dict[str, NodeClearing] = {}
        for starts in range(1, min(len(self.pods), most_per_node(self.pods[0])) + 1):
            others = self.fewest[len(self.pods) - starts]
            spare = self.most_moves - (self.most_moves if others is None else others)
            for name, least in self.table.ranking(self.pods[0], starts).least.items():
                if least[0] > spare:
                    continue
                if self.deadline():
                    self.complete = False
                    return found
                node = clearings.get(name)
                if node is None:
                    rivals = list_rivals(self.board, self.pods[0], name)
                    node = clearings[name] = NodeClearing(self.board, name, self.demand, rivals=rivals)
                found += node.find(starts, spare, slack=spare)
                self.complete = self.complete and node.is_complete
        return found

    def _list_shapes(self) -> list[Shape]:
        pods = {shape_key(self.board, pod): pod for option in self.options for pod in option.victims}
        shapes = [Shape(key, self.board.final.demand(pod), pod) for key, pod in pods.items()]
        return sorted(shapes, key=lambda shape: (-shape.demand.gpu_milli, repr(shape.key)))

    def _fill(self) -> None:
        program = self.program
        clearing_columns: dict[str, dict[int, float]] = defaultdict(dict)
        starting: dict[str, dict[int, float]] = defaultdict(dict)
        starts: dict[int, float] = {}
        supply: list[dict[int, float]] = [{} for _ in self.shapes]
        index = {shape.key: at for at, shape in enumerate(self.shapes)}
        for option in self.options:
            column = program.add_column(len(option.victims), 1)
            self.choice_columns.append(column)
            starts[column] = float(option.starts)
            (clearing_columns if option.victims else starting)[option.node][column] = float(option.starts)
            for key, count in Counter(shape_key(self.board, pod) for pod in option.victims).items():
                supply[index[key]][column] = -float(count)
        for name in sorted(clearing_columns.keys() | starting.keys()):
            both = [*clearing_columns[name], *starting[name]]
            program.add_row(dict.fromkeys(both, 1.0), high=1.0)
        self._add_arrivals(supply, clearing_columns, starting)
        for row in supply:
            if row:
                program.add_row(row, low=0.0)
        program.add_row(starts, low=float(len(self.pods)))
        program.add_row(self._moves(), high=float(self.most_moves))

    def _add_arrivals(
        self,
        supply: list[dict[int, float]],
        clearing: dict[str, dict[int, float]],
        starting: dict[str, dict[int, float]],
    ) -> None:
        board = self.board
        allowed = [set(board.open_nodes(shape.pod)) for shape in self.shapes]
        for name, room in board.held.by_node.items():
            if name in board.closed:
                continue
            may = [
                name in nodes and not (name in board.kept_free and asks_gpu(shape.pod))
                for shape, nodes in zip(self.shapes, allowed, strict=True)
            ]
            capacity = capacity_of(room, self.shapes, may, keep_all=name in starting)
            columns: dict[int, int] = {}
            for at, most in enumerate(capacity.most):
                if most:
                    columns[at] = self.program.add_column(0.0, most)
                    self.arrival_columns[columns[at]] = (name, self.shapes[at].key)
                    supply[at][columns[at]] = 1.0
                    shut = {column: float(most) for column in clearing[name]}
                    if shut:
                        self.program.add_row({columns[at]: 1.0, **shut}, high=float(most))
            if columns:
                self._limit(capacity, columns, starting.get(name, {}))

    def _limit(self, capacity: Capacity, columns: dict[int, int], starting: dict[int, float]) -> None:
        """What arrivals share with each other and with the pods that start there."""
        by_device = bool(capacity.devices)
        for name, have in capacity.left:
            weights = {
                column: float(amount_of(self.shapes[at].demand, name, by_device))
                for at, column in columns.items()
            }
            guest = amount_of(self.demand, name, by_device)
            weights.update({column: count * guest for column, count in starting.items()})
            self._add_limit(weights, have)
        if by_device:
            milli = {column: float(self.shapes[at].demand.gpu_milli) for at, column in columns.items()}
            milli.update({column: count * self.demand.gpu_milli for column, count in starting.items()})
            self._add_limit(milli, sum(capacity.devices))
            whole = {
                column: float(self.shapes[at].demand.gpus)
                for at, column in columns.items()
                if self.shapes[at].demand.milli == WHOLE
            }
            if self.demand.milli == WHOLE:
                whole.update({column: count * self.demand.gpus for column, count in starting.items()})
            self._add_limit(whole, capacity.free_gpus)

    def _add_limit(self, weights: dict[int, float], have: int) -> None:
        scaled, most = scale_row(weights, have)
        if scaled:
            self.program.add_row(scaled, high=float(most))


def _start(board: Board, pod: Pod, node_name: str) -> bool:
    if not board.fitting.can_run(pod, node_name):
        return False
    board.start(pod, node_name)
    return True


def _largest(board: Board, clearing: Clearing) -> list[Pod]:
    return sorted(clearing.victims, key=lambda pod: (-board.final.demand(pod).gpu_milli, pod.uid))
