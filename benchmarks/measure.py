"""What measuring fragmentation costs: the whole cluster, one changed node, a snapshot from rows.

    python -m benchmarks.measure --nodes CSV --pods CSV [--placed CSV] [--seed 1] [--rounds 50]

--nodes and --pods are tables of a trace; the pods are what is wanted. --placed says where pods are; without
it they are placed at random, each on a node that has room. The cluster is measured as it is and grown by
repetition to 10,000 nodes and 60,000 pods. The baseline of every ratio is the definition itself, node by node
and spec by spec, in the same run; both give the same integers, or the run fails. Times are CPU seconds of one
thread.
"""

from __future__ import annotations

import argparse
import csv
import random
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from apps.planner.fragmentation import measure
from apps.planner.fragmentation_table import FragmentationTable
from apps.planner.rooms import Room, free_room
from apps.planner.trace import snapshot_from_rows, workload_from_rows
from apps.planner.workload import Workload, choose_workload

GROWN_NODES, GROWN_PODS = 10_000, 60_000
WHOLE_GOAL_MS, NODE_GOAL_US = 1.0, 50.0
CHANGES = 2000
Answer = TypeVar("Answer")
Rows = list[dict[str, str]]


def main() -> None:
    options = _read_options()
    nodes, wanted = read_rows(options.nodes), read_rows(options.pods)
    placed = read_rows(options.placed) if options.placed else place_at_random(nodes, wanted, options.seed)
    workload = choose_workload(workload_from_rows(wanted))
    print(f"seed {options.seed}, rounds {options.rounds}")
    print(f"wanted: {len(workload.specs)} shapes, 95 % of {len(wanted)} pods")
    print("G1: whole cluster of 1,213 nodes <= 1 ms, one changed node <= 50 us, integers as defined")
    for rows, pods in ((nodes, placed), grow(nodes, placed)):
        measure_size(rows, pods, workload, options)


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", required=True, metavar="CSV")
    parser.add_argument("--pods", required=True, metavar="CSV")
    parser.add_argument("--placed", metavar="CSV")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=50)
    return parser.parse_args()


def read_rows(path: str) -> Rows:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def place_at_random(nodes: Rows, pods: Rows, seed: int) -> Rows:
    """Each pod, in shuffled order, on the first node with room from a random one on; GPUs in index order."""
    draw = random.Random(seed)
    cpu_left = {row["sn"]: int(row["cpu_milli"]) for row in nodes}
    gpu_left = {row["sn"]: [1000] * int(row["gpu"]) for row in nodes}
    models = {row["sn"]: row.get("model", "") for row in nodes}
    names, found = list(gpu_left), []
    for row in draw.sample(pods, len(pods)):
        begin, allowed = draw.randrange(len(names)), (row.get("gpu_spec") or "").split("|")
        cpu, number, milli = int(row["cpu_milli"]), int(row["num_gpu"]), int(row["gpu_milli"])
        for name in names[begin:] + names[:begin]:
            gpus = [at for at, free in enumerate(gpu_left[name]) if free >= milli][:number]
            if (
                cpu_left[name] < cpu
                or len(gpus) < number
                or (allowed != [""] and models[name] not in allowed)
            ):
                continue
            cpu_left[name] -= cpu
            for at in gpus:
                gpu_left[name][at] -= milli
            found.append({**row, "node": name, "gpus": ";".join(map(str, gpus))})
            break
        else:
            found.append({**row, "node": "", "gpus": ""})
    return found


