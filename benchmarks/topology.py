"""Choice of GPUs inside a node, beside plain enumeration: the same group, and how long a choice takes.

    python -m benchmarks.topology [--seed 1] [--sets 40] [--enumerate 8]

Matrices: NVSwitch (8 and 16 GPUs), NVLink quads (hybrid cube mesh), NVLink pairs, PCIe trees with NUMA nodes,
random symmetric ones. For each, `--sets` random sets of free GPUs with a random number wanted. Plain
enumeration tries every group and, for the remainder, every way to take groups out of it; that is asked for
matrices of up to `--enumerate` GPUs, larger ones are compared in link and bandwidth alone. cold: the first
choice of a set, warm: the same again, both in microseconds of CPU.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from functools import lru_cache
from itertools import combinations

from apps.planner.inventory import Gpu, Node, Topology
from apps.planner.topology import RANK, best_group, link_class

Links = tuple[tuple[str, ...], ...]
CODES = ("NV1", "NV2", "PIX", "PHB", "SYS")
REPEATS = 200


def switch(size: int) -> Links:
    return _links(size, lambda a, b: "NV18")


def cube_mesh() -> Links:
    """Two quads of NVLink, and one NVLink from each GPU to its twin in the other quad."""
    return _links(
        8,
        lambda a, b: (
            ("NV2" if (b - a) % 2 else "NV1") if a // 4 == b // 4 else "NV1" if b - a == 4 else "SYS"
        ),
    )


def pairs(size: int) -> Links:
    half = size // 2
    return _links(
        size, lambda a, b: "NV4" if a // 2 == b // 2 else "NODE" if a // half == b // half else "SYS"
    )


def tree(size: int) -> Links:
    half = size // 2
    return _links(
        size,
        lambda a, b: (
            "PIX"
            if a // 2 == b // 2
            else "PXB"
            if a // 4 == b // 4
            else "PHB"
            if a // half == b // half
            else "SYS"
        ),
    )


def scattered(size: int, rng: random.Random) -> Links:
    return _links(size, lambda a, b: rng.choice(CODES))


def _links(size: int, code: Callable[[int, int], str]) -> Links:
    cells = [["X"] * size for _ in range(size)]
    for a, b in combinations(range(size), 2):
        cells[a][b] = cells[b][a] = code(a, b)
    return tuple(map(tuple, cells))


class Enumeration:
    """Every group and every remainder tried, nothing clever."""

    def __init__(self, links: Links) -> None:
        self.weights = [[_weigh(cell) for cell in row] for row in links]
        self.count = lru_cache(maxsize=None)(self._count)

    def choose(self, free: tuple[int, ...], number: int, *, with_rest: bool) -> tuple[object, ...]:
        return max(self.value(free, group, with_rest=with_rest) for group in combinations(free, number))

    def value(self, free: tuple[int, ...], group: tuple[int, ...], *, with_rest: bool) -> tuple[object, ...]:
        ties = [self.weights[a][b] for a, b in combinations(group, 2)]
        worst, width = min((rank for rank, _ in ties), default=4), sum(width for _, width in ties)
        if not with_rest:
            return worst, width
        rest = tuple(at for at in free if at not in group)
        worth = tuple(self.count(rest, rank, size) for rank in (4, 3, 2) for size in (8, 4, 2))
        return worst, width, worth, tuple(-at for at in group)

    def _count(self, rest: tuple[int, ...], rank: int, size: int) -> int:
        best = 0
        for group in combinations(rest, size):
            if all(self.weights[a][b][0] >= rank for a, b in combinations(group, 2)):
                best = max(best, 1 + self.count(tuple(at for at in rest if at not in group), rank, size))
        return best


def _weigh(code: str) -> tuple[int, int]:
    rank = RANK[link_class(code)]
    width = 50 * int(code[2:]) if code.startswith("NV") else {3: 64, 2: 48, 1: 32}.get(rank, 0)
    return rank, width


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--enumerate", type=int, default=8)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    kinds = {
        "NVSwitch, 8": switch(8),
        "NVSwitch, 16": switch(16),
        "NVLink quads, 8": cube_mesh(),
        "NVLink pairs, 8": pairs(8),
        "PCIe tree, 8": tree(8),
        "PCIe tree, 16": tree(16),
        **{f"random {number}, 8": scattered(8, rng) for number in range(1, 4)},
        "random, 16": scattered(16, rng),
    }
    print(f"seed {options.seed}, {options.sets} sets each; microseconds of CPU a choice; ratio: plain / warm")
    print(f"{'matrix':18} {'same':>8} {'cold':>9} {'warm':>7} {'plain':>10} {'ratio':>9}")
    for name, links in kinds.items():
        print_kind(name, links, rng, options)


def print_kind(name: str, links: Links, rng: random.Random, options: argparse.Namespace) -> None:
    size = len(links)
    node = Node("n", gpus=tuple(Gpu(at) for at in range(size)), topology=Topology(links))
    plain, is_small = Enumeration(links), size <= options.enumerate
    cold = warm = slow = 0.0
    for _ in range(options.sets):
        free = tuple(sorted(rng.sample(range(size), rng.randint(1, size))))
        number = rng.randint(1, len(free))
        begun = time.process_time()
        found = best_group(node, free, number)
        cold += time.process_time() - begun
        begun = time.process_time()
        for _ in range(REPEATS):
            best_group(node, free, number)
        warm += (time.process_time() - begun) / REPEATS
        begun = time.process_time()
        best = plain.choose(free, number, with_rest=is_small)
        slow += time.process_time() - begun
        if found is None or plain.value(free, found, with_rest=is_small) != best:
            raise SystemExit(f"{name}: {number} of {free}: {found} here, {best} by enumeration")
    each = [1e6 * seconds / options.sets for seconds in (cold, warm, slow)]
    print(
        f"{name:18} {options.sets:4}/{options.sets:3} {each[0]:9.1f} {each[1]:7.2f} {each[2]:10.1f}"
        f" {each[2] / max(each[1], 1e-3):9.0f}"
    )


if __name__ == "__main__":
    main()
