"""Random executions under random faults: workers are killed at random moments, people decide at random, and
after each one every safety rule is asserted.

    .venv/bin/python -m benchmarks.random_executions --executions 300
    .venv/bin/python -m benchmarks.random_executions --seed 7 --first 41 --executions 1   # one again

Clusters, faults, kills and decisions are drawn from --seed and the number of the execution; how they meet in
time is the machine's. Exit status 1 if a rule was violated or an execution was left without end or reason.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PER_CLUSTER = 5
KINDS = ("moves", "moves", "moves", "preemption", "mig")
GOALS = {"moves": ("unlock", "free-nodes"), "preemption": ("unlock",), "mig": ("mig",)}
SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "console.settings.test",
    "EXECUTION_POLL_SECONDS": "0.15",
    "EXECUTION_LEASE_SECONDS": "12",
    "KUBE_CONNECT_SECONDS": "1",
    "KUBE_READ_SECONDS": "2",
    # Faults are drawn on purpose here: a stop of the whole cluster would end every run early.
    "EXECUTION_FAILURES_BEFORE_STOP": "100000",
    "EXECUTION_STEP_SECONDS": "8",
    "EXECUTION_CHECKPOINT_SECONDS": "5",
    "EXECUTION_REPLACEMENT_SECONDS": "8",
    "EXECUTION_HAND_OVER_SECONDS": "8",
    "EXECUTION_MIG_SECONDS": "10",
    "EXECUTION_MIG_SETTLE_SECONDS": "0.5",
    "EXECUTION_MIG_MISMATCH_SECONDS": "2",
    "EXECUTION_MIG_REBOOT_SECONDS": "20",
}
CHAOS_SECONDS = 12.0
ENDING_SECONDS = 45.0
IN_FLIGHT_SECONDS = 0.8
"""After a kill: what the dead worker had on the wire has arrived by then. Only then its lease is cut short
(it would run out by itself, later)."""


@dataclass
class Result:
    number: int
    kind: str
    goal: str
    outcome: str = ""
    reason: str = ""
    seconds: float = 0.0
    kills: int = 0
    sleeps: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    decisions: list[str] = field(default_factory=list)
    explained: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    ledger: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--executions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=None, help="default: drawn, and printed")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--lanes", type=int, default=8, help="clusters at once")
    parser.add_argument("--lane", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.executions < 1 or options.first < 0 or options.lanes < 1:
        parser.error("--executions and --lanes are at least 1, --first at least 0")
    if options.lane is not None:
        return run_lane(options)
    # As Ctrl-C: the lanes, their clusters and their servers end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    options.seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    return run_lanes(options)


def run_lanes(options: argparse.Namespace) -> int:
    """Each lane is a program of its own with a database, a webhook and workers of its own."""
    print(f"seed {options.seed}, executions {options.first} to {options.first + options.executions - 1}")
    began, results = time.monotonic(), []
    with servers() as environment, tempfile.TemporaryDirectory() as folder:
        lanes = min(options.lanes, -(-options.executions // PER_CLUSTER))
        children = [start_lane(options, lane, lanes, environment, Path(folder)) for lane in range(lanes)]
        try:
            for line in _lines(children):
                results.append(Result(**json.loads(line)))
                _tell(results[-1])
        except BaseException:
            for child in children:
                child.terminate()
            raise
        failed = [number for number, child in enumerate(children) if child.wait() != 0]
        for number in failed:
            print(f"lane {number} ended by itself:\n{(Path(folder) / f'{number}.log').read_text()[-3000:]}")
    return _sum_up(results, options, time.monotonic() - began) or bool(failed)


def start_lane(
    options: argparse.Namespace, lane: int, lanes: int, environment: dict[str, str], folder: Path
) -> subprocess.Popen[str]:
    from console.embedded import die_with_parent

    command = [sys.executable, "-m", "benchmarks.random_executions", "--lane", str(lane)]
    for name in ("executions", "seed", "first"):
        command += [f"--{name}", str(getattr(options, name))]
    with (folder / f"{lane}.log").open("wb") as log:
        return subprocess.Popen(
            [*command, "--lanes", str(lanes)],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            preexec_fn=die_with_parent,
        )


def _lines(children: list[subprocess.Popen[str]]) -> Iterator[str]:
    import selectors

    with selectors.DefaultSelector() as chooser:
        for child in children:
            assert child.stdout is not None
            chooser.register(child.stdout, selectors.EVENT_READ)
        while chooser.get_map():
            for key, _ in chooser.select():
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if line:
                    yield line
                else:
                    chooser.unregister(key.fileobj)


def _tell(one: Result) -> None:
    faults = sum(one.faults.values())
    words = f"{one.number:4} {one.kind:10} {one.goal:10} {one.outcome:12} {one.seconds:5.1f} s"
    print(f"{words} {faults:3} faults {one.kills:2} kills  {' '.join(one.decisions)}", flush=True)
    if one.outcome == "failed":
        print(f"     {one.reason[:160]}", flush=True)
    for told in one.violations:
        print(f"     VIOLATION {told}", flush=True)
    if one.violations:
        print(f"{one.ledger}", flush=True)


def _sum_up(results: list[Result], options: argparse.Namespace, seconds: float) -> int:
    outcomes = Counter(one.outcome for one in results)
    faults: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    for one in results:
        faults += Counter(one.faults)
        steps += Counter(one.steps)
    violations = sum(len(one.violations) for one in results)
    print(f"\nseed {options.seed}: {len(results)} executions in {seconds:.0f} s")
    print("outcomes   " + ", ".join(f"{name} {n}" for name, n in outcomes.most_common()))
    print(f"stopped    {sum(bool(one.explained) for one in results)} stood still and said why")
    print(f"faults     {sum(faults.values())}: " + ", ".join(f"{k} {n}" for k, n in faults.most_common()))
    print(f"kills      {sum(one.kills for one in results)} worker processes, by SIGKILL")
    print(f"sleeps     {sum(one.sleeps for one in results)} workers stopped past their lease, then woken")
    print("decisions  " + ", ".join(f"{k} {n}" for k, n in _decisions(results).most_common()))
    print("steps sent " + ", ".join(f"{k} {n}" for k, n in steps.most_common()))
    print(f"violations {violations}")
    for one in results:
        if one.violations:
            print(f"  again: --seed {options.seed} --first {one.number} --executions 1")
    return int(violations > 0)


def _decisions(results: list[Result]) -> Counter[str]:
    return Counter(what for one in results for what in one.decisions)


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """PostgreSQL and the Redis-compatible server, as the tests have them."""
    from console.embedded import start_postgres, start_valkey

    with tempfile.TemporaryDirectory(prefix="random-executions-") as folder, ExitStack() as stack:
        postgres = start_postgres(Path(folder) / "postgres", durable=False)
        stack.callback(postgres.stop)
        valkey = start_valkey(Path(folder) / "valkey")
        stack.callback(valkey.stop)
        yield {**SETTINGS, "DATABASE_URL": postgres.url, "REDIS_URL": valkey.url}


def run_lane(options: argparse.Namespace) -> int:
    """Every lanes-th cluster. One line of JSON for each execution."""
    import django

    print_line = keep_output()
    _make_database(f"lane{options.lane}")
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0, stdout=sys.stderr)
    from benchmarks.random_lane import Lane
    from tests.executions.stage import steering_webhook
    from tests.nursery import nursery_for

    last = options.first + options.executions - 1
    with tempfile.TemporaryDirectory() as folder, steering_webhook(Path(folder)) as webhook:
        os.environ.update(webhook.environment)
        from django.conf import settings

        settings.STEERING_URL = webhook.environment["STEERING_URL"]
        settings.STEERING_CA_FILE = webhook.environment["STEERING_CA_FILE"]
        lane = Lane(options.seed, nursery_for({**os.environ, **webhook.environment}), Path(folder))
        for group in range(options.first // PER_CLUSTER, last // PER_CLUSTER + 1):
            if group % options.lanes != options.lane:
                continue
            wanted = range(group * PER_CLUSTER, min(last + 1, (group + 1) * PER_CLUSTER))
            try:
                lane.run_cluster(group, wanted, print_line)
            except Exception:
                print_line(Result(wanted[0], "", "", "crashed", violations=[traceback.format_exc()]))
    return 0


def keep_output() -> Callable[[Any], None]:
    """What writes one result where this program's output went; whatever else is printed goes to its log."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return lambda result: print(json.dumps(result.__dict__), file=output, flush=True)


def _make_database(name: str) -> None:
    import psycopg

    address = os.environ["DATABASE_URL"]
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    os.environ["DATABASE_URL"] = address.rpartition("/")[0] + f"/{name}"


if __name__ == "__main__":
    sys.exit(main())
