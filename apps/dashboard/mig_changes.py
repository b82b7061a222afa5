"""Remembers since when each node's MIG change has been where it is, so that a page can call it stuck."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from apps.clusters import queries as clusters
from apps.clusters.models import Cluster, Snapshot
from apps.dashboard.models import MigChange
from apps.planner.mig.changing import Change, Stage, read_change
from apps.planner.snapshot import Snapshot as Picture


def follow_mig_changes(snapshot_id: int) -> None:
    """Called by the worker for each snapshot that it measured, while the picture is still open. A snapshot
    that is not the newest any more changes nothing. Raises Snapshot.DoesNotExist."""
    row = Snapshot.objects.defer("body").select_related("cluster").get(pk=snapshot_id)
    newest = clusters.latest_snapshot(row.cluster)
    if newest is None or newest.pk != row.pk:
        return
    found = _changes_in(clusters.open_snapshot(row))
    known = {one.node_uid: one for one in MigChange.objects.filter(cluster=row.cluster)}
    if not found and not known:
        return
    with transaction.atomic():
        MigChange.objects.filter(cluster=row.cluster).exclude(node_uid__in=found).delete()
        for uid, change in found.items():
            before = known.get(uid)
            if before is None or (before.config, before.stage) != (change.config, change.stage):
                MigChange.objects.update_or_create(
                    cluster=row.cluster,
                    node_uid=uid,
                    defaults={"config": change.config, "stage": change.stage, "since": row.taken_at},
                )


def changes_since(cluster: Cluster) -> dict[str, tuple[str, str, datetime]]:
    """(config, stage, since when) by the uid of the node."""
    rows = MigChange.objects.filter(cluster=cluster)
    return {one.node_uid: (one.config, one.stage, one.since) for one in rows}


def is_timed(change: Change) -> bool:
    """Whether it matters since when it is in its stage. mig-manager says success before the device plugin
    is back, so what disagrees at first may agree soon."""
    return change.is_under_way or change.stage is Stage.WRONG


def _changes_in(picture: Picture) -> dict[str, Change]:
    return {
        (node.uid or node.name)[:64]: change
        for node in picture.nodes.values()
        if is_timed(change := read_change(node))
    }
