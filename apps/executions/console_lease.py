"""Which console may change a cluster: whoever holds the Lease `console` in our namespace there.

New effects alone need it; what an execution has under way is landed, undone and released without. Every
renewal raises an epoch: committed here first, then sent, guarded by the Lease's resourceVersion. How a Lease
is read and written is `lease_body`, what the rows say of it `console_standing`.

Clocks of two consoles are never compared: another one's Lease has run out when it did not change for its
duration by this database's clock, and was looked at meanwhile: a clock that jumps takes no cluster.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.conf import settings
from django.db import transaction

from apps.audit import services as audit
from apps.clusters.errors import ConnectionFailed
from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster
from apps.clusters.notices import publish_on_commit
from apps.executions import ledger
from apps.executions.console_standing import holds, lease_seconds, own_identity
from apps.executions.lease_body import NAME, FoundLease, lease_body, read_lease
from apps.executions.models import ClusterSafety
from apps.executions.objects import console_namespace
from apps.executions.safe_mode import set_safe
from apps.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    Unauthorized,
    Unreachable,
)
from apps.kube.gateway import LEASES, NAMESPACES, Gateway

TRIES = 4
"""Of other workers of ours, and of another console, that renew at the same time."""
AGAIN_SECONDS = 2.0
"""How long a runner goes by a look that did not find the Lease ours."""


class Word(StrEnum):
    """HELD by us; by an OTHER console; REFUSED: the server says that we may not; UNREAD: nobody knows now;
    OLD: this database is older than the cluster, which is in safe mode."""

    HELD = "held"
    OTHER = "other"
    REFUSED = "refused"
    UNREAD = "unread"
    OLD = "old"


@dataclass(frozen=True, slots=True)
class Standing:
    word: Word
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Claim:
    """An epoch that is committed and may be sent. now: of the database, before anything is sent."""

    epoch: int
    now: datetime


class ConsoleSight:
    """What a runner knows of it during one visit: looked at, and renewed, every `CONSOLE_RENEW_SECONDS`."""

    def __init__(self, cluster: Cluster, gateway: Gateway) -> None:
        self._cluster, self._gateway = cluster, gateway
        self._seen: tuple[float, Standing] | None = None
        self._is_proven = False

    def look(self, *, is_enough: bool = True) -> Standing:
        """is_enough: False where the Lease was renewed too long ago for what is to be sent."""
        if self._seen is not None and is_enough:
            at, standing = self._seen
            age = settings.CONSOLE_RENEW_SECONDS if standing.word == Word.HELD else AGAIN_SECONDS
            if time.monotonic() - at < age:
                return standing
        began = time.monotonic()
        standing = look(self._cluster, self._gateway)
        self._is_proven |= standing.word in (Word.HELD, Word.OTHER)
        self._seen = (began, standing)
        return standing

    def prove(self) -> None:
        """Before anything is sent, also by what lands or undoes: this database is not older than the cluster.

        Raises Unreachable where nobody knew that during this visit. Whoever may not read the Lease cannot
        prove it, and lands all the same: the pods in the air are not to wait for a right."""
        standing = self.look()
        if standing.word == Word.UNREAD and not self._is_proven:
            raise Unreachable(f"the Lease that tells an old database cannot be read: {standing.error}")


def look_at_lease(cluster: Cluster) -> Standing:
    """For the timer."""
    try:
        gateway = open_gateway(cluster)
    except ConnectionFailed as error:
        return Standing(Word.UNREAD, str(error))
    try:
        return look(cluster, gateway)
    finally:
        gateway.close()


def look(cluster: Cluster, gateway: Gateway) -> Standing:
    """See whose Lease it is; where it is ours, or nobody's, renew it if that is due."""
    try:
        return _look(cluster, gateway)
    except KubeError as error:
        return _keep_error(cluster, error)


def find_other(cluster: Cluster, gateway: Gateway) -> FoundLease | None:
    """The Lease of another console that lives, as far as anybody here could see; takes and renews nothing.

    One that was never looked at before counts as living. Raises KubeError."""
    body = gateway.get_object(LEASES, NAME, namespace=settings.STEERING_NAMESPACE)
    identity = own_identity()
    found = read_lease(body, identity) if body is not None else None
    if found is None or found.holder in ("", identity):
        return None
    ClusterSafety.objects.get_or_create(cluster=cluster)
    with transaction.atomic(durable=True):
        row = ClusterSafety.objects.select_for_update(no_key=True).get(cluster=cluster)
        now = ledger.database_time()
        if _has_run_out(row, found, now):
            return None
        _keep_other(row, found, now)
    return found


def _look(cluster: Cluster, gateway: Gateway) -> Standing:
    identity, space = own_identity(), settings.STEERING_NAMESPACE
    for _ in range(TRIES):
        body = gateway.get_object(LEASES, NAME, namespace=space)
        found = read_lease(body, identity) if body is not None else None
        claim = _claim(cluster, found, identity)
        if isinstance(claim, Standing):
            return claim
        try:
            _send(gateway, found, claim, identity)
        except Conflict:
            continue
        except NotFound:
            if found is None:
                _make_namespace(cluster, gateway)
            continue
        return _keep_held(cluster, claim)
    return Standing(Word.UNREAD, f"the Lease {space}/{NAME} changed whenever it was to be renewed")


