"""Every change of telemetry's rows: one function, one transaction. Nothing here talks to a Prometheus but
`connect_prometheus`, which asks before it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters.credentials import seal_text
from apps.clusters.models import Cluster
from apps.clusters.notices import publish_on_commit
from apps.prometheus.connection import read_address
from apps.prometheus.errors import BadAddress, MetricsError
from apps.prometheus.readings import Device, key_of
from apps.telemetry.advice import LowUse, shorten
from apps.telemetry.carrying import next_reading
from apps.telemetry.doors import open_client
from apps.telemetry.errors import NotAnswering, UnusableAddress
from apps.telemetry.models import Minute, Reading, Source
from apps.telemetry.packing import Minutes, pack, pack_minutes, unpack, unpack_minutes
from apps.telemetry.windows import MINUTE, minute_of

Check = Callable[[Cluster], None]
LONGEST_TOKEN = 16 * 1024
CLAIM_SECONDS = 60.0
KEPT_PODS = 12


@denials_recorded()
def connect_prometheus(
    *,
    actor: Any,
    cluster_id: int,
    address: str,
    token: str | None = None,
    ca_certificate: str | None = None,
    answers: bool = True,
    check: Check | None = None,
) -> Source | None:
    """Read the cluster's telemetry from there; an empty address: from nowhere any more (None).

    token, ca_certificate: None keeps what is stored, as long as the address stays the same. answers: ask it
    first. actor None: somebody at the server's command line. check: called with the locked cluster.
    Raises Denied, UnusableAddress or NotAnswering.
    """
    cluster = Cluster.objects.get(pk=cluster_id)
    if actor is not None:
        authorize(actor, Action.ADMINISTER, cluster, subject=cluster)
    if not cluster.is_live and address:
        raise UnusableAddress(f"{cluster.name} is a dump: there is nothing live to measure behind it.")
    if not address:
        _disconnect(actor, cluster_id, check)
        return None
    wanted = _wanted(cluster, address, token, ca_certificate)
    if answers:
        _ask(wanted)
    with transaction.atomic(durable=True):
        cluster = _locked(actor, cluster_id, check)
        source = _store(cluster, wanted)
        detail = {"address": source.address, "has_token": bool(source.credential)}
        audit.record(
            actor=actor, action="telemetry.connected", subject=cluster, cluster=cluster.name, detail=detail
        )
    return source


def _locked(actor: Any, cluster_id: int, check: Check | None) -> Cluster:
    cluster = Cluster.objects.select_for_update(no_key=True).get(pk=cluster_id)
    if actor is not None:
        authorize(actor, Action.ADMINISTER, cluster, subject=cluster)
    if check is not None:
        check(cluster)
    return cluster


def _store(cluster: Cluster, wanted: Source) -> Source:
    before = Source.objects.filter(cluster=cluster).first()
    facts: dict[str, Any] = {
        "address": wanted.address,
        "ca_certificate": wanted.ca_certificate,
        "credential": wanted.credential,
        "error": "",
        "failed_at": None,
        "claimed_until": None,
    }
    if before is None or before.address != wanted.address:
        _forget(cluster)
        facts |= {"read_at": None, "warnings": []}
    return Source.objects.update_or_create(cluster=cluster, defaults=facts)[0]


def _wanted(cluster: Cluster, address: str, token: str | None, ca_certificate: str | None) -> Source:
    """What is to be stored. A token is never sent to another address than the one it was given for."""
    try:
        plain = read_address(address, has_token=bool(token))
        before = Source.objects.filter(cluster=cluster, address=plain).first()
        if token is not None and (len(token) > LONGEST_TOKEN or not all("!" <= one <= "~" for one in token)):
            raise UnusableAddress("The token must be one line of visible ASCII characters.")
        kept = before.credential if before is not None else ""
        read_address(plain, has_token=bool(token) or (token is None and bool(kept)))
    except BadAddress as error:
        raise UnusableAddress(str(error)) from error
    authority = ca_certificate if ca_certificate is not None else (before.ca_certificate if before else "")
    return Source(
        cluster=cluster,
        address=plain,
        ca_certificate=authority,
        credential=kept if token is None else seal_text(token),
    )


def _ask(wanted: Source) -> None:
    try:
        client = open_client(wanted)
        try:
            client.check()
        finally:
            client.close()
    except BadAddress as error:
        raise UnusableAddress(str(error)) from error
    except MetricsError as error:
        raise NotAnswering(str(error)) from error


def _disconnect(actor: Any, cluster_id: int, check: Check | None) -> None:
    with transaction.atomic(durable=True):
        cluster = _locked(actor, cluster_id, check)
        gone, _ = Source.objects.filter(cluster=cluster).delete()
        if gone:
            _forget(cluster)
            audit.record(actor=actor, action="telemetry.disconnected", subject=cluster, cluster=cluster.name)


def _forget(cluster: Cluster) -> None:
    """What another Prometheus told says nothing about this one."""
    Reading.objects.filter(cluster=cluster).delete()
    Minute.objects.filter(cluster=cluster).delete()


def claim_source(*, source_id: int) -> Source | None:
    """The source, for whoever is to read it now; None while somebody else does, or if it is gone."""
    now = timezone.now()
    free = Source.objects.filter(pk=source_id).filter(Q(claimed_until=None) | Q(claimed_until__lt=now))
    if not free.update(claimed_until=now + timedelta(seconds=CLAIM_SECONDS)):
        return None
    return Source.objects.select_related("cluster").filter(pk=source_id).first()


def record_reading(
    *,
    source: Source,
    at: float,
    devices: Iterable[Device],
    metrics: tuple[str, ...] = (),
    warnings: Sequence[str] = (),
    past: Mapping[str, list[tuple[float, float]]] | None = None,
) -> None:
    """Keep the reading as the newest, and its percentages in their minute. past: percentages from before."""
    taken_at = datetime.fromtimestamp(at, UTC)
    with transaction.atomic():
        locked = Source.objects.select_for_update(no_key=True).filter(pk=source.pk, address=source.address)
        if not locked.exists():
            return  # it is read from elsewhere by now
        row = Reading.objects.filter(cluster_id=source.cluster_id).first()
        if row is not None and row.taken_at > taken_at:
            return
        packed = next_reading(unpack(row.body) if row else None, devices, at=at, metrics=metrics)
        Reading.objects.update_or_create(
            cluster_id=source.cluster_id, defaults={"taken_at": taken_at, "body": pack(packed)}
        )
        for beginning, told in _by_minute(packed.devices, at, past or {}).items():
            _add_to_minute(source.cluster_id, beginning, told)
        oldest = taken_at - timedelta(minutes=settings.TELEMETRY_KEPT_MINUTES)
        Minute.objects.filter(cluster_id=source.cluster_id, minute__lt=oldest).delete()
        locked.update(
            read_at=taken_at, error="", failed_at=None, warnings=list(warnings)[:20], claimed_until=None
        )
        publish_on_commit(source.cluster.name, "telemetry", {"taken_at": taken_at.isoformat()})


def record_low_use(*, cluster_id: int, found: LowUse, taken_at: datetime) -> None:
    """taken_at: of the reading that it was worked out from; for another one it is not kept."""
    Reading.objects.filter(cluster_id=cluster_id, taken_at=taken_at).update(
        low_use=msgspec.to_builtins(shorten(found, KEPT_PODS)), low_use_at=taken_at
    )


def note_failure(*, source: Source, error: str) -> None:
    """Why it could not be read, with the time. What was read before stays, and its age with it."""
    Source.objects.filter(pk=source.pk, address=source.address).update(
        error=error[:2000], failed_at=timezone.now(), claimed_until=None
    )


def _by_minute(
    devices: Iterable[Device], at: float, past: Mapping[str, list[tuple[float, float]]]
) -> dict[float, Minutes]:
    found: dict[float, Minutes] = {}
    now = {
        key_of(device, unit): [(at, unit.utilisation)]
        for device in devices
        for unit in device.units
        if unit.utilisation is not None
    }
    for told in (past, now):
        for unit, samples in told.items():
            for moment, percent in samples:
                minute = found.setdefault(minute_of(moment), {})
                total, count = minute.get(unit, (0.0, 0))
                minute[unit] = (total + percent, count + 1)
    return found


def _add_to_minute(cluster_id: int, beginning: float, told: Minutes) -> None:
    moment = datetime.fromtimestamp(beginning, UTC)
    row = Minute.objects.filter(cluster_id=cluster_id, minute=moment).first()
    merged = dict(unpack_minutes(row.body)) if row is not None else {}
    for unit, (total, count) in told.items():
        before, known = merged.get(unit, (0.0, 0))
        merged[unit] = (before + total, known + count)
    Minute.objects.update_or_create(
        cluster_id=cluster_id, minute=moment, defaults={"body": pack_minutes(merged)}
    )


def window_start(at: float) -> float:
    """Beginning of the window that ends now, at a full minute."""
    return minute_of(at) - (settings.TELEMETRY_WINDOW_MINUTES - 1) * MINUTE
