"""What MIG nodes show: resources, labels, holders, drift; and how pods get their instances."""

import pytest

from apps.simulator.client import NODES
from tests.simulator.mig import mig_cluster

pytestmark = pytest.mark.asyncio

PRODUCT = "NVIDIA-A100-SXM4-80GB"


async def test_a_pod_gets_an_instance_and_the_agent_tells_it():
    async with mig_cluster(n1="split") as driver:
        await driver.create_mig_pod("small", "mig-3g.40gb")
        await driver.create_mig_pod("whole", "gpu")
        await driver.create_mig_pod("none", "mig-2g.20gb")
        for name in ("small", "whole"):
            await driver.until_phase(name, "Running")
        assert "Insufficient nvidia.com/mig-2g.20gb" in await driver.until_refused("none")
        matrix = await driver.matrix("n1")
        instance = matrix["mig"][matrix["gpus"][6]["uuid"]][0]
        assert (instance["profile"], instance["start"]) == ("3g.40gb", 0)

        async def told():
            return {each[0]["pod"]: device for device, each in (await driver.holders("n1")).items()}

        async def both():
            return len(await told()) == 2

        await driver.until(both, "two holders")
        assert (await told())["small"] == instance["uuid"]
        assert (await told())["whole"] in [gpu["uuid"] for gpu in matrix["gpus"][:4]]
        held = (await driver.holders("n1"))[instance["uuid"]][0]
        assert (held["milli"], held["memory_mib"]) == (1000, 40192)


async def test_strategy_single_counts_instances_and_refuses_an_uneven_layout():
    nodes = {
        "even": ("all-1g.10gb", {"strategy": "single"}),
        "uneven": ("uneven", {"strategy": "single"}),
        "half": ("half-1g.10gb", {"strategy": "single"}),
    }
    async with mig_cluster(**nodes) as driver:
        labels = await driver.labels("even")
        assert labels["nvidia.com/gpu.product"] == f"{PRODUCT}-MIG-1g.10gb"
        assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.slices.gi"]) == ("56", "1")
        await driver.until_resources("even", gpu=56)
        for name in ("uneven", "half"):
            labels = await driver.labels(name)
            assert labels["nvidia.com/gpu.product"] == f"{PRODUCT}-MIG-INVALID"
            assert labels["nvidia.com/gpu.count"] == "0"
            await driver.until_resources(name)
        await driver.create_mig_pod("user", "gpu")
        pod = await driver.until_phase("user", "Running")
        assert pod["spec"]["nodeName"] == "even"


async def test_a_shared_node_offers_slots_and_tells_no_holders():
    nodes = {
        "n1": ("", {"model": "l40s", "sharing": "time-slicing:4", "has_agent": False}),
        "n2": ("all-disabled", {"sharing": "time-slicing:2:renamed", "has_agent": False}),
    }
    async with mig_cluster(**nodes) as driver:
        labels = await driver.labels("n1")
        shown = ("product", "count", "replicas", "sharing-strategy")
        assert [labels[f"nvidia.com/gpu.{each}"] for each in shown] == [
            "NVIDIA-L40S-SHARED",
            "8",
            "4",
            "time-slicing",
        ]
        await driver.until_resources("n1", gpu=32)
        assert await driver.resources("n2") == {"nvidia.com/gpu.shared": 16}
        assert (await driver.labels("n2"))["nvidia.com/gpu.product"] == PRODUCT
        for number in range(9):
            await driver.create_mig_pod(f"slice-{number}", "gpu")
        for number in range(9):
            await driver.until_phase(f"slice-{number}", "Running")
        notes = (await driver.node("n1"))["metadata"]["annotations"]
        assert not [key for key in notes if key.startswith("topology.gpu.internal/")]


async def test_without_an_agent_the_kubelet_alone_remembers():
    async with mig_cluster(n1=("split", {"has_agent": False})) as driver:
        for number in range(4):
            await driver.create_mig_pod(f"user-{number}", "mig-3g.40gb")
            await driver.until_phase(f"user-{number}", "Running")
        await driver.create_mig_pod("fifth", "mig-3g.40gb")
        assert "Insufficient nvidia.com/mig-3g.40gb" in await driver.until_refused("fifth")
        notes = (await driver.node("n1"))["metadata"]["annotations"]
        assert not [key for key in notes if key.startswith("topology.gpu.internal/")]


