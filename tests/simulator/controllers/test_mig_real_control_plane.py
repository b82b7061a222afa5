"""The operands and the MIG manager on a real control plane: its DaemonSet controller obeys the labels."""

import os
from pathlib import Path

import pytest

from apps.simulator.client import CONFIG_MAPS, DAEMON_SETS, NAMESPACES, NODES, KubernetesClient
from apps.simulator.controllers.gpu_operator.labels import GpuOperator
from apps.simulator.controllers.gpu_operator.mig_manager import MigManagers
from apps.simulator.controllers.kubelet.fleet import KubeletFleet
from apps.simulator.runner import ControlPlane
from tests.control_plane import WHY_SKIPPED
from tests.control_plane import ControlPlane as RealControlPlane
from tests.simulator.mig import DEPLOY, PAUSED, STATE, MigDriver, mig_scene

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.control_plane,
    pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason=WHY_SKIPPED),
]


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    real = RealControlPlane(Path(os.environ["KUBEBUILDER_ASSETS"]), tmp_path_factory.mktemp("plane"))
    try:
        real.start()
        yield real
    finally:
        real.stop()


async def furnish(driver):
    """One A100 node and the operator; a real server takes neither status nor times."""
    spaces = {each["metadata"]["name"] for each in (await driver.client.list(NAMESPACES))[0]}
    resources = {"Namespace": NAMESPACES, "ConfigMap": CONFIG_MAPS, "DaemonSet": DAEMON_SETS, "Node": NODES}
    for each in mig_scene(n1="all-disabled").build():
        meta = each["metadata"]
        if each["kind"] not in resources or meta["name"] in spaces:
            continue
        kept = ("name", "namespace", "labels", "annotations")
        body = {key: value for key, value in each.items() if key in ("spec", "data")}
        body["metadata"] = {key: meta[key] for key in kept if key in meta}
        if each["kind"] == "Node":
            body["metadata"]["labels"].pop(STATE)
        await driver.client.create(resources[each["kind"]], meta.get("namespace", ""), body)


async def test_a_change_runs_wedges_and_is_taken_back(plane):
    login = {"server": plane.url, "ca_pem": plane.certificate.ca_pem, "token": plane.token}
    programs = [KubeletFleet, GpuOperator, MigManagers]
    controllers = ControlPlane(KubernetesClient(**login), time_scale=60, programs=programs)
    async with KubernetesClient(**login) as client:
        driver = MigDriver(client)
        await controllers.start()
        try:
            await furnish(driver)
            await live_through(driver)
        finally:
            await controllers.stop()


async def live_through(driver):
    await driver.until_state("n1", "success", seconds=60)
    await driver.until_resources("n1", seconds=30, gpu=8)
    await driver.relabel("n1", "gpu5-1g.10gb")
    await driver.until_state("n1", "pending", seconds=30)
    await driver.until_state("n1", "success", seconds=30)
    await driver.until_resources("n1", seconds=30, gpu=7, mig_1g_10gb=7)
    await driver.annotate_node("n1", hung="nvidia-dcgm-exporter")
    await driver.relabel("n1", "all-disabled")
    await driver.until_resources("n1", seconds=30)
    labels = await driver.labels("n1")
    assert (labels[STATE], labels[f"{DEPLOY}device-plugin"]) == ("pending", PAUSED)
    await driver.relabel("n1", "gpu5-1g.10gb")
    await driver.until_state("n1", "success", seconds=30)
    await driver.until_resources("n1", seconds=30, gpu=7, mig_1g_10gb=7)
    hung = await driver.pods("gpu-operator", app="nvidia-dcgm-exporter")
    assert [bool(pod["metadata"].get("deletionTimestamp")) for pod in hung] == [True]
