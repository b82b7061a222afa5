"""Whole executions over HTTP against the simulated cluster, judged by what the API server logged."""

import json
import signal
import time

import pytest
from django.core.management import CommandError, call_command

from apps.audit.queries import verify_chain
from apps.executions import queries, runner, services, tasks
from apps.executions.errors import WrongState
from apps.executions.models import Claim, Step
from apps.executions.preflight import run_dry_runs
from apps.executions.states import TERMINAL, ExecutionState, StepKind, StepState
from apps.plans.states import PlanState
from console.embedded import free_port
from tests.cluster_fixtures import wait_until
from tests.executions.crashing import held_at, reconcile

pytestmark = pytest.mark.django_db(transaction=True)


def carry(execution, seconds=60):
    """Visit after visit, as the timer would, until it has ended or waits for a person."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        runner.advance(execution.pk, seconds=seconds)
        execution.refresh_from_db()
        if execution.state in TERMINAL | {ExecutionState.PAUSED, ExecutionState.NEEDS_HUMAN}:
            break
    return execution


def carry_until(execution, is_so, seconds=60):
    """One pass after the other, until something is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come so far"
        runner.advance(execution.pk, seconds=0)
    execution.refresh_from_db()


def step_of(execution, kind, move=None):
    found = Step.objects.filter(execution=execution, kind=kind)
    return found.get(move=move) if move is not None else found.first()


def has_sent(execution, kind, effect):
    return any(
        effect in s.observed.get("sent", []) for s in Step.objects.filter(execution=execution, kind=kind)
    )


def body(request):
    return json.loads(request["body"])


def is_real_eviction(request):
    return request["path"].endswith("/eviction") and "dryRun" not in request["query"]


def placed_gang(stage):
    return sorted(pod.node_name for pod in stage.picture().pods.values() if pod.gang == "ml/big-train")


def test_a_gang_gets_its_nodes(stage):
    execution, plan = stage.start()
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert execution.outcome["matches"]
    assert sorted(stage.evicted()) == sorted(move.pod_uid for move in plan.moves)
    assert placed_gang(stage) == sorted(one.node for one in plan.hand_overs)
    assert stage.traces() == []
    assert not Claim.objects.exists()
    assert verify_chain().is_intact
    _check_invariants(stage, plan)
    positions = list(execution.requests.values_list("position", flat=True))
    first = next(number for number, one in enumerate(positions) if one is not None)
    assert None in positions[first:], "the lists by which it was verified count as sent for a step"


def _check_invariants(stage, plan):
    """Over the recorded API calls: numbers 1 to 4, 13 of the safety rules."""
    calls = stage.requests()
    evictions = [call for call in calls if is_real_eviction(call)]
    first = calls.index(evictions[0])
    nominated = [
        call
        for call in calls[:first]
        if call["method"] == "PATCH" and "/gpu-defrag/pods/hold-" in call["path"]
    ]
    assert len({call["path"] for call in nominated}) == len(plan.moves)
    for call in evictions:
        options = body(call)["deleteOptions"]
        assert options["preconditions"]["uid"] in {move.pod_uid for move in plan.moves}
        assert "gracePeriodSeconds" not in options
    for call in calls:
        if call["method"] == "DELETE":
            assert "/namespaces/gpu-defrag/" in call["path"] or "webhookconfigurations" in call["path"]
            assert body(call)["preconditions"]["uid"]
        if call["method"] == "PATCH":
            assert body(call)["metadata"]["uid"]
            assert body(call)["metadata"]["resourceVersion"]


def test_seven_moves_bring_a_gang_of_three_onto_a_large_mixed_cluster(stage_of):
    stage = stage_of("fragmented")
    execution, plan = stage.start()
    carry(execution, seconds=120)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert len(plan.moves) == 7
    assert sorted(stage.evicted()) == sorted(move.pod_uid for move in plan.moves)
    assert stage.traces() == []
    _check_invariants(stage, plan)


def test_whole_nodes_are_freed_and_opened_again(stage):
    execution, plan = stage.start("free-nodes")
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert plan.freed_nodes
    assert len(stage.evicted()) == len(plan.moves)
    assert stage.traces() == []
    picture = stage.picture()
    assert not any(picture.nodes[name].unschedulable for name in plan.freed_nodes)


def test_a_plan_that_the_cluster_left_behind_goes_stale_and_nothing_is_touched(stage):
    execution, plan = stage.start()
    namespace, _, name = plan.moves[0].pod.partition("/")
    stage.simulated.ask("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}")
    carry(execution)
    execution.plan.refresh_from_db()
    assert execution.state == ExecutionState.FAILED
    assert execution.plan.state == PlanState.STALE
    assert "Nothing was touched" in execution.state_reason
    assert not [call for call in stage.requests() if call["method"] in ("PATCH", "DELETE")]
    assert stage.evicted() == []
    assert not Claim.objects.exists()


