"""Emptying hosts of virtual machines, beside BalCon on its own public instances (goal G5).

    python -m benchmarks.consolidation --instances DIR [--balcon DIR] [--most 200]

`--instances`: the folder of its instances, JSON files with hosts (cpu, mem), vms (cpu, mem) and mapping
(github: andreigudkov/BalCon, `dataset`); `--balcon`: the folder of its code (`code`), run as published on the
same instance in the same run. Printed: hosts left, moved memory (TiB), CPU seconds; the bound on the moved
memory of any packing onto as few hosts (a linear program: machines divisible, any hosts emptied). Goal G5: as
few hosts in 99.7 % of the instances, at most 0.85 x the moved memory, no slower. Every packing is checked:
nothing is lost, no host is overfull. Nothing is drawn at random.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import highspy
import numpy as np

from benchmarks.consolidation_solver import Instance, class_machines, consolidate, count_least

TIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Score:
    hosts: int
    memory: float
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=Path, required=True)
    parser.add_argument("--balcon", type=Path)
    parser.add_argument("--most", type=int, default=200)
    options = parser.parse_args()
    paths = sorted(options.instances.glob("*.json"))[: options.most]
    if not paths:
        print(f"{options.instances} holds no *.json instances", file=sys.stderr)
        raise SystemExit(2)
    balcon = load_balcon(options.balcon) if options.balcon else None
    rows: list[tuple[Score, Score | None, float, int]] = []
    for path in paths:
        instance = read_instance(path)
        ours = measure(instance)
        theirs = run_balcon(balcon, path) if balcon else None
        rows.append((ours, theirs, bound_memory(instance), count_least(instance)))
    print_rows(rows)


def read_instance(path: Path) -> Instance:
    data = json.loads(path.read_text())
    return Instance(
        np.array([(host["cpu"], host["mem"]) for host in data["hosts"]], dtype=float),
        np.array([(one["cpu"], one["mem"]) for one in data["vms"]], dtype=float),
        np.array(data["mapping"], dtype=int),
    )


def measure(instance: Instance) -> Score:
    begun = time.process_time()
    places = consolidate(instance).places
    seconds = time.process_time() - begun
    used = np.zeros_like(instance.hosts)
    np.add.at(used, places, instance.machines)
    if len(places) != len(instance.machines) or (used > instance.hosts).any():
        raise SystemExit("A packing loses a machine or overfills a host.")
    moved = instance.machines[places != instance.homes, 1].sum() / TIB
    return Score(len(np.unique(places)), float(moved), seconds)


def bound_memory(instance: Instance) -> float:
    """TiB that any packing onto the fewest conceivable hosts moves at least."""
    classes, ratios = class_machines(instance)
    stock = np.zeros((len(instance.hosts), len(ratios)))
    np.add.at(stock, (instance.homes, classes), instance.machines[:, 0])
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    hosts = range(len(instance.hosts))
    out = [
        [solver.addVariable(0, have, ratio / TIB) for have, ratio in zip(row, ratios, strict=True)]
        for row in stock
    ]
    into = [[solver.addVariable(0, highspy.kHighsInf, 0) for _ in ratios] for _ in hosts]
    active = [solver.addVariable(0, 1, 0) for _ in hosts]
    for at in hosts:
        for leaves, have in zip(out[at], stock[at], strict=True):
            if have:
                solver.addConstr(leaves + float(have) * active[at] >= float(have))
        for weights, room in (
            (np.ones(len(ratios)), instance.hosts[at, 0]),
            (ratios / 1024, instance.hosts[at, 1] / 1024),
        ):
            change = sum(
                float(weight) * (b - a) for weight, a, b in zip(weights, out[at], into[at], strict=True)
            )
            solver.addConstr(change + float(stock[at] @ weights) <= float(room) * active[at])
    for one in range(len(ratios)):
        solver.addConstr(sum(out[at][one] - into[at][one] for at in hosts) == 0)
    solver.addConstr(sum(active) <= count_least(instance))
    solver.run()
    return float(solver.getInfo().objective_function_value)


def load_balcon(folder: Path) -> Any:
    """Its modules, as published; they were written for an older numpy."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    logging.disable(logging.INFO)
    np.float = float  # type: ignore[attr-defined]
    sys.path.insert(0, str(folder))
    return importlib.import_module("environment"), importlib.import_module("balcon")


def run_balcon(modules: Any, path: Path) -> Score:
    environment, balcon = modules
    problem = environment.Environment.load(str(path))
    begun = time.process_time()
    places = balcon.BalCon(problem, environment.Settings()).solve().mapping.mapping
    seconds = time.process_time() - begun
    moved = sum(
        one.mem
        for one, home, place in zip(problem.vms, problem.mapping.mapping, places, strict=True)
        if home != place
    )
    return Score(len(set(places)), moved / TIB, seconds)


def print_rows(rows: list[tuple[Score, Score | None, float, int]]) -> None:
    ours = [row[0] for row in rows]
    print(f"{len(rows)} instances; CPU seconds")
    print(f"{'':22}{'hosts left':>12}{'moved TiB':>12}{'CPU s':>10}{'worst':>8}")
    _print_sum("this solver", ours)
    print(f"{'bound':22}{sum(row[3] for row in rows):12}{sum(row[2] for row in rows):12.2f}")
    if rows[0][1] is None:
        return
    theirs = [row[1] for row in rows if row[1] is not None]
    _print_sum("BalCon", theirs)
    same = sum(one.hosts <= other.hosts for one, other in zip(ours, theirs, strict=True)) / len(rows)
    memory = sum(one.memory for one in ours) / sum(one.memory for one in theirs)
    each = sorted(one.memory / other.memory for one, other in zip(ours, theirs, strict=True) if other.memory)
    least = sum(row[2] for row in rows) / sum(one.memory for one in theirs)
    seconds = sum(one.seconds for one in ours) / sum(one.seconds for one in theirs)
    print(f"G5 hosts: no more than BalCon in {same:.1%} (goal 99.7 %)")
    print(
        f"G5 memory: {memory:.3f} of BalCon's in all, median {each[len(each) // 2]:.3f},"
        f" from {each[0]:.3f} to {each[-1]:.3f} (goal 0.85; nobody can be below {least:.3f})"
    )
    print(f"G5 time: {seconds:.2f} of BalCon's (goal 1)")


def _print_sum(name: str, scores: list[Score]) -> None:
    print(
        f"{name:22}{sum(one.hosts for one in scores):12}{sum(one.memory for one in scores):12.2f}"
        f"{sum(one.seconds for one in scores):10.2f}{max(one.seconds for one in scores):8.2f}"
    )


if __name__ == "__main__":
    main()
