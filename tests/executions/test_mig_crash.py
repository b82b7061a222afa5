"""A worker killed at every boundary of the steps that cut GPUs anew, name a layout or repair a node: no label
is set twice, and no line added or taken out twice."""

import pytest

from apps.audit.queries import verify_chain
from apps.executions import services
from apps.executions.models import Claim
from apps.executions.repairing import repair_nodes
from apps.executions.states import ExecutionState, StepKind
from apps.kube.mig_config_text import add_config
from tests.cluster_fixtures import wait_until
from tests.executions.crashing import Killer
from tests.executions.mig_clusters import idle_node
from tests.executions.test_mig_naming import additions, text_of, without_name
from tests.executions.test_mig_story import (
    labels_of,
    of_gpu_5,
    offers_of,
    relabels,
    stage_with,  # noqa: F401
    step_on,
)
from tests.executions.test_stories import carry, has_sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]
CONFIG = "nvidia.com/mig.config"
PRESSED_AT = ("reconfigure_mig/issued/relabel", "reconfigure_mig/waiting")


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
        # A worker that was killed after its request may find the node cut already: then it only waits.
        if stop and boundary.startswith(PRESSED_AT) and not pressed:
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


def only_at(killer, kind):
    """Workers die at the boundaries of this kind of step alone."""

    def on_boundary(boundary):
        if not boundary.startswith(f"{kind}/"):
            killer.met |= {(boundary, "before"), (boundary, "after")}

    return on_boundary


def test_a_worker_killed_everywhere_adds_a_layouts_name_once_and_takes_it_out_once(stage_with, webhook):  # noqa: F811
    stage = stage_with(idle_node)
    text = text_of(stage)
    back, found = stage.start("mig", change=without_name)
    (layout,) = found.layouts
    pressed = []

    def roll_back():
        if not pressed and has_sent(back, StepKind.NAME_LAYOUT, "add"):
            pressed.append(services.roll_back(execution_id=back.pk, actor=stage.operator, reason="stop"))

    killer = Killer(back.pk, {**webhook.environment, "EXECUTION_MIG_SYNC_SECONDS": "600"})
    killer.on_boundary, killer.between = only_at(killer, "name_layout"), roll_back
    killer.run_to_the_end(seconds=200)
    back.refresh_from_db()
    assert back.state == ExecutionState.ROLLED_BACK, stage.told(back)
    assert text_of(stage) == text
    assert len([call for call in additions(stage) if call["status"] == 200]) == 2
    for effect in ("add", "remove"):
        assert {(f"name_layout/intent/{effect}", moment) for moment in ("before", "after")} <= killer.met

    forth = services.start_execution(actor=stage.operator, plan_id=back.plan_id)
    environment = {"EXECUTION_MIG_SYNC_SECONDS": "2", "EXECUTION_MIG_SETTLE_SECONDS": "1"}
    killer = Killer(forth.pk, {**webhook.environment, **environment})
    killer.on_boundary = only_at(killer, "name_layout")
    killer.run_to_the_end(seconds=200)
    forth.refresh_from_db()
    assert forth.state == ExecutionState.SUCCEEDED, stage.told(forth)
    assert text_of(stage) == add_config(text, layout.line)
    assert len([call for call in additions(stage) if call["status"] == 200]) == 3
    assert ("name_layout/verified/", "before") in killer.met
    assert relabels(stage, "mig-a") == [layout.name]
    assert stage.traces() == []


def test_a_worker_killed_everywhere_repairs_a_node_once(stage_with, webhook, settings):  # noqa: F811
    settings.EXECUTION_MIG_SECONDS = 8  # mig-manager gives up after 300 s, which are 5 s here
    stage = stage_with(idle_node)
    before = offers_of(stage)
    wedged = {"node": "mig-a"}
    stage.simulated.ask("POST", "/_sim/faults", {"name": "mig-wedged", **wedged})
    execution, _plan = stage.start("mig", change=of_gpu_5)
    assert carry(execution).state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    stage.simulated.ask("POST", "/_sim/faults", {"remove": "mig-wedged", **wedged})
    repair_nodes(execution_id=execution.pk, actor=stage.operator, reason="it hangs")
    stopped, pressed = [], []

    def on_boundary(boundary):
        quiet(boundary)
        if boundary == "reconfigure_mig/blocked/":
            stopped.append(boundary)

    def cancel():
        if len(stopped) > 1 and not pressed:  # the first time its writer was killed
            wait_until(lambda: step_on(execution, "mig-a").observed["cause"] == "mig-repaired")
            pressed.append(services.cancel(execution_id=execution.pk, actor=stage.operator, reason="no"))

    killer = Killer(execution.pk, {**webhook.environment, "EXECUTION_MIG_SETTLE_SECONDS": "1"})
    quiet = only_at(killer, "reconfigure_mig")
    killer.on_boundary, killer.between = on_boundary, cancel
    killer.run_to_the_end(seconds=200)
    execution.refresh_from_db()
    assert execution.state == ExecutionState.CANCELLED, stage.told(execution)
    assert {("reconfigure_mig/intent/restore", moment) for moment in ("before", "after")} <= killer.met
    assert {
        ("reconfigure_mig/issued/restore", "before"),
        ("reconfigure_mig/blocked/", "before"),
    } <= killer.met
    assert relabels(stage, "mig-a") == ["gpu5-1g.10gb", "all-disabled"]
    assert offers_of(stage) == before
    assert "paused-for-mig-change" not in labels_of(stage).values()
    assert stage.traces() == []
