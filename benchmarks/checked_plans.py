"""Goal G7: no violation in 100,000 planned moves, each plan replayed by the independent checker.

    python -m benchmarks.checked_plans [--moves 100000] [--seed 1] [--case N]

Random clusters of every kind (whole GPUs, shares, CPU pods, selectors, taints, affinity both ways, spread,
budgets, gangs, links, MIG) are planned for every goal, with and without preemption. The checker replays each
plan: all targets held at once, every wave at once, every prefix in the plan's order, and in three further
orders drawn at random inside the waves. Every fourth cluster is a large one (100 to 2,000 nodes). Exits with
1 at the end if anything was found; the case's number makes its cluster and plans again (`--case`).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from apps.planner.plan import Goal, Move, Plan
from apps.planner.searching import PlanRequest, search_plan
from apps.planner.snapshot import Snapshot
from apps.planner.verification import check_plan, replay_faults
from apps.planner.waiting import group_pending
from benchmarks.free_nodes_clusters import MIXES, draw_mixed, draw_uniform
from benchmarks.random_scenes import Kind, draw_mig_scene, draw_scene

ORDERS = 3
PARTS = 100
MOST_SHOWN = 5
LARGE_EVERY = 4
LARGE_NODES = (300, 600, 1200, 2000)
"""Every so many cases one large cluster: where many moves come from."""


def draw_kind(draw: random.Random) -> Kind:
    return Kind(
        nodes=draw.choice([4, 8, 16, 32, 48]),
        gpus=draw.choice([4, 8, 8]),
        load=draw.choice([0.3, 0.5, 0.7, 0.85, 0.95]),
        rules=draw.choice([0.0, 0.2, 0.6]),
        shares=draw.choice([0.0, 0.2, 0.5]),
        waiting=draw.choice([1, 3, 6]),
        protected=draw.choice([0.0, 0.02, 0.1]),
        cpu_pods=draw.choice([0.0, 0.5, 2.0]),
        models=draw.choice([1, 1, 3]),
    )


def draw_large(draw: random.Random) -> tuple[Snapshot, int]:
    """(cluster, moves): uniform nodes most of the time, else mixed ones with all their constraints."""
    seed = draw.randrange(10**6)
    if draw.random() < 0.1:
        nodes = draw.choice([100, 200])
        return draw_mixed(nodes, 3 * nodes, seed, rules=draw.random() < 0.3), nodes // 2
    nodes = draw.choice(LARGE_NODES)
    return draw_uniform(
        nodes, draw.choice([0.5, 0.7, 0.85, 0.92]), draw.choice(list(MIXES)), seed
    ), nodes // 2


def plans_of(draw: random.Random, *, large: bool) -> Iterator[tuple[Snapshot, str, Plan]]:
    """(cluster, what was asked, plan) of one case."""
    if large:
        snapshot, most = draw_large(draw)
        requests = [PlanRequest(Goal.FREE_NODES, most)]
    elif draw.random() < 0.15:
        snapshot = draw_mig_scene(draw, nodes=draw.choice([1, 2, 4]), gpus=draw.choice([1, 4, 8]))
        requests = [PlanRequest(Goal.MIG, draw.choice([2, 10, 40]))]
    else:
        snapshot = draw_scene(draw, draw_kind(draw))
        most = draw.choice([3, 12, 40, 100])
        named = [key for key, _ in group_pending(snapshot)][:2]
        requests = [
            PlanRequest(Goal.FREE_NODES, most),
            PlanRequest(Goal.UNLOCK, most, may_preempt=draw.random() < 0.5),
            *(PlanRequest(Goal.UNLOCK, most, name, may_preempt=draw.random() < 0.5) for name in named),
        ]
    for request in requests:
        words = f"{request.goal} {request.workload or ''} K={request.max_moves}"
        words += " with preemption" if request.may_preempt else ""
        plan = search_plan(snapshot, request, deadline=lambda: False)
        if len(plan.moves) > request.max_moves:
            raise SystemExit(f"{words}: {len(plan.moves)} moves")
        yield snapshot, words, plan


def find_violations(snapshot: Snapshot, plan: Plan, draw: random.Random) -> list[str]:
    found = check_plan(snapshot, plan)
    if found or plan.goal is Goal.MIG:
        return found
    for _ in range(ORDERS):
        found += replay_faults(snapshot, shuffle_waves(plan.moves, draw))
    return found


def shuffle_waves(moves: tuple[Move, ...], draw: random.Random) -> list[Move]:
    """In another order inside each wave."""
    shuffled: list[Move] = []
    for _, wave in groupby(moves, key=lambda move: move.wave):
        ones = list(wave)
        draw.shuffle(ones)
        shuffled += ones
    return shuffled


@dataclass(slots=True)
class Tally:
    """Counts by goal; CPU seconds."""

    moves: Counter[str] = field(default_factory=Counter)
    plans: Counter[str] = field(default_factory=Counter)
    clusters: int = 0
    preempted: int = 0
    violations: int = 0
    planning: float = 0.0
    checking: float = 0.0

    def run_case(self, seed: int, case: int) -> None:
        self.clusters += 1
        last = time.process_time()
        for snapshot, words, plan in plans_of(
            random.Random(f"{seed}/{case}"), large=case % LARGE_EVERY == LARGE_EVERY - 1
        ):
            planned = time.process_time()
            found = find_violations(snapshot, plan, random.Random(f"{seed}/{case}/orders"))
            self.planning += planned - last
            last = time.process_time()
            self.checking += last - planned
            self.moves[plan.goal] += len(plan.moves)
            self.plans[plan.goal] += 1
            self.preempted += len(plan.preemptions)
            self.violations += len(found)
            for fault in found[:MOST_SHOWN]:
                print(f"VIOLATION seed {seed} case {case} ({words}): {fault}", flush=True)

    def tell(self) -> None:
        print(
            f"{self.clusters} clusters, {self.plans.total()} plans, {self.moves.total()} moves,"
            f" {self.preempted} preemptions: {self.violations} violations;"
            f" {self.planning + self.checking:.0f} s CPU",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moves", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="only this case of the seed")
    options = parser.parse_args()
    tally, told = Tally(), 1
    if options.case is not None:
        tally.run_case(options.seed, options.case)
    while options.case is None and tally.moves.total() < options.moves:
        tally.run_case(options.seed, tally.clusters)
        if tally.moves.total() * PARTS >= told * options.moves:
            told = tally.moves.total() * PARTS // max(options.moves, 1) + 1
            tally.tell()
    print(f"seed {options.seed}: each plan in {1 + ORDERS} orders, every wave and all targets at once")
    for goal in Goal:
        print(f"{goal:12} {tally.plans[goal]:8} plans {tally.moves[goal]:8} moves")
    print(f"G7: {tally.violations} violations in {tally.moves.total()} moves, {tally.preempted} preemptions")
    print(f"{tally.planning:.1f} s CPU planning, {tally.checking:.1f} s checking")
    if tally.violations:
        sys.exit(1)


if __name__ == "__main__":
    main()
