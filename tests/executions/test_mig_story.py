"""GPUs cut anew over HTTP against the simulated cluster, judged by what its API server logged."""

import time

import pytest

from apps.accounts.errors import Denied
from apps.audit.queries import verify_chain
from apps.executions import services
from apps.executions.errors import WrongState
from apps.executions.models import Claim, Step, StepEvent
from apps.executions.preflight import run_dry_runs
from apps.executions.repairing import repair_nodes
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.kube.mig_configs import find_configs
from apps.planner.mig.preferring import prefer_named
from apps.plans import queries as plan_queries
from apps.plans import services as plan_services
from apps.plans.computing import compute_draft
from apps.simulator.scenes.gpu_operator import config_text
from tests.executions.mig_clusters import GPU_0, GPU_5, full_nodes, idle_node
from tests.executions.stage import Stage
from tests.executions.test_stories import body, carry, carry_until, has_sent
from tests.faults.reporting import check_stage

pytestmark = pytest.mark.django_db(transaction=True)
CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
CONFIGS = "/api/v1/namespaces/gpu-operator/configmaps/default-mig-parted-config"


@pytest.fixture
def stage_with(webhook, transactional_db, simulated_cluster, settings, tmp_path, request):
    settings.STEERING_URL = webhook.environment["STEERING_URL"]
    settings.STEERING_CA_FILE = webhook.environment["STEERING_CA_FILE"]
    settings.EXECUTION_POLL_SECONDS = 0.1
    settings.EXECUTION_MIG_SECONDS = 30
    settings.EXECUTION_MIG_SETTLE_SECONDS = 1
    stages = []

    def open_stage(make):
        stages.append(Stage(simulated_cluster(dump=make(tmp_path), time_scale=60)))
        return stages[-1]

    yield open_stage
    for stage in stages:
        check_stage(request, stage)


def of_gpu_5(plan, picture):
    """Of eight equal GPUs the one whose layout has a name."""
    assert [one.index for one in plan.reconfigurations] == [0]
    named = prefer_named(picture, plan, find_configs(config_text(GPU_5)))
    assert [(one.index, dict(one.after)) for one in named.reconfigurations] == [(5, {"1g.10gb": 7})]
    return named


def node_of(stage, name="mig-a"):
    return stage.simulated.ask("GET", f"/api/v1/nodes/{name}")


def labels_of(stage, name="mig-a"):
    return node_of(stage, name)["metadata"]["labels"]


def offers_of(stage, name="mig-a"):
    found = node_of(stage, name)["status"]["allocatable"]
    return {key: int(n) for key, n in found.items() if "nvidia.com/" in key and int(n)}


def relabels(stage, name):
    """What was set, by the requests that the API server took."""
    return [
        body(call)["metadata"]["labels"][CONFIG]
        for call in stage.requests("PATCH", f"/nodes/{name}")
        if call["status"] == 200 and CONFIG in body(call)["metadata"].get("labels", {})
    ]


def set_configs(stage, text):
    stage.simulated.ask("PATCH", CONFIGS, {"data": {"config.yaml": text}})


def step_on(execution, name):
    found = Step.objects.filter(execution=execution, kind=StepKind.RECONFIGURE_MIG)
    return next(step for step in found if step.params["node"] == name)