async def test_a_lost_gpu_lowers_allocatable_first_and_the_capacity_after_the_plugin_restarts():
    async with mig_cluster(n1="all-disabled") as driver:
        answer = await driver.fault("gpu-lost", node="n1")
        assert answer["nodes"] == ["n1"]
        await driver.until_resources("n1", gpu=7)
        assert await driver.resources("n1", "capacity") == {"nvidia.com/gpu": 8}

        async def discovered():
            return (await driver.labels("n1"))["nvidia.com/gpu.count"] == "7"

        await driver.until(discovered, "the label with 7")
        assert [gpu["healthy"] for gpu in (await driver.matrix("n1"))["gpus"]] == [True] * 7 + [False]
        for pod in await driver.pods("gpu-operator", app="nvidia-device-plugin-daemonset"):
            await driver.evict(pod)

        async def counted():
            return await driver.resources("n1", "capacity") == {"nvidia.com/gpu": 7}

        await driver.until(counted, "a capacity of 7")


async def test_a_lost_gpu_takes_its_instances_along():
    async with mig_cluster(n1="all-3g.40gb") as driver:
        await driver.fault("gpu-lost", node="n1", gpu=2)
        await driver.until_resources("n1", mig_3g_40gb=14)
        matrix = await driver.matrix("n1")
        assert not matrix["gpus"][2]["healthy"]
        assert matrix["gpus"][2]["uuid"] not in matrix["mig"]
        assert (await driver.labels("n1"))["nvidia.com/mig-3g.40gb.count"] == "14"
        with pytest.raises(AssertionError, match="no GPU 8"):
            await driver.fault("gpu-lost", node="n1", gpu=8)


async def test_label_drift_shows_other_links_than_the_product_says():
    async with mig_cluster(n1="all-disabled") as driver:
        assert (await driver.matrix("n1"))["links"][0][1] == "NV12"
        await driver.fault("label-drift", node="n1")

        async def drifted():
            return (await driver.matrix("n1"))["links"][0][1:8:3] == ["PIX", "SYS", "SYS"]

        await driver.until(drifted, "PCIe links")
        assert (await driver.labels("n1"))["nvidia.com/gpu.product"] == PRODUCT
        assert [each["name"] for each in await driver.faults()] == ["label-drift"]
        await driver.lift("label-drift", node="n1")

        async def back():
            return (await driver.matrix("n1"))["links"][0][1] == "NV12"

        await driver.until(back, "NVLink again")


async def test_a_fault_that_fits_no_node_is_refused():
    async with mig_cluster(n1=("", {"model": "l40s"})) as driver:
        for more in ({}, {"node": "n1"}, {"node": "nowhere"}):
            with pytest.raises(AssertionError, match="mig-wedged"):
                await driver.fault("mig-wedged", **more)


async def test_a_layout_that_cannot_be_read_is_none_and_the_node_lives_on():
    async with mig_cluster(n1="all-3g.40gb", n2="all-disabled") as driver:
        for text in ("no JSON", '{"9": []}', '{"0": 3}', "[]"):
            await driver.annotate_node("n1", **{"mig-layout": text})
            await driver.annotate_node("n1", sharing="time-slicing:many")
        await driver.relabel("n1", "gpu5-1g.10gb")
        await driver.until_resources("n1", gpu=7, mig_1g_10gb=7)


async def test_an_operand_does_not_come_back_past_a_taint_it_does_not_tolerate():
    """Why a node under a MIG change is cordoned and not tainted."""
    async with mig_cluster(n1="all-disabled") as driver:
        taint = {"key": "example.com/mine", "effect": "NoSchedule"}
        await driver.client.patch(NODES, "", "n1", {"spec": {"taints": [taint]}})
        await driver.relabel("n1", "gpu5-1g.10gb")
        await driver.until_state("n1", "success")
        await driver.until_resources("n1")
        await driver.client.patch(NODES, "", "n1", {"spec": {"taints": None}})
        await driver.until_resources("n1", gpu=7, mig_1g_10gb=7)
