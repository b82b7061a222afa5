"""Looks at a cluster in shadow after a prediction was made: would its plan still fit, who has started?"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.clusters import queries as clusters
from apps.clusters.models import Cluster
from apps.clusters.models import Snapshot as SnapshotRow
from apps.executions import ledger
from apps.executions.models import Prediction
from apps.executions.shadow.predicting import OLDEST_PICTURE_SECONDS, alone_on
from apps.planner.fragmentation import count_free_nodes
from apps.planner.plan_json import plan_from_dict
from apps.planner.snapshot import Snapshot
from apps.planner.staleness import what_changed

LOOKS_AFTER = (300, 900, 3600)
"""Seconds after a prediction at which the cluster is looked at."""
TOO_LATE_SECONDS = 600.0
"""A look that much later than it was meant (the console was down) counts as missed."""
TOLD_CHANGES = 3


def compare_open(cluster: Cluster) -> int:
    """How many predictions of the cluster were looked at."""
    with alone_on(cluster) as is_mine:
        row = clusters.latest_snapshot(cluster)
        now = ledger.database_time()
        if not is_mine or row is None or not _is_fresh(cluster, row, now):
            return 0
        picture = clusters.open_snapshot(row)
        open_ones = Prediction.objects.filter(cluster=cluster, closed_at=None).select_related("snapshot")
        looked = 0
        for prediction in open_ones.order_by("pk"):
            _compare(prediction, picture, row.summary, now)
            looked += 1
        return looked


def _is_fresh(cluster: Cluster, row: SnapshotRow, now: datetime) -> bool:
    seen = max(row.taken_at, cluster.watched_at or row.taken_at)
    return (now - seen).total_seconds() <= OLDEST_PICTURE_SECONDS


def _compare(prediction: Prediction, picture: Snapshot, facts: dict[str, Any], now: datetime) -> None:
    age = (now - prediction.made_at).total_seconds()
    prediction.started = with_started(prediction, picture, age)
    known = {look["after"] for look in prediction.looks}
    for after in LOOKS_AFTER:
        if after in known or age < after:
            continue
        if age > after + TOO_LATE_SECONDS:
            prediction.looks.append({"after": after, "is_missed": True})
        else:
            prediction.looks.append(
                {"after": after, **_look(prediction, picture, facts), "at": now.isoformat()}
            )
    if age >= LOOKS_AFTER[-1]:
        prediction.closed_at = now
    prediction.save(update_fields=["started", "looks", "closed_at"])


def _look(prediction: Prediction, picture: Snapshot, facts: dict[str, Any]) -> dict[str, Any]:
    before = clusters.open_snapshot(prediction.snapshot) if prediction.snapshot is not None else None
    changes = what_changed(plan_from_dict(prediction.body), before, picture)
    return {
        "is_missed": False,
        "is_valid": not changes,
        "why": changes[:TOLD_CHANGES],
        "free_gpus": (facts.get("gpus") or {}).get("free", 0),
        "free_nodes": sum(count_free_nodes(picture).values()),
    }


def with_started(prediction: Prediction, picture: Snapshot, age: float) -> list[dict[str, Any]]:
    """The pods that waited then and have a node now, with the seconds that they waited on."""
    known = {one["uid"]: one for one in prediction.started}
    for waiting in prediction.summary.get("waiting", ()):
        pod = picture.pods.get(waiting["uid"])
        if waiting["uid"] in known or pod is None or not pod.node_name:
            continue
        began = pod.started_at
        seconds = age if began is None else max(0.0, began - prediction.made_at.timestamp())
        known[waiting["uid"]] = {**waiting, "node": pod.node_name, "seconds": round(seconds)}
    return list(known.values())