def test_paused_nothing_begins_and_what_is_in_the_air_is_landed(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.EVICT_POD, "evict"))
    services.pause(execution_id=execution.pk, actor=stage.operator, reason="lunch")
    flown = set(stage.evicted())
    for _ in range(40):
        runner.advance(execution.pk, seconds=0.2)
    assert set(stage.evicted()) == flown
    assert not [trace for trace in stage.traces() if trace.startswith("gate")]
    landed = [
        s
        for s in Step.objects.filter(execution=execution, kind="await_replacement")
        if s.params["uid"] in flown
    ]
    assert {s.state for s in landed} == {StepState.VERIFIED}, stage.told(execution)
    services.resume(execution_id=execution.pk, actor=stage.operator)
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert len(stage.evicted()) == len(set(stage.evicted())) == len(plan.moves)


@pytest.mark.parametrize(
    ("stop", "kind", "effect"),
    [
        ("cancel", "cordon_node", "cordon"),
        ("cancel", "hold_target", "create_hold"),
        ("cancel", "steer", "create_webhook"),
        ("cancel", "evict_pod", "evict"),
        ("cancel", "await_replacement", "delete_hold"),
        ("cancel", "hand_over", "taint"),
        ("roll_back", "steer", "create_webhook"),
        ("roll_back", "evict_pod", "evict"),
        ("roll_back", "await_replacement", "delete_hold"),
    ],
)
def test_stopped_at_any_point_nothing_of_ours_is_left_behind(stage, stop, kind, effect):
    execution, _ = stage.start()
    carry_until(execution, lambda: has_sent(execution, kind, effect))
    getattr(services, stop)(execution_id=execution.pk, actor=stage.operator, reason="changed our minds")
    carry(execution)
    ended = {"cancel": ExecutionState.CANCELLED, "roll_back": ExecutionState.ROLLED_BACK}[stop]
    assert execution.state == ended, stage.told(execution)
    assert execution.state_reason.startswith("omar: changed our minds. ")
    assert stage.traces() == []
    assert len(execution.outcome["not_undone"]) == len(stage.evicted())
    assert not Claim.objects.exists()
    picture = stage.picture()
    assert not any(node.unschedulable for node in picture.nodes.values())
    assert all(pod.node_name for pod in picture.pods.values() if pod.namespace == "work")


def test_a_lost_answer_to_an_eviction_does_not_evict_twice(stage):
    match = {"method": "POST", "path_regex": "/eviction$", "user_agent_regex": "gpu-defrag"}
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.STEER, "create_webhook"))
    stage.simulated.ask("POST", "/_sim/faults", {"action": "act-then-reset", "times": 3, "match": match})
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    asked = [call for call in stage.requests("POST", "/eviction") if is_real_eviction(call)]
    assert len(asked) == len(plan.moves)


def test_a_bad_day_of_the_api_server_only_costs_time(stage):
    execution, plan = stage.start()
    for code, reason in ((500, "InternalError"), (429, "TooManyRequests"), (503, "ServiceUnavailable")):
        fault = {"action": "status", "code": code, "reason": reason, "times": 4, "skip": 30}
        fault["match"] = {"user_agent_regex": "gpu-defrag"}
        stage.simulated.ask("POST", "/_sim/faults", fault)
    carry(execution, seconds=90)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert len(stage.evicted()) == len(plan.moves)


def test_a_closed_budget_blocks_one_move_and_it_goes_on_when_the_budget_opens(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold"))
    path = "/apis/policy/v1/namespaces/work/poddisruptionbudgets"
    budget = stage.simulated.ask("GET", path)["items"][0]["metadata"]["name"]
    stage.simulated.ask("PATCH", f"{path}/{budget}", {"spec": {"maxUnavailable": 0}})
    move = next(move.order for move in plan.moves if "web-infer" in move.pod)
    carry_until(execution, lambda: step_of(execution, "evict_pod", move).state == StepState.BLOCKED)
    blocked = step_of(execution, "evict_pod", move)
    assert "disruption budget" in blocked.reason
    assert blocked.retry_at is not None
    assert blocked.observed["runbook"]
    stage.simulated.ask("PATCH", f"{path}/{budget}", {"spec": {"maxUnavailable": 1}})
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)


def test_a_lost_nomination_is_put_back_before_anything_is_evicted(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.STEER, "create_webhook"))
    for hold in stage.simulated.ask("GET", "/api/v1/namespaces/gpu-defrag/pods")["items"]:
        path = f"/api/v1/namespaces/gpu-defrag/pods/{hold['metadata']['name']}/status"
        stage.simulated.ask("PATCH", path, {"status": {"nominatedNodeName": None}})
    assert stage.evicted() == []
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert has_sent(execution, StepKind.EVICT_POD, "nominate_hold")


