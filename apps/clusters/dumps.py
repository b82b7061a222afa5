"""Opens a dump of a cluster as a snapshot: files that kubectl wrote, or standard input."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from apps.clusters.errors import BadDump
from apps.clusters.input_files import name_of, read_bytes, read_file
from apps.kube import dumps
from apps.kube.json_text import Bytes
from apps.kube.translate import build_snapshot
from apps.planner.snapshot import Snapshot

CLUSTER = "dump"

__all__ = ["CLUSTER", "open_dump", "read_dump_texts", "read_file"]


def open_dump(*paths: str | Path) -> Snapshot:
    """The snapshot that the files hold together; "-" is standard input. Raises BadDump.

    It counts as taken at the newest time that an object in it tells, so an old dump is not stale.
    """
    return read_dump_texts([(name_of(str(path)), read_bytes(str(path))) for path in paths])


def read_dump_texts(texts: Sequence[tuple[str, str | Bytes]]) -> Snapshot:
    """The same for texts that are in memory already (an upload): (name of the source, text)."""
    with _without_collecting():
        try:
            found = dumps.read_dump(texts)
        except dumps.BadDump as error:
            raise BadDump(str(error)) from error
        return build_snapshot(CLUSTER, found.objects, found.taken_at)


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Nothing that is read here is part of a cycle: looking for cycles, again and again over millions of
    new values, would take a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
