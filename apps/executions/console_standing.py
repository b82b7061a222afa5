"""What the rows say of who may change a cluster, for starts, pages. Asks no cluster; `console_lease` does."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from django.conf import settings

from apps.clusters.models import Cluster
from apps.executions import ledger
from apps.executions.lease_body import NAME, tell_console
from apps.executions.leased_gateway import seconds_per_call
from apps.executions.models import ClusterSafety, Console
from apps.plans.policies import OTHER_CONSOLE, Ban


@dataclass(frozen=True, slots=True)
class Known:
    """What was last seen, for pages. identity: our own. holder: another console that has it, in words, "" for
    none. until: we have it until then, None where we do not. error: why it cannot be kept."""

    identity: str
    holder: str = ""
    until: datetime | None = None
    epoch: int = 0
    error: str = ""
    safe_since: datetime | None = None
    safe_reason: str = ""


def own_identity() -> str:
    row = Console.objects.first()
    if row is None:
        row, _ = Console.objects.get_or_create(pk=1, defaults={"identity": secrets.token_hex(8)})
    return row.identity


def is_held(cluster: Cluster, seconds: float) -> bool:
    """By the database's clock, for so long at least."""
    return seconds_held(cluster) > seconds


def seconds_held(cluster: Cluster) -> float:
    """For how long, by the database's clock; 0 where it is not ours."""
    row = ClusterSafety.objects.filter(cluster=cluster, holder="").first()
    return _seconds_left(row, ledger.database_time()) if row is not None else 0.0


def holds(row: ClusterSafety, now: datetime, seconds: float) -> bool:
    return _seconds_left(row, now) > seconds


def _seconds_left(row: ClusterSafety, now: datetime) -> float:
    """One that ends later than any could was written before the database's clock jumped back."""
    if row.lease_until is None:
        return 0.0
    left = (row.lease_until - now).total_seconds()
    return left if 0 < left <= lease_seconds() else 0.0


def lease_seconds() -> int:
    """As it is set, and never so short that no request could begin between two renewals."""
    shortest = 1.25 * seconds_per_call() + float(settings.CONSOLE_RENEW_SECONDS)
    return max(int(settings.CONSOLE_LEASE_SECONDS), ceil(shortest))


def known_of(cluster: Cluster) -> Known:
    row = ClusterSafety.objects.filter(cluster=cluster).first() or ClusterSafety(cluster=cluster)
    now = ledger.database_time()
    until = row.lease_until if not row.holder and holds(row, now, 0) else None
    holder = tell_console(row.holder, row.holder_host) if _is_anothers(row, now) else ""
    return Known(own_identity(), holder, until, row.epoch, row.lease_error, row.safe_since, row.safe_reason)


def _is_anothers(row: ClusterSafety, now: datetime) -> bool:
    """As far as is known: it may have been renewed since it was seen."""
    if not row.holder or row.holder_since is None:
        return False
    return now <= row.holder_since + timedelta(seconds=row.holder_seconds)


def ban_of_console(cluster: Cluster) -> Ban | None:
    """What another console has against new effects, by what was last seen of it."""
    row = ClusterSafety.objects.filter(cluster=cluster).exclude(holder="").first()
    if row is None or not _is_anothers(row, ledger.database_time()):
        return None
    who = tell_console(row.holder, row.holder_host)
    return Ban(
        OTHER_CONSOLE,
        f"Another console has {cluster.name}: {who}, by Lease {settings.STEERING_NAMESPACE}/{NAME}. This one "
        f"({own_identity()}) only watches. Go on there, or stop that console: this one takes over "
        f"{row.holder_seconds} s later",
        f"paused: another console has the cluster ({who})",
    )