def test_a_wedged_change_keeps_its_node_cordoned_and_an_approved_repair_restores_it_exactly(
    stage_with, settings
):
    settings.EXECUTION_MIG_SECONDS = 8  # mig-manager gives up after 300 s, which are 5 s here
    stage = stage_with(idle_node)
    before = offers_of(stage)
    assert before == {"nvidia.com/gpu": 8}
    stage.simulated.ask("POST", "/_sim/faults", {"name": "mig-wedged", "node": "mig-a"})
    execution, _plan = stage.start("mig", change=of_gpu_5)
    carry(execution)

    assert execution.state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    step = step_on(execution, "mig-a")
    alarm = StepEvent.objects.filter(step=step, state="blocked").last()
    assert 0 <= (alarm.at - step.deadline_at).total_seconds() < 60
    for words in ("has not finished before the deadline", "7 x 1g.10gb", "state pending", "stays cordoned"):
        assert words in step.reason
    assert "sets mig.config to all-disabled again" in step.observed["runbook"]
    assert node_of(stage)["spec"]["unschedulable"]
    assert labels_of(stage)[CONFIG] == "gpu5-1g.10gb"
    assert relabels(stage, "mig-a") == ["gpu5-1g.10gb"]

    stage.simulated.ask("POST", "/_sim/faults", {"remove": "mig-wedged", "node": "mig-a"})
    settings.EXECUTION_MIG_SECONDS = 30
    services.roll_back(execution_id=execution.pk, actor=stage.operator, reason="the operand hangs")
    carry(execution)
    assert execution.state == ExecutionState.ROLLED_BACK, stage.told(execution)
    assert relabels(stage, "mig-a") == ["gpu5-1g.10gb", "all-disabled"]
    assert (labels_of(stage)[CONFIG], labels_of(stage)[STATE]) == ("all-disabled", "success")
    assert offers_of(stage) == before
    assert not node_of(stage)["spec"].get("unschedulable")
    assert stage.traces() == []
    assert not Claim.objects.exists()
    assert verify_chain().is_intact


def test_a_wedged_node_is_repaired_alone_and_cut_again_after_that(stage_with, settings):
    settings.EXECUTION_MIG_SECONDS = 8
    stage = stage_with(idle_node)
    before = offers_of(stage)
    stage.simulated.ask("POST", "/_sim/faults", {"name": "mig-wedged", "node": "mig-a"})
    execution, _plan = stage.start("mig", change=of_gpu_5)
    assert carry(execution).state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    assert "device-plugin" in step_on(execution, "mig-a").reason
    stage.simulated.ask("POST", "/_sim/faults", {"remove": "mig-wedged", "node": "mig-a"})

    settings.EXECUTION_MIG_SECONDS = 30
    with pytest.raises(Denied):
        repair_nodes(execution_id=execution.pk, actor=stage.author)
    repair_nodes(execution_id=execution.pk, actor=stage.operator, reason="it hangs")
    carry_until(execution, lambda: step_on(execution, "mig-a").observed["cause"] == "mig-repaired")
    assert execution.state == ExecutionState.NEEDS_HUMAN
    assert relabels(stage, "mig-a") == ["gpu5-1g.10gb", "all-disabled"]
    assert (offers_of(stage), labels_of(stage)[STATE]) == (before, "success")
    assert "paused-for-mig-change" not in labels_of(stage).values()
    assert node_of(stage)["spec"]["unschedulable"]
    with pytest.raises(WrongState):
        repair_nodes(execution_id=execution.pk, actor=stage.operator)

    set_configs(
        stage, config_text(GPU_5.replace("1g.10gb", "2g.20gb").replace("gpu5-2g.20gb", "gpu5-1g.10gb"))
    )
    services.resume(execution_id=execution.pk, actor=stage.operator)
    assert carry(execution).state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    assert "says something else now" in step_on(execution, "mig-a").reason
    assert relabels(stage, "mig-a") == ["gpu5-1g.10gb", "all-disabled"]

    set_configs(stage, config_text(GPU_5))
    time.sleep(1.5)  # the kubelets' sync, 60 s there
    services.resume(execution_id=execution.pk, actor=stage.operator)
    assert carry(execution).state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert relabels(stage, "mig-a") == ["gpu5-1g.10gb", "all-disabled", "gpu5-1g.10gb"]
    assert offers_of(stage) == {"nvidia.com/gpu": 7, "nvidia.com/mig-1g.10gb": 7}
    assert stage.traces() == []


