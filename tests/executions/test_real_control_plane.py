"""The walk on a real Kubernetes control plane: real API server, controller manager and scheduler."""

import os

import pytest

from apps.executions import runner
from apps.executions.states import ExecutionState
from tests.control_plane import WHY_SKIPPED, control_plane  # noqa: F401
from tests.executions.real_cluster import Kubelets, furnish, pods
from tests.executions.stage import Stage

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.control_plane,
    pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason=WHY_SKIPPED),
    pytest.mark.timeout(300),
]


@pytest.fixture
def real_stage(webhook, transactional_db, control_plane, settings):  # noqa: F811
    if not control_plane.has_controllers:
        pytest.fail("this story needs kube-controller-manager and kube-scheduler in KUBEBUILDER_ASSETS")
    settings.STEERING_URL = webhook.environment["STEERING_URL"]
    settings.STEERING_CA_FILE = webhook.environment["STEERING_CA_FILE"]
    settings.EXECUTION_POLL_SECONDS = 0.1
    settings.EXECUTION_IDLE_SECONDS = 60
    kubelets = Kubelets(control_plane, time_scale=10)
    furnish(control_plane)
    yield Stage(control_plane)
    kubelets.stop()


def test_a_gang_gets_its_nodes_from_the_real_scheduler(real_stage, control_plane):  # noqa: F811
    before = {pod["metadata"]["uid"]: pod for pod in pods(control_plane)}
    execution, plan = real_stage.start()
    assert len(plan.moves) == 4
    runner.advance(execution.pk, seconds=200)
    execution.refresh_from_db()
    assert execution.state == ExecutionState.SUCCEEDED, real_stage.told(execution)
    after = {pod["metadata"]["uid"]: pod for pod in pods(control_plane)}
    gang = [pod for pod in after.values() if pod["metadata"]["labels"].get("app") == "big"]
    assert sorted(pod["spec"]["nodeName"] for pod in gang) == ["gpu-1", "gpu-2"]
    assert {uid for uid in before if uid not in after} == {move.pod_uid for move in plan.moves}
    assert {pod["status"]["phase"] for pod in after.values()} == {"Running"}
    assert real_stage.traces() == []
