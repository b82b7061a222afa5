"""What goes wrong at the worst moment: over HTTP against the simulated cluster, judged by its own log."""

import json

import pytest
import redis
from django.conf import settings

from apps.audit.models import AuditEntry
from apps.audit.queries import verify_chain
from apps.clusters import notices
from apps.clusters.services import record_snapshot
from apps.executions import names, queries, services, tasks
from apps.executions.context import LeasedGateway
from apps.executions.errors import LostLease, WrongState
from apps.executions.locks import claim
from apps.executions.models import Execution, Steering, Step
from apps.executions.states import FINISHED, ExecutionState, StepKind, StepState
from apps.kube.gateway import NODES
from apps.plans.states import PlanState
from tests.executions.test_stories import (
    carry,
    carry_until,
    contender,
    has_sent,
    is_real_eviction,
    placed_gang,
    step_of,
)

pytestmark = pytest.mark.django_db(transaction=True)
OURS = {"user_agent_regex": "gpu-defrag"}


def have_steps(execution):
    return Step.objects.filter(execution=execution).exists()


def writes(stage):
    """What the console changed or may have changed, dry runs and questions about rights apart."""
    return [
        call
        for call in stage.requests()
        if call["method"] in ("PATCH", "DELETE")
        or (call["method"] == "POST" and "dryRun" not in call["query"] and "reviews" not in call["path"])
    ]


def test_while_paused_an_eviction_in_doubt_does_not_keep_the_other_moves_behind_our_gate(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold"))
    doubtful = next(move for move in plan.moves if "web-infer" in move.pod)
    path = f"/{doubtful.pod.partition('/')[2]}/eviction$"
    fault = {
        "action": "status",
        "code": 500,
        "reason": "InternalError",
        "match": {**OURS, "path_regex": path},
    }
    stage.simulated.ask("POST", "/_sim/faults", {"name": "doubt", **fault})
    carry_until(
        execution,
        lambda: (
            "evict" in step_of(execution, "evict_pod", doubtful.order).observed.get("sent", [])
            and len(stage.evicted()) == len(plan.moves) - 1
        ),
    )
    services.pause(execution_id=execution.pk, actor=stage.operator, reason="lunch")
    others = Step.objects.filter(execution=execution, kind="release", move__gt=0).exclude(move=doubtful.order)
    carry_until(execution, lambda: {step.state for step in others.all()} == {StepState.VERIFIED}, seconds=30)
    assert execution.state == ExecutionState.PAUSED
    assert not [trace for trace in stage.traces() if trace.startswith("gate")]
    assert doubtful.pod_uid not in stage.evicted()
    stage.simulated.ask("DELETE", "/_sim/faults")
    services.resume(execution_id=execution.pk, actor=stage.operator)
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert sorted(stage.evicted()) == sorted(move.pod_uid for move in plan.moves)


def test_what_another_console_made_under_the_same_number_is_neither_used_nor_removed(stage):
    execution, plan = stage.start("free-nodes")
    carry_until(execution, lambda: have_steps(execution))
    node = plan.freed_nodes[0]
    theirs = {"execution": execution.pk, "mark": "another", "reason": "theirs", "fence": 99}
    annotations = {names.CORDON: json.dumps(theirs)}
    body = {"metadata": {"annotations": annotations}, "spec": {"unschedulable": True}}
    stage.simulated.ask("PATCH", f"/api/v1/nodes/{node}", body)
    moved = step_of(execution, StepKind.STEER)
    label = {names.OWNED: str(execution.pk)}
    hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    stage.simulated.ask("POST", hooks, {"metadata": {"name": moved.params["webhook"], "labels": label}})
    carry(execution)
    assert execution.state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    services.cancel(execution_id=execution.pk, actor=stage.operator, reason="not alone here")
    carry(execution)
    assert execution.state == ExecutionState.CANCELLED, stage.told(execution)
    assert sorted(stage.traces()) == sorted([f"cordon {node}", f"webhook {moved.params['webhook']}"])
    assert stage.picture().nodes[node].unschedulable
    assert not Steering.objects.filter(closed_at=None).exists()


def test_a_pod_that_comes_in_between_preflight_and_cordon_stops_it_before_any_eviction(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: have_steps(execution))
    node = plan.hand_overs[0].node
    stranger = contender(1)
    stranger["spec"]["nodeName"] = node
    stage.simulated.ask("POST", "/api/v1/namespaces/work/pods", stranger)
    carry(execution)
    assert execution.state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    assert "work/stranger-1 came onto node" in execution.state_reason
    assert stage.evicted() == []
    services.cancel(execution_id=execution.pk, actor=stage.operator, reason="somebody came in")
    carry(execution)
    assert execution.state == ExecutionState.CANCELLED, stage.told(execution)
    assert f"Plan {execution.plan_id} stays approved until" in execution.state_reason
    assert stage.traces() == []


def test_a_node_that_somebody_opens_while_it_is_being_freed_stops_the_evictions(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.STEER, "create_webhook"))
    assert stage.evicted() == []
    nodes = {move.source for move in plan.moves}
    for node in nodes:
        stage.simulated.ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})
    carry(execution)
    assert execution.state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    assert "was uncordoned by somebody" in execution.state_reason
    assert stage.evicted() == []
    for node in nodes:
        stage.simulated.ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    services.resume(execution_id=execution.pk, actor=stage.operator, reason="it stands again")
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)


