"""A cluster as the choice of layouts sees it: blocks of GPUs that are drained together, and wants.

Usually a block is one GPU. Where nobody tells which pod holds which instance, it is a whole node.
Not in here: pods and nodes by name (facts), the choice itself (choosing).
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
    kubelet's choice); "" for no such rule.
    """

    key: str
    group: str
    gpus: tuple[CutGpu, ...]
    offered: Counts = ()
    used: tuple[tuple[Shape, int], ...] = ()
    fixed: bool = False
    together: bool = False
    site: str = ""

    @cached_property
    def idle(self) -> dict[str, int]:
        left = dict(self.offered)
        for (profile, _), number in self.used:
            left[profile] = left.get(profile, 0) - number
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
    negative, less) left uncut than before. places: by position in the wants, pods by the group they start
    in. arrivals: moved pods by shape and by the group they go to. bound: whatever serves as much has at
    least as many reconfigurations. proven: no choice is better in any objective.
    """

    relaid: dict[str, dict[int, Counts]] = field(default_factory=dict)
    drained: list[str] = field(default_factory=list)
    unmet: dict[int, int] = field(default_factory=dict)
    moves: int = 0
    whole: int = 0
    uncut: int = 0
    places: dict[int, Counter[str]] = field(default_factory=dict)
    arrivals: dict[Shape, Counter[str]] = field(default_factory=dict)
    bound: float = 0.0
    proven: bool = False

    @property
    def reconfigurations(self) -> int:
        return sum(len(gpus) for gpus in self.relaid.values())


@dataclass(slots=True)
class Kind:
    """Blocks that are alike but for their names and their cost. site: "" where it does not matter."""

    group: str
    gpus: tuple[tuple[CutGpu, int], ...]
    used: tuple[tuple[Shape, int], ...]
    fixed: bool
    together: bool
    site: str
    blocks: list[Block]

    @property
    def idle(self) -> dict[str, int]:
        return self.blocks[0].idle

    @property
    def pods(self) -> int:
        return self.blocks[0].pods


def group_alike(blocks: Iterable[Block], *, by_site: bool) -> list[Kind]:
    """Equal blocks as one kind, in an order that their names do not decide (but for sites)."""
    kinds: dict[tuple[object, ...], Kind] = {}
    for block in blocks:
        site = block.site if by_site else ""
        gpus = Counter(block.gpus)
        alike = frozenset(gpus.items())
        key = (block.group, alike, block.used, block.offered, block.fixed, block.together, site)
        if key not in kinds:
            kinds[key] = Kind(
                block.group,
                tuple(gpus.items()),
                block.used,
                block.fixed,
                block.together,
                site,
                [],
            )
        kinds[key].blocks.append(block)
    return sorted(kinds.values(), key=_order_kinds)


def count_idle(blocks: Iterable[Block]) -> Counter[tuple[str, str]]:
    """Idle instances by (group, profile)."""
    found: Counter[tuple[str, str]] = Counter()
    for block in blocks:
        for profile, number in block.idle.items():
            found[block.group, profile] += number
    return found


def _order_kinds(kind: Kind) -> tuple[object, ...]:
    used = tuple((profile, tuple(sorted(groups)), number) for (profile, groups), number in kind.used)
    gpus = tuple((gpu.model.name, gpu.counts, gpu.uncut, gpu.whole, number) for gpu, number in kind.gpus)
    return (kind.group, gpus, used, kind.fixed, kind.together, kind.site, kind.blocks[0].offered)
