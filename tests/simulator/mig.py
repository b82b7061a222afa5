"""A small MIG cluster inside a test's own event loop: some of the scene's nodes, all of its operator."""

from __future__ import annotations

import json
import ssl
from contextlib import asynccontextmanager

import aiohttp

from apps.simulator.client import NODES, PODS
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.gpu_operator import add_mig_node, add_operator, config_text
from apps.simulator.scenes.mig import OWN_CONFIGS
from tests.simulator.cluster import Driver, pod_spec, running

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
SCALE = 120.0
DEPLOY = "nvidia.com/gpu.deploy."
PAUSED = "paused-for-mig-change"


def mig_scene(**configs):
    """Nodes by name (a_b becomes a-b): a configuration, or (configuration, further arguments)."""
    scene, text = SceneBuilder(seed=8), config_text(OWN_CONFIGS)
    for name, told in configs.items():
        config, more = told if isinstance(told, tuple) else (told, {})
        more = {"model": "a100-sxm4-80gb", **more}
        place = {"pool": "mig", "rack": "r1", "zone": "z1"}
        add_mig_node(scene, name.replace("_", "-"), config=config, text=text, place=place, **more)
    add_operator(scene, text)
    scene.add_namespace("work")
    return scene


class MigDriver(Driver):
    """Words for what a console sees and does; everything goes over HTTP."""

    async def relabel(self, node, config, **more):
        labels = {CONFIG: config, STATE: None, **more}
        await self.client.patch(NODES, "", node, {"metadata": {"labels": labels}})

    async def labels(self, node):
        return (await self.node(node))["metadata"]["labels"]

    async def resources(self, node, what="allocatable"):
        """Device resources of which there are any."""
        told = (await self.node(node))["status"][what]
        return {key: int(told[key]) for key in told if key.startswith("nvidia.com/") and told[key] != "0"}

    async def matrix(self, node):
        return json.loads((await self.node(node))["metadata"]["annotations"]["topology.gpu.internal/matrix"])

    async def holders(self, node):
        notes = (await self.node(node))["metadata"]["annotations"]
        return json.loads(notes["topology.gpu.internal/holders"])["devices"]

    async def until_state(self, node, *states, seconds=15):
        async def ask():
            state = (await self.labels(node)).get(STATE)
            return state if state in states else None

        return await self.until(ask, f"{node} with a state of {states}", seconds)

    async def until_resources(self, node, seconds=15, **wanted):
        """gpu=7, mig_1g_10gb=7: exactly these are allocatable."""
        expected = {f"nvidia.com/{_resource(key)}": number for key, number in wanted.items()}

        async def ask():
            return await self.resources(node) == expected

        await self.until(ask, f"{node} with {expected}", seconds)

    async def create_mig_pod(self, name, resource, node=""):
        spec = pod_spec()
        spec["containers"][0]["resources"]["limits"] = {f"nvidia.com/{resource}": "1"}
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        return await self.create(PODS, name, {"spec": spec})

    async def fault(self, name, **more):
        return await self._control("POST", {"name": name, **more})

    async def lift(self, name, **more):
        return await self._control("POST", {"remove": name, **more})

    async def faults(self):
        return (await self._control("GET", None))["faults"]

    async def _control(self, method, body):
        server = self.cluster.server
        trust = ssl.create_default_context(cadata=server.ca_pem)
        headers = {"Authorization": f"Bearer {server.token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, f"{server.url}/_sim/faults", json=body, ssl=trust) as response,
        ):
            answer = await response.json(content_type=None)
            assert response.status == 200, answer
            return answer


@asynccontextmanager
async def mig_cluster(scale=SCALE, **configs):
    """Runs once every node's manager has said its first word."""
    objects = mig_scene(**configs).build()
    capable = [each for each in objects if CONFIG in (each["metadata"].get("labels") or {})]
    for node in capable:
        del node["metadata"]["labels"][STATE]
    async with running(objects, scale=scale) as driver:
        mig = MigDriver(driver.client, driver.cluster)
        for node in capable:
            await mig.until_state(node["metadata"]["name"], "success")
        yield mig


def _resource(key):
    """mig_1g_10gb -> mig-1g.10gb"""
    return "gpu" if key == "gpu" else key.replace("mig_", "mig-").replace("g_", "g.", 1)
