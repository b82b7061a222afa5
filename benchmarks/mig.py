"""MIG layouts for A100 clusters of every size: how often the optimum is proven, and how fast.

    python -m benchmarks.mig [--seed 1] [--most 200] [--step 1] [--seconds 10] [--compare 12]

Each cluster: GPUs cut at random, a part of the instances in use, random pods pending. Up to
`--compare` GPUs the answer is compared with a plain formulation (one binary variable per GPU and
layout, no grouping), whose time is the baseline of the ratio.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import Counter

from apps.planner.mig.blocks import Block, Choice, CutGpu, Want
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.choosing import choose_layouts
from apps.planner.mig.layouts import counts_of, list_full_layouts, list_layouts, uncut_slices
from apps.planner.program import Program

MODEL = MODELS["A100-40GB"]
PROFILES = ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")
HERE = frozenset("a")


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


def solve_plainly(blocks: list[Block], wants: list[Want], seconds: float) -> tuple[tuple[int, ...], bool]:
    """The same question with one variable per GPU and layout: (unmet, reconfigurations, moves), proven."""
    targets = sorted({counts_of(layout) for layout in list_full_layouts(MODEL, (*PROFILES, "1g.10gb"))})
    program, unmet, relaid, moves = Program(), {}, {}, {}
    early: dict[str, dict[int, float]] = {name: {} for name in MODEL.by_name}
    final: dict[str, dict[int, float]] = {name: {} for name in MODEL.by_name}
    idle: Counter[str] = Counter()
    for block in blocks:
        idle.update(block.idle)
        choices = [] if block.fixed else targets
        used = {profile: number for (profile, _), number in block.used}
        columns = {program.add_column(0.0, 1.0): dict(target) for target in choices}
        if columns:
            program.add_row(dict.fromkeys(columns, 1.0), high=1.0)
        for column, target in columns.items():
            relaid[column], moves[column] = 1.0, float(block.pods)
            for name in MODEL.by_name:
                left, want, new = block.idle.get(name, 0), used.get(name, 0), target.get(name, 0)
                final[name][column] = float(left + want - new)
                early[name][column] = float(left + want - (0 if block.used else new))
    for want in wants:
        column = program.add_column(0.0, float(want.number))
        unmet[column] = float(want.worth)
        final[want.shape[0]][column] = -1.0
        idle_now = idle[want.shape[0]]
        program.add_row(final[want.shape[0]], high=float(idle_now - want.number))
    for name in MODEL.by_name:
        program.add_row(early[name], high=float(idle[name]))
        if name not in {want.shape[0] for want in wants}:
            program.add_row(final[name], high=float(idle[name]))
    end = time.monotonic() + seconds
    found, proven = [], True
    for costs in (unmet, relaid, moves):
        program.set_costs(costs)
        solution = program.solve(lambda: time.monotonic() > end)
        if solution is None or not solution.values:
            return (), False
        proven = proven and solution.proven
        found.append(round(sum(cost * solution.values[column] for column, cost in costs.items())))
        program.add_row(costs, high=float(found[-1]))
    return tuple(found), proven


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
    plain, proven = solve_plainly(blocks, wants, 60.0)
    if proven and choice.proven and plain != score(choice, wants):
        raise SystemExit(f"{size} GPUs: {score(choice, wants)} here, {plain} by the plain formulation")
    return size, choice.proven, seconds, time.monotonic() - begun


if __name__ == "__main__":
    main()
