"""Goal G7: no violation in 100,000 planned moves, each plan replayed by the independent checker.

    python -m benchmarks.checked_plans [--moves 100000] [--seed 1] [--case N]

Random clusters of every kind (whole GPUs, shares, CPU pods, selectors, taints, affinity both ways, spread,
budgets, gangs, links, MIG) are planned for every goal, with and without preemption. The checker replays each
plan: all targets held at once, every wave at once, every prefix in the plan's order, and in three further
orders drawn at random inside the waves. Exits with 1 at the end if anything was found; the case's number
makes its cluster and plans again (`--case`).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from apps.planner.plan import Goal, Move, Plan
from apps.planner.searching import PlanRequest, search_plan
from apps.planner.snapshot import Snapshot
from apps.planner.verification import check_plan, replay_faults
from apps.planner.waiting import group_pending
from benchmarks.random_scenes import Kind, draw_mig_scene, draw_scene

ORDERS = 3
MOST_SHOWN = 5


def draw_kind(draw: random.Random) -> Kind:
    return Kind(
        nodes=draw.choice([4, 8, 16, 32, 48]),
        gpus=draw.choice([4, 8, 8]),
        load=draw.choice([0.3, 0.5, 0.7, 0.85]),
        rules=draw.choice([0.0, 0.2, 0.6]),
        shares=draw.choice([0.0, 0.2, 0.5]),
        waiting=draw.choice([1, 3, 6]),
        protected=draw.choice([0.0, 0.02, 0.1]),
        cpu_pods=draw.choice([0.0, 0.5, 2.0]),
        models=draw.choice([1, 1, 3]),
    )


def plans_of(draw: random.Random) -> Iterator[tuple[Snapshot, str, Plan]]:
    """(cluster, what was asked, plan) of one case."""
    if draw.random() < 0.15:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moves", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="only this case of the seed")
    options = parser.parse_args()
    moves, plans, preempted, violations, cases = Counter[str](), Counter[str](), 0, 0, 0
    planning = checking = 0.0
    begun = time.process_time()
    while options.case is None and moves.total() < options.moves or not cases:
        case = cases if options.case is None else options.case
        cases += 1
        draw = random.Random(f"{options.seed}/{case}")
        last = time.process_time()
        for snapshot, words, plan in plans_of(draw):
            planned = time.process_time()
            found = find_violations(snapshot, plan, random.Random(f"{options.seed}/{case}/orders"))
            planning, checking = planning + planned - last, checking + time.process_time() - planned
            last = time.process_time()
            moves[plan.goal] += len(plan.moves)
            plans[plan.goal] += 1
            preempted += len(plan.preemptions)
            violations += len(found)
            for fault in found[:MOST_SHOWN]:
                print(f"VIOLATION seed {options.seed} case {case} ({words}): {fault}", flush=True)
    print(f"seed {options.seed}, {cases} clusters, each plan in {1 + ORDERS} orders and every wave at once")
    for goal in Goal:
        print(f"{goal:12} {plans[goal]:8} plans {moves[goal]:8} moves")
    print(f"{'all':12} {plans.total():8} plans {moves.total():8} moves, {preempted} preemptions")
    cpu = time.process_time() - begun
    print(f"G7: {violations} violations; {cpu:.1f} s CPU: planning {planning:.1f}, checking {checking:.1f}")
    if violations:
        sys.exit(1)


if __name__ == "__main__":
    main()
