"""In which order pods arrive and equals are preferred: everything random in a replay, by its seed.

The generator is Python's Mersenne Twister, seeded with the seed, and of it only `random()`, whose stream
Python promises never to change: an index below n is ⌊random()·n⌋, a shuffle is Fisher and Yates' from the
last place down. One stream gives first the fixed order of the nodes, then the order of the pods, then what is
drawn again (with replacement); a second one, seeded with "policy SEED", serves policies that draw. So all
policies see the same order for a seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TypeVar

Thing = TypeVar("Thing")


class Draw:
    """The documented generator."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed).random

    def below(self, number: int) -> int:
        return int(self._random() * number)

    def shuffled(self, things: Sequence[Thing]) -> list[Thing]:
        order = list(things)
        for last in range(len(order) - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order


def arrive(asks: Sequence[Thing], draw: Draw) -> Iterator[Thing]:
    """All pods in shuffled order, then draws with replacement without end."""
    yield from draw.shuffled(asks)
    for _ in count():
        yield asks[draw.below(len(asks))]
