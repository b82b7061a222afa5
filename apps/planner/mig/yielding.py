"""Reads a solved program back as a choice: which block, which of its GPUs, which new layout."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from apps.planner.mig.blocks import Block, Choice, CutGpu, Kind, Want
from apps.planner.mig.models import MigModel
from apps.planner.mig.targets import Target

Place = tuple[str, MigModel, bool]
"""(group, model, whether pods must leave first): GPUs of one place share their new layouts."""


@dataclass(slots=True)
class Columns:
    """Which column of the program stands for what. Kinds by their position."""

    kinds: list[Kind]
    drained: dict[int, int] = field(default_factory=dict)
    relaid: dict[tuple[int, CutGpu], int] = field(default_factory=dict)
    targets: dict[tuple[Place, Target], int] = field(default_factory=dict)
    unmet: list[int] = field(default_factory=list)

    def place_of(self, at: int, gpu: CutGpu) -> Place:
        return (self.kinds[at].group, gpu.model, bool(self.kinds[at].used))


def read_choice(search: Columns, values: Sequence[int]) -> Choice:
    choice = Choice()
    layouts: dict[Place, list[Target]] = defaultdict(list)
    for (place, target), column in search.targets.items():
        layouts[place] += [target] * values[column]
    for at, kind in enumerate(search.kinds):
        if kind.fixed:
            continue
        numbers = {gpu: values[search.relaid[at, gpu]] for gpu, _ in kind.gpus}
        blocks = kind.blocks[: values[search.drained[at]]]
        for gpu, number in numbers.items():
            for block, position in _seats(blocks, gpu)[:number]:
                target = _take(layouts[search.place_of(at, gpu)], gpu)
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
