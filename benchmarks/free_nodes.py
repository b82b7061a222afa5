"""Free whole nodes: how near the optimum, how fast, on uniform, mixed, traced and huge clusters.

    python -m benchmarks.free_nodes [--seed 1] [--uniform 100 500 1000 2000] [--mixed 100 200 500]
        [--loads 70 85 92] [--mixes small even large odd] [--seconds 10] [--solver 30]
        [--nodes NODES.csv --placed PODS.csv] [--huge 10000 60000]

Each row beside the baseline "empty the least used node, best fit elsewhere" of the same run; uniform ones
(and mixed ones up to 100 nodes) also beside another solver's optimum (CP-SAT, written apart, `--solver`
seconds each; 0 leaves it out). Times are CPU seconds of planning, layout of the board included, as are
limits; `first` is the time of the first plan. Goals: uniform the proven optimum; mixed 99 % of it with
5 % more moves, bound within 5 s; a trace of 1,213 nodes and 50 moves within 1 s; 10,000 nodes within
60 s and 4 GiB.
"""

from __future__ import annotations

import argparse
import csv
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from apps.planner.defrag import plan_free_nodes
from apps.planner.plan import Plan
from apps.planner.progress import Progress
from apps.planner.snapshot import Snapshot
from apps.planner.trace import snapshot_from_rows
from apps.planner.verification import check_plan
from benchmarks.free_nodes_clusters import MIXES, draw_mixed, draw_uniform
from benchmarks.free_nodes_peers import Plainly, best_by_pattern, best_by_pod

HEAD = (
    f"{'cluster':44s} {'K':>5} {'freed':>6} {'bound':>6} {'gap':>6} {'proof':>6} {'moves':>6}"
    f" {'CPU s':>7} {'first':>6} {'greedy':>6} {'ratio':>6} {'solver':>12}"
)


def main() -> None:
    options = _read_options()
    print(f"seed {options.seed}, limit {options.seconds:g} s of CPU")
    print(HEAD)
    rows = failures = 0
    for name, snapshot, budgets, kind in _clusters(options):
        for max_moves in budgets:
            rows += 1
            failures += not _show(name, snapshot, max_moves, kind, options)
    print(f"{rows} plans, all checked; {failures} without the proven optimum")
    print(f"Peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


def _clusters(options: argparse.Namespace) -> Iterator[tuple[str, Snapshot, tuple[int, ...], str]]:
    for nodes in options.uniform:
        for load in options.loads:
            for mix in options.mixes:
                snapshot = draw_uniform(nodes, load / 100, mix, options.seed)
                name = f"uniform {nodes} nodes, {load:g} %, {mix}, {len(snapshot.pods)} pods"
                yield name, snapshot, (nodes // 4, nodes // 2), "pattern"
    for nodes in options.mixed:
        for rules in (False, True):
            snapshot = draw_mixed(nodes, int(3.3 * nodes), options.seed, rules=rules)
            words = ", rules between pods" if rules else ""
            name = f"mixed {nodes} nodes, {len(snapshot.pods)} pods{words}"
            yield name, snapshot, (nodes // 4, nodes // 2), "" if rules or nodes > 100 else "pod"
    if options.nodes and options.placed:
        with options.nodes.open() as nodes, options.placed.open() as pods:
            snapshot = snapshot_from_rows(csv.DictReader(nodes), csv.DictReader(pods))
        yield f"trace {len(snapshot.nodes)} nodes, {len(snapshot.pods)} pods", snapshot, (50,), ""
    if options.huge:
        snapshot = draw_mixed(*options.huge, options.seed)
        name = f"huge {len(snapshot.nodes)} nodes, {len(snapshot.pods)} pods"
        yield name, snapshot, (50, 500), ""


def _show(name: str, snapshot: Snapshot, max_moves: int, kind: str, options: argparse.Namespace) -> bool:
    plan, seconds, first = _time(snapshot, max_moves, options.seconds)
    faults = check_plan(snapshot, plan)
    if faults:
        raise SystemExit(f"{name}: {faults[0]}")
    freed = len(plan.freed_nodes)
    plain = Plainly(snapshot).count(max_moves)
    solver = ""
    if kind and options.solver:
        best = (best_by_pattern if kind == "pattern" else best_by_pod)(snapshot, max_moves, options.solver)
        solver = f"{best.freed}/{best.moves}{'' if best.proven else '?'} {best.seconds:.1f}s"
        if best.proven and plan.proven_optimal and (best.freed, best.moves) != (freed, len(plan.moves)):
            raise SystemExit(f"{name}: two proofs disagree: {solver}, {freed}/{len(plan.moves)}")
    print(
        f"{name:44s} {max_moves:5d} {freed:6d} {plan.lower_bound:6.0f} {plan.gap:6.3f}"
        f" {'proven' if plan.proven_optimal else '-':>6} {len(plan.moves):6d} {seconds:7.2f} {first:6.2f}"
        f" {plain:6d} {freed / max(1, plain):6.2f} {solver:>12}",
        flush=True,
    )
    return plan.proven_optimal


def _time(snapshot: Snapshot, max_moves: int, limit: float) -> tuple[Plan, float, float]:
    """(plan, CPU seconds, CPU seconds until the first plan)"""
    begun = time.process_time()
    told: list[float] = []

    def note(progress: Progress) -> None:
        if progress.achieved:
            told.append(time.process_time() - begun)

    def late() -> bool:
        return time.process_time() - begun > limit

    plan = plan_free_nodes(snapshot, max_moves=max_moves, deadline=late, tell=note)
    seconds = time.process_time() - begun
    return plan, seconds, told[0] if told else seconds


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--uniform", type=int, nargs="*", default=[100, 500, 1000, 2000])
    parser.add_argument("--mixed", type=int, nargs="*", default=[100, 200, 500])
    parser.add_argument("--loads", type=float, nargs="+", default=[70, 85, 92])
    parser.add_argument("--mixes", nargs="+", default=list(MIXES), choices=list(MIXES))
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of a plan")
    parser.add_argument("--solver", type=float, default=30.0, help="limit of the other solver; 0: none")
    parser.add_argument("--nodes", type=Path)
    parser.add_argument("--placed", type=Path)
    parser.add_argument("--huge", type=int, nargs=2, metavar=("NODES", "PODS"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
