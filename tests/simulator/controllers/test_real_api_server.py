"""The same controllers against a real kube-apiserver, which has no controllers of its own here."""

import os
from pathlib import Path

import pytest

from apps.simulator.client import (
    BUDGETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    STATEFUL_SETS,
    ApiError,
    KubernetesClient,
)
from apps.simulator.runner import ControlPlane
from tests.control_plane import WHY_SKIPPED
from tests.control_plane import ControlPlane as RealControlPlane
from tests.simulator.cluster import Driver, replicated, template

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.control_plane,
    pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason=WHY_SKIPPED),
]


@pytest.fixture(scope="module")
def bare_server(tmp_path_factory):
    """etcd and kube-apiserver alone, whatever else the folder holds."""
    programs = tmp_path_factory.mktemp("programs")
    for name in ("etcd", "kube-apiserver"):
        (programs / name).symlink_to(Path(os.environ["KUBEBUILDER_ASSETS"]) / name)
    real = RealControlPlane(programs, tmp_path_factory.mktemp("control-plane"))
    try:
        real.start()
        yield real
    finally:
        real.stop()


async def test_nodes_owners_budgets_and_namespaces_live_on_a_real_server(bare_server):
    login = {
        "server": bare_server.url,
        "ca_pem": bare_server.certificate.ca_pem,
        "token": bare_server.token,
    }
    controllers = ControlPlane(KubernetesClient(**login), time_scale=20)
    await controllers.start()
    try:
        async with KubernetesClient(**login) as client:
            await live_through(Driver(client))
    finally:
        await controllers.stop()


async def live_through(driver):
    client = driver.client
    await client.create(NAMESPACES, "", {"metadata": {"name": "work"}})
    for name in ("gpu-1", "gpu-2"):
        marks = {"sim.gpu.internal/hardware": "a100-sxm4-80gb:8"}
        await client.create(NODES, "", {"metadata": {"name": name, "annotations": marks}})
    one = {"completions": 1, "parallelism": 1, "template": template("sum", 1, restartPolicy="Never")}

    async def admitted():
        try:
            return await driver.create(JOBS, "sum", {"spec": one})
        except ApiError:
            return None

    await driver.until(admitted, "the namespace takes objects")
    await driver.create(DEPLOYMENTS, "web", replicated("web", 3))
    await driver.create(STATEFUL_SETS, "db", replicated("db", 2))
    selector = {"matchLabels": {"app": "web"}}
    await driver.create(BUDGETS, "guard", {"spec": {"maxUnavailable": 1, "selector": selector}})
    web = await driver.until_ready(3, 30, app="web")
    await driver.until_ready(2, 30, app="db")
    sums = await driver.until_ready(1, 30, app="sum")

    async def allowed():
        status = (await client.get(BUDGETS, "work", "guard")).get("status") or {}
        return status.get("disruptionsAllowed") == 1

    await driver.until(allowed, "the budget counted")
    await driver.evict(web[0])
    await driver.evict(sums[0])
    await driver.until_gone(web[0]["metadata"]["name"])
    await driver.until_gone(sums[0]["metadata"]["name"])
    await driver.until_ready(3, 30, app="web")
    await driver.until_ready(1, 30, app="sum")
    await driver.until(allowed, "the budget recovered")
    await driver.create_pod("big", gpus=8)
    assert "2 Insufficient nvidia.com/gpu" in await driver.until_refused("big")
    await client.delete(NAMESPACES, "", "work")

    async def gone():
        return "work" not in {each["metadata"]["name"] for each in (await client.list(NAMESPACES))[0]}

    await driver.until(gone, "the namespace gone", 40)
