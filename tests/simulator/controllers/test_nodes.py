"""Kubelets and node controllers: devices, cordons, silent nodes, what happens to the pods there."""

import json

import pytest

from apps.simulator.client import DEPLOYMENTS, LEASES, NODES, PODS
from tests.simulator.cluster import make_nodes, replicated, running

pytestmark = pytest.mark.asyncio


def taints_of(node):
    return {(each["key"].rpartition("/")[2], each["effect"]) for each in node["spec"].get("taints") or []}


def ready_of(node):
    return next(each["status"] for each in node["status"]["conditions"] if each["type"] == "Ready")


async def until_taints(driver, name, wanted, seconds=20):
    async def ask():
        return taints_of(await driver.node(name)) == wanted

    await driver.until(ask, f"{name} with taints {wanted}", seconds)


async def holders_of(driver, name):
    annotations = (await driver.node(name))["metadata"]["annotations"]
    return json.loads(annotations["topology.gpu.internal/holders"])["devices"]


async def test_a_bare_node_object_is_made_a_whole_node_by_its_kubelet():
    async with running([]) as driver:
        body = {"metadata": {"name": "n1", "annotations": {"sim.gpu.internal/hardware": "h800:8"}}}
        await driver.client.create(NODES, "", body)

        async def whole():
            node = await driver.node("n1")
            return node if not taints_of(node) and node.get("status", {}).get("conditions") else None

        node = await driver.until(whole, "n1 whole")
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H800"
        matrix = json.loads(node["metadata"]["annotations"]["topology.gpu.internal/matrix"])
        assert [len(matrix[key]) for key in ("gpus", "links", "nic_links")] == [8, 8, 8]
        assert matrix["links"][0][:2] == ["X", "NV8"]
        lease = await driver.client.get(LEASES, "kube-node-lease", "n1")
        assert lease["spec"]["holderIdentity"] == "n1"


