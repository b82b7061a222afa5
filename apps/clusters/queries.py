"""Every read of clusters and snapshots. What a person may not see is filtered here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from django.db.models import QuerySet

from apps.accounts.errors import NotVisible
from apps.accounts.queries import clusters_visible_to
from apps.clusters import pictures
from apps.clusters.models import Cluster, Snapshot
from apps.planner.snapshot import Snapshot as Picture

if TYPE_CHECKING:
    from apps.accounts.queries import Person

OPEN_PICTURES = 8


def visible_clusters(user: Person) -> QuerySet[Cluster]:
    """The clusters that `user` sees, by name; the credential is not loaded."""
    return Cluster.objects.defer("credential").filter(pk__in=clusters_visible_to(user))


def cluster_for(user: Person, name: str) -> Cluster:
    """Raises NotVisible: a cluster that is hidden from `user` looks like one that does not exist."""
    cluster = visible_clusters(user).filter(name=name).first()
    if cluster is None:
        raise NotVisible(f"there is no cluster {name!r} that you can see", action="see", cluster=name)
    return cluster


def active_clusters() -> QuerySet[Cluster]:
    """Those that are to be watched: a dump has nothing behind it."""
    return Cluster.objects.filter(is_active=True, source=Cluster.Source.API)


def latest_snapshot(cluster: Cluster) -> Snapshot | None:
    """The newest row, without its body."""
    return Snapshot.objects.defer("body").filter(cluster=cluster).order_by("-id").first()


def snapshots_of(cluster: Cluster) -> QuerySet[Snapshot]:
    """Newest first, without bodies."""
    return Snapshot.objects.defer("body").filter(cluster=cluster).order_by("-id")


def open_snapshot(row: Snapshot) -> Picture:
    """The planner's snapshot of a row. Opening is slow for large clusters, so the last few are kept."""
    picture = _open_pictures.get(row)
    taken_at = row.taken_at.timestamp()
    if picture.taken_at != taken_at:
        # The row was touched since: the same facts, seen again later.
        picture = replace(picture, taken_at=taken_at)
        _open_pictures.keep(row, picture)
    return picture


class _OpenPictures:
    """The pictures opened last, by row; shared by the threads of this program."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._pictures: OrderedDict[tuple[int, str], Picture] = OrderedDict()

    def get(self, row: Snapshot) -> Picture:
        key = (row.pk, row.digest)
        with self._lock:
            picture = self._pictures.get(key)
            if picture is not None:
                self._pictures.move_to_end(key)
                return picture
        picture = pictures.unpack(row.body)
        self.keep(row, picture)
        return picture

    def keep(self, row: Snapshot, picture: Picture) -> None:
        with self._lock:
            self._pictures[(row.pk, row.digest)] = picture
            while len(self._pictures) > self._size:
                self._pictures.popitem(last=False)


_open_pictures = _OpenPictures(OPEN_PICTURES)
