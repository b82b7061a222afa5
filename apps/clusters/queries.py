"""Every read of clusters and snapshots. What a person may not see is filtered here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django.db.models import QuerySet

from apps.accounts.errors import NotVisible
from apps.accounts.queries import clusters_visible_to
from apps.clusters import pictures
from apps.clusters.models import Cluster, Snapshot
from apps.planner.protecting import ONLY_OFFERED, guard_namespaces
from apps.planner.snapshot import Snapshot as Picture

if TYPE_CHECKING:
    from apps.accounts.queries import Person

OPEN_PICTURES = 8
OPEN_BYTES = 4 * 2**20
"""Of packed bodies. Opened, a picture takes about twenty times as much, so this is what bounds the memory of
a process: eight small clusters, or one large one."""
Answer = TypeVar("Answer")


def visible_clusters(user: Person) -> QuerySet[Cluster]:
    """The clusters that `user` sees, by name; the credential is not loaded."""
    return Cluster.objects.defer("credential").filter(pk__in=clusters_visible_to(user))


def cluster_for(user: Person, name: str) -> Cluster:
    """Raises NotVisible: a cluster that is hidden from `user` looks like one that does not exist."""
    # No name holds a NUL, and the database refuses to be asked for one.
    cluster = visible_clusters(user).filter(name=name).first() if "\x00" not in name else None
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
    """The planner's snapshot of a row, with the pods protected that the cluster's policy protects now.
    Opening is slow for large clusters, so the last few are kept."""
    protected = protected_namespaces(row.cluster_id)
    picture = _open_pictures.get(row, protected)
    taken_at = row.taken_at.timestamp()
    if picture.taken_at != taken_at:
        # The row was touched since: the same facts, seen again later.
        picture = replace(picture, taken_at=taken_at)
        _open_pictures.keep(row, protected, picture)
    return picture


def protected_namespaces(cluster_id: int) -> tuple[str, ...]:
    """Names and globs, and ONLY_OFFERED where the policy wants it; none without a policy. Policies are a
    later stage's, so this goes by the cluster."""
    rows = Cluster.objects.filter(pk=cluster_id)
    found = rows.values_list("policy__protected_namespaces", "policy__only_offered").first()
    patterns, only_offered = found or (None, None)
    return (*(patterns or ()), *([ONLY_OFFERED] if only_offered else ()))


def answer_about(picture: Picture, question: str, find: Callable[[], Answer]) -> Answer:
    """`find()`, remembered for as long as the picture stays open: what follows from a picture alone and
    costs something. question: names the answer among those about one picture."""
    entry = _open_pictures.entry_of(picture)
    if entry is None:
        return find()
    if question not in entry.answers:
        entry.answers[question] = find()
    return cast(Answer, entry.answers[question])


@dataclass(slots=True)
class _Open:
    picture: Picture
    size: int
    answers: dict[str, Any] = field(default_factory=dict)


_Key = tuple[int, str, tuple[str, ...]]
"""A row, its facts, and the namespaces that are protected in it."""


class _OpenPictures:
    """The pictures opened last; shared by the threads of this program."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[_Key, _Open] = OrderedDict()

    def get(self, row: Snapshot, protected: tuple[str, ...]) -> Picture:
        key = (row.pk, row.digest, protected)
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                return entry.picture
        body = row.body
        picture = guard_namespaces(pictures.unpack(body), protected)
        self._put(key, _Open(picture, len(body)))
        return picture

    def keep(self, row: Snapshot, protected: tuple[str, ...], picture: Picture) -> None:
        """The same facts under a later time: what was found out about them holds."""
        with self._lock:
            entry = self._entries.get((row.pk, row.digest, protected))
            if entry is not None:
                entry.picture = picture

    def entry_of(self, picture: Picture) -> _Open | None:
        with self._lock:
            return next((entry for entry in self._entries.values() if entry.picture is picture), None)

    def _put(self, key: _Key, entry: _Open) -> None:
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            while len(self._entries) > 1 and (
                len(self._entries) > self._most
                or sum(one.size for one in self._entries.values()) > self._most_bytes
            ):
                self._entries.popitem(last=False)


_open_pictures = _OpenPictures(OPEN_PICTURES, OPEN_BYTES)
