"""The MIG manager of a simulated node: each of its ways from a changed label to an end, over HTTP."""

import asyncio

import pytest

from apps.simulator.client import CONFIG_MAPS, NODES
from tests.simulator.mig import CONFIG, DEPLOY, PAUSED, SCALE, STATE, mig_cluster

pytestmark = pytest.mark.asyncio

OPERANDS = ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm")
GPU5 = "gpu5-1g.10gb"


async def follow(driver, node, seconds):
    """Every (state, device plugin's label, allocatable) that is seen in so many seconds, each once."""
    seen = []
    ends = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < ends:
        labels = await driver.labels(node)
        now = (
            labels.get(STATE),
            labels[f"{DEPLOY}device-plugin"],
            tuple(sorted((await driver.resources(node)).items())),
        )
        if not seen or seen[-1] != now:
            seen.append(now)
        await asyncio.sleep(0.01)
    return seen


async def test_one_gpu_of_an_idle_node_is_cut_and_everything_else_stays():
    async with mig_cluster(n1="all-disabled", scale=30) as driver:
        following = asyncio.create_task(follow(driver, "n1", 3))
        await driver.relabel("n1", GPU5)
        seen = await following
        seen = seen[[state for state, _, _ in seen].index("pending") :]
        states = [state for state, _, _ in seen]
        assert set(states[: states.index("success")]) == {"pending"}
        assert set(states[states.index("success") :]) == {"success"}
        paused = [offered for _, plugin, offered in seen if plugin == PAUSED]
        assert paused[-1] == (), "while the device plugin is away nothing is allocatable"
        fresh = next(offered for state, _, offered in reversed(seen) if state == "success")
        assert dict(fresh) == {"nvidia.com/gpu": 7, "nvidia.com/mig-1g.10gb": 7}
        first = next(offered for state, _, offered in seen if state == "success")
        assert dict(first) != dict(fresh), "success is told before the device plugin is back"
        labels = await driver.labels("n1")
        assert {labels[f"{DEPLOY}{each}"] for each in OPERANDS} == {"true"}
        assert labels["nvidia.com/mig-1g.10gb.count"] == "7"
        assert labels["nvidia.com/mig-1g.10gb.product"] == "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"
        assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.product"]) == (
            "8",
            "NVIDIA-A100-SXM4-80GB",
        )
        matrix = await driver.matrix("n1")
        assert list(matrix["mig"]) == [matrix["gpus"][5]["uuid"]]
        assert [one["start"] for one in matrix["mig"][matrix["gpus"][5]["uuid"]]] == [0, 1, 2, 3, 4, 5, 6]


async def test_a_configuration_that_is_in_force_succeeds_at_once_and_the_same_value_is_no_retry():
    async with mig_cluster(n1="all-1g.10gb") as driver:
        data = await driver.client.get(CONFIG_MAPS, "gpu-operator", "default-mig-parted-config")
        text = data["data"]["config.yaml"] + "  twin:\n    - devices: all\n      mig-enabled: true\n"
        text += '      mig-devices:\n        "1g.10gb": 7\n'
        await driver.client.patch(
            CONFIG_MAPS, "gpu-operator", "default-mig-parted-config", {"data": {"config.yaml": text}}
        )
        await asyncio.sleep(4 * 60 / SCALE)  # its kubelet shows the change about a minute later
        following = asyncio.create_task(follow(driver, "n1", 0.6))
        await driver.relabel("n1", "twin")
        assert "pending" not in [state for state, _, _ in await following]
        assert (await driver.labels("n1"))[STATE] == "success"
        await driver.relabel("n1", "twin")
        await asyncio.sleep(0.4)
        assert STATE not in await driver.labels("n1"), "the same value again wakes nobody up"


async def test_an_unknown_configuration_fails_and_changes_nothing():
    async with mig_cluster(n1="all-balanced") as driver:
        before = await driver.resources("n1")
        await driver.relabel("n1", "no-such-config")
        await driver.until_state("n1", "failed")
        assert await driver.resources("n1") == before
        assert (await driver.labels("n1"))[f"{DEPLOY}device-plugin"] == "true"


async def test_a_pod_on_the_gpu_makes_the_change_fail_and_a_pod_elsewhere_does_not():
    async with mig_cluster(n1="all-disabled", n2="all-disabled") as driver:
        await driver.create_mig_pod("elsewhere", "gpu", "n1")
        await driver.until_phase("elsewhere", "Running")
        for number in range(8):
            await driver.create_mig_pod(f"all-{number}", "gpu", "n2")
            await driver.until_phase(f"all-{number}", "Running")
        await driver.relabel("n1", GPU5)
        await driver.until_resources("n1", gpu=7, mig_1g_10gb=7)
        await driver.relabel("n2", GPU5)
        await driver.until_state("n2", "failed")
        await driver.until_resources("n2", gpu=8)
        assert (await driver.pod("all-5"))["status"]["phase"] == "Running", "user pods are not looked at"


