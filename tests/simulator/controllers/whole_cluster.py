"""A whole cluster for the behaviour tests: the simulated one, or a real control plane with our kubelets."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

from apps.simulator.runner import SimulatedCluster
from tests.control_plane import ControlPlane
from tests.executions.real_cluster import Kubelets
from tests.simulator.api_server.conftest import Client

HARDWARE = {"sim.gpu.internal/hardware": "a100-sxm4-80gb:8"}
SCALE = 20


class SimulatedWhole:
    seconds = 30

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.cluster = SimulatedCluster([], time_scale=SCALE)
        self._await(self.cluster.start())
        self.url, self.ca_pem = self.cluster.url, self.cluster.server.ca_pem

    def stop(self):
        self._await(self.cluster.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)

    def _await(self, work):
        asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


class RealWhole:
    """Kubernetes' own API server, controllers and scheduler."""

    seconds = 180

    def __init__(self, folder):
        self.plane = ControlPlane(Path(os.environ["KUBEBUILDER_ASSETS"]), folder)
        self.plane.token = "admin-token"
        self.plane.start()
        self.kubelets = Kubelets(self.plane, time_scale=1)
        self.url, self.ca_pem = self.plane.url, self.plane.certificate.ca_pem

    def stop(self):
        self.kubelets.stop()
        self.plane.stop()


class Whole(Client):
    """Words to drive either over HTTP. Every test works in a namespace of its own."""

    def __init__(self, cluster):
        super().__init__(cluster, cluster)
        self.cluster = cluster
        self.namespace = ""

    def enter(self, namespace):
        self.namespace = f"/api/v1/namespaces/{namespace}"
        self.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.until(lambda: self.get(f"{self.namespace}/serviceaccounts/default").code == 200, "the account")

    def path(self, plural, group=""):
        return f"{self.namespace.replace('/api/v1', f'/apis/{group}') if group else self.namespace}/{plural}"

    def until(self, ask, what):
        """The first answer that is true."""
        ends, answer = time.monotonic() + self.cluster.seconds, None
        while time.monotonic() < ends:
            answer = ask()
            if answer:
                return answer
            time.sleep(0.05)
        raise AssertionError(f"waited {self.cluster.seconds} s in vain: {what}; last answer {answer!r}")

    def add_node(self, name, **annotations):
        body = {"metadata": {"name": name, "annotations": {**HARDWARE, **annotations}}}
        assert self.post("/api/v1/nodes", body).code == 201

        def usable():
            node = self.get(f"/api/v1/nodes/{name}").json
            return not taints_of(node) and "nvidia.com/gpu" in node["status"].get("allocatable", {})

        self.until(usable, f"{name} is ready and untainted")

    def annotate_node(self, name, **annotations):
        marks = {f"sim.gpu.internal/{key}": value for key, value in annotations.items()}
        self.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": marks}})

    def node(self, name):
        return self.get(f"/api/v1/nodes/{name}").json

    def pod(self, name):
        return self.get(f"{self.namespace}/pods/{name}").json

    def start(self, name, gpus=0, **spec):
        """A pod that the scheduler places and that runs."""
        self.add_pod(name, gpus, **spec)
        return self.until(lambda: self._running(name), f"{name} runs")

    def add_pod(self, name, gpus=0, *, labels=None, **spec):
        limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
        container = {"name": "main", "image": "registry.example/a:1", "resources": limits}
        body = {"metadata": {"name": name, "labels": labels or {"app": name}}}
        reply = self.post(f"{self.namespace}/pods", {**body, "spec": {"containers": [container], **spec}})
        assert reply.code == 201, reply.text

    def evict(self, name):
        return self.post(f"{self.namespace}/pods/{name}/eviction", {"metadata": {"name": name}})

    def is_gone(self, name):
        return self.get(f"{self.namespace}/pods/{name}").code == 404

    def version_now(self):
        return str(self.get(f"{self.namespace}/pods").version)

    def _running(self, name):
        pod = self.pod(name)
        return pod if pod.get("status", {}).get("phase") == "Running" else None


def taints_of(node):
    return {(each["key"].rpartition("/")[2], each["effect"]) for each in node["spec"].get("taints") or []}


def condition_of(thing, kind):
    return next((c for c in thing["status"].get("conditions") or [] if c["type"] == kind), {})