def test_a_cordon_of_somebody_else_is_left_standing(stage):
    execution, plan = stage.start("free-nodes")
    carry_until(execution, lambda: Step.objects.filter(execution=execution).exists())
    node = plan.freed_nodes[0]
    stage.simulated.ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert stage.picture().nodes[node].unschedulable
    assert stage.traces() == []


def test_a_pod_that_opts_in_saves_its_work_before_it_is_evicted(stage):
    execution, plan = stage.start()
    tuner = next(move for move in plan.moves if "tuner" in move.pod)
    path = f"/api/v1/namespaces/work/pods/{tuner.pod.partition('/')[2]}"
    stage.simulated.ask(
        "PATCH", path, {"metadata": {"annotations": {"defrag.gpu.internal/checkpoint": "true"}}}
    )
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    saved = step_of(execution, StepKind.CHECKPOINT, tuner.order)
    assert saved.state == StepState.VERIFIED
    assert saved.finished_at < step_of(execution, StepKind.EVICT_POD, tuner.order).intent_at


def test_without_the_gate_a_replacement_is_taken_on_its_target_and_told_to_a_person_elsewhere(
    stage, settings
):
    """Where an ungated pod lands is the scheduler's choice; what the console says of it must be true."""
    settings.STEERING_URL = f"https://127.0.0.1:{free_port()}"
    settings.EXECUTION_REPLACEMENT_SECONDS = 8
    execution, plan = stage.start()
    carry(execution)
    pods = stage.picture().pods
    awaited = Step.objects.filter(execution=execution, kind=StepKind.AWAIT_REPLACEMENT)
    places = {s.move: pods[s.observed["seen"]["replacement"]].node_name for s in awaited}
    as_planned = places == {move.order: move.target for move in plan.moves}
    assert execution.state == (ExecutionState.SUCCEEDED if as_planned else ExecutionState.NEEDS_HUMAN)
    if not as_planned:
        assert "the gate did not catch it" in execution.state_reason
        services.cancel(execution_id=execution.pk, actor=stage.operator, reason="plan anew")
        carry(execution)
    assert stage.traces() == []


def test_an_execution_past_its_deadline_gives_everything_back(stage, settings):
    settings.EXECUTION_DEADLINE_SECONDS = 1.5
    execution, _ = stage.start()
    carry(execution)
    assert execution.state == ExecutionState.CANCELLED, stage.told(execution)
    assert "deadline" in execution.state_reason
    assert stage.traces() == []


def test_another_cluster_behind_the_same_address_is_never_written_to(stage):
    execution, _ = stage.start()
    type(stage.cluster).objects.update(kube_system_uid="another")
    runner.advance(execution.pk, seconds=1)
    execution.refresh_from_db()
    assert execution.state == ExecutionState.PREFLIGHT
    assert not [call for call in stage.requests() if call["method"] != "GET"]


def test_whoever_loses_the_role_stops_the_run(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold"))
    stage.operator.grants.all().delete()
    runner.advance(execution.pk, seconds=2)
    execution.refresh_from_db()
    assert execution.state == ExecutionState.PAUSED
    assert stage.evicted() == []


def contender(number):
    resources = {
        "limits": {"nvidia.com/gpu": "1"},
        "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"stranger-{number}", "namespace": "work", "labels": {"stranger": "yes"}},
        "spec": {
            "priorityClassName": "training",
            "containers": [{"name": "main", "image": "x", "resources": resources}],
        },
    }


def test_three_workers_at_once_do_the_work_of_one(stage, webhook):
    execution, plan = stage.start()
    workers = [reconcile(execution, webhook.environment) for _ in range(3)]
    assert [worker.wait(100) for worker in workers] == [0, 0, 0]
    execution.refresh_from_db()
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    asked = [call for call in stage.requests("POST", "/eviction") if is_real_eviction(call)]
    assert len(asked) == len(plan.moves)


def test_a_worker_that_slept_past_its_lease_sends_nothing_when_it_wakes(stage, webhook):
    execution, plan = stage.start()
    short = {"EXECUTION_LEASE_SECONDS": "8", "KUBE_CONNECT_SECONDS": "0.5", "KUBE_READ_SECONDS": "1.5"}
    environment = {**webhook.environment, **short}
    sleeper = reconcile(execution, environment)
    with held_at("evict_pod/intent/evict") as after_commit:
        after_commit(lambda: sleeper.send_signal(signal.SIGSTOP))
    assert not stage.evicted()
    second = reconcile(execution, environment)
    assert second.wait(100) == 0
    # A request that timed out is sent again, so what counts is that none came after the sleeper woke.
    before = _effects(stage)
    sleeper.send_signal(signal.SIGCONT)
    assert sleeper.wait(30) == 0
    execution.refresh_from_db()
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert _effects(stage) == before
    assert set(stage.evicted()) == {move.pod_uid for move in plan.moves}


def _effects(stage):
    asks = ("/leases", "authorization.k8s.io")
    calls = [call for method in ("POST", "PATCH", "DELETE") for call in stage.requests(method)]
    return [call for call in calls if not any(word in call["path"] for word in asks)]


def test_refused_again_and_again_it_pauses_and_goes_on_after_resuming(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: Step.objects.filter(execution=execution).exists())
    match = {"method": "PATCH", "path_regex": "/nodes/", "user_agent_regex": "gpu-defrag"}
    refusal = {"name": "no", "action": "status", "code": 403, "reason": "Forbidden", "match": match}
    stage.simulated.ask("POST", "/_sim/faults", refusal)
    carry(execution)
    assert execution.state == ExecutionState.PAUSED, stage.told(execution)
    assert "Several failures in a row" in execution.state_reason
    assert stage.evicted() == []
    stage.simulated.ask("DELETE", "/_sim/faults")
    services.resume(execution_id=execution.pk, actor=stage.operator)
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)


