"""Opens a dump of a cluster as a snapshot: files that kubectl wrote, or standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from apps.clusters.errors import BadDump
from apps.kube import dumps
from apps.kube.gateway import NODES, Json, Kind
from apps.kube.translate import build_snapshot
from apps.kube.translate.values import child, entries, seconds_of
from apps.planner.snapshot import Snapshot

LARGEST_BYTES = 512 * 1024 * 1024
CLUSTER = "dump"


def open_dump(*paths: str | Path) -> Snapshot:
    """The snapshot that the files hold together; "-" is standard input. Raises BadDump.

    It counts as taken at the newest time that an object in it tells, so an old dump is not stale.
    """
    return read_dump_texts([(str(path), read_file(str(path))) for path in paths])


def read_dump_texts(texts: Sequence[tuple[str, str]]) -> Snapshot:
    """The same for texts that are in memory already (an upload): (name of the source, text)."""
    try:
        objects = dumps.read_dump(texts)
    except dumps.BadDump as error:
        raise BadDump(str(error)) from error
    return build_snapshot(CLUSTER, objects, max(_times(objects), default=0.0))


def read_file(path: str, most_bytes: int = LARGEST_BYTES, *, name: str = "") -> str:
    """The text of a file; "-" is standard input. name: what people call it. Raises BadDump."""
    name = name or ("standard input" if path == "-" else path)
    try:
        if path == "-":
            raw = sys.stdin.buffer.read(most_bytes + 1)
        else:
            with Path(path).open("rb") as file:
                raw = file.read(most_bytes + 1)
    except OSError as error:
        raise BadDump(f"{name} cannot be read: {error.strerror}.") from error
    if len(raw) > most_bytes:
        raise BadDump(f"{name} is larger than {most_bytes // 2**20} MiB.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadDump(f"{name} is no UTF-8 text. Dump it with: kubectl get nodes,pods -A -o json") from None


def _times(objects: dict[Kind, list[Json]]) -> Iterator[float]:
    for kind, raws in objects.items():
        for raw in raws:
            yield from filter(None, map(seconds_of, _told_times(kind, raw)))


def _told_times(kind: Kind, raw: Json) -> Iterator[Any]:
    yield child(raw, "metadata").get("creationTimestamp")
    yield child(raw, "status").get("startTime")
    if kind == NODES:
        for condition in entries(child(raw, "status"), "conditions"):
            yield condition.get("lastHeartbeatTime")
            yield condition.get("lastTransitionTime")
