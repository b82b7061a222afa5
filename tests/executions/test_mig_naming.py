"""A layout without a name: the plan makes one, shows it, adds it, waits for the kubelets, and cuts by it."""

import pytest

from apps.executions import services
from apps.executions.models import Step
from apps.executions.preflight import run_dry_runs
from apps.executions.states import ExecutionState, StepKind
from apps.kube.mig_config_text import add_config
from apps.kube.mig_configs import find_configs
from apps.planner.mig.preferring import prefer_named
from apps.simulator.scenes.gpu_operator import config_text
from tests.executions.mig_clusters import idle_node
from tests.executions.test_mig_story import (
    CONFIG,
    CONFIGS,
    labels_of,
    offers_of,
    relabels,
    stage_with,  # noqa: F401
)
from tests.executions.test_stories import body, carry, carry_until, has_sent

pytestmark = pytest.mark.django_db(transaction=True)


def without_name(plan, picture):
    """As on a cluster whose ConfigMap knows the operator's own layouts alone."""
    named = prefer_named(picture, plan, find_configs(config_text()))
    assert [one.nodes for one in named.layouts] == [("mig-a",)]
    return named


def text_of(stage):
    return stage.simulated.ask("GET", CONFIGS)["data"]["config.yaml"]


def additions(stage):
    return [
        call for call in stage.requests("PATCH", "default-mig-parted-config") if "dryRun" not in call["query"]
    ]


def test_it_is_shown_added_once_and_waited_for_and_the_node_is_cut_by_it(stage_with, settings):  # noqa: F811
    settings.EXECUTION_MIG_SYNC_SECONDS = 2  # the kubelets' minute is one second here
    stage = stage_with(idle_node)
    before = text_of(stage)
    plan, found = stage.approved_plan("mig", change=without_name)
    (layout,) = found.layouts
    asked = {run.pod: run for run in run_dry_runs(version_id=plan.versions.get().pk)}
    assert f"+  {layout.line}" in asked[f"layout {layout.name}"].message
    assert asked["node mig-a"].allowed
    assert text_of(stage) == before

    execution = carry(services.start_execution(actor=stage.operator, plan_id=plan.pk))
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert text_of(stage) == add_config(before, layout.line)
    assert relabels(stage, "mig-a") == [layout.name]
    assert offers_of(stage) == {"nvidia.com/gpu": 7, "nvidia.com/mig-1g.10gb": 7}
    (patch,) = additions(stage)
    assert body(patch)["metadata"].keys() == {"uid", "resourceVersion"}
    assert list(body(patch)["data"]) == ["config.yaml"]
    every = stage.requests()
    cordoned = next(call for call in stage.requests("PATCH", "/nodes/mig-a") if call["status"] == 200)
    assert every.index(patch) < every.index(cordoned)


def test_what_was_added_is_taken_out_again_unless_a_node_names_it(stage_with, settings):  # noqa: F811
    settings.EXECUTION_MIG_SYNC_SECONDS = 600
    stage = stage_with(idle_node)
    before = text_of(stage)
    execution, found = stage.start("mig", change=without_name)
    (layout,) = found.layouts
    carry_until(execution, lambda: has_sent(execution, StepKind.NAME_LAYOUT, "add"))
    services.roll_back(execution_id=execution.pk, actor=stage.operator, reason="not now")
    assert carry(execution).state == ExecutionState.ROLLED_BACK, stage.told(execution)
    assert text_of(stage) == before

    again = services.start_execution(actor=stage.operator, plan_id=execution.plan_id)
    carry_until(again, lambda: has_sent(again, StepKind.NAME_LAYOUT, "add"))
    stage.simulated.ask("PATCH", "/api/v1/nodes/mig-a", {"metadata": {"labels": {CONFIG: layout.name}}})
    services.roll_back(execution_id=again.pk, actor=stage.operator, reason="not now")
    assert carry(again).state == ExecutionState.ROLLED_BACK, stage.told(again)
    assert layout.line in text_of(stage)
    step = Step.objects.get(execution=again, kind=StepKind.NAME_LAYOUT)
    assert step.reason.endswith("node mig-a names it")
    assert stage.traces() == []


def test_who_takes_it_out_stops_it_before_any_node_is_touched(stage_with, settings):  # noqa: F811
    settings.EXECUTION_MIG_SYNC_SECONDS = 600
    stage = stage_with(idle_node)
    before = text_of(stage)
    execution, _found = stage.start("mig", change=without_name)
    carry_until(execution, lambda: has_sent(execution, StepKind.NAME_LAYOUT, "add"))
    stage.simulated.ask("PATCH", CONFIGS, {"data": {"config.yaml": before}})
    assert carry(execution).state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    assert "after it had been added" in execution.state_reason
    assert len(additions(stage)) == 1
    assert CONFIG in labels_of(stage)
    assert relabels(stage, "mig-a") == []
    services.cancel(execution_id=execution.pk, actor=stage.operator, reason="plan anew")
    assert carry(execution).state == ExecutionState.CANCELLED, stage.told(execution)
    assert stage.traces() == []


POLICY = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "name": "cp",
    "uid": "u",
    "controller": True,
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"metadata": {"ownerReferences": [POLICY]}},
            "belongs to ClusterPolicy cp, which sets it back",
        ),
        ({"immutable": True}, "is immutable"),
    ],
)
def test_a_config_map_that_keeps_nothing_is_refused_with_the_line(stage_with, change, words):  # noqa: F811
    stage = stage_with(idle_node)
    plan, found = stage.approved_plan("mig", change=without_name)
    stage.simulated.ask("PATCH", CONFIGS, change)
    (refused,) = run_dry_runs(version_id=plan.versions.get().pk)
    assert not refused.allowed
    assert words in refused.message
    assert refused.message.endswith(found.layouts[0].line)


def test_a_conflict_at_either_patch_is_looked_at_again_and_each_goes_out_once(stage_with, settings):  # noqa: F811
    settings.EXECUTION_MIG_SYNC_SECONDS = 2
    stage = stage_with(idle_node)
    execution, found = stage.start("mig", change=without_name)

    def refuse(path):
        match = {"method": "PATCH", "path_regex": path, "user_agent_regex": "gpu-defrag"}
        fault = {"name": path, "action": "status", "code": 409, "reason": "Conflict", "times": 1}
        stage.simulated.ask("POST", "/_sim/faults", {**fault, "match": match})

    carry_until(execution, lambda: Step.objects.filter(execution=execution).exists())
    refuse("default-mig-parted-config")
    carry_until(execution, lambda: has_sent(execution, StepKind.CORDON_NODE, "cordon"))
    refuse("/nodes/mig-a")
    assert carry(execution).state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert [call["status"] for call in additions(stage)] == [409, 200]
    asked = [call for call in stage.requests("PATCH", "/nodes/mig-a") if CONFIG in call["body"]]
    assert [call["status"] for call in asked] == [409, 200]
    for kind, effect in ((StepKind.NAME_LAYOUT, "add"), (StepKind.RECONFIGURE_MIG, "relabel")):
        assert Step.objects.get(execution=execution, kind=kind).observed["sent"] == [effect]
    assert relabels(stage, "mig-a") == [found.layouts[0].name]
    assert stage.traces() == []
