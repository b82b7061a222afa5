"""MIG layouts for clusters of every size up to 200 GPUs: proven or not, how fast, as good as another's?

    python -m benchmarks.mig [--seed 1] [--most 200] [--step 8] [--seconds 10] [--compare 48] [--large 1213]

Each cluster is drawn by seed: GPUs cut at random, a load of 20 to 80 % of the instances in use (a tenth of
the pods pinned), pods that wait (priorities, gangs, pools) for 10 to 120 % of what nobody uses, at most 5 or
50 moves. Every plan passes the independent checker. Up to `--compare` GPUs the answer is compared with a
program for CP-SAT that was written apart (`mig_cpsat`): unmet compute slices by priority, reconfigurations,
moves; its CPU time is the baseline of the ratio. Goal G6: the optimum is proven for every A100 cluster up to
200 GPUs. `--large N` plans N nodes of 8 GPUs, 0 for none.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.nodes import asked_profiles
from apps.planner.mig.planning import plan_mig
from apps.planner.plan import Plan
from apps.planner.snapshot import Snapshot
from apps.planner.verification import check_plan
from apps.planner.waiting import group_pending
from benchmarks.mig_clusters import MigScene, make_cluster
from benchmarks.mig_cpsat import CpSatProgram, Optimum

FAMILIES: tuple[tuple[str, ...], ...] = (
    ("A100-40GB",),
    ("A100-80GB",),
    ("H100-80GB",),
    ("H200-141GB",),
    ("B200-180GB",),
    ("A30-24GB",),
    ("A100-40GB", "A100-80GB", "H100-80GB"),
)
SLICES = {name: row.compute_slices for model in MODELS.values() for name, row in model.by_name.items()}


@dataclass(frozen=True, slots=True)
class Row:
    gpus: int
    proven: bool
    seconds: float
    theirs: float | None
    agrees: bool | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=200)
    parser.add_argument("--step", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU, for each plan")
    parser.add_argument("--compare", type=int, default=48)
    parser.add_argument("--large", type=int, default=1213)
    options = parser.parse_args()
    print(f"seed {options.seed}, at most {options.seconds:g} s a plan; CPU seconds; ratio: CP-SAT / ours")
    print(
        f"{'models':34} {'GPUs':>8} {'plans':>6} {'proven':>7} {'median':>8} {'worst':>8}"
        f" {'same':>9} {'ratio':>7}"
    )
    missed = False
    for models in FAMILIES:
        rows = [measure(models, size, options) for size in range(1, options.most + 1, options.step)]
        print_rows(models, rows)
        missed = missed or (
            all(name.startswith("A100") for name in models) and not all(row.proven for row in rows)
        )
    print(
        f"G6, the optimum proven for every A100 cluster up to {options.most} GPUs:"
        f" {'not reached' if missed else 'reached'}"
    )
    if options.large:
        measure_large(options)


def measure(models: tuple[str, ...], size: int, options: argparse.Namespace) -> Row:
    rng = random.Random(f"{options.seed}/{models}/{size}")
    scene = MigScene(
        seed=f"{options.seed}/{size}",
        gpus=size,
        models=models,
        load=rng.uniform(0.2, 0.8),
        demand=rng.uniform(0.1, 1.2),
    )
    snapshot, max_moves = make_cluster(scene), rng.choice((5, 50))
    plan, seconds = plan_timed(snapshot, max_moves, options.seconds)
    if size > options.compare:
        return Row(size, plan.proven_optimal, seconds, None, None)
    begun = time.process_time()
    theirs = CpSatProgram(snapshot, max_moves).solve(60.0)
    spent = time.process_time() - begun
    ours = score(snapshot, plan)
    if theirs.proven and (ours < _key(theirs) or (plan.proven_optimal and ours != _key(theirs))):
        raise SystemExit(f"{scene}, at most {max_moves} moves: {ours} here, {_key(theirs)} by CP-SAT")
    return Row(size, plan.proven_optimal, seconds, spent, ours == _key(theirs) if theirs.proven else None)


def plan_timed(snapshot: Snapshot, max_moves: int, limit: float) -> tuple[Plan, float]:
    begun = time.process_time()
    plan = plan_mig(snapshot, max_moves=max_moves, deadline=_deadline(begun + limit))
    seconds = time.process_time() - begun
    faults = check_plan(snapshot, plan)
    if faults:
        raise SystemExit(f"The plan is not sound: {faults[0]}")
    return plan, seconds


def _deadline(end: float) -> Callable[[], bool]:
    return lambda: time.process_time() > end


def score(snapshot: Snapshot, plan: Plan) -> tuple[tuple[int, ...], int, int]:
    unmet: Counter[int] = Counter()
    for key, pods in group_pending(snapshot):
        slices = sum(SLICES[name] * number for pod in pods for name, number in asked_profiles(pod).items())
        unmet[pods[0].priority] += 0 if key in plan.unlocked else slices
    ranks = tuple(unmet[rank] for rank in sorted(unmet, reverse=True))
    return ranks, len(plan.reconfigurations), len(plan.moves)


def _key(found: Optimum) -> tuple[tuple[int, ...], int, int]:
    return found.unmet, found.reconfigurations, found.moves


def print_rows(models: tuple[str, ...], rows: list[Row]) -> None:
    for low in range(0, rows[-1].gpus, 50):
        part = [row for row in rows if low < row.gpus <= low + 50]
        if not part:
            continue
        times = [row.seconds for row in part]
        compared = [row for row in part if row.agrees is not None]
        same = f"{sum(1 for row in compared if row.agrees)}/{len(compared)}" if compared else "-"
        ratios = [row.theirs / max(row.seconds, 1e-4) for row in compared if row.theirs]
        print(
            f"{'+'.join(models):34} {part[0].gpus:3}..{part[-1].gpus:3} {len(part):6}"
            f" {sum(row.proven for row in part) / len(part):7.1%} {statistics.median(times):8.3f}"
            f" {max(times):8.3f} {same:>9} {f'{statistics.median(ratios):.1f}' if ratios else '-':>7}"
        )


def measure_large(options: argparse.Namespace) -> None:
    """A moderate demand: about what a working day brings, on nodes that are half in use."""
    for demand in (0.01, 0.05):
        scene = MigScene(str(options.seed), options.large * 8, ("A100-40GB",), demand=demand)
        snapshot = make_cluster(scene)
        plan, seconds = plan_timed(snapshot, 50, 60.0)
        proof = "proven" if plan.proven_optimal else f"gap {plan.gap:.3f}"
        print(
            f"{options.large} nodes, {options.large * 8} GPUs, {len(snapshot.pods)} pods,"
            f" {len(snapshot.pending_pods)} waiting: {seconds:.2f} CPU s (goal 1),"
            f" {len(plan.reconfigurations)} relaid, {len(plan.moves)} moves, {proof}"
        )


if __name__ == "__main__":
    main()
