"""A worker killed at every boundary of the step that cuts GPUs anew: no label is set twice."""

import pytest

from apps.audit.queries import verify_chain
from apps.executions import services
from apps.executions.models import Claim
from apps.executions.states import ExecutionState
from tests.executions.crashing import Killer
from tests.executions.mig_clusters import idle_node
from tests.executions.test_mig_story import labels_of, of_gpu_5, offers_of, relabels, stage_with  # noqa: F401

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]
CONFIG = "nvidia.com/mig.config"


@pytest.mark.parametrize("stop", ["", "roll_back"])
def test_a_worker_killed_everywhere_sets_each_label_once(stage_with, webhook, stop):  # noqa: F811
    stage = stage_with(idle_node)
    before = offers_of(stage)
    execution, _plan = stage.start("mig", change=of_gpu_5)
    environment = {**webhook.environment, "EXECUTION_MIG_SETTLE_SECONDS": "1"}
    killer = Killer(execution.pk, environment)
    pressed, waiting = [], []

    def on_boundary(boundary):
        if not boundary.startswith("reconfigure_mig/"):
            killer.met |= {(boundary, "before"), (boundary, "after")}
        if stop and boundary == "reconfigure_mig/issued/relabel" and not pressed:
            pressed.append(boundary)
            waiting.append(boundary)

    def press():
        for _ in waiting[:]:
            waiting.pop()
            services.roll_back(execution_id=execution.pk, actor=stage.operator, reason="stop")

    killer.on_boundary, killer.between = on_boundary, press
    killer.run_to_the_end(seconds=400)
    execution.refresh_from_db()
    assert ("reconfigure_mig/intent/relabel", "before") in killer.met
    assert ("reconfigure_mig/intent/relabel", "after") in killer.met
    if stop:
        assert execution.state == ExecutionState.ROLLED_BACK, stage.told(execution)
        assert ("reconfigure_mig/intent/restore", "before") in killer.met
        assert ("reconfigure_mig/intent/restore", "after") in killer.met
        assert relabels(stage, "mig-a") == ["gpu5-1g.10gb", "all-disabled"]
        assert offers_of(stage) == before
    else:
        assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
        assert relabels(stage, "mig-a") == ["gpu5-1g.10gb"]
        assert labels_of(stage)[CONFIG] == "gpu5-1g.10gb"
    assert stage.traces() == []
    assert not Claim.objects.exists()
    assert verify_chain().is_intact
