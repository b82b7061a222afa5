"""Prepares what the pages of a large cluster show, and finds what is prepared.

The worker prepares a grid right after it measured the snapshot, so no visitor waits for it. Without a
worker the first page that misses it does the same work, once for everybody.
"""

from __future__ import annotations

import gzip
import hashlib
import time
from dataclasses import asdict
from typing import Any

import msgspec
import structlog
from django.db import IntegrityError, transaction

from apps.clusters import queries as clusters
from apps.clusters.models import Cluster, Snapshot
from apps.clusters.notices import publish_on_commit
from apps.dashboard.models import GridPicture
from apps.dashboard.reading.alike import gather_alike
from apps.dashboard.reading.callout import FirstWaiting, first_waiting
from apps.dashboard.reading.compact import encode_grid
from apps.dashboard.reading.look import look_at
from apps.dashboard.reading.measures import Measures, read_measures
from apps.dashboard.reading.picture import Totals, count_totals
from apps.dashboard.reading.tiles import is_gpu_waited_for, tell_tiles
from apps.fragmentation import queries as fragmentation
from apps.pending import queries as pending
from apps.planner.snapshot import Snapshot as Picture

DENSE_FROM = 120
"""GPU nodes from which the grid is drawn dense unless somebody asks for rows."""
LARGE_FROM = 1000
"""Nodes and pods together from which preparing takes long enough to leave it to the worker."""
PATIENCE_SECONDS = 30.0
GZIP_LEVEL = 6
logger = structlog.get_logger(__name__)
_missed: dict[int, tuple[tuple[int, int | None], float]] = {}
"""By cluster: what was prepared when a newer snapshot was first missed, and when that was."""


def grid_of(cluster: Cluster, newest: Snapshot) -> GridPicture:
    """The newest grid that is ready. For a large cluster it may be a few seconds behind its snapshot, but no
    longer: then it is prepared here. The body is not loaded."""
    ready = GridPicture.objects.defer("body").filter(cluster=cluster).first()
    if ready is None or _is_guarded_otherwise(ready):
        return prepare_grid(snapshot_id=newest.pk)
    if ready.snapshot_id >= newest.pk:
        _missed.pop(cluster.pk, None)
        return ready
    if _is_large(newest) and not _is_overdue(cluster.pk, ready):
        return ready
    return prepare_grid(snapshot_id=newest.pk)


def waiting_count(cluster: Cluster, newest: Snapshot) -> int:
    """How many workloads wait, without opening a large picture for it."""
    if not _is_large(newest):
        return len(gather_alike(pending.waiting_workloads(clusters.open_snapshot(newest))))
    return int(grid_of(cluster, newest).facts["waiting"])


def _is_large(row: Snapshot) -> bool:
    return row.summary.get("nodes", 0) + row.summary.get("pods", 0) >= LARGE_FROM


def _is_overdue(cluster_id: int, ready: GridPicture) -> bool:
    made_of = (ready.snapshot_id, ready.report_id)
    known, since = _missed.get(cluster_id, (None, 0.0))
    if known != made_of:
        _missed[cluster_id] = (made_of, time.monotonic())
        return False
    return time.monotonic() - since > PATIENCE_SECONDS


def prepare_grid(*, snapshot_id: int) -> GridPicture:
    """Make the grid of a snapshot ready, with its report if it is measured by now, and tell the pages.

    What is ready already is given back; nothing newer is ever replaced. Raises Snapshot.DoesNotExist.
    """
    row = Snapshot.objects.defer("body").select_related("cluster").get(pk=snapshot_id)
    own = fragmentation.report_of(row)
    ready = GridPicture.objects.defer("body").filter(cluster=row.cluster).first()
    if ready is not None and not _is_news(ready, row.pk, own.pk if own else None):
        return ready
    protected = clusters.protected_namespaces(row.cluster_id)
    picture = clusters.open_snapshot(row)
    measures = read_measures(own or fragmentation.latest_report(row.cluster))
    cells = encode_grid(picture, look_at(picture, measures), measures)
    body = gzip.compress(msgspec.json.encode(cells), GZIP_LEVEL, mtime=0)
    found = {
        "snapshot_id": row.pk,
        "report_id": own.pk if own else None,
        "etag": hashlib.sha256(body).hexdigest(),
        "body": body,
        "facts": _tell_facts(picture, measures) | {"protected": protected},
    }
    return _keep(row, found)


def prepare_measured_grid(snapshot_id: int) -> None:
    """Called by the worker for each snapshot that it measured, while the picture is still open."""
    row = Snapshot.objects.defer("body").select_related("cluster").get(pk=snapshot_id)
    if is_prepared_ahead(row):
        prepare_grid(snapshot_id=snapshot_id)


def is_prepared_ahead(row: Snapshot) -> bool:
    """Small clusters are drawn as rows, straight from their snapshot; nothing is prepared for them unless
    somebody looks at the dense grid."""
    is_dense = row.summary.get("gpu_nodes", 0) >= DENSE_FROM
    return is_dense or _is_large(row) or GridPicture.objects.filter(cluster=row.cluster).exists()


def _is_news(ready: GridPicture, snapshot_id: int, report_id: int | None) -> bool:
    if ready.snapshot_id != snapshot_id:
        return ready.snapshot_id < snapshot_id
    has_report = report_id is not None and ready.report_id != report_id
    return has_report or _is_guarded_otherwise(ready)


def _is_guarded_otherwise(ready: GridPicture) -> bool:
    """The cluster's policy protects other namespaces by now, so other pods stay than the picture says."""
    return ready.facts.get("protected") != list(clusters.protected_namespaces(ready.cluster_id))


def _keep(row: Snapshot, found: dict[str, Any]) -> GridPicture:
    with transaction.atomic():
        ready = GridPicture.objects.select_for_update().defer("body").filter(cluster=row.cluster).first()
        if ready is not None and not _is_news(ready, found["snapshot_id"], found["report_id"]):
            return ready
        if ready is None:
            try:
                with transaction.atomic():
                    ready = GridPicture.objects.create(cluster=row.cluster, **found)
            except IntegrityError:  # another process was first
                return GridPicture.objects.defer("body").get(cluster=row.cluster)
        else:
            for name, value in found.items():
                setattr(ready, name, value)
            ready.save()
        publish_on_commit(row.cluster.name, "grid", {"snapshot": row.pk, "etag": ready.etag})
    return ready


def _tell_facts(picture: Picture, measures: Measures) -> dict[str, Any]:
    """As JSON: what `grid_facts.html` shows, the first workload that waits, and how many do."""
    views = look_at(picture, measures).views
    tiles = tell_tiles(count_totals(views), measures, views, is_waited_for=is_gpu_waited_for(picture))
    first = first_waiting(picture)
    gang = measures.gang
    return tiles | {
        "totals": _totals(tiles["totals"]),
        "measures": {"stranded_gpus": measures.stranded_gpus, "gang": asdict(gang) if gang else None},
        "first_waiting": asdict(first) if first else None,
        "waiting": len(gather_alike(pending.waiting_workloads(picture))),
        "gpu_nodes": len(views),
    }


def _totals(totals: Totals) -> dict[str, Any]:
    return {
        "nodes": totals.nodes,
        "models": totals.models,
        "physical": totals.physical,
        "schedulable": totals.schedulable,
        "less": totals.less,
        "others": totals.others,
    }


def waiting_in(facts: dict[str, Any]) -> FirstWaiting | None:
    return FirstWaiting(**facts["first_waiting"]) if facts["first_waiting"] else None
