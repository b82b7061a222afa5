"""Owners bring back what goes, count it as the real controllers do, and clean up."""

import asyncio

import pytest

from apps.simulator.client import (
    BUDGETS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ApiError,
)
from tests.simulator.cluster import make_nodes, replicated, running, template

pytestmark = pytest.mark.asyncio


def job(app, gpus=1, *, seconds=None, code=None, **spec):
    body = template(app, gpus, restartPolicy="Never")
    notes = {"run-seconds": seconds, "exit-code": code}
    marks = {f"sim.gpu.internal/{key}": value for key, value in notes.items() if value}
    body["metadata"]["annotations"] = marks
    return {"spec": {"completions": 1, "parallelism": 1, **spec, "template": body}}


async def conditions_of(driver, resource, name):
    thing = await driver.client.get(resource, "work", name)
    return {
        each["type"]: each["status"] + "/" + each.get("reason", "")
        for each in thing.get("status", {}).get("conditions", [])
    }


async def budget_status(driver, name="guard"):
    return (await driver.client.get(BUDGETS, "work", name)).get("status") or {}


async def test_a_deployments_pod_evicted_under_its_budget_comes_back_and_the_budget_recovers():
    async with running(make_nodes(2).build()) as driver:
        await driver.create(DEPLOYMENTS, "web", replicated("web", 3))
        selector = {"matchLabels": {"app": "web"}}
        await driver.create(BUDGETS, "guard", {"spec": {"maxUnavailable": 1, "selector": selector}})
        pods = await driver.until_ready(3, app="web")

        async def allowed():
            return (await budget_status(driver)).get("disruptionsAllowed") == 1

        await driver.until(allowed, "one disruption allowed")
        await driver.evict(pods[0])
        with pytest.raises(ApiError) as refusal:
            await driver.evict(pods[1])
        assert refusal.value.status == 429
        await driver.until_gone(pods[0]["metadata"]["name"])
        again = await driver.until_ready(3, app="web")
        assert pods[0]["metadata"]["uid"] not in {each["metadata"]["uid"] for each in again}
        await driver.until(allowed, "the budget recovered")
        status = await budget_status(driver)
        assert status["expectedPods"] == 3
        assert not status.get("disruptedPods")


async def test_a_rollout_replaces_all_pods_and_ends_on_one_replicaset():
    async with running(make_nodes(2).build()) as driver:
        await driver.create(DEPLOYMENTS, "web", replicated("web", 4))
        old = {each["metadata"]["uid"] for each in await driver.until_ready(4, app="web")}
        image = {
            "containers": [{**template("web")["spec"]["containers"][0], "image": "registry.example/b:2"}]
        }
        await driver.client.patch(DEPLOYMENTS, "work", "web", {"spec": {"template": {"spec": image}}})

        async def rolled():
            pods = await driver.pods(app="web")
            return len(pods) == 4 and not old & {each["metadata"]["uid"] for each in pods}

        await driver.until(rolled, "all pods new", 25)
        sets, _ = await driver.client.list(REPLICA_SETS, "work")
        assert sorted(each["spec"]["replicas"] for each in sets) == [0, 4]


async def test_scaling_down_takes_the_pod_that_does_not_run():
    async with running(make_nodes(1).build()) as driver:
        await driver.create(DEPLOYMENTS, "web", replicated("web", 1, 6))
        await driver.until_ready(1, app="web")
        await driver.client.patch(DEPLOYMENTS, "work", "web", {"spec": {"replicas": 2}})

        async def two():
            return len(await driver.pods(app="web")) == 2

        await driver.until(two, "a second pod")
        running_pod = next(p for p in await driver.pods(app="web") if p["spec"].get("nodeName"))
        await driver.client.patch(DEPLOYMENTS, "work", "web", {"spec": {"replicas": 1}})

        async def one():
            return len(await driver.pods(app="web")) == 1

        await driver.until(one, "one pod left")
        left = await driver.pods(app="web")
        assert left[0]["metadata"]["uid"] == running_pod["metadata"]["uid"]


