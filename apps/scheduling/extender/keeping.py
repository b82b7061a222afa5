"""Between the extender in memory and the rows: a thread that reads the policy and the holds, writes verdicts
and signs of life.

The extender answers by what was read last while the database is away; holds end by themselves at their
deadline. Not in here: decisions, and anything that a scheduler's call waits for.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from hmac import compare_digest
from typing import Any

import structlog
from aiohttp import web
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from apps.clusters.models import Cluster
from apps.executions.kept_nodes import KeptNode, RoomToKeep, nodes_kept_in, rooms_kept_in
from apps.executions.proving.asking import open_proof_of
from apps.kube.translate.single import Scenery, read_one_pod
from apps.placing import services
from apps.placing.addresses import secret_of
from apps.placing.models import PlacementPolicy
from apps.placing.queries import placement_policy_of
from apps.scheduling.extender.deciding import Extender
from apps.scheduling.extender.guarding import guard
from apps.scheduling.extender.holds import Hold, KeptHolds
from apps.scheduling.extender.kept_verdicts import KeptVerdicts
from apps.scheduling.extender.options import Options, WhenStale
from apps.scheduling.extender.program import make_extender
from apps.scheduling.extender.proofs import ProofBook
from apps.scheduling.extender.rooms import Room

ROUND_SECONDS, BEAT_SECONDS, PRUNE_SECONDS = 1.0, 4.0, 60.0
LOOP_SECONDS = 2.0
"""How long the server's loop may take to work the rooms in; what it has not said by then is not told."""
Keep = Callable[[Sequence[RoomToKeep]], frozenset[int]]
logger = structlog.get_logger(__name__)


