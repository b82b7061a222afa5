"""Keeps the extender's picture in step with the cluster: event by event, and whole now and then.

The watch's threads only queue what changed; the server's loop works it in, so that nothing of the picture is
ever read half changed. What pods and nodes take from the objects around them (namespaces, workloads, slices)
comes with whole pictures, which a thread builds aside. Not in here: verdicts (deciding).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

import structlog

from apps.kube.gateway import (
    ALL_POD_GROUPS,
    DRA,
    GPU_REQUESTS,
    JOBS,
    KOORDINATOR_DEVICES,
    NODES,
    PODS,
    Json,
    Kind,
)
from apps.kube.kubernetes_gateway import KubernetesGateway
from apps.kube.object_store import KeptObject, NoticingStore
from apps.kube.translate import Translator
from apps.kube.translate.groups import read_pod_group
from apps.kube.translate.single import Scenery, read_one_node, read_one_pod
from apps.kube.translate.single_job import with_job
from apps.kube.translate.unreadable import UNREADABLE
from apps.kube.watching import WATCHED, ClusterWatch
from apps.planner.drift import Expected
from apps.planner.inventory import Gang, Pod
from apps.planner.snapshot import Snapshot
from apps.planner.workload import Workload, live_workload
from apps.scheduling.extender.picture import Picture

Key = tuple[str, str]
URGENT = frozenset({KOORDINATOR_DEVICES, GPU_REQUESTS, *DRA})
"""A change of these changes what is answered about pods; others are worked in by themselves, or wait for the
next round."""
URGENT_SECONDS, ROUND_SECONDS, WORKLOAD_SECONDS = 2.0, 120.0, 300.0
MOST_BUSY = 10.0
"""Times as long as a whole picture takes, at least, until the next one: it must not keep a processor busy."""
MOST_SECONDS = 0.002
"""Of work on the queue before others get their turn."""
logger = structlog.get_logger(__name__)


class Follower:
    """find_expected: what each node has shown before, by uid; called in a thread. on_workload: told of the
    pods that the cluster wants by now."""

    def __init__(
        self,
        gateway: KubernetesGateway,
        picture: Picture,
        *,
        cluster: str,
        find_expected: Callable[[], Mapping[str, Expected]] = dict,
        on_workload: Callable[[Workload], None] = lambda workload: None,
    ) -> None:
        self.picture = picture
        self._cluster = cluster
        self._find_expected, self._on_workload = find_expected, on_workload
        self._translator = Translator()
        self._scenery = Scenery()
        self._queue: deque[tuple[float, Kind, Key, KeptObject | None]] = deque()
        self._uids: dict[Key, str] = {}
        self._revisions: dict[str, str] = {}
        self._since: dict[tuple[Kind, Key], KeptObject | None] = {}
        self._newer: set[str] = set()
        self._is_whole, self._urgent_at = False, 0.0
        self._took, self._workload_due = 0.0, 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._is_draining = False
        stores = {kind: NoticingStore(kind, partial(self._notice, kind)) for kind in WATCHED}
        self._watch = ClusterWatch(gateway, on_change=self._tell, stores=stores)

    # --- being asked ---

    def age(self) -> float:
        """Seconds by which the picture may be behind the cluster; infinity before it is whole."""
        fresh_at = self._watch.fresh_at()
        if not self._is_whole or fresh_at is None:
            return float("inf")
        try:
            behind = self._queue[0][0]
        except IndexError:  # asked from another thread, too, while the loop takes the last one out
            behind = float("inf")
        return max(time.time() - min(fresh_at, behind), 0.0)

    @property
    def problem(self) -> str:
        """Why there is no picture, "" where there is one."""
        said = [message for _, message in self._watch.problems()]
        told = self._watch.error or " ".join(said)
        if told or self._is_whole:
            return told
        waited_for = ", ".join(sorted({kind.plural for kind in self._watch.unanswered}))
        return f"It has not been read yet{f': no answer about {waited_for}' if waited_for else ''}."

    def read_pod(self, raw: Json) -> Pod:
        """A pod as a scheduler sends it, which may be newer than the watch's, or older."""
        metadata = raw["metadata"]
        known = self.picture.pods.get(str(metadata["uid"]))
        if known is not None and self._revisions.get(known.uid) == metadata.get("resourceVersion"):
            return known
        return read_one_pod(raw, self._scenery)

    def catch_up(self, seconds: float = MOST_SECONDS) -> None:
        """Work in what the watch has brought, for so long at most."""
        ends = time.perf_counter() + seconds
        while self._queue:
            _, kind, key, kept = self._queue.popleft()
            self._since[kind, key] = kept
            self._work_in_safely(kind, key, kept)
            if time.perf_counter() > ends:
                return

    # --- following ---

    async def run(self) -> None:
        """Until it is cancelled."""
        self._loop = asyncio.get_running_loop()
        self._watch.start()
        try:
            while True:
                try:
                    await self._take_whole()
                except Exception:  # a picture that is never renewed would go stale in silence
                    logger.exception(
                        "the picture could not be read; it is tried again", cluster=self._cluster
                    )
                await self._until_due()
        finally:
            await asyncio.to_thread(self._watch.stop)

    async def _until_due(self) -> None:
        last = time.monotonic()
        while True:
            is_urgent = bool(self._urgent_at) or not self._is_whole
            due = last + (max(URGENT_SECONDS, MOST_BUSY * self._took) if is_urgent else ROUND_SECONDS)
            left = due - time.monotonic()
            if left <= 0:
                return
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), min(left, 0.2) if not self._is_whole else left)
            except TimeoutError:
                continue

    async def _take_whole(self) -> None:
        if not self._watch.is_ready:
            return
        self._urgent_at, self._since, self._newer = 0.0, {}, set()
        began = time.monotonic()
        snapshot, scenery, workload, expected = await asyncio.to_thread(self._build)
        self._took = time.monotonic() - began
        self._scenery = scenery
        self.picture.expect(expected)
        listed = {(pod.namespace, pod.name): uid for uid, pod in snapshot.pods.items()}
        self._uids |= {key: uid for key, uid in listed.items() if uid not in self._newer}
        ends = time.perf_counter() + MOST_SECONDS
        for _ in self.picture.take_in_steps(snapshot, scenery.nodes, self._newer):
            if time.perf_counter() > ends:
                await asyncio.sleep(0)
                ends = time.perf_counter() + MOST_SECONDS
        # What came while the picture was built was read with what was around it before.
        for (kind, key), kept in list(self._since.items()):
            self._work_in_safely(kind, key, kept)
        self._is_whole = True
        if time.monotonic() >= self._workload_due:
            self._workload_due = time.monotonic() + WORKLOAD_SECONDS
            self._on_workload(workload)

    def _build(self) -> tuple[Snapshot, Scenery, Workload, Mapping[str, Expected]]:
        fresh_at = self._watch.fresh_at() or time.time()
        said = [message for _, message in self._watch.problems()]
        built = self._translator.build(self._cluster, self._watch.objects(), taken_at=fresh_at, problems=said)
        return built, self._translator.scenery, live_workload(built), self._find_expected()

    def _work_in_safely(self, kind: Kind, key: Key, kept: KeptObject | None) -> None:
        """One odd object fails neither the call that came upon it nor the picture as a whole."""
        try:
            self._work_in(kind, key, kept)
        except Exception:
            logger.exception("an event could not be worked in", kind=kind.plural, name="/".join(key))

    def _work_in(self, kind: Kind, key: Key, kept: KeptObject | None) -> None:
        if kind == PODS:
            self._work_in_pod(key, kept)
        elif kind == NODES:
            self._newer.add(key[1])
            if kept is None:
                self.picture.forget_node(key[1])
            else:
                self.picture.tell_node(read_one_node(kept, self._scenery, taken_at=time.time()))
        elif kind == JOBS and kept is not None:
            self._scenery, gang = with_job(self._scenery, kept)
            if gang is not None and gang.key not in self.picture.gangs:
                self._tell_gang(gang)
        elif kind in ALL_POD_GROUPS and kept is not None:
            try:
                gang = read_pod_group(kept.open(), kind)
            except UNREADABLE:
                return
            known = self.picture.gangs.get(gang.key)
            if known is None or known.api_version == gang.api_version:
                self._tell_gang(gang)

    def _tell_gang(self, gang: Gang) -> None:
        self._newer.add(gang.key)
        self.picture.tell_gang(gang)

    def _work_in_pod(self, key: Key, kept: KeptObject | None) -> None:
        before = self._uids.pop(key, "")
        self._newer.add(before)
        if before and (kept is None or kept.uid != before):
            self._revisions.pop(before, None)
            self.picture.forget_pod(before)
        if kept is None:
            return
        pod = read_one_pod(kept, self._scenery)
        self._newer.add(pod.uid)
        self._uids[key] = pod.uid
        self._revisions[pod.uid] = kept.revision
        if pod.gang and pod.gang not in self.picture.gangs:
            self._urgent_at = time.monotonic()
        self.picture.tell_pod(pod)

    # --- from the watch's threads ---

    def _notice(self, kind: Kind, key: Key | None, kept: KeptObject | None) -> None:
        if key is None:
            self._urgent_at = time.monotonic()
        elif kind in (PODS, NODES, JOBS) or kind in ALL_POD_GROUPS:
            self._queue.append((time.time(), kind, key, kept))
        if kind in URGENT:
            self._urgent_at = time.monotonic()

    def _tell(self) -> None:
        if self._loop is not None and not self._is_draining and not self._loop.is_closed():
            self._is_draining = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._is_draining = False
        if self._urgent_at:
            self._wake.set()
        self.catch_up()
        if self._queue and self._loop is not None:
            self._is_draining = True
            self._loop.call_soon(self._drain)
