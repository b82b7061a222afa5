"""Blocks worth relaying: those of which, for every way to be worse off, no others are enough.

A block that has at least as much idle, in use and to lose as another is never the better one to relay.
If there are as many better ones as could be relaid at all, it is left as it is: no optimum is lost.
Not in here: the rule that a node takes no moved pod while anything on it is drained (sites).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from apps.planner.mig.blocks import Kind
from apps.planner.mig.models import MigModel


def keep_useful(kinds: Sequence[Kind], wanted: frozenset[str], most: int) -> list[Kind]:
    """most: GPUs that are relaid at most. wanted: profiles of which idle instances matter to anybody."""
    kept = {at for at, kind in enumerate(kinds) if len(kind.gpus) != 1 or kind.together}
    alike: dict[tuple[str, MigModel], list[int]] = defaultdict(list)
    for at, kind in enumerate(kinds):
        if at not in kept:
            alike[kind.group, kind.gpus[0][0].model].append(at)
    for positions in alike.values():
        kept.update(_keep(kinds, positions, wanted, most))
    return [kind for at, kind in enumerate(kinds) if at in kept]


def _keep(kinds: Sequence[Kind], positions: list[int], wanted: frozenset[str], most: int) -> list[int]:
    sizes = np.array([len(kinds[at].blocks) for at in positions])
    if sizes.sum() <= most:
        return positions
    losses = _losses(kinds, positions, wanted)
    order = np.lexsort((np.arange(len(positions)), losses.sum(axis=1)))
    losses, sizes = losses[order], sizes[order]
    kept: list[int] = []
    for at in range(len(positions)):
        # Whoever loses no more stands before it in this order.
        better = (losses[:at] <= losses[at]).all(axis=1)
        if sizes[:at][better].sum() < most:
            kept.append(positions[order[at]])
    return kept


def _losses(kinds: Sequence[Kind], positions: list[int], wanted: frozenset[str]) -> np.ndarray:
    """A row per kind: what is lost when one of its blocks is relaid, each column by itself."""
    names = sorted(wanted)
    shapes = {
        shape: at for at, shape in enumerate({shape for at in positions for shape, _ in kinds[at].used})
    }
    rows = np.zeros((len(positions), len(names) + len(shapes) + 2), dtype=np.int32)
    for row, at in zip(rows, positions, strict=True):
        kind = kinds[at]
        gpu = kind.gpus[0][0]
        idle = kind.idle
        row[: len(names)] = [idle.get(name, 0) for name in names]
        for shape, number in kind.used:
            row[len(names) + shapes[shape]] = number
        row[-2:] = int(gpu.whole), gpu.model.axis - gpu.uncut
    return rows
