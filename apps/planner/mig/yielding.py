"""Reads a solved program back as a choice: which block, which of its GPUs, which new layout."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from apps.planner.mig.blocks import Block, Choice, CutGpu, Kind, Shape, Want
from apps.planner.mig.models import MigModel
from apps.planner.mig.targets import Target

CostOf = Callable[[Block], float]
"""What draining a block costs; asked only of blocks between which there is a choice."""
Place = tuple[str, MigModel, bool]
"""(group, model, whether moved pods come too early for it): GPUs of one place share new layouts."""


@dataclass(slots=True)
class Columns:
    """Which column of the program stands for what. Kinds by their position, with whether it is late:
    relaid only when the moves are done."""

    kinds: list[Kind]
    drained: dict[tuple[int, bool], int] = field(default_factory=dict)
    relaid: dict[tuple[int, bool, CutGpu], int] = field(default_factory=dict)
    targets: dict[tuple[Place, Target], int] = field(default_factory=dict)
    unmet: list[int] = field(default_factory=list)
    places: dict[tuple[int, str], int] = field(default_factory=dict)
    arrivals: dict[tuple[Shape, str], int] = field(default_factory=dict)


def read_choice(search: Columns, values: Sequence[int], cost_of: CostOf) -> Choice:
    choice = Choice()
    layouts: dict[Place, list[Target]] = defaultdict(list)
    for (place, target), column in search.targets.items():
        layouts[place] += [target] * values[column]
    begun: Counter[int] = Counter()
    ordered: dict[int, list[Block]] = {}
    for (at, is_late), column in search.drained.items():
        if not values[column]:
            continue
        kind = search.kinds[at]
        if at not in ordered:
            ordered[at] = _cheapest_first(kind, cost_of)
        blocks = ordered[at][begun[at] : begun[at] + values[column]]
        begun[at] += len(blocks)
        for gpu, _ in kind.gpus:
            targets = layouts[kind.group, gpu.model, is_late]
            for block, position in _seats(blocks, gpu)[: values[search.relaid[at, is_late, gpu]]]:
                target = _take(targets, gpu)
                choice.relaid.setdefault(block.key, {})[position] = target[0]
                choice.whole += gpu.whole
                choice.uncut += target[1] - gpu.uncut
        choice.drained += [block.key for block in blocks if kind.used]
        choice.moves += kind.pods * len(blocks)
    choice.unmet = {at: values[column] for at, column in enumerate(search.unmet) if values[column]}
    for (want, group), column in search.places.items():
        choice.places.setdefault(want, Counter())[group] = values[column]
    for (shape, group), column in search.arrivals.items():
        choice.arrivals.setdefault(shape, Counter())[group] = values[column]
    return choice


def _cheapest_first(kind: Kind, cost_of: CostOf) -> list[Block]:
    if not kind.used:
        return sorted(kind.blocks, key=lambda block: block.key)
    return sorted(kind.blocks, key=lambda block: (cost_of(block), block.key))


def stay(idle: Counter[tuple[str, str]], wants: Sequence[Want]) -> Choice:
    """No time to search: idle instances go to whoever comes first, nothing is relaid."""
    left = idle.copy()
    choice = Choice()
    for at in sorted(range(len(wants)), key=lambda at: wants[at].rank):
        if wants[at].bundle:
            choice.unmet[at] = wants[at].number
            continue
        missing = wants[at].number
        profile, groups = wants[at].shape
        for group in sorted(groups):
            given = min(missing, left[group, profile])
            left[group, profile] -= given
            missing -= given
            choice.places.setdefault(at, Counter())[group] = given
        if missing:
            choice.unmet[at] = missing
    return choice


def _seats(blocks: Sequence[Block], gpu: CutGpu) -> list[tuple[Block, int]]:
    """Where GPUs of this kind stand; block after block, so that few blocks are touched."""
    return [
        (block, position) for block in blocks for position, other in enumerate(block.gpus) if other == gpu
    ]


def _take(targets: list[Target], gpu: CutGpu) -> Target:
    """Any of them serves; one that is not what the GPU has already, or there is nothing to relay."""
    for at, target in enumerate(targets):
        if target[0] != gpu.counts:
            return targets.pop(at)
    return targets.pop(0)
