"""What one node may do in a plan for a queue: who leaves, who starts there, who arrives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from apps.planner.inventory import Pod

Counts = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Column:
    """starts: pods by number of the wish. leaves, arrives: pods by number of their kind. A node that
    loses pods takes none in."""

    node: str
    victims: tuple[Pod, ...]
    leaves: Counts
    starts: Counts
    arrives: Counts
    cost: float = 0.0

    @property
    def key(self) -> tuple[str, tuple[str, ...], Counts, Counts]:
        return self.node, tuple(pod.uid for pod in self.victims), self.starts, self.arrives


def count_kinds(kinds: list[int]) -> Counts:
    return tuple(sorted(Counter(kinds).items()))