class Keeper:
    """fixed: options that a person gave on the command line, which the row does not change."""

    def __init__(self, cluster: Cluster, fixed: Mapping[str, Any] | None = None) -> None:
        """Reads the policy and the holds once. Raises DatabaseError."""
        self.cluster, self._fixed = cluster, dict(fixed or {})
        self.sink, self.holds, self.proofs = KeptVerdicts(cluster.pk), KeptHolds(), ProofBook()
        self._proof: int | None = None
        self._rooms: frozenset[int] = frozenset()
        self.policy = placement_policy_of(cluster)
        self._secret = secret_of(self.policy)
        self._started_at = timezone.now()
        self._holds_read_at = self._started_at
        self._due = {"beat": 0.0, "prune": time.monotonic() + PRUNE_SECONDS}
        self._ended = threading.Event()
        self._read_holds()

    @property
    def options(self) -> Options:
        return replace(options_of(self.policy), **self._fixed)

    def knows(self, cluster: str, secret: str) -> bool:
        """Whether a scheduler that asks at this address may."""
        return cluster == self.cluster.name and compare_digest(secret.encode(), self._secret.encode())

    def look_after(self, extender: Extender) -> Callable[[web.Application], AsyncIterator[None]]:
        """For the program's cleanup_ctx: runs beside it, and writes what is left when it ends."""

        async def keep(app: web.Application) -> AsyncIterator[None]:
            loop = asyncio.get_running_loop()
            thread = threading.Thread(target=self._run, args=(extender, loop), daemon=True, name="keeper")
            thread.start()
            yield
            self._ended.set()
            await asyncio.to_thread(thread.join, 5)

        return keep

    def _run(self, extender: Extender, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            is_last = self._ended.wait(ROUND_SECONDS)
            try:
                self.do_round(
                    extender,
                    lambda options: loop.call_soon_threadsafe(_use, extender, options),
                    lambda rooms: _on_loop(loop, lambda: keep_rooms(extender, rooms)),
                )
            except DatabaseError as error:
                logger.warning("the extender goes on by what it read last", error=type(error).__name__)
            except Exception:  # without this thread no hold would begin or end any more, in silence
                if loop.is_closed():
                    return
                logger.exception("a look at the rows failed; the next one is tried in a moment")
            finally:
                close_old_connections()
            if is_last:
                return

    def do_round(self, extender: Extender, use: Callable[[Options], object], keep: Keep) -> None:
        """One look at the rows, and one writing. use, keep: on the thread that answers. Raises
        DatabaseError."""
        before = self.options
        self.policy = placement_policy_of(self.cluster)
        self._secret = secret_of(self.policy)
        if self.options != before:
            use(self.options)
        self._read_holds()
        self._read_proof()
        self._keep_rooms(keep)
        self.sink.write()
        now = time.monotonic()
        if now >= self._due["beat"]:
            self._due["beat"] = now + BEAT_SECONDS
            self._beat(extender)
        if now >= self._due["prune"]:
            self._due["prune"] = now + PRUNE_SECONDS
            services.drop_old_verdicts(cluster_id=self.cluster.pk, now=timezone.now())

    def _read_holds(self) -> None:
        self.holds.replace(_hold_of(kept) for kept in nodes_kept_in(self.cluster.pk))
        self._holds_read_at = timezone.now()

    def _read_proof(self) -> None:
        """Whoever ordered it waits for the word that it is known: told in this round."""
        row = open_proof_of(self.cluster.pk)
        self.proofs.replace(row.token if row is not None else "")
        found = row.pk if row is not None else None
        if found != self._proof:
            self._proof, self._due["beat"] = found, 0.0

    def _keep_rooms(self, keep: Keep) -> None:
        """What is kept is said in the same round, and in each while there is any: evictions wait for it.
        Where pods pass on an old picture nothing is promised."""
        wanted = rooms_kept_in(self.cluster.pk)
        if not wanted and not self._rooms:
            return
        kept = keep(wanted)
        self._rooms = kept if self.options.when_stale is WhenStale.REFUSE else frozenset()
        self._due["beat"] = 0.0

    def _beat(self, extender: Extender) -> None:
        age, asked = extender.age(), self.sink.asked_at
        services.note_beat(
            cluster_id=self.cluster.pk,
            started_at=self._started_at,
            picture_age_seconds=None if age == float("inf") else age,
            asked_at=None if asked is None else datetime.fromtimestamp(asked, UTC),
            policy_version=self.policy.version,
            holds=sum(len(holds) for holds in self.holds.holds().values()),
            holds_read_at=self._holds_read_at,
            proof=self._proof,
            rooms=sorted(self._rooms),
        )


def make_kept_extender(
    cluster: Cluster, fixed: Mapping[str, Any] | None = None, *, is_open: bool = False
) -> web.Application:
    """As the cluster's rows want it. is_open: see `guard`. Raises ClusterError, DatabaseError."""
    keeper = Keeper(cluster, fixed)
    served = make_extender(
        cluster, keeper.options, holds=keeper.holds, sink=keeper.sink, proofs=keeper.proofs
    )
    keep_rooms(served.extender, rooms_kept_in(cluster.pk))  # before the first call is answered
    served.app.cleanup_ctx.append(keeper.look_after(served.extender))
    return guard(served.app, keeper.knows, is_open=is_open)


def _on_loop(loop: asyncio.AbstractEventLoop, act: Callable[[], frozenset[int]]) -> frozenset[int]:
    """What it says there; nothing where the loop is busy for too long."""
    told: Future[frozenset[int]] = Future()

    def run() -> None:
        try:
            told.set_result(act())
        except Exception as error:
            told.set_exception(error)

    loop.call_soon_threadsafe(run)
    try:
        return told.result(LOOP_SECONDS)
    except TimeoutError:
        return frozenset()


def keep_rooms(extender: Extender, rooms: Sequence[RoomToKeep]) -> frozenset[int]:
    return extender.rooms.replace(
        Room(
            one.room_id,
            one.node,
            one.owner,
            # It is counted as a pod on the node; a paper hold that is bound would be none.
            replace(read_one_pod(one.body, Scenery()), hold=False),
            one.until.timestamp() if one.until else float("inf"),
            one.reason,
        )
        for one in rooms
        if one.until is None or one.until.timestamp() > time.time()
    )


def options_of(policy: PlacementPolicy) -> Options:
    return Options(
        policy=policy.scoring,
        when_stale=WhenStale(policy.when_stale),
        stale_after=float(policy.stale_after_seconds),
        gang_seconds=float(policy.gang_seconds),
        reserved_mib=policy.reserved_mib,
        spare_drifted=policy.spares_drifted,
        binds=policy.binds,
    )


def _use(extender: Extender, options: Options) -> None:
    extender.picture.reserve(options.reserved_mib)
    extender.use(options=options)


def _hold_of(kept: KeptNode) -> Hold:
    return Hold(
        kept.node,
        kept.reason,
        execution=str(kept.execution_id),
        gangs=kept.keys,
        owners=kept.owners,
        until=kept.until.timestamp() if kept.until else None,
    )