def test_a_gang_is_not_let_onto_one_of_its_nodes_while_another_cannot_be_kept(stage):
    execution, plan = stage.start()
    moving = Step.objects.filter(execution=execution, move__gt=0).exclude(state__in=FINISHED)
    carry_until(execution, lambda: have_steps(execution) and not moving.exists())
    refused = sorted({one.node for one in plan.hand_overs})[-1]
    match = {**OURS, "method": "PATCH", "path_regex": f"/nodes/{refused}$"}
    fault = {"name": "no", "action": "status", "code": 403, "reason": "Forbidden", "match": match}
    stage.simulated.ask("POST", "/_sim/faults", fault)
    carry(execution)
    assert execution.state == ExecutionState.PAUSED, stage.told(execution)
    picture = stage.picture()
    assert all(picture.nodes[one.node].unschedulable for one in plan.hand_overs)
    assert set(placed_gang(stage)) == {""}
    stage.simulated.ask("DELETE", "/_sim/faults")
    services.resume(execution_id=execution.pk, actor=stage.operator)
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert placed_gang(stage) == sorted(one.node for one in plan.hand_overs)


def test_a_runner_whose_lease_is_over_by_the_databases_clock_sends_no_write(stage):
    """A machine that was suspended believes its own clock; the database knows better."""
    execution, plan = stage.start()
    lease = claim(execution.pk, owner="sleeper", seconds=60)
    Execution.objects.filter(pk=execution.pk).update(lease_until="2020-01-01T00:00:00Z")
    assert lease.left() > 50
    door = LeasedGateway(stage.gateway, lease)
    stage.simulated.ask("DELETE", "/_sim/requests")
    with pytest.raises(LostLease):
        door.evict_pod("work", plan.moves[0].pod.partition("/")[2], uid=plan.moves[0].pod_uid)
    with pytest.raises(LostLease):
        door.patch_object(NODES, plan.moves[0].source, {"spec": {"unschedulable": True}})
    assert stage.requests() == []


def test_a_plan_that_went_stale_while_its_runner_died_is_not_carried_out(stage):
    execution, _ = stage.start()
    type(execution.plan).objects.update(state=PlanState.STALE, state_reason="a pod is gone.")
    carry(execution)
    assert execution.state == ExecutionState.FAILED
    assert "Nothing was touched" in execution.state_reason
    assert "Ask for a new plan" in execution.state_reason
    assert writes(stage) == []


def test_after_a_cancel_before_any_eviction_the_same_plan_starts_again_and_after_success_never(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold"))
    services.cancel(execution_id=execution.pk, actor=stage.operator, reason="not now")
    carry(execution)
    assert "an operator can start it again" in execution.state_reason
    second = services.start_execution(actor=stage.operator, plan_id=execution.plan_id)
    carry(second)
    assert second.state == ExecutionState.SUCCEEDED, stage.told(second)
    assert len(stage.evicted()) == len(plan.moves)
    with pytest.raises(WrongState, match="was carried out by execution"):
        services.start_execution(actor=stage.operator, plan_id=execution.plan_id)


def test_after_a_cancel_with_moved_pods_the_person_is_told_to_plan_anew(stage):
    execution, _ = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.EVICT_POD, "evict"))
    services.cancel(execution_id=execution.pk, actor=stage.operator, reason="enough")
    carry(execution)
    assert execution.state == ExecutionState.CANCELLED
    assert "ask for a new one" in execution.state_reason


