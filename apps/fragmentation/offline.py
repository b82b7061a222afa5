"""Where the offline commands get their cluster from: a dump of kubectl, or the CSV tables of a trace.

Nothing here touches the database or a cluster.
"""

from __future__ import annotations

import csv
import io
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any

from django.core.management.base import CommandError

from apps.clusters.dumps import open_dump
from apps.clusters.input_files import name_of, read_file
from apps.planner.inventory import Pod
from apps.planner.snapshot import Snapshot
from apps.planner.trace import snapshot_from_rows, workload_from_rows

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
PLACED_COLUMNS = (*POD_COLUMNS, "node")
BAD_INPUT = 2


def add_source_arguments(parser: ArgumentParser) -> None:
    # A wrong argument is answered in one line; what there is to choose from is under --help.
    parser.usage = SUPPRESS
    parser.add_argument("dump", nargs="?", help="a kubectl dump, JSON or YAML; - reads standard input")
    parser.add_argument("--nodes", metavar="CSV", help="nodes of a trace, instead of a dump")
    parser.add_argument("--placed", metavar="CSV", help="its pods with their nodes and GPU indexes")
    parser.add_argument("--json", action="store_true", help="answer in JSON on standard output")


def open_source(options: dict[str, Any]) -> Snapshot:
    """The snapshot that the arguments name; CommandError (exit 2, one line) if they name none."""
    dump, nodes, placed = options["dump"], options["nodes"], options["placed"]
    if dump and (nodes or placed):
        raise bad_input("give either a dump, or --nodes with --placed, not both")
    if dump:
        return open_dump(dump)
    if not nodes or not placed:
        raise bad_input("give a dump, or --nodes CSV together with --placed CSV")
    node_rows, pod_rows = read_table(nodes, NODE_COLUMNS), read_table(placed, PLACED_COLUMNS)
    try:
        return snapshot_from_rows(node_rows, pod_rows)
    except ValueError as error:
        raise bad_input(str(error)) from error


def read_workload(path: str) -> tuple[Pod, ...]:
    rows = read_table(path, POD_COLUMNS)
    try:
        return workload_from_rows(rows)
    except ValueError as error:
        raise bad_input(f"{name_of(path)}: {error}") from error


def read_table(path: str, columns: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a CSV file with a header line; - is standard input. columns: those that each row must have.

    What would be read as something else than it says is refused: a column named twice, a row that is cut
    off or has cells beyond the header, a quotation that does not end.
    """
    reader = csv.DictReader(io.StringIO(read_file(path), newline=""), strict=True)
    name = name_of(path)
    try:
        _check_header(name, reader.fieldnames or (), columns)
        return [_whole_row(name, reader.line_num, row, columns) for row in reader]
    except csv.Error as error:
        raise bad_input(f"{name}, line {reader.line_num + 1}: {error}") from error


def _check_header(name: str, header: Sequence[str], columns: Iterable[str]) -> None:
    missing = [column for column in columns if column not in header]
    if missing:
        raise bad_input(f"{name}: the header lacks the columns {', '.join(missing)}")
    twice = sorted({column for column in header if column and header.count(column) > 1})
    if twice:
        raise bad_input(f"{name}: the header names {', '.join(twice)} more than once: keep one")


def _whole_row(name: str, line: int, row: dict[str, str], columns: Iterable[str]) -> dict[str, str]:
    missing = [column for column in columns if row.get(column) is None]
    if missing:
        raise bad_input(f"{name}, line {line}: the row ends before the column {missing[0]}")
    # DictReader keeps cells beyond the header under None.
    beyond: Iterable[str] = row.pop(None, ())  # type: ignore[call-overload]
    if any(cell.strip() for cell in beyond):
        raise bad_input(f"{name}, line {line}: the row has more cells than the header; is a comma unquoted?")
    return row


def bad_input(message: str) -> CommandError:
    return CommandError(" ".join(message.split()), returncode=BAD_INPUT)