async def test_instances_in_use_on_another_gpu_forbid_a_change_of_mode_only():
    """A change of mode clears every GPU that the configuration covers."""
    async with mig_cluster(n1="half-1g.10gb", n2="all-2g.20gb") as driver:
        await driver.create_mig_pod("user-1", "mig-1g.10gb", "n1")
        await driver.create_mig_pod("user-2", "mig-2g.20gb", "n2")
        for number in (1, 2):
            await driver.until_phase(f"user-{number}", "Running")
        await driver.relabel("n1", "all-1g.10gb")
        await driver.until_state("n1", "failed")
        await driver.relabel("n2", "all-3g.40gb")
        await driver.until_state("n2", "failed")
        assert list(await driver.holders("n2")) == [
            (await driver.matrix("n2"))["mig"][(await driver.matrix("n2"))["gpus"][0]["uuid"]][0]["uuid"]
        ]


async def test_without_the_label_the_operator_asks_for_no_mig_at_all():
    async with mig_cluster(n1="all-1g.10gb") as driver:
        body = {"metadata": {"labels": {CONFIG: None, STATE: None}}}
        await driver.client.patch(NODES, "", "n1", body)
        await driver.until_resources("n1", gpu=8)
        assert (await driver.labels("n1"))[CONFIG] == "all-disabled"


async def test_an_absent_manager_does_nothing_and_acts_when_it_comes_back():
    async with mig_cluster(n1="all-disabled", n2="all-disabled") as driver:
        await driver.fault("mig-manager-absent", node="n1")
        await driver.until_state("n2", "success")

        async def gone():
            return not await manager_pods(driver, "n1")

        await driver.until(gone, "the manager of n1 gone")
        for node in ("n1", "n2"):
            await driver.relabel(node, GPU5)
        await driver.until_resources("n2", gpu=7, mig_1g_10gb=7)
        assert STATE not in await driver.labels("n1")
        assert (await driver.lift("mig-manager-absent", node="n1"))["removed"]
        await driver.until_resources("n1", gpu=7, mig_1g_10gb=7)
        await driver.fault("mig-manager-absent")

        async def none_left():
            return not await manager_pods(driver, "n1") and not await manager_pods(driver, "n2")

        await driver.until(none_left, "every manager gone")


async def manager_pods(driver, node):
    pods = await driver.pods("gpu-operator", app="nvidia-mig-manager")
    return [pod for pod in pods if pod["spec"].get("nodeName") == node]


async def test_a_silent_manager_runs_and_does_nothing():
    async with mig_cluster(n1="all-disabled") as driver:
        await driver.fault("mig-manager-silent")
        await driver.relabel("n1", GPU5)
        await asyncio.sleep(0.5)
        assert STATE not in await driver.labels("n1")
        assert len(await manager_pods(driver, "n1")) == 1
        await driver.until_resources("n1", gpu=8)


async def test_a_failed_change_leaves_the_gpu_uncut_and_the_earlier_value_mends_it():
    async with mig_cluster(n1="all-disabled") as driver:
        await driver.fault("mig-failed", node="n1", times=1)
        await driver.relabel("n1", GPU5)
        await driver.until_state("n1", "failed")
        await driver.until_resources("n1", gpu=7)
        await driver.relabel("n1", "all-disabled")
        await driver.until_state("n1", "success")
        await driver.until_resources("n1", gpu=8)


async def test_success_with_wrong_resources():
    async with mig_cluster(n1="all-disabled") as driver:
        await driver.fault("mig-wrong-resources", node="n1")
        await driver.relabel("n1", GPU5)
        await driver.until_state("n1", "success")
        await driver.until_resources("n1", gpu=7, mig_1g_10gb=6)
        assert (await driver.labels("n1"))["nvidia.com/mig-1g.10gb.count"] == "6"


async def test_a_stale_success_comes_at_once_and_means_nothing():
    async with mig_cluster(n1="all-disabled") as driver:
        await driver.fault("mig-stale-success", node="n1")
        following = asyncio.create_task(follow(driver, "n1", 0.6))
        await driver.relabel("n1", GPU5)
        states = [state for state, _, _ in await following]
        assert states[-1] == "success"
        assert "pending" not in states
        assert await driver.resources("n1") == {"nvidia.com/gpu": 8}


