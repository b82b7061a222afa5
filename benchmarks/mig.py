"""MIG layouts for A100 clusters of every size: how often the optimum is proven, and how fast.

    python -m benchmarks.mig [--seed 1] [--most 200] [--step 1] [--seconds 10] [--compare 12]

Each cluster: nodes of 8 GPUs cut at random, a part of the instances in use, random pods pending. Up to
`--compare` GPUs the answer is compared with a plain formulation (one binary variable per GPU and
layout, no grouping), whose time is the baseline of the ratio.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import Counter, defaultdict

from apps.planner.mig.blocks import Block, Choice, CutGpu, Want
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.choosing import choose_layouts
from apps.planner.mig.layouts import Counts, counts_of, list_full_layouts, list_layouts, uncut_slices
from apps.planner.program import Program

MODEL = MODELS["A100-40GB"]
PROFILES = ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")
HERE = frozenset("a")


PER_NODE = 8


def make_cluster(rng: random.Random, size: int) -> tuple[list[Block], list[Want]]:
    """Load and demand are drawn per cluster: from half empty to more than fits."""
    load, demand = rng.uniform(0.2, 0.8), rng.uniform(0.1, 0.9)
    blocks = []
    for at in range(size):
        full = rng.random() < 0.7
        layout = rng.choice((list_full_layouts if full else list_layouts)(MODEL, PROFILES))
        used = Counter(cut.profile for cut in layout if rng.random() < load)
        blocks.append(
            Block(
                key=f"g{at:04}",
                group="a",
                gpus=(CutGpu(MODEL, counts_of(layout), uncut_slices(MODEL, layout), whole=not layout),),
                offered=counts_of(layout),
                used=tuple(((profile, HERE), number) for profile, number in sorted(used.items())),
                fixed=bool(used) and rng.random() < 0.1,
                site=f"n{at // PER_NODE:03}",
            )
        )
    slices = demand * sum(7 - _slices_in_use(block) for block in blocks)
    wanted: Counter[str] = Counter()
    while slices > 0:
        profile = rng.choice(PROFILES)
        wanted[profile] += 1
        slices -= MODEL.by_name[profile].compute_slices
    return blocks, [
        Want((profile, HERE), number, worth=MODEL.by_name[profile].compute_slices)
        for profile, number in sorted(wanted.items())
    ]


def _slices_in_use(block: Block) -> int:
    return sum(number * MODEL.by_name[profile].compute_slices for (profile, _), number in block.used)


class PlainProgram:
    """The same question with one binary variable per GPU and layout, and nothing grouped."""

    def __init__(self, blocks: list[Block], wants: list[Want]) -> None:
        self.program = Program()
        self.unmet: dict[int, float] = {}
        self.relaid: dict[int, float] = {}
        self.moves: dict[int, float] = {}
        self.moved: dict[str, dict[int, float]] = {name: {} for name in MODEL.by_name}
        self.final: dict[str, dict[int, float]] = {name: {} for name in MODEL.by_name}
        self.stocks: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
        self.closed = {block.site: self.program.add_column(0.0, 1.0) for block in blocks}
        self.idle, self.idle_at = Counter[str](), Counter[tuple[str, str]]()
        full = list_full_layouts(MODEL, (*PROFILES, "1g.10gb"))
        for block in blocks:
            self._add_gpu(block, sorted({counts_of(layout) for layout in full}))
        self._add_pods(wants)

    def solve(self, seconds: float) -> tuple[tuple[int, ...], bool]:
        """((unmet compute slices, reconfigurations, moves), whether all three are proven)."""
        end = time.monotonic() + seconds
        found, proven = [], True
        for costs in (self.unmet, self.relaid, self.moves):
            self.program.set_costs(costs)
            solution = self.program.solve(lambda: time.monotonic() > end)
            if solution is None or not solution.values:
                return (), False
            proven = proven and solution.proven
            found.append(round(sum(cost * solution.values[column] for column, cost in costs.items())))
            self.program.add_row(costs, high=float(found[-1]))
        return tuple(found), proven

    def _add_gpu(self, block: Block, targets: list[Counts]) -> None:
        self.idle.update(block.idle)
        self.idle_at.update({(block.site, name): number for name, number in block.idle.items()})
        if block.fixed:
            return
        used = {profile: number for (profile, _), number in block.used}
        columns = {self.program.add_column(0.0, 1.0): dict(target) for target in targets}
        self.program.add_row(dict.fromkeys(columns, 1.0), high=1.0)
        if used:
            self.program.add_row({**dict.fromkeys(columns, 1.0), self.closed[block.site]: -1.0}, high=0.0)
        for column, target in columns.items():
            self.relaid[column], self.moves[column] = 1.0, float(block.pods)
            for name in MODEL.by_name:
                left, want, new = block.idle.get(name, 0), used.get(name, 0), target.get(name, 0)
                self.final[name][column] = float(left + want - new)
                self.moved[name][column] = float(want)
                self.stocks[block.site, name][column] = float(left - (0 if used else new))

    def _add_pods(self, wants: list[Want]) -> None:
        for want in wants:
            name, number = want.shape[0], float(want.number)
            column = self.program.add_column(0.0, number)
            self.unmet[column] = float(want.worth)
            self.final[name][column] = -1.0
            self.program.add_row(self.final[name], high=float(self.idle[name] - want.number))
        for (site, name), row in self.stocks.items():
            lent = self.program.add_column(0.0, 7.0 * PER_NODE)
            self.program.add_row({lent: 1.0, **row}, high=float(self.idle_at[site, name]))
            self.program.add_row({lent: 1.0, self.closed[site]: 7.0 * PER_NODE}, high=7.0 * PER_NODE)
            self.moved[name][lent] = -1.0
        for name in MODEL.by_name:
            self.program.add_row(self.moved[name], high=0.0)
            if name not in {want.shape[0] for want in wants}:
                self.program.add_row(self.final[name], high=float(self.idle[name]))


def score(choice: Choice, wants: list[Want]) -> tuple[int, ...]:
    unmet = sum(number * wants[at].worth for at, number in choice.unmet.items())
    return unmet, choice.reconfigurations, choice.moves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=200)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--compare", type=int, default=12)
    options = parser.parse_args()
    rows: list[tuple[int, bool, float, float | None]] = []
    for size in range(1, options.most + 1, options.step):
        rows.append(measure(size, options))
    print(f"A100-40GB, seed {options.seed}, limit {options.seconds:g} s")
    print(f"{'GPUs':>10} {'clusters':>9} {'proven':>8} {'median s':>9} {'worst s':>8} {'plain / ours':>13}")
    for low in range(1, options.most + 1, 25):
        part = [row for row in rows if low <= row[0] < low + 25]
        times = [seconds for _, _, seconds, _ in part]
        ratios = [plain / seconds for _, _, seconds, plain in part if plain is not None]
        ratio = f"{statistics.median(ratios):.1f}" if ratios else "-"
        proven = sum(1 for row in part if row[1]) / len(part)
        print(
            f"{low:4}..{part[-1][0]:4} {len(part):9} {proven:8.1%} {statistics.median(times):9.3f}"
            f" {max(times):8.3f} {ratio:>13}"
        )


def measure(size: int, options: argparse.Namespace) -> tuple[int, bool, float, float | None]:
    blocks, wants = make_cluster(random.Random(f"{options.seed}/{size}"), size)
    begun = time.monotonic()
    choice = choose_layouts(blocks, wants, deadline=lambda: time.monotonic() > begun + options.seconds)
    seconds = time.monotonic() - begun
    if size > options.compare:
        return size, choice.proven, seconds, None
    begun = time.monotonic()
    plain, proven = PlainProgram(blocks, wants).solve(60.0)
    if proven and choice.proven and plain != score(choice, wants):
        raise SystemExit(f"{size} GPUs: {score(choice, wants)} here, {plain} by the plain formulation")
    return size, choice.proven, seconds, time.monotonic() - begun


if __name__ == "__main__":
    main()
