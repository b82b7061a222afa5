"""What is left of each node during a replay, as tables with one row per node.

The rows stand in the fixed order that breaks ties. Whole GPUs, parts of one GPU, CPU, memory and the number
of pods count; nothing else is known of a trace. Not in here: which node is better (policies).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.planner.replay.asks import WHOLE, Ask
from apps.planner.snapshot import Snapshot
from apps.planner.trace import MOST_PODS_A_NODE

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
PART = 0
"""The kind of all pods that take a part of one GPU; other GPU pods' kind is their number of GPUs."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a pod runs: the row of its node, and the indexes of its GPUs."""

    row: int
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EmptyNode:
    """A node before any pod. cpu in milli-CPU, memory in MiB."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str = ""


def empty_nodes(snapshot: Snapshot) -> tuple[EmptyNode, ...]:
    """The nodes of a trace's snapshot in the trace's order."""
    return tuple(
        EmptyNode(
            name=node.name,
            cpu=node.allocatable.get("cpu", 0),
            memory=node.allocatable.get("memory", 0) >> 20,
            gpus=len(node.gpus),
            model=node.model,
        )
        for node in snapshot.nodes.values()
    )


class NodeTable:
    """All arrays have one row per node; only take and give_back change them.

    gpu: milli left of each GPU (columns beyond a node's last GPU stay 0). idle: their sum. whole: GPUs
    wholly free. most: the most that is left of one GPU. kinds: pods held by kind. model: code of the GPU
    model, an index into `models`.
    """

    def __init__(self, nodes: Sequence[EmptyNode]) -> None:
        self.nodes = tuple(nodes)
        self.cpu = np.array([node.cpu for node in nodes], dtype=np.int64)
        self.memory = np.array([node.memory for node in nodes], dtype=np.int64)
        self.pods_left = np.full(len(nodes), MOST_PODS_A_NODE, dtype=np.int64)
        self.size = np.array([node.gpus for node in nodes], dtype=np.int64)
        width = max(1, int(self.size.max(initial=0)))
        self.gpu: Ints = np.where(np.arange(width) < self.size[:, None], WHOLE, 0).astype(np.int64)
        self.idle: Ints = self.gpu.sum(axis=1)
        self.whole = self.size.copy()
        self.most: Ints = self.gpu.max(axis=1, initial=0)
        self.kinds = np.zeros((len(nodes), width + 1), dtype=np.int64)
        self.models = tuple(dict.fromkeys(node.model for node in nodes))
        codes = {model: code for code, model in enumerate(self.models)}
        self.model = np.array([codes[node.model] for node in nodes], dtype=np.int64)
        self.capacity_milli = int(self.idle.sum())
        self._allowed: dict[tuple[str, ...], Bools] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def allows(self, models: tuple[str, ...]) -> Bools:
        """Per row, whether its GPU model is among those allowed."""
        if models not in self._allowed:
            allowed = np.array([not models or model in models for model in self.models], dtype=bool)
            self._allowed[models] = allowed[self.model]
        return self._allowed[models]

    def fits(self, ask: Ask, rows: Ints) -> Bools:
        """Which of the rows have room for the pod now."""
        fit: Bools = (self.cpu[rows] >= ask.cpu) & (self.memory[rows] >= ask.memory)
        fit &= self.pods_left[rows] > 0
        if ask.is_part:
            fit &= self.most[rows] >= ask.milli
        elif ask.gpus:
            fit &= self.whole[rows] >= ask.gpus
        if ask.models:
            fit &= self.allows(ask.models)[rows]
        return fit

    def tightest(self, row: int, milli: int) -> int:
        """The fitting GPU with least left, the first of several."""
        left = self.gpu[row].tolist()
        return min((value, at) for at, value in enumerate(left) if value >= milli)[1]

    def whole_gpus(self, row: int, number: int) -> tuple[int, ...]:
        """The first free GPUs in index order."""
        left = self.gpu[row].tolist()
        return tuple([at for at, value in enumerate(left) if value == WHOLE][:number])

    def take(self, seat: Seat, ask: Ask) -> None:
        """Let the pod run there. There must be room."""
        self._change(seat, ask, 1)

    def give_back(self, seat: Seat, ask: Ask) -> None:
        """The pod has left."""
        self._change(seat, ask, -1)

    def _change(self, seat: Seat, ask: Ask, number: int) -> None:
        row = seat.row
        self.cpu[row] -= number * ask.cpu
        self.memory[row] -= number * ask.memory
        self.pods_left[row] -= number
        if not seat.devices:
            return
        left = self.gpu[row].tolist()
        for at in seat.devices:
            left[at] -= number * ask.milli
        self.gpu[row] = left
        self.idle[row] = sum(left)
        self.whole[row] = left.count(WHOLE)
        self.most[row] = max(left)
        self.kinds[row, kind_of(ask)] += number


def kind_of(ask: Ask) -> int:
    return PART if ask.is_part else ask.gpus