async def test_a_silent_node_is_tainted_its_pods_leave_after_their_time_and_it_comes_back():
    async with running(make_nodes(2).build(), scale=50) as driver:
        spec = replicated("web", 1, nodeSelector={"topology.kubernetes.io/region": "east-1"})
        spec["spec"]["template"]["spec"]["tolerations"] = [
            {
                "key": f"node.kubernetes.io/{key}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 5,
            }
            for key in ("unreachable", "not-ready")
        ]
        await driver.create(DEPLOYMENTS, "web", spec)
        pod = (await driver.until_ready(1, app="web"))[0]
        silent = pod["spec"]["nodeName"]
        await driver.annotate_node(silent, kubelet="stopped")
        await until_taints(driver, silent, {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")})
        assert ready_of(await driver.node(silent)) == "Unknown"

        async def deleted():
            old = await driver.pod(pod["metadata"]["name"])
            reasons = [each.get("reason") for each in old["status"]["conditions"]]
            return "DeletionByTaintManager" in reasons and old["metadata"].get("deletionTimestamp") and old

        # Nobody ends it there: it stays, Running, until its kubelet is back.
        old = await driver.until(deleted, "deleted by the taint manager")
        assert old["status"]["phase"] == "Running"
        other = await driver.until_ready(1, app="web")
        assert other[0]["spec"]["nodeName"] != silent
        await driver.annotate_node(silent, kubelet=None)
        await driver.until_gone(pod["metadata"]["name"])
        await until_taints(driver, silent, set())


async def test_a_pod_bound_past_the_devices_is_rejected_and_takes_none():
    async with running(make_nodes(1).build()) as driver:
        await driver.create_pod("first", 6)
        await driver.until_phase("first", "Running")
        await driver.create_pod("forced", 4, schedulerName="nobody")
        await driver.client.bind(await driver.pod("forced"), "gpu-1")
        pod = await driver.until_phase("forced", "Failed")
        assert pod["status"]["reason"] == "UnexpectedAdmissionError"
        assert "Requested: 4, Available: 2, which is unexpected" in pod["status"]["message"]
        assert len(await holders_of(driver, "gpu-1")) == 6


async def test_a_sick_gpu_lowers_allocatable_and_is_never_handed_out():
    async with running(make_nodes(1).build()) as driver:
        await driver.annotate_node("gpu-1", unhealthy="3")

        async def fewer():
            node = await driver.node("gpu-1")
            return node if node["status"]["allocatable"]["nvidia.com/gpu"] == "7" else None

        node = await driver.until(fewer, "7 allocatable")
        assert node["status"]["capacity"]["nvidia.com/gpu"] == "8"
        matrix = json.loads(node["metadata"]["annotations"]["topology.gpu.internal/matrix"])
        assert [each["index"] for each in matrix["gpus"] if not each["healthy"]] == [3]
        await driver.create_pod("rest", 7)
        await driver.until_phase("rest", "Running")

        async def held():
            return len(await holders_of(driver, "gpu-1")) == 7

        await driver.until(held, "seven held")
        assert matrix["gpus"][3]["uuid"] not in await holders_of(driver, "gpu-1")


async def test_deletion_honours_the_stop_time_within_the_grace_and_frees_the_devices():
    async with running(make_nodes(1).build(), scale=10) as driver:
        slow = {"annotations": {"sim.gpu.internal/stop-seconds": "8"}}
        await driver.create_pod("slow", 2, meta=slow, terminationGracePeriodSeconds=60)
        await driver.until_phase("slow", "Running")
        await driver.client.delete(PODS, "work", "slow")
        pod = await driver.pod("slow")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 60
        assert pod["status"]["phase"] == "Running"
        assert len(await holders_of(driver, "gpu-1")) == 2
        await driver.until_gone("slow")

        async def free():
            return not await holders_of(driver, "gpu-1")

        await driver.until(free, "devices free")


async def test_a_workload_that_can_save_answers_a_checkpoint_request_once():
    async with running(make_nodes(1).build()) as driver:
        saves = {"annotations": {"sim.gpu.internal/checkpoint-seconds": "3"}}
        for name, meta in (("saves", saves), ("cannot", {})):
            await driver.create_pod(name, meta=meta)
            pod = await driver.until_phase(name, "Running")
            asked = {"defrag.gpu.internal/checkpoint-requested": "2026-01-01T00:00:00.123456Z"}
            await driver.patch_pod(pod, {"metadata": {"annotations": asked}})

        async def done():
            pod = await driver.pod("saves")
            return pod["metadata"]["annotations"].get("defrag.gpu.internal/checkpoint-done")

        assert await driver.until(done, "checkpoint done") > "2026-01-01T00:00:00.123456Z"
        assert (
            "defrag.gpu.internal/checkpoint-done"
            not in (await driver.pod("cannot"))["metadata"]["annotations"]
        )


@pytest.mark.parametrize("claim", ["99999999", "1e30"])
async def test_a_claim_of_absurdly_many_gpus_hangs_nobody(claim):
    async with running(make_nodes(1).build()) as driver:
        status = {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": claim}}
        await driver.client.create(NODES, "", {"metadata": {"name": "liar"}, "status": status})
        await until_taints(driver, "liar", set())
        assert (await driver.node("liar"))["status"]["allocatable"]["nvidia.com/gpu"] == claim
        await driver.create_pod("one", 1, nodeSelector={"kubernetes.io/hostname": "gpu-1"})
        await driver.until_phase("one", "Running")


async def test_annotations_of_no_use_hang_nobody():
    async with running(make_nodes(1).build()) as driver:
        await driver.annotate_node("gpu-1", hardware="warp-drive:8")
        body = {"metadata": {"name": "odd", "annotations": {"sim.gpu.internal/hardware": "h800:many"}}}
        await driver.client.create(NODES, "", body)
        await until_taints(driver, "odd", set())
        await driver.create_pod("one", 1, nodeSelector={"kubernetes.io/hostname": "gpu-1"})
        await driver.until_phase("one", "Running")
