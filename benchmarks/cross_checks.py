"""The planner beside a second solver and beside trying everything: are its answers the best there are?

    python -m benchmarks.cross_checks [--seed 1] [--cases 300] [--middle 20] [--free 60] [--seconds 60]

Small clusters (4 to 20 nodes) and middle ones (20 to 100) with all capacities, selectors, taints, node
affinity, ports, anti-affinity by host, budgets, gangs, protections and at most K moves. Each is solved by the
planner and by CP-SAT on one variable per pod and node (`second_solver`), free nodes and unlock alike.
Then `--free` small clusters with none of our restrictions (any pod may move, room need not be free before
the first eviction): how often they cost a node. Exits with 1 if an answer is beaten where the planner claims
a proof, if its bound is, or if it "finds" what CP-SAT proves impossible. Prints sizes, seeds, CPU seconds.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from apps.planner.plan import Goal, Plan
from apps.planner.searching import PlanRequest, search_plan
from apps.planner.snapshot import Snapshot
from apps.planner.verification import check_plan
from apps.planner.waiting import group_pending
from benchmarks.random_scenes import Kind, draw_scene
from benchmarks.second_solver import Answer, fewest_moves, most_freed

SMALL, MIDDLE = (4, 6, 10, 20), (20, 40, 60, 100)


def draw_case(draw: random.Random, sizes: tuple[int, ...]) -> tuple[Snapshot, int]:
    """(cluster, most moves)."""
    kind = Kind(
        nodes=draw.choice(sizes),
        gpus=draw.choice([4, 8]),
        load=draw.choice([0.4, 0.6, 0.75, 0.9]),
        rules=draw.choice([0.0, 0.3, 0.6]),
        shares=draw.choice([0.0, 0.0, 0.2]),
        protected=draw.choice([0.0, 0.05, 0.15]),
        models=draw.choice([1, 2, 4]),
        by_node=True,
    )
    return draw_scene(draw, kind), draw.choice([4, 10, 25, kind.nodes])


@dataclass(slots=True)
class Tally:
    """wrong: what must not be, a sentence each."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    ours: float = 0.0
    theirs: float = 0.0


def compare(tally: Tally, name: str, plan: Plan, answer: Answer, where: str) -> None:
    """One plan beside the second solver's answer."""
    if not answer.proven:
        tally.counts[f"{name}: not proven by CP-SAT"] += 1
        return
    verdict, fault = judge(plan, answer)
    tally.counts[f"{name}: {verdict}"] += 1
    tally.counts[f"{name}: called optimal"] += plan.proven_optimal
    if fault:
        tally.wrong.append(f"{where}: {fault}")
    elif verdict != "the optimum":
        print(f"  {where}: {verdict}; {len(plan.moves)} moves, bound {plan.lower_bound:g}; {answer}")


def judge(plan: Plan, answer: Answer) -> tuple[str, str]:
    """(how good the plan is, what must not be)."""
    if plan.goal is Goal.FREE_NODES:
        ours, best = (len(plan.freed_nodes), -len(plan.moves)), (answer.best or 0, -answer.moves)
        beaten = plan.lower_bound < best[0]
    else:
        ours = (len(plan.hand_overs), -len(plan.moves))
        best = (answer.best or 0, -answer.moves)
        beaten = bool(plan.unlocked) and plan.lower_bound > answer.moves
    if ours > best:
        return "beyond the optimum", f"{ours} is more than what CP-SAT proves ({best})"
    if beaten:
        return "bound beaten", f"the bound {plan.lower_bound:g} is beaten by {best}"
    if ours == best:
        return "the optimum", ""
    if plan.proven_optimal:
        return "false proof", f"called optimal with {ours}, CP-SAT reaches {best}"
    return ("fewer" if ours[0] < best[0] else "more moves"), ""


def plans_of(snapshot: Snapshot, most: int) -> Iterator[tuple[str, PlanRequest]]:
    yield "free nodes", PlanRequest(Goal.FREE_NODES, most)
    for key, _ in group_pending(snapshot):
        yield "unlock", PlanRequest(Goal.UNLOCK, most, key)


def run_case(tally: Tally, snapshot: Snapshot, most: int, where: str, seconds: float) -> None:
    groups = dict(group_pending(snapshot))
    for name, request in plans_of(snapshot, most):
        begun = time.process_time()
        plan = search_plan(snapshot, request, deadline=lambda: False)
        tally.ours += time.process_time() - begun
        tally.wrong += [f"{where}: {fault}" for fault in check_plan(snapshot, plan)]
        begun = time.process_time()
        if request.workload is None:
            answer = most_freed(snapshot, most, seconds=seconds)
        else:
            answer = fewest_moves(snapshot, groups[request.workload], most, seconds=seconds)
        tally.theirs += time.process_time() - begun
        compare(tally, name, plan, answer, f"{where} K={most} {request.workload or name}")


def run_without_limits(tally: Tally, snapshot: Snapshot, most: int, seconds: float) -> None:
    """What our restriction costs: nodes that only rearranging, or room made on the way, would free."""
    plan = search_plan(snapshot, PlanRequest(Goal.FREE_NODES, most), deadline=lambda: False)
    answer = most_freed(snapshot, most, seconds=seconds, free=True)
    if not answer.proven or answer.best is None:
        tally.counts["not proven by CP-SAT"] += 1
        return
    lost = answer.best - len(plan.freed_nodes)
    tally.counts["clusters"] += 1
    tally.counts["nodes without restriction"] += answer.best
    tally.counts["nodes with it"] += len(plan.freed_nodes)
    tally.counts["clusters that lose"] += lost > 0
    tally.counts["clusters whose stated bound is passed"] += answer.best > plan.lower_bound


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--middle", type=int, default=20)
    parser.add_argument("--free", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of CP-SAT for each question")
    options = parser.parse_args()
    wrong: list[str] = []
    for name, sizes, number in (("small", SMALL, options.cases), ("middle", MIDDLE, options.middle)):
        tally = Tally()
        for case in range(number):
            draw = random.Random(f"{options.seed}/{name}/{case}")
            snapshot, most = draw_case(draw, sizes)
            where = f"seed {options.seed} {name} {case} ({len(snapshot.nodes)} nodes)"
            run_case(tally, snapshot, most, where, options.seconds)
        report(f"{name}: {number} clusters of {sizes[0]} to {sizes[-1]} nodes", tally)
        wrong += tally.wrong
    tally = Tally()
    for case in range(options.free):
        snapshot, most = draw_case(random.Random(f"{options.seed}/free/{case}"), SMALL)
        run_without_limits(tally, snapshot, most, options.seconds)
    report("without our restriction on targets (any pod moves once, only the end must fit)", tally)
    for fault in wrong:
        print(f"WRONG {fault}")
    if wrong:
        sys.exit(1)


def report(title: str, tally: Tally) -> None:
    print(title)
    for words, number in sorted(tally.counts.items()):
        print(f"  {number:6} {words}")
    if tally.theirs:
        ratio = tally.theirs / max(tally.ours, 1e-3)
        print(
            f"  {tally.ours:.1f} s CPU the planner, {tally.theirs:.1f} s CP-SAT ({ratio:.1f} times as much)"
        )


if __name__ == "__main__":
    main()
