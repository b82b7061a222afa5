"""The small scene can be mended by hand: three moves, and the gang that waits starts."""

import pytest

from apps.simulator.client import NODES, PODS
from apps.simulator.scenes import SCENES
from tests.simulator.cluster import running

pytestmark = pytest.mark.asyncio


async def test_three_evictions_off_two_cordoned_nodes_let_the_gang_start():
    async with running(SCENES["small"](), scale=30) as driver:
        for name in ("gpu-2", "gpu-3"):
            await driver.client.patch(NODES, "", name, {"spec": {"unschedulable": True}})
        pods, _ = await driver.client.list(PODS, "work")
        moved = [p for p in pods if p["spec"]["nodeName"] in ("gpu-2", "gpu-3")]
        assert len(moved) == 3
        for pod in moved:
            await driver.evict(pod)

        async def landed():
            now, _ = await driver.client.list(PODS, "work")
            places = {p["spec"].get("nodeName") for p in now}
            phases = {p["status"]["phase"] for p in now}
            return len(now) == len(pods) and phases == {"Running"} and not places & {"gpu-2", "gpu-3", None}

        await driver.until(landed, "all three elsewhere", 30)
        for name in ("gpu-2", "gpu-3"):
            await driver.client.patch(NODES, "", name, {"spec": {"unschedulable": None}})

        async def started():
            gang, _ = await driver.client.list(PODS, "ml")
            return {p["spec"].get("nodeName") for p in gang} == {"gpu-2", "gpu-3"} and all(
                p["status"]["phase"] == "Running" for p in gang
            )

        await driver.until(started, "the gang on the freed nodes")
