"""GPUs cut anew by this console on a real control plane: its API server takes the patches, its DaemonSet
controller obeys the labels; kubelets and mig-manager are the project's own, talking to it."""

import asyncio
import os

import pytest

from apps.executions.states import ExecutionState
from apps.kube.mig_configs import find_configs
from apps.planner.mig.preferring import prefer_named
from apps.simulator.client import KubernetesClient
from apps.simulator.controllers.gpu_operator.labels import GpuOperator
from apps.simulator.controllers.gpu_operator.mig_manager import MigManagers
from apps.simulator.runner import ControlPlane as Controllers
from apps.simulator.scenes.gpu_operator import config_text
from tests.control_plane import WHY_SKIPPED, control_plane  # noqa: F401
from tests.executions.real_cluster import Kubelets
from tests.executions.stage import Stage
from tests.executions.test_stories import carry
from tests.simulator.controllers.test_mig_real_control_plane import furnish
from tests.simulator.mig import MigDriver

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.control_plane,
    pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason=WHY_SKIPPED),
    pytest.mark.timeout(240),
]


class Machines(Kubelets):
    """With the GPU operator and mig-manager beside the kubelets."""

    def __init__(self, plane):
        super().__init__(plane, time_scale=60)
        login = {"server": plane.url, "ca_pem": plane.certificate.ca_pem, "token": plane.token}
        client = KubernetesClient(**login)
        self._operator = Controllers(client, time_scale=60, programs=[GpuOperator, MigManagers])
        self._await(self._operator.start())
        self._await(self._furnish(login))

    def stop(self):
        self._await(self._operator.stop())
        super().stop()

    async def _furnish(self, login):
        async with KubernetesClient(**login) as client:
            driver = MigDriver(client)
            await furnish(driver)
            await driver.until_state("n1", "success", seconds=60)
            await driver.until_resources("n1", seconds=30, gpu=8)
            for number in range(7):
                await driver.create_mig_pod(f"ocr-{number}", "mig-1g.10gb")
            await asyncio.sleep(2)


def without_name(plan, picture):
    named = prefer_named(picture, plan, find_configs(config_text()))
    assert [one.nodes for one in named.layouts] == [("n1",)]
    return named


def test_a_layout_gets_its_name_and_a_node_is_cut_by_it(transactional_db, control_plane, settings):  # noqa: F811
    settings.EXECUTION_POLL_SECONDS = 0.1
    settings.EXECUTION_IDLE_SECONDS = 60
    settings.EXECUTION_MIG_SYNC_SECONDS = 2
    settings.EXECUTION_MIG_SETTLE_SECONDS = 1
    machines = Machines(control_plane)
    try:
        stage = Stage(control_plane)
        execution, found = stage.start("mig", change=without_name)
        carry(execution, seconds=90)
        assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
        node = control_plane.ask("GET", "/api/v1/nodes/n1")
        assert node["metadata"]["labels"]["nvidia.com/mig.config"] == found.layouts[0].name
        assert node["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] == "7"
        assert not node["spec"].get("unschedulable")
    finally:
        machines.stop()
