"""A dump of 10,000 nodes and 60,000 pods read into a snapshot, beside a plain json.load of the same file.

    python -m benchmarks.reading [--nodes 10000] [--pods 60000] [--seed 1] [--form json|compact|yaml]
                                 [--managed-fields] [--lean] [--rounds 1] [--keep FILE] [--json]

Each reading is a program of its own, from its start to its end, so its peak memory is the reading's alone.
CPU seconds stand beside wall seconds because the machine may be shared; the ratios of both are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.dump_writing import write_dump

PLAIN = "import json, sys\nwith open(sys.argv[1], encoding='utf-8') as file:\n    found = json.load(file)\n"
PLAIN_YAML = (
    "import yaml, sys\nwith open(sys.argv[1], encoding='utf-8') as file:\n"
    "    found = yaml.load(file, Loader=yaml.CSafeLoader)\n"
)
OURS = (
    "import sys\nfrom apps.clusters.dumps import open_dump\nfound = open_dump(sys.argv[1])\n"
    "print(len(found.nodes), len(found.pods), sum(len(node.gpus) for node in found.nodes.values()))\n"
)
PEAK = "\nwith open('/proc/self/status') as file:\n    print(file.read().split('VmHWM:')[1].split()[0])\n"
MOST_TIME, MOST_MEMORY = 3.0, 2.0


@dataclass(frozen=True, slots=True)
class Reading:
    """cpu_seconds: user and system. peak_mib: the most memory that the program held at once."""

    wall_seconds: float
    cpu_seconds: float
    peak_mib: float
    said: str


def main() -> int:
    options = _read_options()
    print(
        f"{options.nodes} nodes, {options.pods} pods, seed {options.seed}, form {options.form};"
        f" {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory(prefix="reading-") as folder:
        path = options.keep or Path(folder) / "dump"
        count = write_dump(
            path,
            nodes=options.nodes,
            pods=options.pods,
            seed=options.seed,
            form=options.form,
            managed_fields=options.managed_fields,
            lean=options.lean,
        )
        size = path.stat().st_size
        print(f"{count} objects, {size / 2**20:.0f} MiB, {size / count:.0f} bytes each")
        plain_program = PLAIN_YAML if options.form == "yaml" else PLAIN
        # In turns, so that a busy spell of the machine meets both.
        rounds = [(_run(plain_program, path), _run(OURS, path)) for _ in range(options.rounds)]
    plain, ours = (_median([pair[side] for pair in rounds]) for side in (0, 1))
    return _tell(plain, ours, "yaml.load" if options.form == "yaml" else "json.load", as_json=options.json)


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--form", choices=("json", "compact", "yaml"), default="json")
    parser.add_argument("--managed-fields", action="store_true", help="as kubectl --show-managed-fields")
    parser.add_argument("--lean", action="store_true", help="objects without what nothing here reads")
    parser.add_argument("--rounds", type=int, default=1, help="the median of so many")
    parser.add_argument("--keep", type=Path, help="write the dump here, and leave it there")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _run(program: str, path: Path) -> Reading:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program + PEAK, str(path)], capture_output=True, text=True, check=False
    )
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"reading failed: {done.stderr.strip()[-2000:]}")
    *said, peak = done.stdout.split()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Reading(round(wall, 2), round(cpu, 2), round(int(peak) / 1024), " ".join(said))


def _median(readings: list[Reading]) -> Reading:
    return sorted(readings, key=lambda one: one.cpu_seconds)[(len(readings) - 1) // 2]


def _tell(plain: Reading, ours: Reading, name: str, *, as_json: bool) -> int:
    for title, one in ((name, plain), ("into a snapshot", ours)):
        times = f"{one.wall_seconds:7.2f} s {one.cpu_seconds:7.2f} s CPU"
        print(f"{title:16s} {times} {one.peak_mib:6.0f} MiB  {one.said}")
    wall, cpu = ours.wall_seconds / plain.wall_seconds, ours.cpu_seconds / plain.cpu_seconds
    memory = ours.peak_mib / plain.peak_mib
    print(f"time: {wall:.2f} times ({cpu:.2f} in CPU seconds; at most {MOST_TIME:g}),", end=" ")
    print(f"memory: {memory:.2f} times (at most {MOST_MEMORY:g})")
    if as_json:
        ratios = {"wall": round(wall, 3), "cpu": round(cpu, 3), "memory": round(memory, 3)}
        print(json.dumps({"plain": asdict(plain), "ours": asdict(ours), "ratios": ratios}))
    return 0 if min(wall, cpu) <= MOST_TIME and memory <= MOST_MEMORY else 1


if __name__ == "__main__":
    sys.exit(main())