async def test_a_wedged_change_hangs_for_ever_and_the_earlier_value_takes_it_back():
    async with mig_cluster(n1="all-disabled", scale=4 * SCALE) as driver:
        await driver.fault("mig-wedged", node="n1")
        await driver.relabel("n1", GPU5)
        await driver.until_state("n1", "pending")
        await asyncio.sleep(2 * 300 / (4 * SCALE))
        labels = await driver.labels("n1")
        assert labels[STATE] == "pending"
        assert {labels[f"{DEPLOY}{each}"] for each in OPERANDS} == {PAUSED}
        assert await driver.resources("n1") == {}
        assert await driver.resources("n1", "capacity") == {}, "after five minutes the kubelet forgets them"
        await driver.relabel("n1", "all-disabled")
        await driver.until_state("n1", "success")
        await driver.until_resources("n1", gpu=8)
        hung = await driver.pods("gpu-operator", app="nvidia-dcgm-exporter")
        assert [bool(pod["metadata"].get("deletionTimestamp")) for pod in hung] == [True]
        await driver.lift("mig-wedged", node="n1")

        async def whole():
            pods = await driver.pods("gpu-operator", app="nvidia-dcgm-exporter")
            return len(pods) == 1 and not pods[0]["metadata"].get("deletionTimestamp")

        await driver.until(whole, "the exporter back")


async def test_a_wedged_change_is_tried_anew_by_a_new_manager_only():
    async with mig_cluster(n1="all-disabled", scale=8 * SCALE) as driver:
        await driver.fault("mig-wedged")
        await driver.relabel("n1", GPU5)
        await driver.until_state("n1", "pending")
        await asyncio.sleep(1.5 * 300 / (8 * SCALE))
        await driver.lift("mig-wedged")
        await asyncio.sleep(0.3)
        assert (await driver.labels("n1"))[STATE] == "pending"
        await driver.evict((await manager_pods(driver, "n1"))[0])
        await driver.until_resources("n1", gpu=7, mig_1g_10gb=7)


async def test_a_change_that_needs_a_reboot():
    async with mig_cluster(n1="all-disabled") as driver:
        boot = (await driver.node("n1"))["status"]["nodeInfo"]["bootID"]
        await driver.create_mig_pod("user", "gpu", "n1")
        await driver.until_phase("user", "Running")
        await driver.fault("mig-reboot", node="n1", times=1)
        await driver.relabel("n1", GPU5)
        await driver.until_state("n1", "rebooting")
        await driver.until_state("n1", "success")
        await driver.until_resources("n1", gpu=7, mig_1g_10gb=7)
        assert (await driver.node("n1"))["status"]["nodeInfo"]["bootID"] != boot
        user = await driver.pod("user")
        assert (user["status"]["phase"], user["status"]["reason"]) == ("Failed", "UnexpectedAdmissionError")
        manager = (await manager_pods(driver, "n1"))[0]
        assert manager["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_a_reboot_survives_an_api_server_that_fails_for_a_moment():
    async with mig_cluster(n1="all-disabled") as driver:
        boot = (await driver.node("n1"))["status"]["nodeInfo"]["bootID"]
        await driver.fault("mig-reboot", node="n1", times=1)
        first = {"method": "PATCH", "path_regex": "/nodes/n1/status$"}
        await driver.relabel("n1", GPU5)
        await driver.until_state("n1", "rebooting")
        await driver.fault("away", action="status", code=503, times=1, match=first)
        await driver.until_state("n1", "success")
        assert "away" not in {fault["name"] for fault in await driver.faults()}  # it has hit
        assert (await driver.node("n1"))["status"]["nodeInfo"]["bootID"] != boot


async def test_somebody_else_changes_the_label_in_between():
    async with mig_cluster(n1="all-disabled") as driver:
        await driver.fault("mig-label-changed-by-other", node="n1")
        await driver.relabel("n1", GPU5)

        async def changed():
            return (await driver.labels("n1"))[CONFIG] == "all-balanced"

        await driver.until(changed, "another value")
        await driver.until_resources("n1", mig_1g_10gb=16, mig_2g_20gb=8, mig_3g_40gb=8)


async def test_a_layout_is_lost_at_a_reboot():
    async with mig_cluster(n1="all-3g.40gb") as driver:
        await driver.fault("mig-layout-lost")
        await driver.until_resources("n1")
        labels = await driver.labels("n1")
        assert (labels[CONFIG], labels[STATE]) == ("all-3g.40gb", "success")
        assert "nvidia.com/mig-3g.40gb.count" not in labels
        assert (await driver.matrix("n1"))["mig"] == {}
