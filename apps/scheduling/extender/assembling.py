"""Puts one extender together from its parts, over any gateway. Knows no rows (program)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from apps.kube.kubernetes_gateway import KubernetesGateway
from apps.planner.drift import Expected
from apps.planner.workload import Workload
from apps.scheduling.extender.binding import Binder, Record
from apps.scheduling.extender.counters import Counters
from apps.scheduling.extender.deciding import Extender
from apps.scheduling.extender.following import Follower
from apps.scheduling.extender.holds import HoldBook
from apps.scheduling.extender.options import Options
from apps.scheduling.extender.picture import Picture
from apps.scheduling.extender.proofs import ProofBook
from apps.scheduling.extender.server import Verbs, make_app
from apps.scheduling.extender.verdicts import VerdictSink

SWITCH_SECONDS = 0.001
"""How long another thread may keep the interpreter while a call waits."""


@dataclass(frozen=True)
class Served:
    """app: runs the follower with itself."""

    app: web.Application
    extender: Extender
    follower: Follower


def put_together(
    gateway: KubernetesGateway,
    options: Options,
    *,
    cluster: str,
    record: Record,
    find_expected: Callable[[], Mapping[str, Expected]] = dict,
    holds: HoldBook | None = None,
    sink: VerdictSink | None = None,
    proofs: ProofBook | None = None,
) -> Served:
    """record: commits the intent of a binding. find_expected: as the follower's. Nothing is asked of the
    cluster before the app starts."""

    def aim(workload: Workload) -> None:
        extender.use(workload=workload)
        # A full collection looks at every object of the picture, and a call would wait for that.
        gc.collect()
        gc.freeze()

    picture = Picture(reserved_mib=options.reserved_mib)
    follower = Follower(
        gateway,
        picture,
        cluster=cluster,
        find_expected=find_expected,
        on_workload=aim,
    )
    extender = Extender(picture, options, age=follower.age, clock=time.time, holds=holds, sink=sink)
    binder = Binder(extender, gateway, record)
    app = make_app(Verbs(extender, follower, Counters(), binder, proofs))
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


def make_tls(certificate: str, key: str, client_ca: str = "") -> ssl.SSLContext:
    """client_ca: file with the authority whose certificates callers have to show, "" for none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    if client_ca:
        context.load_verify_locations(cafile=client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