def test_a_cordon_of_somebody_else_stays_after_success_and_after_the_way_back(stage_with, settings):
    settings.EXECUTION_HAND_OVER_SECONDS = 2
    stage = stage_with(idle_node)
    plan, _found = stage.approved_plan("mig", change=of_gpu_5)

    def cordoned_by_hand():
        execution = services.start_execution(actor=stage.operator, plan_id=plan.pk)
        carry_until(execution, lambda: Step.objects.filter(execution=execution).exists())
        stage.simulated.ask("PATCH", "/api/v1/nodes/mig-a", {"spec": {"unschedulable": True}})
        return execution

    back = cordoned_by_hand()
    carry_until(back, lambda: has_sent(back, StepKind.RECONFIGURE_MIG, "relabel"))
    services.roll_back(execution_id=back.pk, actor=stage.operator, reason="not now")
    assert carry(back).state == ExecutionState.ROLLED_BACK, stage.told(back)
    assert node_of(stage)["spec"]["unschedulable"]
    assert labels_of(stage)[CONFIG] == "all-disabled"

    stage.simulated.ask("PATCH", "/api/v1/nodes/mig-a", {"spec": {"unschedulable": None}})
    forth = carry(cordoned_by_hand())
    assert step_on(forth, "mig-a").state == StepState.VERIFIED, stage.told(forth)
    assert offers_of(stage) == {"nvidia.com/gpu": 7, "nvidia.com/mig-1g.10gb": 7}
    assert forth.state == ExecutionState.NEEDS_HUMAN  # the pods for whom it was cut cannot start there
    handed = Step.objects.get(execution=forth, kind=StepKind.HAND_OVER)
    assert handed.reason.startswith("the node stays cordoned by somebody else")
    assert node_of(stage)["spec"]["unschedulable"]
    ours = [call for call in stage.requests("PATCH", "/nodes/mig-a") if "gpu-defrag" in call["user_agent"]]
    assert not [call for call in ours if "unschedulable" in body(call).get("spec", {})]
    assert stage.traces() == []


