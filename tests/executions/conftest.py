"""What the stories of executions share."""

import pytest

from tests.cluster_fixtures import simulated_cluster  # noqa: F401
from tests.executions.stage import Stage, steering_webhook
from tests.faults.reporting import check_stage


@pytest.fixture(scope="session")
def webhook(django_db_setup, django_db_blocker, tmp_path_factory):
    """One steering webhook for all stories; what it knows stands in the database."""
    with django_db_blocker.unblock(), steering_webhook(tmp_path_factory.mktemp("steering")) as running:
        yield running


@pytest.fixture
def stage(stage_of):
    """The scene `small`: 6 nodes of 8 GPUs, a gang of 2 x 8 waits, 3 moves unlock it."""
    return stage_of("small")


@pytest.fixture
def stage_of(webhook, transactional_db, simulated_cluster, settings, request):  # noqa: F811
    """Of what a test that injects a named fault leaves behind, all safety rules are asserted afterwards."""
    settings.STEERING_URL = webhook.environment["STEERING_URL"]
    settings.STEERING_CA_FILE = webhook.environment["STEERING_CA_FILE"]
    settings.EXECUTION_POLL_SECONDS = 0.05
    stages = []

    def open_stage(scene):
        stages.append(Stage(simulated_cluster(scene=scene, time_scale=20)))
        return stages[-1]

    yield open_stage
    for stage in stages:
        check_stage(request, stage)
