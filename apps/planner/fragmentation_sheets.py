"""A target workload made ready for FGD's measure: what a node loses is a few look-ups.

Specs that ask for the same number of GPUs stand on one sheet, as sums of their counts over two thresholds:
specs that ask for at most so much CPU, and at most so much of each GPU. A spec fits a node if its CPU fits
and the `number`-th largest GPU has enough left; then every GPU with enough left is of use to it. So the use
of a GPU is one sum of the sheet, at the rank of the lesser of what it and the `number`-th have left, and no
spec is looked at again. Exact, in integers. Not in here: the nodes (fragmentation_table).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from apps.planner.inventory import Node
from apps.planner.room import WHOLE
from apps.planner.workload import Spec, Workload, names_of_model

Ints = npt.NDArray[np.int64]
Counted = tuple[Spec, int]
CAUSES = ("lacks_cpu", "lacks_gpu", "lacks_both", "model_not_allowed", "cpu_only", "usable")
MOST_CELLS = 2**18
"""Of one sheet (8 bytes each). A workload of many different shapes gets more sheets instead of a vast one."""
NEVER = 2**62


@dataclass(frozen=True, slots=True)
class Sheet:
    """Specs for `gpus` GPUs each. Kinds of nodes, and CPU and share demands in rising order, are its axes.

    sums[kind, c, m]: pods of allowed specs that ask for at most the c least CPU demands and m least shares.
    ranks[milli]: how many of the share demands so much would serve. least[kind, c]: the smallest share that
    an allowed spec with so little CPU asks for, NEVER without one.
    """

    gpus: int
    cpus: Ints
    ranks: Ints
    sums: Ints
    least: Ints

    def rows(self, kind: Ints, cpu: Ints) -> Ints:
        """Of each node, where its line of `sums` stands among all lines."""
        lines: Ints = kind * (len(self.cpus) + 1) + np.searchsorted(self.cpus, cpu, "right")
        return lines


@dataclass(frozen=True, slots=True)
class _Lines:
    """A sheet as plain sequences, for one node at a time: then a look-up costs a tenth of numpy's."""

    gpus: int
    width: int
    cpus: list[int]
    ranks: Sequence[int]
    sums: Sequence[int]
    last: int


class Sheets:
    """All sheets of one workload. Kinds of nodes are told apart by the model wishes that they meet."""

    def __init__(self, workload: Workload, nodes: Iterable[Node]) -> None:
        self.weight_total = workload.weight_total
        self.cpu_only = sum(count for spec, count in workload.specs if not spec.gpus)
        asking = [(_bounded(spec), count) for spec, count in workload.specs if spec.gpus]
        wishes = {spec.models: spec for spec, _ in asking}
        self._kinds: dict[tuple[bool, ...], int] = {}
        self._known: dict[frozenset[str], int] = {}
        kinds = [self._kind_of(node, wishes.values()) for node in nodes]
        self.kinds: Ints = np.array(kinds, dtype=np.int64)
        met = [dict(zip(wishes, flags, strict=True)) for flags in self._kinds]
        met = met or [dict.fromkeys(wishes, False)]
        self.allowed: Ints = np.array(
            [sum(count for spec, count in asking if one.get(spec.models)) for one in met], dtype=np.int64
        )
        self.barred: Ints = sum(count for _, count in asking) - self.allowed
        by_number: dict[int, list[Counted]] = defaultdict(list)
        for entry in asking:
            by_number[entry[0].gpus].append(entry)
        self.sheets = [
            _sum_up(number, part, met)
            for number in sorted(by_number)
            for part in _split(sorted(by_number[number], key=lambda entry: entry[0].milli), len(met))
        ]
        self._lines = [_as_lines(sheet) for sheet in self.sheets]
        self._constants = list(zip(self.allowed.tolist(), self.barred.tolist(), strict=True))

    def score_all(self, kind: Ints, cpu: Ints, left: Ints) -> Ints:
        """Counts x milli of each node (rows) by cause (columns). left: of its GPUs, the fullest last."""
        idle = left.sum(axis=1)
        usable = np.zeros(len(left), dtype=np.int64)
        has_cpu, has_gpu, fits = (np.zeros(len(left), dtype=np.int64) for _ in range(3))
        for sheet in self.sheets:
            _, lines, width = sheet.sums.shape
            here = sheet.rows(kind, cpu)
            ranks = sheet.ranks.take(left, mode="clip")
            least = ranks[:, sheet.gpus - 1].copy() if sheet.gpus <= left.shape[1] else np.zeros_like(idle)
            if sheet.gpus > 1:
                np.minimum(ranks, least[:, None], out=ranks)
            sums = sheet.sums.reshape(-1)
            start = here * width
            ranks += start[:, None]
            usable += np.einsum("ij,ij->i", sums.take(ranks), left)
            has_cpu += sums.take(start + width - 1)
            has_gpu += sums.take((kind * lines + lines - 1) * width + least)
            fits += sums.take(start + least)
        lost = np.empty((len(left), len(CAUSES)), dtype=np.int64)
        lost[:, 0] = (has_gpu - fits) * idle
        lost[:, 1] = has_cpu * idle - usable
        lost[:, 2] = (self.allowed.take(kind) - has_gpu - has_cpu + fits) * idle
        lost[:, 3] = self.barred.take(kind) * idle
        lost[:, 4] = self.cpu_only * idle
        lost[:, 5] = usable
        return lost

    def score(self, kind: int, cpu: int, left: Sequence[int]) -> tuple[int, ...]:
        """The same of one node."""
        idle = sum(left)
        usable = has_cpu = has_gpu = fits = 0
        for sheet in self._lines:
            number, ranks, sums, width = sheet.gpus, sheet.ranks, sheet.sums, sheet.width
            line = kind * sheet.last + bisect_right(sheet.cpus, cpu)
            start, top = line * width, len(ranks) - 1
            has_cpu += sums[start + width - 1]
            if number > len(left) or left[number - 1] <= 0:
                continue
            least = ranks[min(left[number - 1], top)]
            fitting = sums[start + least]
            fits += fitting
            has_gpu += sums[(kind * sheet.last + sheet.last - 1) * width + least]
            usable += fitting * sum(left[:number])
            for milli in left[number:]:
                if milli <= 0:
                    break
                usable += milli * sums[start + ranks[min(milli, top)]]
        allowed, barred = self._constants[kind]
        return (
            (has_gpu - fits) * idle,
            has_cpu * idle - usable,
            (allowed - has_gpu - has_cpu + fits) * idle,
            barred * idle,
            self.cpu_only * idle,
            usable,
        )

    def stranded(self, kind: Ints, cpu: Ints, left: Ints) -> Ints:
        """Milli of each node that no spec can use: the least that any of them would lose there."""
        idle = left.sum(axis=1)
        best = np.zeros_like(idle)
        for sheet in self.sheets:
            if sheet.gpus > left.shape[1]:
                continue
            smallest = sheet.least.reshape(-1).take(sheet.rows(kind, cpu))
            used = np.where(left >= smallest[:, None], left, 0).sum(axis=1)
            np.maximum(best, np.where(left[:, sheet.gpus - 1] >= smallest, used, 0), out=best)
        unused: Ints = idle - best
        return unused

    def _kind_of(self, node: Node, wishes: Iterable[Spec]) -> int:
        names = names_of_model(node)
        kind = self._known.get(names)
        if kind is None:
            met = tuple(spec.allows_any(names) for spec in wishes)
            kind = self._known[names] = self._kinds.setdefault(met, len(self._kinds))
        return kind