def _claim(cluster: Cluster, found: FoundLease | None, identity: str) -> Standing | _Claim:
    """One transaction, after the look: what others of ours committed before it is known here."""
    ClusterSafety.objects.get_or_create(cluster=cluster)
    with transaction.atomic(durable=True):
        row = ClusterSafety.objects.select_for_update(no_key=True).get(cluster=cluster)
        now = ledger.database_time()
        if row.safe_since is not None:
            return Standing(Word.OLD)
        if found is not None and found.epoch > row.epoch:
            set_safe(row, _tell_age(found, row))
            return Standing(Word.OLD)
        is_ours = found is not None and found.holder == identity
        if found is not None and found.holder and not is_ours and not _has_run_out(row, found, now):
            _keep_other(row, found, now)
            return Standing(Word.OTHER)
        if is_ours and holds(row, now, lease_seconds() - settings.CONSOLE_RENEW_SECONDS):
            return Standing(Word.HELD)
        row.epoch = max(row.epoch, found.top if found is not None else 0) + 1
        row.save(update_fields=["epoch"])
        if not is_ours:
            detail = {"epoch": row.epoch, "console": identity, "before": found.holder if found else ""}
            _audit(cluster, "cluster.lease_taken", detail)
    return _Claim(row.epoch, now)


def _tell_age(found: FoundLease, row: ClusterSafety) -> str:
    return (
        f"this console renewed the Lease {settings.STEERING_NAMESPACE}/{NAME} up to epoch {found.epoch}, and "
        f"this database knows {row.epoch}: an old backup was restored, or a copy of it runs elsewhere"
    )


def _has_run_out(row: ClusterSafety, found: FoundLease, now: datetime) -> bool:
    if row.holder_since is None or row.holder_version != found.version or _was_unwatched(row, now):
        return False
    return now > row.holder_since + timedelta(seconds=_duration(found))


def _was_unwatched(row: ClusterSafety, now: datetime) -> bool:
    """Since the last look so much time has gone by, or so little, that nobody knows how much it was: the
    database's clock may have jumped. A console that lives renews more often than that."""
    longest = lease_seconds() - settings.CONSOLE_RENEW_SECONDS
    if row.holder_looked_at is None:
        return True
    return not 0 <= (now - row.holder_looked_at).total_seconds() <= longest


def _duration(found: FoundLease) -> int:
    """In seconds. One that says none was written by hand."""
    return found.seconds or lease_seconds()


def _keep_other(row: ClusterSafety, found: FoundLease, now: datetime) -> None:
    is_new = row.holder != found.holder
    if row.holder_version != found.version or _was_unwatched(row, now):
        row.holder_version, row.holder_since = found.version, now
    row.holder, row.holder_host, row.holder_seconds = found.holder, found.renewed_by, _duration(found)
    row.lease_until, row.lease_error, row.holder_looked_at = None, "", now
    row.save()
    if is_new:
        detail: dict[str, object] = {"console": found.holder, "renewed_by": found.renewed_by}
        _audit(row.cluster, "cluster.lease_of_other", detail)
        publish_on_commit(row.cluster.name, "policy", {})


def _send(gateway: Gateway, found: FoundLease | None, claim: _Claim, identity: str) -> None:
    body = lease_body(
        found,
        identity=identity,
        host=socket.gethostname(),
        epoch=claim.epoch,
        now=claim.now,
        seconds=lease_seconds(),
    )
    if found is None:
        gateway.create_object(LEASES, body, namespace=settings.STEERING_NAMESPACE)
    else:
        gateway.patch_object(LEASES, NAME, body, namespace=settings.STEERING_NAMESPACE)


def _make_namespace(cluster: Cluster, gateway: Gateway) -> None:
    """Where nothing of ours was ever. It stays, like the Lease in it."""
    name = settings.STEERING_NAMESPACE
    with transaction.atomic(durable=True):
        _audit(cluster, "cluster.namespace_made", {"namespace": name})
    try:
        gateway.create_object(NAMESPACES, console_namespace(name))
    except AlreadyExists:
        return


def _keep_held(cluster: Cluster, claim: _Claim) -> Standing:
    """It holds from before it was sent, so never longer here than in the cluster."""
    until = claim.now + timedelta(seconds=lease_seconds())
    with transaction.atomic(durable=True):
        row = ClusterSafety.objects.select_for_update(no_key=True).get(cluster=cluster)
        was_known = row.lease_until is not None and not row.lease_error
        row.lease_until = until
        row.holder = row.holder_host = row.holder_version = row.lease_error = ""
        row.holder_since, row.holder_looked_at, row.holder_seconds = None, None, 0
        row.save()
        if not was_known:
            publish_on_commit(cluster.name, "policy", {})
    return Standing(Word.HELD)


def _keep_error(cluster: Cluster, error: KubeError) -> Standing:
    """What holds, holds until its time is over."""
    is_refused = isinstance(error, Forbidden | Unauthorized)
    ClusterSafety.objects.get_or_create(cluster=cluster)
    ClusterSafety.objects.filter(cluster=cluster).exclude(lease_error=str(error)).update(
        lease_error=str(error)
    )
    return Standing(Word.REFUSED if is_refused else Word.UNREAD, str(error))


def _audit(cluster: Cluster, action: str, detail: dict[str, object]) -> None:
    audit.record(actor=None, action=action, subject=cluster, cluster=cluster.name, detail=detail)