async def test_a_statefulset_starts_in_order_and_keeps_names():
    async with running(make_nodes(1).build()) as driver:
        await driver.create(STATEFUL_SETS, "db", replicated("db", 3))
        pods = await driver.until_ready(3, app="db")
        born = {p["metadata"]["name"]: p["status"]["startTime"] for p in pods}
        assert sorted(born) == ["db-0", "db-1", "db-2"]
        assert born["db-0"] <= born["db-1"] <= born["db-2"]
        old = await driver.pod("db-1")
        await driver.evict(old)

        async def replaced():
            pods = await driver.pods(app="db")
            return [
                p
                for p in pods
                if p["metadata"]["name"] == "db-1" and p["metadata"]["uid"] != old["metadata"]["uid"]
            ]

        await driver.until(replaced, "db-1 anew")
        await driver.until_ready(3, app="db")


async def test_a_job_completes_and_its_pods_lose_the_tracking_finalizer():
    async with running(make_nodes(1).build()) as driver:
        await driver.create(JOBS, "sum", job("sum", seconds="5", completions=3, parallelism=2))

        async def complete():
            return (await conditions_of(driver, JOBS, "sum")).get("Complete") == "True/CompletionsReached"

        await driver.until(complete, "job complete")
        status = (await driver.client.get(JOBS, "work", "sum"))["status"]
        assert (status["succeeded"], status.get("failed"), status.get("active")) == (3, None, None)

        async def free():
            return all(not p["metadata"].get("finalizers") for p in await driver.pods(app="sum"))

        await driver.until(free, "finalizers gone")
        assert len(await driver.pods(app="sum")) == 3


async def test_an_evicted_job_pod_counts_as_a_failure_and_comes_back_after_the_backoff():
    async with running(make_nodes(1).build(), scale=10) as driver:
        await driver.create(JOBS, "sum", job("sum"))
        pod = (await driver.until_ready(1, app="sum"))[0]
        loop = asyncio.get_running_loop()
        started = loop.time()
        await driver.evict(pod)

        async def again():
            return [p for p in await driver.pods(app="sum") if p["metadata"]["uid"] != pod["metadata"]["uid"]]

        await driver.until(again, "the replacement")
        assert 0.9 <= loop.time() - started < 5
        assert (await driver.client.get(JOBS, "work", "sum"))["status"]["failed"] == 1


async def test_a_job_fails_past_its_limit_but_not_for_ignored_disruptions():
    async with running(make_nodes(1).build()) as driver:
        await driver.create(JOBS, "bad", job("bad", seconds="1", code="3", backoffLimit=0))

        async def failed():
            return (await conditions_of(driver, JOBS, "bad")).get("Failed") == "True/BackoffLimitExceeded"

        await driver.until(failed, "job failed")
        rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        await driver.create(JOBS, "kept", job("kept", backoffLimit=0, podFailurePolicy={"rules": rules}))
        pod = (await driver.until_ready(1, app="kept"))[0]
        await driver.evict(pod)
        await driver.until_gone(pod["metadata"]["name"])
        await driver.until_ready(1, app="kept")
        assert "Failed" not in await conditions_of(driver, JOBS, "kept")


async def test_a_daemonset_covers_every_node_and_deleting_it_in_the_foreground_leaves_nothing():
    async with running(make_nodes(3).build()) as driver:
        await driver.create(
            DAEMON_SETS,
            "agent",
            {"spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", 0)}},
        )
        pods = await driver.until_ready(3, app="agent")
        assert {each["spec"]["nodeName"] for each in pods} == {"gpu-1", "gpu-2", "gpu-3"}
        path = DAEMON_SETS.path("work", "agent")
        await driver.client.request("DELETE", path, body={"propagationPolicy": "Foreground"})

        async def gone():
            left, _ = await driver.client.list(DAEMON_SETS, "work")
            return not left and not await driver.pods()

        await driver.until(gone, "all gone")
