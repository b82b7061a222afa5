"""Reads a solved program back as a choice: which block, which of its GPUs, which new layout."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from apps.planner.mig.blocks import Block, Choice, CutGpu, Kind, Want
from apps.planner.mig.models import MigModel
from apps.planner.mig.targets import Target

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


def read_choice(search: Columns, values: Sequence[int]) -> Choice:
    choice = Choice()
    layouts: dict[Place, list[Target]] = defaultdict(list)
    for (place, target), column in search.targets.items():
        layouts[place] += [target] * values[column]
    begun: Counter[int] = Counter()
    for (at, is_late), column in search.drained.items():
        kind = search.kinds[at]
        blocks = kind.blocks[begun[at] : begun[at] + values[column]]
        begun[at] += len(blocks)
        for gpu, _ in kind.gpus:
            targets = layouts[kind.group, gpu.model, is_late]
            for block, position in _seats(blocks, gpu)[: values[search.relaid[at, is_late, gpu]]]:
                target = _take(targets, gpu)
                choice.relaid.setdefault(block.key, {})[position] = target[0]
                choice.whole += gpu.whole
                choice.uncut += target[1] - gpu.uncut
        choice.drained += [block.key for block in blocks if kind.used]
    pods = {block.key: block.pods for kind in search.kinds for block in kind.blocks}
    choice.moves = sum(pods[key] for key in choice.drained)
    choice.unmet = {at: values[column] for at, column in enumerate(search.unmet) if values[column]}
    return choice


def stay(kinds: Sequence[Kind], wants: Sequence[Want]) -> Choice:
    """No time to search: idle instances go to whoever comes first, nothing is relaid."""
    idle: Counter[tuple[str, str]] = Counter()
    for kind in kinds:
        for profile, number in kind.sample.idle.items():
            idle[kind.group, profile] += number * len(kind.blocks)
    choice = Choice()
    for at in sorted(range(len(wants)), key=lambda at: wants[at].rank):
        if wants[at].bundle:
            choice.unmet[at] = wants[at].number
            continue
        missing = wants[at].number
        profile, groups = wants[at].shape
        for group in sorted(groups):
            given = min(missing, idle[group, profile])
            idle[group, profile] -= given
            missing -= given
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
