"""How much of the GPUs each placement policy fills, and how fast: one table over traces and policies.

    python -m benchmarks.replay --nodes CSV --pods CSV [--pods CSV ...] [--seeds 10] [--kinds]

Per trace and policy: GPUs not allocated when 100 % of the GPUs are asked for, in per cent, mean over the
seeds 0, 1, …; the best is marked. Beside it decisions per second of CPU time, with the ratio against best fit
in the same run. `--kinds` adds traces of other kinds, drawn from the first trace (see trace_kinds).

Goals. G2: our policy's mean at most 6.0 % over the traces, at most 4.5 % on the trace called default, and
nowhere more than 0.1 points behind the best of the six. G8: a whole replay with fgd in 2 s of CPU, 5,000
decisions per second.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from apps.planner.replay.asks import Ask, read_asks
from apps.planner.replay.nodes import EmptyNode, empty_nodes
from apps.planner.replay.replaying import ReplayRequest, replay_trace
from apps.planner.trace import snapshot_from_rows
from benchmarks.trace_kinds import KINDS, draw_kind

OURS = "demand-fit"
SIX = ("random", "dot-product", "clustering", "packing", "best-fit", "fgd")
BASELINE = "best-fit"
MOST_MEAN, MOST_DEFAULT, MOST_BEHIND = 6.0, 4.5, 0.1
MOST_SECONDS, LEAST_SPEED = 2.0, 5000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=Path, required=True)
    parser.add_argument("--pods", type=Path, action="append", required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--policies", default=",".join((*SIX, OURS)))
    parser.add_argument("--kinds", action="store_true")
    options = parser.parse_args()
    with options.nodes.open(newline="") as file:
        nodes = empty_nodes(snapshot_from_rows(csv.DictReader(file), ()))
    traces = _read_traces(options.pods, nodes, options.kinds)
    policies = options.policies.split(",")
    print(f"{len(nodes)} nodes, {sum(node.gpus for node in nodes)} GPUs; seeds 0 to {options.seeds - 1}")
    print("Not allocated at 100 % arrived, % of the GPUs (* best):")
    print(f"{'trace':>24} {'pods':>6} " + " ".join(f"{name:>12}" for name in policies))
    table = {}
    clocks: dict[str, list[tuple[int, float]]] = {name: [] for name in policies}
    for trace, asks in traces.items():
        row = {name: _mean_unallocated(nodes, asks, name, options.seeds, clocks[name]) for name in policies}
        table[trace] = row
        best = min(row.values())
        cells = (f"{value:11.2f}{'*' if value == best else ' '}" for value in row.values())
        print(f"{trace:>24} {len(asks):6} " + " ".join(cells), flush=True)
    means = {name: fmean(row[name] for row in table.values()) for name in policies}
    print(f"{'mean':>31} " + " ".join(f"{value:11.2f} " for value in means.values()))
    _print_quality(table, means)
    _print_speed(clocks)


def _read_traces(
    paths: Sequence[Path], nodes: Sequence[EmptyNode], with_kinds: bool
) -> dict[str, tuple[Ask, ...]]:
    traces = {}
    for path in paths:
        with path.open(newline="") as file:
            traces[path.stem.removeprefix("openb_pod_list_")] = read_asks(csv.DictReader(file))
    first = next(iter(traces.values()))
    for kind in KINDS if with_kinds else ():
        traces[f"{kind} (drawn)"] = draw_kind(kind, first, nodes, seed=0)
    return traces


def _mean_unallocated(
    nodes: Sequence[EmptyNode],
    asks: Sequence[Ask],
    policy: str,
    seeds: int,
    clock: list[tuple[int, float]],
) -> float:
    found = []
    for seed in range(seeds):
        started = time.process_time()
        replay = replay_trace(nodes, asks, ReplayRequest(policy, seed))
        clock.append((replay.decisions, time.process_time() - started))
        found.append(100 - replay.noted[100].allocated)
    return fmean(found)


def _print_quality(table: dict[str, dict[str, float]], means: dict[str, float]) -> None:
    if OURS not in means:
        return
    rivals = [name for name in SIX if name in means]
    behind = {trace: row[OURS] - min(row[name] for name in rivals) for trace, row in table.items() if rivals}
    worst = max(behind, key=lambda trace: behind[trace], default=None)
    print(f"G2 {OURS}: mean {means[OURS]:.2f} % (goal ≤ {MOST_MEAN}): {_said(means[OURS] <= MOST_MEAN)}")
    if "default" in table:
        value = table["default"][OURS]
        print(f"G2 {OURS} on default: {value:.2f} % (goal ≤ {MOST_DEFAULT}): {_said(value <= MOST_DEFAULT)}")
    if worst is not None:
        said = _said(behind[worst] <= MOST_BEHIND)
        print(f"G2 most behind the best of the six: {behind[worst]:+.2f} on {worst} (goal ≤ 0.1): {said}")


def _print_speed(clocks: dict[str, list[tuple[int, float]]]) -> None:
    speeds = {name: _speed(clock) for name, clock in clocks.items()}
    for name, speed in speeds.items():
        ratio = f", {speed / speeds[BASELINE]:.2f} × {BASELINE}" if BASELINE in speeds else ""
        longest = max(seconds for _, seconds in clocks[name])
        print(f"{name:>12}: {speed:8.0f} decisions/s of CPU{ratio}; longest replay {longest:.2f} s")
    if "fgd" in speeds:
        mean = fmean(seconds for _, seconds in clocks["fgd"])
        reached = mean <= MOST_SECONDS and speeds["fgd"] >= LEAST_SPEED
        print(f"G8 fgd: {mean:.2f} s of CPU a replay (goal ≤ {MOST_SECONDS}), "
              f"{speeds['fgd']:.0f} decisions/s (goal ≥ {LEAST_SPEED}): {_said(reached)}")  # fmt: skip


def _speed(clock: list[tuple[int, float]]) -> float:
    return sum(decisions for decisions, _ in clock) / max(sum(seconds for _, seconds in clock), 1e-9)


def _said(reached: bool) -> str:
    return "reached" if reached else "NOT reached"


if __name__ == "__main__":
    main()
