"""A cluster as the choice of layouts sees it: blocks of GPUs that are drained together, and wants.

Usually a block is one GPU. Where nobody tells which pod holds which instance, it is a whole node.
Not in here: pods and nodes by name (planner/mig_facts), the choice itself (choosing).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from apps.planner.mig.layouts import Counts
from apps.planner.mig.models import MigModel

Shape = tuple[str, frozenset[str]]
"""(profile, groups of nodes that may take it): what tells two pods with one MIG instance apart."""


@dataclass(frozen=True, slots=True)
class CutGpu:
    """One GPU. counts: its instances now. uncut: memory slices without an instance. whole: MIG is off."""

    model: MigModel
    counts: Counts = ()
    uncut: int = 0
    whole: bool = False


@dataclass(frozen=True)
class Block:
    """GPUs that can be relaid once nobody uses any of them.

    group: the kind of node it stands in. offered: instances it offers now. used: pods with one
    instance each, by shape. fixed: it cannot be drained, or must not be relaid. together: which GPU
    has which instances is not known, so all of its GPUs are relaid or none. site: the node, if no pod
    may move onto it while anything on it is being drained (which instance it got would be the
    kubelet's choice); "" for no such rule. cost: of draining it.
    """

    key: str
    group: str
    gpus: tuple[CutGpu, ...]
    offered: Counts = ()
    used: tuple[tuple[Shape, int], ...] = ()
    fixed: bool = False
    together: bool = False
    site: str = ""
    cost: float = field(default=0.0, compare=False)

    @cached_property
    def idle(self) -> dict[str, int]:
        left = Counter(dict(self.offered))
        for (profile, _), number in self.used:
            left[profile] -= number
        return {profile: number for profile, number in left.items() if number > 0}

    @property
    def pods(self) -> int:
        return sum(number for _, number in self.used)


@dataclass(frozen=True, slots=True)
class Want:
    """Pending pods with one instance each. rank: a lower one is served first. worth: compute slices.

    bundle: wants with the same one are served whole or not at all; "" for none.
    """

    shape: Shape
    number: int
    rank: int = 0
    worth: int = 1
    bundle: str = ""


@dataclass(slots=True)
class Choice:
    """What to relay, and what it serves.

    relaid: by block key, the new instances of each relaid GPU by its position in the block.
    unmet: by position in the wants, pending pods that get nothing. uncut: memory slices more (or,
    negative, less) left uncut than before. bound: whatever serves as much has at least as many
    reconfigurations. proven: no choice is better in any objective.
    """

    relaid: dict[str, dict[int, Counts]] = field(default_factory=dict)
    drained: list[str] = field(default_factory=list)
    unmet: dict[int, int] = field(default_factory=dict)
    moves: int = 0
    whole: int = 0
    uncut: int = 0
    bound: float = 0.0
    proven: bool = False

    @property
    def reconfigurations(self) -> int:
        return sum(len(gpus) for gpus in self.relaid.values())


@dataclass(slots=True)
class Kind:
    """Blocks that are alike but for their names, cheapest to drain first."""

    group: str
    gpus: tuple[tuple[CutGpu, int], ...]
    used: tuple[tuple[Shape, int], ...]
    fixed: bool
    together: bool
    blocks: list[Block]

    @property
    def site(self) -> str:
        return self.sample.site

    @property
    def sample(self) -> Block:
        return self.blocks[0]


def group_alike(blocks: Iterable[Block]) -> list[Kind]:
    """Equal blocks as one kind, in a fixed order."""
    kinds: dict[tuple[object, ...], Kind] = {}
    for block in sorted(blocks, key=lambda one: (one.cost, one.key)):
        gpus = Counter(block.gpus)
        key = (
            block.group,
            frozenset(gpus.items()),
            frozenset(block.used),
            frozenset(block.offered),
            block.fixed,
            block.together,
            block.site,
        )
        if key not in kinds:
            kinds[key] = Kind(block.group, tuple(gpus.items()), block.used, block.fixed, block.together, [])
        kinds[key].blocks.append(block)
    return list(kinds.values())
