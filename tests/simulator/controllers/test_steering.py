"""The steering chain (hold, evict, nominate, delete hold, one PATCH) lands replacements on their target.

Five contenders of the same priority wait for the very room; none may get it.
"""

import asyncio

import pytest

from apps.simulator.client import (
    DEPLOYMENTS,
    JOBS,
    PODS,
    PRIORITY_CLASSES,
    STATEFUL_SETS,
)
from tests.simulator.cluster import GATE, make_nodes, replicated, running, template

pytestmark = pytest.mark.asyncio

SOURCE, TARGET = "gpu-1", "gpu-2"


async def add_hold(driver, gpus):
    await driver.create(PRIORITY_CLASSES, "paper-hold", {"value": 0, "preemptionPolicy": "Never"})
    hold = await driver.create_pod(
        "hold",
        gpus,
        priorityClassName="paper-hold",
        nodeSelector={"defrag.gpu.internal/never": "true"},
    )
    return await driver.patch_pod(hold, {"status": {"nominatedNodeName": TARGET}}, sub="status")


async def add_contenders(driver, gpus):
    for number in range(5):
        await driver.create_pod(f"contender-{number}", gpus)
        await driver.until_refused(f"contender-{number}")


async def steer(driver, replacement):
    """What the console does on the gated pod's ADDED event."""
    await driver.patch_pod(replacement, {"status": {"nominatedNodeName": TARGET}}, sub="status")
    await driver.client.delete(PODS, "work", "hold")
    body = {
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": TARGET},
            "schedulingGates": [{"$patch": "delete", "name": GATE}],
        }
    }
    await driver.patch_pod(replacement, body, strategic=True)


async def fill(driver):
    """The source holds the mover and a filler, the target a filler; two GPUs are free on the target."""
    for name, node, gpus in (("fill-1", SOURCE, 6), ("fill-2", TARGET, 6)):
        await driver.create_pod(name, gpus, nodeSelector={"kubernetes.io/hostname": node})
        await driver.until_phase(name, "Running")


async def find_gated(driver, app, old_uid):
    async def ask():
        for pod in await driver.pods(app=app):
            fresh = pod["metadata"]["uid"] != old_uid and not pod["metadata"].get("deletionTimestamp")
            if fresh and pod["spec"].get("schedulingGates"):
                return pod
        return None

    return await driver.until(ask, "a gated replacement", 20)


OWNERS = {
    "deployment": (DEPLOYMENTS, lambda: replicated("mover", 1, 2)),
    "statefulset": (STATEFUL_SETS, lambda: replicated("mover", 1, 2)),
    "job": (
        JOBS,
        lambda: {
            "spec": {
                "completions": 1,
                "parallelism": 1,
                "template": template("mover", 2, restartPolicy="Never"),
            }
        },
    ),
}


@pytest.mark.parametrize("kind", OWNERS)
async def test_the_replacement_lands_on_its_target_past_five_contenders(kind):
    resource, spec = OWNERS[kind]
    async with running(make_nodes(2).build()) as driver:
        await fill(driver)
        # At CREATE every pod of this owner gets the gate, as a steering webhook would put it on.
        body = spec()
        body["spec"]["template"]["spec"]["schedulingGates"] = [{"name": GATE}]
        await driver.create(resource, "mover", body)
        first = await find_gated(driver, "mover", "")
        ungate = {
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": SOURCE},
                "schedulingGates": [{"$patch": "delete", "name": GATE}],
            }
        }
        await driver.patch_pod(first, ungate, strategic=True)
        await driver.until_phase(first["metadata"]["name"], "Running")

        await add_hold(driver, 2)
        await asyncio.sleep(0.1)
        await add_contenders(driver, 2)
        await driver.evict(first)
        replacement = await find_gated(driver, "mover", first["metadata"]["uid"])
        await steer(driver, replacement)
        bound = await driver.until_bound(replacement["metadata"]["name"])
        assert bound["metadata"]["uid"] == replacement["metadata"]["uid"]
        assert bound["spec"]["nodeName"] == TARGET
        assert "nominatedNodeName" not in bound["status"]
        await driver.until_phase(replacement["metadata"]["name"], "Running")

        # One contender gets the room that was left behind, nobody the target's.
        async def winners():
            pods = [p for p in await driver.pods() if p["metadata"]["name"].startswith("contender")]
            return [p["spec"]["nodeName"] for p in pods if p["spec"].get("nodeName")]

        assert await driver.until(winners, "a contender on the source") == [SOURCE]


async def test_a_hold_yields_to_higher_priority_only():
    async with running(make_nodes(2).build()) as driver:
        await driver.create_pod("fill-1", 8, nodeSelector={"kubernetes.io/hostname": SOURCE})
        await driver.until_phase("fill-1", "Running")
        await add_hold(driver, 8)
        await asyncio.sleep(0.1)
        await driver.create_pod("same", 1)
        assert "2 Insufficient nvidia.com/gpu" in await driver.until_refused("same")
        await driver.create(PRIORITY_CLASSES, "urgent", {"value": 9, "preemptionPolicy": "Never"})
        await driver.create_pod("higher", 1, priorityClassName="urgent")
        assert (await driver.until_bound("higher"))["spec"]["nodeName"] == TARGET
        assert (await driver.pod("hold"))["status"]["nominatedNodeName"] == TARGET
        await driver.client.delete(PODS, "work", "hold")
        assert (await driver.until_bound("same"))["spec"]["nodeName"] == TARGET


async def test_a_hold_that_may_preempt_loses_its_nomination():
    async with running(make_nodes(1).build()) as driver:
        hold = await driver.create_pod("hold", 2, nodeSelector={"defrag.gpu.internal/never": "true"})
        await driver.until_refused("hold")
        await driver.patch_pod(hold, {"status": {"nominatedNodeName": "gpu-1"}}, sub="status")
        # Any change of the pod makes the scheduler try again.
        await driver.patch_pod(hold, {"metadata": {"labels": {"touched": "yes"}}})

        async def lost():
            return "nominatedNodeName" not in (await driver.pod("hold"))["status"]

        await driver.until(lost, "nomination lost")
