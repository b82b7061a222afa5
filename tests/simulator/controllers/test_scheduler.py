"""The simulated scheduler decides like the stock one, seen over the API."""

import json

import pytest

from apps.simulator.client import BUDGETS, NODES, PODS, PRIORITY_CLASSES
from tests.simulator.cluster import GATE, make_nodes, pod_spec, running

pytestmark = pytest.mark.asyncio


async def add_class(driver, name, value, policy="PreemptLowerPriority"):
    await driver.create(PRIORITY_CLASSES, name, {"value": value, "preemptionPolicy": policy})


async def test_it_binds_once_room_appears():
    async with running(make_nodes(1).build()) as driver:
        await driver.create_pod("first", gpus=8)
        await driver.until_phase("first", "Running")
        await driver.create_pod("second", gpus=1)
        await driver.until_refused("second")
        await driver.client.delete(PODS, "work", "first")
        assert (await driver.until_bound("second"))["spec"]["nodeName"] == "gpu-1"


async def test_a_gated_pod_waits_and_is_bound_after_one_patch_that_narrows_and_ungates():
    async with running(make_nodes(3).build()) as driver:
        pod = await driver.create_pod("gated", gpus=1, schedulingGates=[{"name": GATE}])
        await driver.create_pod("witness", gpus=1)
        await driver.until_phase("witness", "Running")
        assert "nodeName" not in (await driver.pod("gated"))["spec"]
        body = {
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": "gpu-2"},
                "schedulingGates": [{"$patch": "delete", "name": GATE}],
            }
        }
        await driver.patch_pod(pod, body, strategic=True)
        assert (await driver.until_bound("gated"))["spec"]["nodeName"] == "gpu-2"


async def test_only_pods_of_the_default_scheduler_are_its_business():
    async with running(make_nodes(1).build()) as driver:
        await driver.create_pod("theirs", schedulerName="kai-scheduler")
        await driver.create_pod("ours")
        await driver.until_phase("ours", "Running")
        assert "nodeName" not in (await driver.pod("theirs"))["spec"]


async def test_preemption_policy_never_waits():
    async with running(make_nodes(1).build()) as driver:
        await add_class(driver, "patient", 500, "Never")
        await driver.create_pod("holder", gpus=8)
        await driver.until_phase("holder", "Running")
        await driver.create_pod("waits", gpus=8, priorityClassName="patient")
        assert "not eligible due to preemptionPolicy=Never." in await driver.until_refused("waits")
        assert (await driver.pod("holder"))["status"]["phase"] == "Running"


async def test_preemption_prefers_the_victim_that_no_budget_protects():
    scene = make_nodes(2)
    async with running(scene.build()) as driver:
        await add_class(driver, "urgent", 500)
        for number, app in ((1, "guarded"), (2, "free")):
            where = {"kubernetes.io/hostname": f"gpu-{number}"}
            await driver.create_pod(app, 8, meta={"labels": {"app": app}}, nodeSelector=where)
            await driver.until_phase(app, "Running")
        selector = {"matchLabels": {"app": "guarded"}}
        await driver.create(BUDGETS, "guard", {"spec": {"minAvailable": 1, "selector": selector}})

        async def counted():
            budget = await driver.client.get(BUDGETS, "work", "guard")
            return (budget.get("status") or {}).get("currentHealthy") == 1

        await driver.until(counted, "budget counted")
        await driver.create_pod("vip", gpus=8, priorityClassName="urgent")
        assert (await driver.until_bound("vip"))["spec"]["nodeName"] == "gpu-2"


async def test_taints_need_a_toleration_and_adding_one_wakes_the_pod():
    async with running(make_nodes(1).build()) as driver:
        taint = {"key": "held", "value": "gang", "effect": "NoSchedule"}
        await driver.client.patch(NODES, "", "gpu-1", {"spec": {"taints": [taint]}})
        pod = await driver.create_pod("waits", gpus=1)
        assert "untolerated taint {held: gang}" in await driver.until_refused("waits")
        tolerations = [*pod["spec"]["tolerations"], {"key": "held", "value": "gang", "effect": "NoSchedule"}]
        await driver.patch_pod(pod, {"spec": {"tolerations": tolerations}})
        await driver.until_bound("waits")


async def test_anti_affinity_spread_and_host_ports_keep_pods_apart():
    async with running(make_nodes(2).build()) as driver:
        labels = {"labels": {"app": "a"}}
        select = {"labelSelector": {"matchLabels": {"app": "a"}}}
        apart = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", **select}
                ]
            }
        }
        for name in ("a-1", "a-2", "a-3"):
            await driver.create_pod(name, meta=labels, affinity=apart)
        placed = await _placed(driver, 2)
        assert {(await driver.pod(name))["spec"]["nodeName"] for name in placed} == {"gpu-1", "gpu-2"}
        left = ({"a-1", "a-2", "a-3"} - set(placed)).pop()
        assert "2 node(s) didn't match pod anti-affinity rules" in await driver.until_refused(left)

        port = {
            "containers": [{**pod_spec()["containers"][0], "ports": [{"hostPort": 80, "containerPort": 80}]}]
        }
        where = {"nodeSelector": {"kubernetes.io/hostname": "gpu-1"}}
        await driver.create_pod("port-1", **port, **where)
        await driver.until_bound("port-1")
        await driver.create_pod("port-2", **port, **where)
        assert "free ports" in await driver.until_refused("port-2")

        even = {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "s"}},
                }
            ]
        }
        for number in range(4):
            await driver.create_pod(f"s-{number}", meta={"labels": {"app": "s"}}, **even)
        spread = [(await driver.until_bound(f"s-{number}"))["spec"]["nodeName"] for number in range(4)]
        assert sorted(spread) == ["gpu-1", "gpu-1", "gpu-2", "gpu-2"]


async def _placed(driver, count):
    async def ask():
        pods = [p for p in await driver.pods(app="a") if p["spec"].get("nodeName")]
        return [p["metadata"]["name"] for p in pods] if len(pods) >= count else None

    return await driver.until(ask, f"{count} pods placed")


async def test_higher_priority_is_tried_first():
    async with running(make_nodes(1).build()) as driver:
        await add_class(driver, "higher", 900, "Never")
        await driver.create_pod("holder", gpus=8)
        await driver.until_phase("holder", "Running")
        await driver.create_pod("low", gpus=8)
        await driver.until_refused("low")
        await driver.create_pod("high", gpus=8, priorityClassName="higher")
        await driver.until_refused("high")
        await driver.client.delete(PODS, "work", "holder")
        await driver.until_bound("high")
        assert "nodeName" not in (await driver.pod("low"))["spec"]


async def test_holders_name_the_pod_and_its_well_linked_devices():
    async with running(make_nodes(1, gpus=4, model="l40s").build()) as driver:
        await driver.create_pod("one", gpus=1)
        await driver.until_phase("one", "Running")
        await driver.create_pod("two", gpus=2)
        two = await driver.until_phase("two", "Running")

        async def ask():
            node = await driver.node("gpu-1")
            notes = node["metadata"]["annotations"]
            holders = json.loads(notes["topology.gpu.internal/holders"])["devices"]
            mine = [uuid for uuid, held in holders.items() if held[0]["uid"] == two["metadata"]["uid"]]
            return (mine, json.loads(notes["topology.gpu.internal/matrix"])) if len(mine) == 2 else None

        uuids, matrix = await driver.until(ask, "two devices held")
        at = [each["index"] for each in matrix["gpus"] if each["uuid"] in uuids]
        assert matrix["links"][at[0]][at[1]] == "PIX"