def bound_pod(name, node, *, gpus=1):
    """Put there past the scheduler: a cordon does not keep it off."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}}


def test_nothing_is_relabelled_over_a_pod_or_under_strategy_single(stage_with, settings):
    settings.EXECUTION_STEP_SECONDS = 5
    stage = stage_with(idle_node)
    plan, found = stage.approved_plan("mig", change=of_gpu_5)
    draft = plan_services.request_plan(actor=stage.author, cluster=stage.cluster, goal="mig")
    compute_draft(draft.pk)
    assert plan_queries.open_plan(draft.versions.get()).reconfigurations == found.reconfigurations
    pods = "/api/v1/namespaces/serving/pods"

    def start():
        return services.start_execution(actor=stage.operator, plan_id=plan.pk)

    stage.simulated.ask("PATCH", "/api/v1/nodes/mig-a", {"metadata": {"labels": STRATEGY_SINGLE}})
    single = carry(start())
    assert single.state == ExecutionState.FAILED
    assert "MIG-INVALID" in single.state_reason
    back = {"nvidia.com/mig.strategy": "mixed"}
    stage.simulated.ask("PATCH", "/api/v1/nodes/mig-a", {"metadata": {"labels": back}})

    rebooting = start()
    carry_until(rebooting, lambda: has_sent(rebooting, StepKind.CORDON_NODE, "cordon"))
    stage.simulated.ask("POST", "/_sim/faults", {"name": "mig-reboot", "node": "mig-a"})
    stage.simulated.ask("POST", pods, bound_pod("no-gpu", "mig-a", gpus=0))
    carry(rebooting)
    assert rebooting.state == ExecutionState.NEEDS_HUMAN, stage.told(rebooting)
    assert "serving/no-gpu on node mig-a holds or may hold a GPU to be relaid, or would end with" in (
        rebooting.state_reason
    )
    stage.simulated.ask("POST", "/_sim/faults", {"remove": "mig-reboot", "node": "mig-a"})
    stage.simulated.ask("DELETE", f"{pods}/no-gpu")
    services.cancel(execution_id=rebooting.pk, actor=stage.operator, reason="not with a reboot")
    assert carry(rebooting).state == ExecutionState.CANCELLED

    slipped = start()
    carry_until(slipped, lambda: has_sent(slipped, StepKind.CORDON_NODE, "cordon"))
    stage.simulated.ask("POST", pods, bound_pod("late", "mig-a"))
    carry(slipped)
    assert slipped.state == ExecutionState.NEEDS_HUMAN, stage.told(slipped)
    assert "serving/late came onto node mig-a" in slipped.state_reason
    services.cancel(execution_id=slipped.pk, actor=stage.operator, reason="plan anew")
    assert carry(slipped).state == ExecutionState.CANCELLED

    used = carry(start())
    assert used.state == ExecutionState.FAILED
    assert "serving/late" in used.state_reason
    assert relabels(stage, "mig-a") == []
    assert stage.evicted() == []
    assert stage.traces() == []


STRATEGY_SINGLE = {"nvidia.com/mig.strategy": "single"}


def test_pods_are_moved_off_first_and_nobody_beside_them_is_touched(stage_with):
    stage = stage_with(full_nodes)
    plan, found = stage.approved_plan("mig")
    assert [(one.node, one.index, one.after_moves) for one in found.reconfigurations] == [
        ("mig-a", 3, False),
        ("mig-b", 0, True),
    ]
    asked = {run.pod: run for run in run_dry_runs(version_id=plan.versions.get().pk)}
    assert asked["node mig-a"].allowed
    assert "all-7g.80gb" in asked["node mig-a"].message
    missing = asked["node mig-b"].message
    assert not asked["node mig-b"].allowed
    assert '{devices: [0], mig-enabled: true, mig-devices: {"1g.10gb": 7}}' in missing

    text = stage.simulated.ask("GET", CONFIGS)["data"]["config.yaml"]
    stage.simulated.ask("PATCH", CONFIGS, {"data": {"config.yaml": text + GPU_0}})
    time.sleep(1.5)  # the kubelets' sync, 60 s there
    bystanders = {uid for uid, pod in stage.picture().pods.items() if pod.name.startswith("llm-")}
    execution = services.start_execution(actor=stage.operator, plan_id=plan.pk)
    carry(execution, seconds=90)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert execution.outcome["matches"]
    assert relabels(stage, "mig-a") == ["all-7g.80gb"]
    assert relabels(stage, "mig-b") == ["gpu0-1g.10gb"]
    assert offers_of(stage, "mig-b") == {"nvidia.com/mig-1g.10gb": 7, "nvidia.com/mig-7g.80gb": 7}
    assert stage.evicted() == [move.pod_uid for move in found.moves]
    after = stage.picture().pods
    assert bystanders <= {uid for uid, pod in after.items() if pod.ready}
    assert [pod.node_name for pod in after.values() if pod.name.startswith("ocr-")] == ["mig-b"] * 7
    assert stage.traces() == []
    _check_order(stage)


def _check_order(stage):
    """Cordon, then relabel, on each node; the eviction between the two relabels; every patch guarded."""
    calls = [call for call in stage.requests("PATCH") if "/nodes/" in call["path"] and call["status"] == 200]
    for call in calls:
        assert body(call)["metadata"]["uid"]
        assert body(call)["metadata"]["resourceVersion"]
    every = stage.requests()
    evicted = next(
        at for at, call in enumerate(every) if call["path"].endswith("/eviction") and call["status"] == 201
        and "dryRun" not in call["query"]
    )  # fmt: skip
    for name, is_early in (("mig-a", True), ("mig-b", False)):
        mine = [call for call in calls if call["path"].endswith(name)]
        assert body(mine[0])["spec"]["unschedulable"] is True
        relabel = next(call for call in mine if CONFIG in body(call)["metadata"].get("labels", {}))
        assert body(relabel)["metadata"]["labels"][STATE] is None
        assert (every.index(relabel) < evicted) == is_early
        before = mine[: mine.index(relabel)]
        assert not [call for call in before if "taints" in body(call).get("spec", {})]
    assert Step.objects.filter(kind=StepKind.RECONFIGURE_MIG, state=StepState.VERIFIED).count() == 2


FAULTS = {
    "mig-failed": "mig-manager reported failed",
    "mig-wrong-resources": "does not offer what was promised",
    "mig-stale-success": "does not offer what was promised",
    "mig-manager-silent": "has not finished before the deadline",
}


def test_whatever_goes_wrong_is_told_and_the_way_back_ends_where_it_began(stage_with, settings):
    settings.EXECUTION_MIG_MISMATCH_SECONDS = 2
    settings.EXECUTION_FAILURES_BEFORE_STOP = len(FAULTS) + 1
    stage = stage_with(idle_node)
    before = offers_of(stage)
    plan, _found = stage.approved_plan("mig", change=of_gpu_5)
    for fault, words in FAULTS.items():
        (asked,) = run_dry_runs(version_id=plan.versions.get().pk)
        assert ("failed on this node at" in asked.message) == (fault != "mig-failed"), asked.message
        settings.EXECUTION_MIG_SECONDS = 6 if fault == "mig-manager-silent" else 30
        stage.simulated.ask("POST", "/_sim/faults", {"name": fault, "node": "mig-a", "times": 1})
        execution = carry(services.start_execution(actor=stage.operator, plan_id=plan.pk))
        assert execution.state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
        assert words in execution.state_reason
        assert node_of(stage)["spec"]["unschedulable"]
        settings.EXECUTION_MIG_SECONDS = 30
        services.roll_back(execution_id=execution.pk, actor=stage.operator, reason=fault)
        assert carry(execution).state == ExecutionState.ROLLED_BACK, stage.told(execution)
        assert labels_of(stage)[CONFIG] == "all-disabled"
        assert offers_of(stage) == before
        assert stage.traces() == []
        stage.simulated.ask("POST", "/_sim/faults", {"remove": fault, "node": "mig-a"})


def test_somebody_elses_label_is_never_overwritten_and_a_person_finds_the_way_out(stage_with):
    stage = stage_with(idle_node)
    stage.simulated.ask("POST", "/_sim/faults", {"name": "mig-label-changed-by-other", "node": "mig-a"})
    execution, _plan = stage.start("mig", change=of_gpu_5)
    carry(execution)
    assert execution.state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    assert "Somebody set mig.config of node mig-a to all-balanced" in execution.state_reason
    services.roll_back(execution_id=execution.pk, actor=stage.operator, reason="whose is it?")
    assert carry(execution).state == ExecutionState.NEEDS_HUMAN
    assert relabels(stage, "mig-a") == ["gpu5-1g.10gb"]

    stage.simulated.ask("PATCH", "/api/v1/nodes/mig-a", {"spec": {"unschedulable": None}})
    services.roll_back(execution_id=execution.pk, actor=stage.operator, reason="left to them")
    assert carry(execution).state == ExecutionState.ROLLED_BACK, stage.told(execution)
    assert execution.outcome["layouts_kept"] == ["mig-a"]
    assert relabels(stage, "mig-a") == ["gpu5-1g.10gb"]
    assert labels_of(stage)[CONFIG] == "all-balanced"
    assert stage.traces() == []


def test_a_change_of_mode_that_needs_a_reboot_is_waited_for(stage_with, settings):
    settings.EXECUTION_MIG_REBOOT_SECONDS = 60
    stage = stage_with(idle_node)
    stage.simulated.ask("POST", "/_sim/faults", {"name": "mig-reboot", "node": "mig-a", "times": 1})
    execution, _plan = stage.start("mig", change=of_gpu_5)
    carry(execution, seconds=90)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert step_on(execution, "mig-a").params["is_whole_node"]
    assert step_on(execution, "mig-a").observed["seen"]["rebooting"]
    assert offers_of(stage) == {"nvidia.com/gpu": 7, "nvidia.com/mig-1g.10gb": 7}
