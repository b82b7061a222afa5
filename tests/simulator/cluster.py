"""A whole simulated cluster inside a test's own event loop, and short words to drive it over its API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from apps.simulator.client import (
    MERGE,
    NAMESPACES,
    NODES,
    PODS,
    STRATEGIC,
    ApiError,
    KubernetesClient,
    Resource,
)
from apps.simulator.runner import SimulatedCluster
from apps.simulator.scenes.builder import SceneBuilder

Json = dict[str, Any]
SCALE = 30.0
GATE = "defrag.gpu.internal/steer"


def make_nodes(count: int = 2, gpus: int = 8, model: str = "a100-sxm4-80gb", **more: Any) -> SceneBuilder:
    """gpu-1 … gpu-N; gpus 0 makes them plain machines."""
    scene = SceneBuilder(seed=5)
    for number in range(1, count + 1):
        name = f"gpu-{number}"
        place = {"pool": "train", "rack": f"r{number}", "zone": f"z{number}", **more}
        scene.add_node(name, model if gpus else "", gpus, **place)
    scene.add_namespace("work")
    return scene


class Driver:
    """What a test says to the cluster, over HTTP like anybody else."""

    def __init__(self, client: KubernetesClient, cluster: SimulatedCluster | None = None) -> None:
        self.client, self.cluster = client, cluster

    async def pods(self, namespace: str = "work", **labels: str) -> list[Json]:
        things, _ = await self.client.list(PODS, namespace)
        return [each for each in things if labels.items() <= (each["metadata"].get("labels") or {}).items()]

    async def pod(self, name: str, namespace: str = "work") -> Json:
        return await self.client.get(PODS, namespace, name)

    async def node(self, name: str) -> Json:
        return await self.client.get(NODES, "", name)

    async def annotate_node(self, name: str, **annotations: str | None) -> None:
        body = {"metadata": {"annotations": {f"sim.gpu.internal/{k}": v for k, v in annotations.items()}}}
        await self.client.patch(NODES, "", name, body)

    async def create(self, resource: Resource, name: str, spec: Json, **meta: Any) -> Json:
        namespace = "work" if resource.namespaced else ""
        body = {"metadata": {"name": name, **({"namespace": namespace} if namespace else {}), **meta}}
        return await self.client.create(resource, namespace, {**body, **spec})

    async def create_pod(self, name: str, gpus: int = 0, *, meta: Json | None = None, **spec: Any) -> Json:
        full = pod_spec(gpus) | spec
        return await self.create(PODS, name, {"spec": full}, **(meta or {}))

    async def evict(self, pod: Json) -> None:
        meta = pod["metadata"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
            "deleteOptions": {"preconditions": {"uid": meta["uid"]}},
        }
        path = PODS.path(meta["namespace"], meta["name"], "eviction")
        await self.client.request("POST", path, body=body)

    async def patch_pod(self, pod: Json, body: Json, *, strategic: bool = False, sub: str = "") -> Json:
        meta = pod["metadata"]
        kind = STRATEGIC if strategic else MERGE
        return await self.client.patch(
            PODS, meta["namespace"], meta["name"], body, content_type=kind, subresource=sub
        )

    async def until(self, ask: Callable[[], Awaitable[Any]], what: str, seconds: float = 15.0) -> Any:
        """The first answer that is true; fails naming `what`."""
        ends = asyncio.get_running_loop().time() + seconds
        answer = None
        while asyncio.get_running_loop().time() < ends:
            answer = await ask()
            if answer:
                return answer
            await asyncio.sleep(0.02)
        raise AssertionError(f"waited {seconds} s in vain: {what}; last answer {answer!r}")

    async def until_bound(self, name: str, seconds: float = 15.0) -> Json:
        async def ask() -> Json | None:
            pod = await self._maybe(name)
            return pod if pod and pod["spec"].get("nodeName") else None

        return await self.until(ask, f"{name} bound", seconds)

    async def until_phase(self, name: str, phase: str, seconds: float = 15.0) -> Json:
        async def ask() -> Json | None:
            pod = await self._maybe(name)
            return pod if pod and pod["status"].get("phase") == phase else None

        return await self.until(ask, f"{name} {phase}", seconds)

    async def until_refused(self, name: str) -> str:
        """The message of PodScheduled=False/Unschedulable."""

        async def ask() -> str:
            pod = await self.pod(name)
            for each in pod["status"].get("conditions") or []:
                if each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable":
                    return each["message"]
            return ""

        return await self.until(ask, f"{name} unschedulable")

    async def until_gone(self, name: str, seconds: float = 15.0) -> None:
        async def ask() -> bool:
            return await self._maybe(name) is None

        await self.until(ask, f"{name} gone", seconds)

    async def until_ready(self, count: int, seconds: float = 15.0, **labels: str) -> list[Json]:
        """Exactly `count` live pods with the labels, all Ready."""

        async def ask() -> list[Json] | None:
            found = [
                each
                for each in await self.pods(**labels)
                if not each["metadata"].get("deletionTimestamp")
                and each["status"].get("phase") not in ("Failed", "Succeeded")
            ]
            return found if len(found) == count and all(map(is_ready, found)) else None

        return await self.until(ask, f"{count} ready pods with {labels}", seconds)

    async def _maybe(self, name: str) -> Json | None:
        try:
            return await self.pod(name)
        except ApiError as error:
            if error.status == 404:
                return None
            raise


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def pod_spec(gpus: int = 0, cpu: str = "100m") -> Json:
    resources: Json = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    if gpus:
        resources["limits"] = {"nvidia.com/gpu": str(gpus)}
    return {"containers": [{"name": "main", "image": "registry.example/a:1", "resources": resources}]}


def template(app: str, gpus: int = 1, **spec: Any) -> Json:
    return {"metadata": {"labels": {"app": app}}, "spec": pod_spec(gpus) | spec}


def replicated(app: str, replicas: int, gpus: int = 1, **spec: Any) -> Json:
    """The spec of a Deployment, ReplicaSet or StatefulSet."""
    selector = {"matchLabels": {"app": app}}
    return {"spec": {"replicas": replicas, "selector": selector, "template": template(app, gpus, **spec)}}


@asynccontextmanager
async def running(objects: Iterable[Json], scale: float = SCALE) -> AsyncIterator[Driver]:
    async with SimulatedCluster(objects, time_scale=scale) as cluster:
        server = cluster.server
        async with KubernetesClient(server=server.url, ca_pem=server.ca_pem, token=server.token) as client:
            yield Driver(client, cluster)


__all__ = ["GATE", "NAMESPACES", "Driver", "make_nodes", "pod_spec", "replicated", "running", "template"]
