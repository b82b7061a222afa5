"""Puts the extender of one cluster together and serves it.

Reads the cluster's row and what its nodes showed before; all else is in the other rooms.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

import structlog
from aiohttp import web
from django.db import DatabaseError, close_old_connections, transaction

from apps.audit.services import record
from apps.clusters.expectations import read_expectations
from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster
from apps.kube.kubernetes_gateway import KubernetesGateway
from apps.planner.drift import Expected
from apps.scheduling.extender.binding import Binder, Record
from apps.scheduling.extender.counters import Counters
from apps.scheduling.extender.deciding import Extender
from apps.scheduling.extender.following import Follower
from apps.scheduling.extender.holds import HoldBook
from apps.scheduling.extender.options import Options
from apps.scheduling.extender.picture import Picture
from apps.scheduling.extender.server import Verbs, make_app
from apps.scheduling.extender.verdicts import VerdictSink
from apps.scheduling.extender.wire import BindingCall

SWITCH_SECONDS = 0.001
"""How long another thread may keep the interpreter while a call waits."""
logger = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Served:
    """app: runs the follower with itself."""

    app: web.Application
    extender: Extender
    follower: Follower


def make_extender(
    cluster: Cluster, options: Options, *, holds: HoldBook | None = None, sink: VerdictSink | None = None
) -> Served:
    """Nothing is asked of the cluster before the app starts. Raises ClusterError where its credential cannot
    be used."""
    gateway = open_gateway(cluster)
    find = _expected_of(cluster.pk)
    return put_together(gateway, options, cluster=cluster.name, find_expected=find, holds=holds, sink=sink)


def put_together(
    gateway: KubernetesGateway,
    options: Options,
    *,
    cluster: str,
    find_expected: Callable[[], Mapping[str, Expected]] = dict,
    holds: HoldBook | None = None,
    sink: VerdictSink | None = None,
) -> Served:
    picture = Picture(reserved_mib=options.reserved_mib)
    follower = Follower(
        gateway,
        picture,
        cluster=cluster,
        find_expected=find_expected,
        on_workload=lambda workload: extender.use(workload=workload),
    )
    extender = Extender(picture, options, age=follower.age, clock=time.time, holds=holds, sink=sink)
    binder = Binder(extender, gateway, _recorder(cluster))
    app = make_app(Verbs(extender, follower, Counters(), binder))
    app.cleanup_ctx.append(_following(follower))
    return Served(app, extender, follower)


def _following(follower: Follower) -> Callable[[web.Application], AsyncIterator[None]]:
    async def follow(app: web.Application) -> AsyncIterator[None]:
        sys.setswitchinterval(SWITCH_SECONDS)
        running = asyncio.create_task(follower.run())
        yield
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    return follow


def _recorder(cluster: str) -> Record:
    def record_intent(call: BindingCall) -> None:
        try:
            with transaction.atomic():
                record(
                    actor=None,
                    action="extender.bind",
                    subject=f"{call.namespace}/{call.name}",
                    cluster=cluster,
                    detail={"uid": call.uid, "node": call.node},
                )
        finally:
            close_old_connections()

    return record_intent


def _expected_of(cluster_id: int) -> Callable[[], Mapping[str, Expected]]:
    """What was read last is kept while the database is away."""
    last: dict[str, Expected] = {}

    def find() -> Mapping[str, Expected]:
        nonlocal last
        try:
            last = read_expectations(cluster_id)
        except DatabaseError as error:
            logger.warning("the database is away: drift is judged by what was read last", error=str(error))
        finally:
            close_old_connections()
        return last

    return find


def make_tls(certificate: str, key: str, client_ca: str = "") -> ssl.SSLContext:
    """client_ca: file with the authority whose certificates callers have to show, "" for none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    if client_ca:
        context.load_verify_locations(cafile=client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
