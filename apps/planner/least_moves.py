"""How many pods must leave a node at least, before anybody asks which of them may.

Counts alone, largest pods first: quick enough for every node of a large cluster, and never more than
the truth. So the exact question (clearing) is asked only of nodes that could be among the best.
Not in here: which nodes are chosen (ranking, node_choice).
"""

from __future__ import annotations

from collections.abc import Iterable

from apps.planner.placement import Board
from apps.planner.resources import Demand
from apps.planner.rooms import WHOLE, Room

Least = tuple[int, int]
"""(pods that must leave, those of them that must hold GPUs)."""


def least_moves(board: Board, room: Room, demand: Demand, starts: int) -> Least | None:
    """None: the node could not hold so many even if it were empty."""
    if not could_hold(room, demand, starts):
        return None
    by_gpus = _least_for_gpus(board, room, demand, starts) if demand.gpus else 0
    if by_gpus is None:
        return None
    most = by_gpus
    for name, amount in demand.resources:
        short = amount * starts - room.left.get(name, 0)
        if short > 0:
            given = (_given(board.final.demand(pod), name) for pod in room.pods.values())
            pods = _count_largest(given, short)
            if pods is None:
                return None
            most = max(most, pods)
    if "pods" in room.left:
        most = max(most, starts - room.left["pods"])
    return most, by_gpus


def _least_for_gpus(board: Board, room: Room, demand: Demand, starts: int) -> int | None:
    if not room.by_device:
        short = demand.gpus * starts - room.left.get(demand.gpu_resource, 0)
        demands = (board.final.demand(pod) for pod in room.pods.values())
        return _count_largest((one.gpus for one in demands), short)
    if demand.milli < WHOLE:
        return int(room.count_shares(demand, room.gpu_left, room.memory_left) < starts)
    return _count_largest(map(len, room.taken.values()), demand.gpus * starts - room.free_gpus)


def could_hold(room: Room, demand: Demand, starts: int) -> bool:
    """Whether the node is large enough for that many, were it empty."""
    node = room.node
    if demand.gpus and demand.gpus * starts > max(
        len(node.gpus), node.allocatable.get(node.gpu_resource, 0)
    ) * (1 if demand.milli == WHOLE else WHOLE // demand.milli):
        return False
    return all(node.allocatable.get(key, 0) >= amount * starts for key, amount in demand.resources)


def _given(demand: Demand, name: str) -> int:
    return next((amount for key, amount in demand.resources if key == name), 0)


def _count_largest(amounts: Iterable[int], short: int) -> int | None:
    """How many of the largest amounts make up for what is short; None if all together do not."""
    if short <= 0:
        return 0
    for number, amount in enumerate(sorted(amounts, reverse=True), start=1):
        short -= amount
        if short <= 0:
            return number
    return None
