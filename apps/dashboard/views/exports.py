"""The grid and the queue as files: CSV for spreadsheets (formulas neutralised), JSON for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse

from apps.clusters import queries as clusters
from apps.clusters.models import Cluster, Snapshot
from apps.dashboard.reading.look import look_at
from apps.dashboard.reading.measures import read_measures
from apps.dashboard.reading.nodes import NodeView
from apps.dashboard.reading.plain import cell_text
from apps.dashboard.reading.queue import QueueLine, describe_waiting
from apps.dashboard.reading.queue_wishes import Wishes
from apps.dashboard.views.shell import page
from apps.fragmentation import queries as fragmentation
from apps.pending import queries as pending
from apps.pending.starts import expected_starts
from apps.pending.unblocking import known_sentence


@page
def grid_csv(request: HttpRequest, cluster: str) -> HttpResponse:
    place, row, rows = _grid_rows(request, cluster)
    return csv_file(f"{place.name}-grid-{row.pk}", rows)


@page
def grid_json(request: HttpRequest, cluster: str) -> HttpResponse:
    place, row, rows = _grid_rows(request, cluster)
    return json_file(f"{place.name}-grid-{row.pk}", place, row, "nodes", rows)


@page
def queue_csv(request: HttpRequest, cluster: str) -> HttpResponse:
    place, row, rows = _queue_rows(request, cluster)
    return csv_file(f"{place.name}-queue-{row.pk}", rows)


@page
def queue_json(request: HttpRequest, cluster: str) -> HttpResponse:
    place, row, rows = _queue_rows(request, cluster)
    return json_file(f"{place.name}-queue-{row.pk}", place, row, "pending", rows)


def newest(request: HttpRequest, cluster: str) -> tuple[Cluster, Snapshot]:
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    if row is None:
        raise Http404(f"no snapshot of {cluster} is known yet")
    return place, row


def _grid_rows(request: HttpRequest, cluster: str) -> tuple[Cluster, Snapshot, list[dict[str, Any]]]:
    place, row = newest(request, cluster)
    picture = clusters.open_snapshot(row)
    look = look_at(picture, read_measures(fragmentation.latest_report(place)))
    return place, row, [_grid_row(view) for view in sorted(look.views, key=lambda view: view.node.name)]


def _grid_row(view: NodeView) -> dict[str, Any]:
    node = view.node
    return {
        "node": node.name,
        "model": node.model,
        "pool": node.pool,
        "rack": node.rack,
        "zone": node.zone,
        "state": view.state.word,
        "gpus": view.seats.size,
        "gpus_free": view.free,
        "gpus_unhealthy": len(view.seats.bad),
        "gpus_used_milli": view.used_milli,
        "largest_free_link_group": view.group if view.link else None,
        "link": str(view.link) if view.link else None,
        "worth": round(view.worth, 3) if view.worth else 0,
        "blocked_share": round(view.blocked, 4) if view.blocked is not None else None,
        "holders_known": view.seats.is_told,
        "warnings": " ".join(node.warnings),
    }


def _queue_rows(request: HttpRequest, cluster: str) -> tuple[Cluster, Snapshot, list[dict[str, Any]]]:
    """A row for each workload, chosen and sorted as the page is; alike ones are not put together."""
    place, row = newest(request, cluster)
    picture = clusters.open_snapshot(row)
    places, starts = pending.places(picture), expected_starts(place, picture).by_key
    lines = [
        describe_waiting((one,), places[one.key], starts.get(one.key))
        for one in pending.queue_in_order(picture)
    ]
    return place, row, [_queue_row(place, line) for line in Wishes.read(request).choose(lines)]


def _queue_row(cluster: Cluster, line: QueueLine) -> dict[str, Any]:
    one, place, start = line.waiting, line.place, line.start
    return {
        "position": place.position,
        "scheduler": place.scheduler,
        "scheduler_position": place.scheduler_position,
        "workload": one.key,
        "namespace": one.namespace,
        "tenant": place.tenant,
        "tenant_share": round(place.share, 4),
        "weight": place.weight,
        "pods": len(one.pods),
        "gpus_per_pod": one.gpus_per_pod,
        "link": one.link,
        "mig_instances_per_pod": " ".join(f"{number}x{name}" for name, number in one.profiles.items()),
        "queue": one.queue,
        "priority": one.priority,
        "waiting_since_epoch_seconds": one.since,
        "wait_seconds": round(line.seconds),
        "reason": one.reason_code,
        "can_never_run": one.never,
        "sentence": one.sentence,
        "unblocking": known_sentence(cluster, one),
        "expected_start_epoch_seconds": start.placed_at if start else None,
        "expected_ready_epoch_seconds": start.ready_at if start else None,
        "expected_start_words": start.words if start else "",
        "position_words": place.words,
        "scheduler_message": one.saying.message,
        "scheduler_difference": one.differs,
    }


def csv_file(name: str, rows: Sequence[dict[str, Any]]) -> HttpResponse:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(rows[0] if rows else ["nothing"])
    writer.writerows([["" if value is None else cell_text(value) for value in row.values()] for row in rows])
    answer = HttpResponse(out.getvalue(), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return answer


def json_file(
    name: str, place: Cluster, row: Snapshot, what: str, rows: Sequence[dict[str, Any]] | dict[str, Any]
) -> HttpResponse:
    body = {"cluster": place.name, "snapshot": row.pk, "taken_at": row.taken_at.isoformat(), what: rows}
    answer = JsonResponse(body, json_dumps_params={"indent": 1})
    answer["Content-Disposition"] = f'attachment; filename="{name}.json"'
    return answer
