"""Nodes that the program need not tell apart: same guests by shape, same room for the shapes at hand.

Not in here: the program over them (free_nodes_exact).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from apps.planner.arrivals import ArrivalTable
from apps.planner.capacity import (
    FEW_SHAPES,
    FEW_STATES,
    MOST_STATES,
    Capacity,
    Packing,
    Shape,
    list_packings,
    shape_key,
)
from apps.planner.emptying import Candidate
from apps.planner.inventory import Pod
from apps.planner.placement import Board


@dataclass(slots=True)
class NodeClass:
    """nodes: cheapest to empty first. guests: (shape, pods) pairs; None if it cannot be emptied.

    emptied: a column for each level of cost -> the nodes of that level. counts: shape -> column.
    """

    nodes: list[str]
    capacity: Capacity
    guests: tuple[tuple[int, int], ...] | None
    emptied: dict[int, list[str]] = field(default_factory=dict)
    packings: list[tuple[int, Packing]] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)

    @property
    def moves(self) -> int:
        """Of emptying one of its nodes."""
        return sum(number for _, number in self.guests or ())


class ClassTable:
    """The classes of one board, as it is before any move; `is_late` leaves them incomplete."""

    def __init__(self, board: Board, candidates: Sequence[Candidate], is_late: Callable[[], bool]) -> None:
        self.board, self.is_late = board, is_late
        self.candidates = {candidate.node: candidate for candidate in candidates}
        self.arrivals = ArrivalTable(board, _collect_shapes(board, candidates), is_late)
        self.shapes = self.arrivals.shapes
        self._listed: dict[tuple[Capacity, int], list[Packing] | None] = {}
        self.classes = self._group_nodes()

    def cost(self, name: str) -> float:
        candidate = self.candidates.get(name)
        return 0.0 if candidate is None else candidate.cost

    def _group_nodes(self) -> list[NodeClass]:
        index = {shape.key: at for at, shape in enumerate(self.shapes)}
        table = self.arrivals
        grouped: dict[Hashable, NodeClass] = {}
        for at, name in enumerate(table.names):
            candidate = self.candidates.get(name)
            if candidate is None and not table.most[at].any():
                continue
            if self.is_late():
                return []
            capacity = table.capacity(at)
            guests = None if candidate is None else _count_shapes(self.board, candidate.guests, index)
            grouped.setdefault((capacity, guests), NodeClass([], capacity, guests)).nodes.append(name)
        for one in grouped.values():
            one.nodes.sort(key=lambda name: (self.cost(name), name))
        return [part for one in sorted(grouped.values(), key=_order) for part in self._split(one)]

    def _split(self, one: NodeClass) -> list[NodeClass]:
        """A class keeps together if its packings can be listed; else each node stands alone."""
        if one.capacity.is_useless:
            return [one]
        coming = [shape for shape, most in zip(self.shapes, one.capacity.most, strict=True) if most]
        shares = len(coming) <= FEW_SHAPES and any(shape.is_share for shape in coming)
        packings = None
        if (len(one.nodes) > 1 or shares) and not self.is_late():
            packings = self._packings(one.capacity, MOST_STATES if len(one.nodes) > 1 else FEW_STATES)
        if packings is not None:
            one.packings = [(-1, packing) for packing in packings]
            return [one]
        return [NodeClass([name], one.capacity, one.guests) for name in one.nodes]

    def _packings(self, capacity: Capacity, most_states: int) -> list[Packing] | None:
        key = (capacity, most_states)
        if key not in self._listed:
            self._listed[key] = list_packings(capacity, self.shapes, most_states)
        return self._listed[key]


def _order(one: NodeClass) -> tuple[object, ...]:
    """By what the class is, never by names."""
    capacity = one.capacity
    return one.guests is None, one.guests or (), capacity.devices, capacity.left, capacity.most


def _collect_shapes(board: Board, candidates: Sequence[Candidate]) -> list[Shape]:
    found: dict[Hashable, Pod] = {}
    for candidate in candidates:
        for pod in candidate.guests:
            found.setdefault(shape_key(board, pod), pod)
    shapes = [Shape(key, board.final.demand(pod), pod) for key, pod in found.items()]
    return sorted(shapes, key=lambda shape: (-shape.demand.gpu_milli, repr(shape.key)))


def _count_shapes(
    board: Board, pods: Sequence[Pod], index: dict[Hashable, int]
) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(Counter(index[shape_key(board, pod)] for pod in pods).items()))
