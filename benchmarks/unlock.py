"""Room for what waits: GPUs that start per move, whole queues of gangs, and one workload on a large cluster.

    python -m benchmarks.unlock [--nodes CSV --placed CSV ...] [--moves 50 200] [--stages 1 8]
        [--seconds 30] [--gangs 41] [--members 10] [--seed 1]

With --nodes and --placed: unlocked GPUs of a placed state of a trace within the moves (goal G4). Always: one
of 500 nodes with 8 GPUs, random pods on most of them, and gangs that wait (goal G10), then one gang that
cannot fit. Baseline of each ratio is what fits without any move. Times are CPU seconds of one thread,
limits too. Every plan passes the independent checker.
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from apps.planner.defrag import plan_unlock
from apps.planner.inventory import Gang
from apps.planner.plan import Plan
from apps.planner.queue_unlock import MOST_STAGES
from apps.planner.snapshot import Snapshot
from apps.planner.trace import snapshot_from_rows
from apps.planner.verification import check_plan

GPUS = 8
LOAD = 0.7
HEAD = f"{'what':44} {'moves':>6} {'GPUs':>8} {'bound':>8} {'x no move':>10} {'CPU s':>7}"


def main() -> None:
    asked = _arguments()
    print(f"seed {asked.seed}, limit {asked.seconds:g} CPU s a plan")
    print(HEAD)
    for path in asked.placed or ():
        snapshot = snapshot_from_rows(_rows(asked.nodes), _rows(path))
        base = _gpus(_plan(snapshot, 0, 1, asked.seconds)[0])
        for moves in asked.moves:
            for stages in asked.stages:
                plan, seconds = _plan(snapshot, moves, stages, asked.seconds)
                _tell(f"G4 {Path(path).stem}, {moves} moves, {stages} stage(s)", plan, base, seconds)
    for gpus in (1, 2, 4):
        snapshot = _gang_cluster(random.Random(asked.seed), asked.gangs, asked.members, gpus)
        base = _gpus(_plan(snapshot, 0, 1, asked.seconds)[0])
        plan, seconds = _plan(snapshot, 500, 1, asked.seconds)
        _tell(f"G10 {asked.gangs} gangs of {asked.members} x {gpus} GPUs, 500 nodes", plan, base, seconds)
    snapshot = _gang_cluster(random.Random(asked.seed), 1, 400, GPUS)
    plan, seconds = _plan(snapshot, 500, 1, asked.seconds)
    _tell("G10 one gang of 400 x 8 GPUs that cannot fit", plan, 0.0, seconds)
    print(f"   why: {plan.refused[0].reason if plan.refused else 'it fits'}")


def _plan(snapshot: Snapshot, moves: int, stages: int, seconds: float) -> tuple[Plan, float]:
    begun = time.process_time()
    late: Callable[[], bool] = lambda: time.process_time() - begun >= seconds  # noqa: E731
    plan = plan_unlock(snapshot, workload=None, max_moves=moves, deadline=late, stages=stages)
    taken = time.process_time() - begun
    faults = check_plan(snapshot, plan)
    if faults:
        raise SystemExit(f"the plan breaks a rule: {faults[0]}")
    return plan, taken


def _gpus(plan: Plan) -> float:
    return plan.measures.get("unlocked_gpu_milli", 0.0) / 1000


def _tell(what: str, plan: Plan, base: float, seconds: float) -> None:
    gpus, bound = _gpus(plan), plan.measures.get("unlocked_gpu_bound", 0.0)
    ratio = f"{gpus / base:.2f}" if base else "-"
    print(f"{what:44} {len(plan.moves):6} {gpus:8.2f} {bound:8.1f} {ratio:>10} {seconds:7.2f}", flush=True)


def _gang_cluster(draw: random.Random, gangs: int, members: int, gpus: int) -> Snapshot:
    nodes = [
        {
            "sn": f"node-{at:03}",
            "cpu_milli": "96000",
            "memory_mib": "786432",
            "gpu": str(GPUS),
            "model": "A100",
        }
        for at in range(500)
    ]
    pods: list[dict[str, str]] = []
    for node in nodes:
        at = 0
        while at < GPUS and draw.random() < LOAD + 0.15:
            size = min(draw.choice((1, 1, 2, 4)), GPUS - at)
            held = ";".join(str(one) for one in range(at, at + size))
            pods.append(_pod(f"running-{len(pods)}", size, node["sn"], held))
            at += size
    first = len(pods)
    pods += [_pod(f"gang-{at // members}-{at % members}", gpus, "", "") for at in range(gangs * members)]
    snapshot = snapshot_from_rows(nodes, pods)
    named = {pod.name: pod for pod in snapshot.pods.values()}
    waiting = [named[pod["name"]] for pod in pods[first:]]
    keys = [f"default/{pod.name.rsplit('-', 1)[0]}" for pod in waiting]
    together = snapshot.with_pods(replace(pod, gang=key) for pod, key in zip(waiting, keys, strict=True))
    return replace(together, gangs={key: Gang(key, members) for key in keys})


def _pod(name: str, gpus: int, node: str, held: str) -> dict[str, str]:
    amounts = {"cpu_milli": str(8000 * gpus), "memory_mib": str(65536 * gpus)}
    return {"name": name, **amounts, "num_gpu": str(gpus), "gpu_milli": "1000", "node": node, "gpus": held}


def _rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", help="a trace's nodes")
    parser.add_argument("--placed", nargs="+", help="placed states of it")
    parser.add_argument("--moves", nargs="+", type=int, default=[50, 200])
    parser.add_argument(
        "--stages", nargs="+", type=int, choices=range(1, MOST_STAGES + 1), default=[1, MOST_STAGES]
    )
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--gangs", type=int, default=41)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if bool(asked.nodes) != bool(asked.placed):
        parser.error("--nodes and --placed go together")
    return asked


if __name__ == "__main__":
    main()