def test_an_eviction_that_a_budget_refused_does_not_count_as_sent(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold"))
    move = next(move for move in plan.moves if "web-infer" in move.pod)
    # The budget still looks open when somebody else spends it.
    refusal = {
        "action": "status",
        "code": 429,
        "reason": "TooManyRequests",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"causes": [{"reason": "DisruptionBudget", "message": "spent"}]},
        "match": {"method": "POST", "path_regex": f"{move.pod.split('/')[1]}/eviction"},
    }
    stage.simulated.ask("POST", "/_sim/faults", refusal)
    carry_until(execution, lambda: step_of(execution, "evict_pod", move.order).state == StepState.BLOCKED)
    stage.simulated.ask("DELETE", f"/api/v1/namespaces/{move.pod.replace('/', '/pods/')}")
    carry_until(execution, lambda: step_of(execution, "evict_pod", move.order).state in FINISHED)
    gone = step_of(execution, "evict_pod", move.order)
    assert (gone.state, gone.observed["seen"]["left_by_itself"]) == (StepState.SUPERSEDED, True)
    tried = [call["status"] for call in stage.requests("POST", "/eviction") if is_real_eviction(call)]
    assert 429 in tried


def test_a_pod_that_came_behind_our_gate_after_its_move_was_over_is_freed_by_the_timer(stage):
    execution, _ = stage.start()
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    steering = step_of(execution, StepKind.STEER).params["steering"]
    for name, mark in (("late", steering), ("unknown", "steer-of-another-console")):
        pod = contender(name)
        pod["metadata"]["annotations"] = {names.MIGRATION: mark}
        pod["spec"]["schedulingGates"] = [{"name": names.GATE}, {"name": "example.com/theirs"}]
        stage.simulated.ask("POST", "/api/v1/namespaces/work/pods", pod)
    record_snapshot(cluster_id=stage.cluster.pk, snapshot=stage.picture())
    tasks.free_stray_pods()
    gates = {
        pod["metadata"]["name"]: [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]
        for pod in stage.simulated.ask("GET", "/api/v1/namespaces/work/pods")["items"]
    }
    assert gates["stranger-late"] == ["example.com/theirs"]
    assert gates["stranger-unknown"] == [names.GATE, "example.com/theirs"]
    assert AuditEntry.objects.get(action="pod.freed").detail["pod"] == "work/stranger-late"
    assert verify_chain().is_intact


def test_a_priority_class_that_could_preempt_is_not_used_for_a_hold(stage):
    execution, _ = stage.start()
    carry_until(execution, lambda: have_steps(execution))
    priority = step_of(execution, StepKind.HOLD_TARGET).params["priority"]
    body = {"metadata": {"name": names.priority_class_name(priority)}, "value": priority}
    body["preemptionPolicy"] = "PreemptLowerPriority"
    stage.simulated.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
    carry(execution)
    assert execution.state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    assert "PreemptLowerPriority, not" in execution.state_reason
    assert stage.evicted() == []


@pytest.mark.parametrize("stop", ["cancel", "roll_back", ""])
def test_without_a_way_into_the_cluster_an_execution_that_touched_nothing_still_ends(stage, stop):
    execution, _ = stage.start()
    type(stage.cluster).objects.update(credential=b"unreadable")
    if stop:
        getattr(services, stop)(execution_id=execution.pk, actor=stage.operator, reason="no way in")
    carry(execution, seconds=5)
    ended = {"cancel": ExecutionState.CANCELLED, "roll_back": ExecutionState.ROLLED_BACK}
    assert execution.state == ended.get(stop, ExecutionState.FAILED)
    assert "Nothing was touched" in execution.state_reason


def test_pages_are_told_when_the_dry_runs_of_a_plan_are_in(stage):
    plan, _ = stage.approved_plan()
    type(plan).objects.update(state=PlanState.PROPOSED)
    channel = redis.Redis.from_url(settings.REDIS_URL).pubsub(ignore_subscribe_messages=True)
    channel.subscribe(notices.CHANNEL)
    channel.get_message(timeout=5)
    tasks.run_missing_dry_runs()
    told = []
    while (message := channel.get_message(timeout=1)) is not None:
        told.append(json.loads(message["data"]))
    channel.close()
    assert {"cluster": "sim", "topic": "plan", "data": {"plan": plan.pk, "state": "proposed"}} in told


def test_a_credential_that_cannot_be_read_does_not_end_the_timer_of_dry_runs(stage):
    plan, _ = stage.approved_plan()
    type(plan).objects.update(state=PlanState.PROPOSED)
    type(stage.cluster).objects.update(credential=b"unreadable")
    tasks.run_missing_dry_runs()
    assert queries.versions_without_dry_run().exists()
