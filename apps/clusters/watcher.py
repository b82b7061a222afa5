"""Keeps the picture of each watched cluster in the database up to date.

Joins the watch (`apps.kube.watching`) and the rows (`services`), never both in one transaction. A
database, a broker or a cluster that is away is told and waited for; nothing here ends by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import structlog
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections

from apps.clusters import services
from apps.clusters.errors import ClusterError
from apps.clusters.expectations import Expectations
from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster
from apps.clusters.packing import Packer
from apps.clusters.queries import active_clusters
from apps.clusters.sightings import find_sightings
from apps.kube import errors as kube_errors
from apps.kube.kubernetes_gateway import KubernetesGateway
from apps.kube.translate import Translator
from apps.kube.watching import ClusterWatch

LOOK_SECONDS = 1.0
PAUSE_SECONDS = 5.0
PRUNE_EVERY = 20
logger = structlog.get_logger(__name__)


class ClusterWatcher:
    """One cluster, in a thread of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watcher-{cluster.name}", daemon=True)
        self._translator = Translator()
        self._packer = Packer()
        self._expectations = Expectations(cluster.pk)
        self._snapshot_id: int | None = None
        self._digest = ""
        self._told = ""
        self._beat_at = 0.0
        self._recorded = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._news.set()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._watch()
            except (ClusterError, kube_errors.KubeError) as error:
                self._tell(str(error))
            except DatabaseError as error:
                logger.warning("database away", cluster=self._cluster.name, error=str(error))
            except Exception:
                logger.exception("watcher failed; it starts again", cluster=self._cluster.name)
            finally:
                close_old_connections()
            self._stopping.wait(PAUSE_SECONDS)

    def _watch(self) -> None:
        gateway = open_gateway(self._cluster)
        try:
            self._introduce(gateway)
            if not self._cluster.kube_system_uid:
                return  # the supervisor sees the pin and starts a watcher that insists on it
            watch = ClusterWatch(gateway, on_change=self._news.set, watch_seconds=settings.KUBE_WATCH_SECONDS)
            watch.start()
            try:
                self._follow(watch)
            finally:
                watch.stop()
        finally:
            gateway.close()

    def _introduce(self, gateway: KubernetesGateway) -> None:
        """Who is it, and which version by now? Raises AnotherCluster and all that says it is not there."""
        gateway.prove_identity()
        uid, version = gateway.cluster_uid(), gateway.version()
        services.pin_cluster(cluster_id=self._cluster.pk, uid=uid, version=version)

    def _follow(self, watch: ClusterWatch) -> None:
        """One turn per burst of news, and one per heartbeat without any."""
        self._news.set()
        while not self._stopping.is_set():
            has_news = self._news.wait(timeout=settings.SNAPSHOT_HEARTBEAT_SECONDS)
            if self._stopping.is_set():
                return
            self._news.clear()
            began = time.monotonic()
            try:
                self._take_turn(watch, has_news=has_news)
            except DatabaseError as error:
                logger.warning("database away", cluster=self._cluster.name, error=str(error))
                self._news.set()
                self._stopping.wait(PAUSE_SECONDS)
            finally:
                close_old_connections()
            # Bursts (a gang that starts, a drain) become one picture; a large cluster, whose picture takes
            # seconds, keeps a processor half busy at most.
            took = time.monotonic() - began
            self._stopping.wait(max(settings.SNAPSHOT_MIN_INTERVAL_SECONDS - took, took))

    def _take_turn(self, watch: ClusterWatch, *, has_news: bool) -> None:
        fresh_at = watch.fresh_at()
        problems = [{"kind": kind, "message": message} for kind, message in watch.problems()]
        if watch.error or watch.missing or fresh_at is None:
            error = watch.error or " ".join(problem["message"] for problem in problems)
            if error:
                self._tell(error, problems)
            return
        if not watch.is_ready:
            return
        if self._expectations.read_again() or has_news or self._told or self._snapshot_id is None:
            self._record(watch, fresh_at, problems)
        if time.monotonic() - self._beat_at >= settings.SNAPSHOT_HEARTBEAT_SECONDS / 2:
            self._beat(fresh_at)

    def _record(self, watch: ClusterWatch, fresh_at: float, problems: list[dict[str, str]]) -> None:
        said = [problem["message"] for problem in problems]
        picture = self._translator.build(
            self._cluster.name,
            watch.objects(),
            taken_at=fresh_at,
            problems=said,
            sightings=find_sightings(self._cluster),
        )
        picture = self._expectations.judge(picture)
        digest = self._packer.digest(picture)
        if digest == self._digest and not self._told:
            return  # news that change no fact, such as a node's own heartbeat
        row = services.record_snapshot(
            cluster_id=self._cluster.pk, snapshot=picture, packer=self._packer, problems=problems
        )
        self._snapshot_id, self._digest, self._told = row.pk, digest, ""
        self._beat_at = time.monotonic()
        self._recorded += 1
        if self._recorded % PRUNE_EVERY == 1:
            services.prune_snapshots(cluster_id=self._cluster.pk)

    def _beat(self, fresh_at: float) -> None:
        if self._snapshot_id is None:
            return
        services.note_heartbeat(
            cluster_id=self._cluster.pk,
            cluster_name=self._cluster.name,
            snapshot_id=self._snapshot_id,
            fresh_at=fresh_at,
        )
        self._beat_at = time.monotonic()

    def _tell(self, error: str, problems: Iterable[dict[str, str]] = ()) -> None:
        if error != self._told:
            logger.warning("cluster cannot be watched", cluster=self._cluster.name, error=error)
        try:
            services.note_watch_error(
                cluster_id=self._cluster.pk,
                cluster_name=self._cluster.name,
                error=error,
                problems=list(problems),
            )
            self._told = error
        except DatabaseError as failure:
            logger.warning("database away", cluster=self._cluster.name, error=str(failure))


class Watchers:
    """A watcher for each active cluster; `names` limits them, empty means all."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        self._running: dict[tuple[object, ...], ClusterWatcher] = {}
        self._stopping = threading.Event()

    def run(self) -> None:
        """Until `stop` is called."""
        while not self._stopping.is_set():
            try:
                self.tend()
            except DatabaseError as error:
                logger.warning("database away", error=str(error))
            finally:
                close_old_connections()
            self._stopping.wait(LOOK_SECONDS)
        self._end(list(self._running))

    def stop(self) -> None:
        self._stopping.set()

    def tend(self) -> None:
        """Start what is new, end what is gone; a changed address or credential is both."""
        wanted = {
            _connection_of(cluster): cluster
            for cluster in active_clusters()
            if not self._names or cluster.name in self._names
        }
        self._end([key for key in self._running if key not in wanted])
        for key, cluster in wanted.items():
            if key not in self._running:
                logger.info("watching", cluster=cluster.name, server=cluster.server)
                self._running[key] = ClusterWatcher(cluster)
                self._running[key].start()

    def _end(self, keys: list[tuple[object, ...]]) -> None:
        ending = [self._running.pop(key) for key in keys]
        for watcher in ending:
            watcher.stop()
        for watcher in ending:
            watcher.join(10)


def _connection_of(cluster: Cluster) -> tuple[object, ...]:
    return (cluster.pk, cluster.server, cluster.ca_certificate, cluster.credential, cluster.kube_system_uid)