def _bounded(spec: Spec) -> Spec:
    """Beyond what any node has, one amount is like another; a table holds no endless numbers."""
    return replace(spec, cpu=min(spec.cpu, NEVER), milli=min(spec.milli, WHOLE + 1))


def _split(entries: list[Counted], kinds: int) -> Iterable[list[Counted]]:
    """By share, until no part is vast: a part of a single share has no more cells than specs."""
    cpus = {spec.cpu for spec, _ in entries}
    shares = sorted({spec.milli for spec, _ in entries})
    if len(shares) < 2 or kinds * (len(cpus) + 1) * (len(shares) + 1) <= MOST_CELLS:
        return [entries]
    middle = shares[len(shares) // 2]
    low = [entry for entry in entries if entry[0].milli < middle]
    high = [entry for entry in entries if entry[0].milli >= middle]
    return chain(_split(low, kinds), _split(high, kinds))


def _sum_up(number: int, entries: list[Counted], met: list[dict[str, bool]]) -> Sheet:
    cpus = np.unique(np.array([spec.cpu for spec, _ in entries], dtype=np.int64))
    shares = np.unique(np.array([spec.milli for spec, _ in entries], dtype=np.int64))
    sums = np.zeros((len(met), len(cpus) + 1, len(shares) + 1), dtype=np.int64)
    least = np.full((len(met), len(cpus) + 1), NEVER, dtype=np.int64)
    for spec, count in entries:
        row = int(np.searchsorted(cpus, spec.cpu)) + 1
        column = int(np.searchsorted(shares, spec.milli)) + 1
        for kind, wishes in enumerate(met):
            if wishes[spec.models]:
                sums[kind, row, column] += count
                least[kind, row] = min(least[kind, row], spec.milli)
    ranks = np.searchsorted(shares, np.arange(WHOLE + 1), "right").astype(np.int64)
    return Sheet(
        number,
        cpus,
        ranks,
        sums.cumsum(axis=1).cumsum(axis=2),
        np.minimum.accumulate(least, axis=1),
    )


def _as_lines(sheet: Sheet) -> _Lines:
    _, lines, width = sheet.sums.shape
    sums: Sequence[int] = np.ascontiguousarray(sheet.sums).reshape(-1).data
    return _Lines(sheet.gpus, width, sheet.cpus.tolist(), sheet.ranks.tolist(), sums, lines)
