"""A Prometheus of simulated GPUs over real HTTP, and a cluster row whose snapshot has the same nodes."""

import asyncio
import json
import threading
import time

import pytest
import time_machine

from apps.clusters.services import record_snapshot
from apps.kube.gateway import NODES as NODE_KIND
from apps.kube.translate import build_snapshot
from apps.simulator.client import NODES
from apps.simulator.controllers.informers import Store
from apps.simulator.metrics.history import History
from apps.simulator.metrics.service import MetricsService
from apps.simulator.mig.layout import LAYOUT_ANNOTATION
from apps.simulator.scenes.owners import Owner, make_template
from tests.plans.situations import make_cluster
from tests.simulator.cluster import make_nodes


class Measured:
    """Two nodes of eight A100s; a Job's pod holds four GPUs of gpu-1. `address`: of its Prometheus."""

    def __init__(self):
        scene = make_nodes(2)
        owner = scene.add_owner(Owner("Job", "work", "train", make_template("train", gpus=4)))
        self.pod = scene.put(owner, "gpu-1", (0, 1, 2, 3))["metadata"]["name"]
        self.things = scene.build()
        self.store = Store(NODES)
        for thing in self.things:
            if thing["kind"] == "Node":
                self.store.apply("ADDED", thing)
        self._service = MetricsService(History(self.store))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._service.start())

    @property
    def address(self):
        return self._service.url

    def cut(self, name):
        """Its first GPU into two instances; samples come back a minute later."""
        node = json.loads(json.dumps(self.store.objects[name]))
        layout = {"0": [{"profile": "4g.40gb", "start": 0}, {"profile": "3g.40gb", "start": 4}]}
        node["metadata"]["annotations"][LAYOUT_ANNOTATION] = json.dumps(layout)

        async def apply():
            self.store.apply("MODIFIED", node)

        self._run(apply())

    def snapshot(self, cluster):
        nodes = list(self.store.objects.values())
        return record_snapshot(
            cluster_id=cluster.pk, snapshot=build_snapshot(cluster.name, {NODE_KIND: nodes}, time.time())
        )

    def stop(self):
        self._run(self._service.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)


@pytest.fixture
def clock():
    """Goes on by itself; `shift` makes it jump. Simulated samples follow it, and so do we."""
    with time_machine.travel(time.time(), tick=True) as clock:
        yield clock


@pytest.fixture
def measured():
    found = Measured()
    yield found
    found.stop()


@pytest.fixture
def cluster(db):
    return make_cluster("east")
