"""Mutated inputs of every format through the readers, in this process, each with limits of its own.

    python -m benchmarks.fuzz_readers [--minutes 5] [--seed 1] [--reader dump …] [--samples FOLDER] [--case N]

A reader may answer, or say in one sentence what is wrong. Anything else (another exception, more time or
memory than a small input can need, an answer that is no JSON, a control character) is printed with the
seed and the number of the case that brings it back. Exit code 1 if there was any.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import django

from benchmarks import fuzz_seeds
from benchmarks.fuzzing import mutate

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings.test")
os.environ.setdefault("SECRET_KEY", "fuzzing-" * 8)
django.setup()

from django.core.management.base import CommandError  # noqa: E402

from apps.clusters.dump_answers import answer_dump  # noqa: E402 - Django first
from apps.clusters.dump_table import as_table  # noqa: E402
from apps.clusters.dumps import read_dump_texts  # noqa: E402
from apps.clusters.errors import ClusterError  # noqa: E402
from apps.clusters.input_files import read_bytes, read_file  # noqa: E402
from apps.clusters.management.commands.read_mig import as_text as mig_text  # noqa: E402
from apps.clusters.management.commands.read_topology import tell  # noqa: E402
from apps.clusters.mig_files import read_mig_text  # noqa: E402
from apps.clusters.topology_answer import answer_topology, find_group  # noqa: E402
from apps.fragmentation.offline import NODE_COLUMNS, PLACED_COLUMNS, read_table  # noqa: E402
from apps.kube.topology.documents import read_topology  # noqa: E402
from apps.planner.fragmentation import measure, report_to_dict  # noqa: E402
from apps.planner.mig.catalogue import UnknownModel  # noqa: E402
from apps.planner.mig.measuring import measure_mig, mig_report_to_dict  # noqa: E402
from apps.planner.plain import one_line, visible_lines  # noqa: E402
from apps.planner.trace import snapshot_from_rows  # noqa: E402
from apps.planner.waiting import explain_pending  # noqa: E402
from apps.prometheus.answer import answer_of  # noqa: E402
from apps.prometheus.errors import MetricsError  # noqa: E402
from apps.prometheus.reading import read_metrics  # noqa: E402
from apps.telemetry.management.commands.read_metrics import as_text as metrics_text  # noqa: E402

SECONDS_EACH = 10.0
MEMORY_EACH = 1024 * 1024 * 1024
REFUSALS = (ClusterError, MetricsError, UnknownModel, CommandError)


class TooSlow(BaseException):
    """The time of one input is over."""


@dataclass(slots=True)
class Tally:
    cases: int = 0
    refused: int = 0
    slowest: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)


def read_as_dump(path: Path) -> tuple[Any, str]:
    answer = answer_dump([("input", read_bytes(str(path)))])
    return answer, as_table(answer)


def read_as_snapshot(path: Path) -> tuple[Any, str]:
    snapshot = read_dump_texts([("input", read_bytes(str(path)))])
    waiting = [one.sentence for one in explain_pending(snapshot)]
    report, mig = report_to_dict(measure(snapshot)), mig_report_to_dict(measure_mig(snapshot))
    return [report, mig, waiting], "\n".join([*waiting, *snapshot.problems])


def read_as_topology(path: Path) -> tuple[Any, str]:
    reading = read_topology(read_file(str(path)))
    answer = answer_topology(reading, "NVIDIA A100-SXM4-80GB")
    if not reading.error:
        answer["best_group"] = find_group(reading, 2, None)
    return answer, "\n".join(tell(answer)) if not reading.error else reading.error


def read_as_metrics(path: Path) -> tuple[Any, str]:
    answer = answer_of(read_metrics("input", read_file(str(path))))
    return answer, metrics_text(answer)


def read_as_mig(path: Path) -> tuple[Any, str]:
    answer = read_mig_text("input", read_file(str(path)))
    return answer, mig_text(answer)


def read_as_trace(path: Path) -> tuple[Any, str]:
    """The file is nodes and pods one after the other, parted by an empty line."""
    nodes, _, pods = path.read_bytes().partition(b"\n\n")
    sides = path.with_suffix(".nodes"), path.with_suffix(".pods")
    for side, data in zip(sides, (nodes, pods), strict=True):
        side.write_bytes(data)
    headers = (NODE_COLUMNS, PLACED_COLUMNS)
    rows = [read_table(str(side), columns) for side, columns in zip(sides, headers, strict=True)]
    try:
        snapshot = snapshot_from_rows(*rows)
    except ValueError as error:
        raise ClusterError(str(error)) from error
    return report_to_dict(measure(snapshot)), ""


READERS: dict[str, tuple[Callable[[Path], tuple[Any, str]], Sequence[str], Sequence[str]]] = {
    "dump": (
        read_as_dump,
        [*map(json.dumps, fuzz_seeds.DUMPS), fuzz_seeds.DESCRIPTION],
        ("node", "pod"),
    ),
    "snapshot": (read_as_snapshot, [*map(json.dumps, fuzz_seeds.DUMPS[:3])], ("node",)),
    "topology": (read_as_topology, fuzz_seeds.TOPOLOGIES, ("topo",)),
    "metrics": (read_as_metrics, fuzz_seeds.METRICS, ("metrics",)),
    "mig": (read_as_mig, fuzz_seeds.MIG, ("mig",)),
    "trace": (read_as_trace, ["\n".join(fuzz_seeds.TRACES)], ()),
}


def main() -> int:
    options = _read_options()
    resource.setrlimit(resource.RLIMIT_DATA, (4 * MEMORY_EACH, resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, _time_is_over)
    tallies = {name: Tally() for name in options.reader}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        for name, tally in tallies.items():
            seeds = _seeds(name, options.samples)
            end = time.monotonic() + options.minutes * 60 / len(tallies)
            numbers = iter([options.case]) if options.case is not None else iter(range(10**9))
            while (number := next(numbers, None)) is not None and time.monotonic() < end:
                data = mutate(random.Random(f"{options.seed}:{name}:{number}"), seeds)
                fault = _try(READERS[name][0], data, Path(folder) / "input", tally)
                if fault:
                    _tell(name, number, options.seed, fault, tally, data, is_alone=options.case is not None)
            print(
                f"{name:9s} {tally.cases:8d} inputs, {tally.refused} refused in a sentence,"
                f" slowest {tally.slowest:.2f} s, {sum(tally.faults.values())} faults",
                flush=True,
            )
    return 1 if any(tally.faults for tally in tallies.values()) else 0


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="for all readers together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", nargs="+", choices=list(READERS), default=list(READERS))
    parser.add_argument("--samples", type=Path, help="a folder whose files are seeds too")
    parser.add_argument("--case", type=int, help="only this one, with its input and whole traceback")
    return parser.parse_args()


def _seeds(name: str, samples: Path | None) -> list[bytes]:
    _, own, folders = READERS[name]
    places = [samples / folder for folder in folders] if samples else []
    files = [path for place in places for path in sorted(place.glob("*")) if path.is_file()]
    return [*(text.encode() for text in own), *(path.read_bytes() for path in files)]


def _try(read: Callable[[Path], tuple[Any, str]], data: bytes, path: Path, tally: Tally) -> str:
    """ "" or what is wrong: a traceback, or a sentence."""
    path.write_bytes(data)
    tally.cases += 1
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        with _limited():
            answer, words = read(path)
            json.dumps(answer, allow_nan=False)
            said = visible_lines(words)
    except REFUSALS as error:
        tally.refused += 1
        said = one_line(error)
    except (Exception, TooSlow):
        return traceback.format_exc()
    finally:
        tally.slowest = max(tally.slowest, time.process_time() - started)
    if (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 > MEMORY_EACH:
        return "it took more memory than a small input may"
    if any(ord(letter) < 32 and letter != "\n" for letter in said):
        return f"a control character in {said[:300]!r}"
    return "" if said or answer else "it says nothing"


@contextmanager
def _limited() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, SECONDS_EACH)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _time_is_over(*_: Any) -> None:
    raise TooSlow(f"more than {SECONDS_EACH:g} s of a processor")


def _tell(
    name: str, number: int, seed: int, fault: str, tally: Tally, data: bytes, *, is_alone: bool
) -> None:
    lines = [line for line in fault.strip().splitlines() if "^^^" not in line]
    place = next((line.strip() for line in reversed(lines) if line.strip().startswith("File ")), "")
    kind = f"{place} {lines[-1][:200]}" if len(lines) > 1 else lines[0]
    kind = kind if place else lines[-1]
    tally.faults[kind] = tally.faults.get(kind, 0) + 1
    if is_alone:
        print(f"{data[:3000]!r}\n{fault[-6000:]}")
    elif tally.faults[kind] == 1:
        again = f"--reader {name} --seed {seed} --case {number}"
        print(f"{name}: {again}\n  " + "\n  ".join(lines[-7:])[:1500], flush=True)


if __name__ == "__main__":
    sys.exit(main())