def test_an_effect_that_kills_every_worker_is_given_to_a_person(stage, settings):
    settings.EXECUTION_CRASHES_BEFORE_STOP = 2
    execution, _ = stage.start()
    carry_until(execution, lambda: Step.objects.filter(execution=execution).exists())
    Step.objects.filter(execution=execution, kind=StepKind.CORDON_NODE).update(
        state=StepState.INTENT, attempts=2, observed={"sent": ["cordon", "cordon"], "crashes": 2}
    )
    carry(execution)
    assert execution.state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    assert "never answered" in execution.state_reason
    assert stage.traces() == []


def test_what_was_being_undone_is_not_resumed(stage):
    execution, _ = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold"))
    services.cancel(execution_id=execution.pk, actor=stage.operator, reason="no")
    carry_until(execution, lambda: Step.objects.filter(state=StepState.COMPENSATING).exists())
    type(execution).objects.update(state=ExecutionState.NEEDS_HUMAN)
    with pytest.raises(WrongState, match="being undone"):
        services.resume(execution_id=execution.pk, actor=stage.operator)


def test_proposed_evictions_are_asked_about_and_nothing_happens(stage):
    plan, found = stage.approved_plan()
    type(plan).objects.update(state=PlanState.PROPOSED)
    tasks.run_missing_dry_runs()
    version = plan.versions.get()
    runs = {run.pod_uid: run for run in queries.dry_run_of(version)}
    assert set(runs) == {move.pod_uid for move in found.moves}
    assert all(run.allowed for run in runs.values())
    assert stage.evicted() == []
    budgets = "/apis/policy/v1/namespaces/work/poddisruptionbudgets"
    name = stage.simulated.ask("GET", budgets)["items"][0]["metadata"]["name"]
    stage.simulated.ask("PATCH", f"{budgets}/{name}", {"spec": {"maxUnavailable": 0}})
    wait_until(lambda: not all(run.allowed for run in run_dry_runs(version_id=version.pk)))
    refused = [run for run in queries.dry_run_of(version) if not run.allowed]
    assert [run.pod.partition("-")[0] for run in refused] == ["work/web"]
    assert "disruption budget" in refused[0].message
    assert not queries.versions_without_dry_run().exists()


def test_the_timer_alone_carries_an_execution_to_its_end(stage):
    execution, _ = stage.start()
    deadline = time.monotonic() + 60
    while execution.state not in TERMINAL:
        assert time.monotonic() < deadline
        tasks.reconcile_executions()
        execution.refresh_from_db()
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)


def test_an_unreadable_cluster_at_preflight_blocks_and_touches_nothing(stage):
    execution, _ = stage.start()
    fault = {"name": "down", "action": "reset", "match": {"user_agent_regex": "gpu-defrag"}}
    stage.simulated.ask("POST", "/_sim/faults", fault)
    runner.advance(execution.pk, seconds=1)
    execution.refresh_from_db()
    assert execution.state == ExecutionState.PREFLIGHT
    stage.simulated.ask("DELETE", "/_sim/faults")
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)


def test_a_number_that_is_no_execution_is_told():
    with pytest.raises(CommandError, match="there is no execution 999"):
        call_command("reconcile", "--execution", "999")


def test_without_a_webhook_nothing_is_carried_out_and_the_plan_stays_approved(stage, settings):
    settings.STEERING_URL = ""
    execution, _ = stage.start()
    carry(execution)
    assert execution.state == ExecutionState.FAILED
    assert "STEERING_URL" in execution.state_reason
    execution.plan.refresh_from_db()
    assert execution.plan.state == PlanState.APPROVED
    assert not [call for call in stage.requests() if call["method"] in ("PATCH", "DELETE")]