def grow(nodes: Rows, pods: Rows) -> tuple[Rows, Rows]:
    """Repeated under new names until there are enough nodes; each copy gives its part of the pods."""
    grown_nodes: Rows = []
    grown_pods: Rows = []
    part = GROWN_PODS * len(nodes) // GROWN_NODES
    for copy in range(-(-GROWN_NODES // len(nodes))):
        kept = nodes[: GROWN_NODES - len(grown_nodes)]
        names = {row["sn"] for row in kept}
        grown_nodes += [{**row, "sn": f"{row['sn']}-{copy}"} for row in kept]
        here = [row for row in pods if row["node"] in names or not row["node"]]
        grown_pods += [
            {**row, "name": f"{row['name']}-{copy}", "node": row["node"] and f"{row['node']}-{copy}"}
            for row in here[:part]
        ]
    return grown_nodes, grown_pods[:GROWN_PODS]


def measure_size(nodes: Rows, pods: Rows, workload: Workload, options: argparse.Namespace) -> None:
    print(f"\n{len(nodes)} nodes, {len(pods)} pods")
    snapshot = _time("rows to snapshot", lambda: snapshot_from_rows(nodes, pods))
    rooms = [room for room in _time("snapshot to rooms", lambda: free_room(snapshot)).by_node.values()]
    rooms = [room for room in rooms if room.node.gpus]
    print(f"  peak memory so far {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    table = _time("table built from rooms", lambda: FragmentationTable(rooms, workload))
    defined, slow = _timed(lambda: sum(lost_of(room, workload) for room in rooms))
    assert table.numerator == defined, (table.numerator, defined)
    print(f"  F numerator {table.numerator}, weight {table.weight_total}, idle {table.idle_milli} milli-GPU")
    whole = statistics.median(_timed(table.score_all)[1] for _ in range(options.rounds))
    again = statistics.median(_timed(table.refresh)[1] for _ in range(options.rounds))
    is_goal = len(rooms) == 1213
    _tell("F of the whole cluster", 1e3 * whole, "ms", slow / whole, WHOLE_GOAL_MS if is_goal else None)
    _tell("... its rooms read anew, too", 1e3 * again, "ms", slow / again, None)
    one, plain = change_nodes(table, rooms, workload, options.seed)
    _tell("F after one node has changed", 1e6 * one, "us", plain / one, NODE_GOAL_US)
    _time(
        "whole report (by cause, node, pool, model, and the measures beside)",
        lambda: measure(snapshot, workload),
    )


def change_nodes(
    table: FragmentationTable, rooms: list[Room], workload: Workload, seed: int
) -> tuple[float, float]:
    """Seconds for one changed node: by the table, and by scoring that node as the definition says."""
    draw = random.Random(seed)
    chosen = [draw.choice(rooms) for _ in range(CHANGES)]
    for room in chosen:
        if room.gpu_left:
            room.gpu_left[draw.randrange(len(room.gpu_left))] = draw.choice([0, 250, 500, 1000])
    begin = time.process_time()
    for room in chosen:
        table.update(room.node.name)
    middle = time.process_time()
    defined = [lost_of(room, workload) for room in chosen]
    end = time.process_time()
    assert [table.lost_on(room.node.name) for room in chosen] == defined
    return (middle - begin) / CHANGES, (end - middle) / CHANGES


def lost_of(room: Room, workload: Workload) -> int:
    """Sum over specs of count x F_n(m): the definition, read aloud."""
    cpu, gpus, lost = room.left.get("cpu", 0), room.gpu_left, 0
    idle = sum(gpus)
    for spec, count in workload.specs:
        fitting = sum(1 for left in gpus if left >= spec.milli)
        fits = spec.gpus and spec.allows(room.node) and cpu >= spec.cpu and fitting >= spec.gpus
        lost += count * (sum(left for left in gpus if left < spec.milli) if fits else idle)
    return lost


def _timed(work: Callable[[], Answer]) -> tuple[Answer, float]:
    begin = time.process_time()
    answer = work()
    return answer, time.process_time() - begin


def _time(name: str, work: Callable[[], Answer]) -> Answer:
    answer, seconds = _timed(work)
    print(f"  {name:68s} {seconds:9.3f} s CPU")
    return answer


def _tell(name: str, value: float, unit: str, ratio: float, goal: float | None) -> None:
    verdict = "" if goal is None else f"  G1 {'met' if value <= goal else 'MISSED'} (<= {goal:g} {unit})"
    print(f"  {name:68s} {value:9.3f} {unit} CPU  {ratio:8.0f} x the definition{verdict}")


if __name__ == "__main__":
    main()
