"""An API server that refuses, lags, forgets who we are, and is behind what it said."""

import pytest

from apps.clusters.services import replace_credentials
from apps.executions import runner, services
from apps.executions.states import ExecutionState, StepKind
from apps.kube.gateway import NODES, WatchEvent
from apps.kube.object_store import ObjectStore
from tests.executions.test_stories import carry, carry_until, has_sent, step_of
from tests.kube.objects import node

OURS = {"user_agent_regex": "gpu-defrag"}


def strike(stage, name, *, method="", path="", times=2, **fault):
    match = {**OURS, "method": method, "path_regex": path}
    known = {"name": name, "times": times, "match": match}
    stage.simulated.ask("POST", "/_sim/faults", known | fault)


def refuse(stage, name, code, reason, **fault):
    strike(stage, name, action="status", code=code, reason=reason, **fault)


@pytest.mark.django_db(transaction=True)
@pytest.mark.fault(
    "API server: 409 node", "API server: 409 UID", "API server: 401", "API server: NamespaceTerminating",
    "API server: lagging reads",
)  # fmt: skip
def test_what_is_refused_once_or_seen_late_only_costs_time(stage):
    execution, plan = stage.start()
    refuse(stage, "node", 409, "Conflict", method="PATCH", path="/nodes/")
    refuse(stage, "uid", 409, "Conflict", method="POST", path="/eviction$", skip=len(plan.moves))
    refuse(stage, "who", 401, "Unauthorized", method="POST", path="webhookconfigurations$", times=1)
    ending = {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}
    space = "/gpu-defrag/pods$"
    refuse(stage, "ending", 403, "Forbidden", method="POST", path=space, times=1, details=ending)
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold"))
    strike(stage, "lag", method="GET", path="/pods", action="lagging-read", times=25)
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert sorted(stage.evicted()) == sorted(move.pod_uid for move in plan.moves)
    hit = [call["status"] for call in stage.requests()]
    assert {401, 403, 409} <= set(hit)


@pytest.mark.django_db(transaction=True)
@pytest.mark.fault("API server: 500 two PDBs", "workflow: credential rotated")
def test_two_budgets_over_one_pod_wait_for_a_person_and_a_new_credential_goes_on(stage):
    execution, plan = stage.start()
    move = next(move for move in plan.moves if "web-infer" in move.pod)
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold"))
    budgets = "/apis/policy/v1/namespaces/work/poddisruptionbudgets"
    second = {"metadata": {"name": "second"}, "spec": {"maxUnavailable": 1}}
    second["spec"]["selector"] = stage.simulated.ask("GET", budgets)["items"][0]["spec"]["selector"]
    stage.simulated.ask("POST", budgets, second)
    carry(execution)
    assert execution.state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    blocked = step_of(execution, StepKind.EVICT_POD, move.order)
    assert "PodDisruptionBudget" in blocked.observed["runbook"]
    assert move.pod_uid not in stage.evicted()
    stage.simulated.ask("DELETE", f"{budgets}/second")

    kept = stage.simulated.credentials.token
    token = {"token": "later", "user": "rotated", "allowed": [["*", "*", "*"]]}
    stage.simulated.ask("POST", "/_sim/tokens", token)
    replace_credentials(
        actor=None, cluster_id=stage.cluster.pk, kubeconfig=stage.simulated.kubeconfig.replace(kept, "later")
    )
    services.resume(execution_id=execution.pk, actor=stage.operator)
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert sorted(stage.evicted()) == sorted(one.pod_uid for one in plan.moves)
    users = [call["user"] for call in stage.requests("POST", "/eviction")]
    assert users[-1] == "rotated"


@pytest.mark.fault("API server: duplicated and reordered events")
def test_events_that_come_twice_or_in_the_wrong_order_leave_the_newest_state():
    store = ObjectStore(NODES)

    def event(kind, version, mark):
        made = node(name="node-a")
        made["metadata"] |= {"resourceVersion": str(version), "labels": {"n": mark}}
        return WatchEvent(kind, made)

    assert store.apply(event("ADDED", 5, "five"))
    assert store.apply(event("MODIFIED", 9, "nine"))
    assert not store.apply(event("MODIFIED", 9, "nine"))
    assert not store.apply(event("MODIFIED", 7, "seven"))
    assert [one.open()["metadata"]["labels"]["n"] for one in store.objects()] == ["nine"]
    assert store.apply(event("DELETED", 11, "gone"))
    assert not store.apply(event("MODIFIED", 10, "ten"))
    assert store.objects() == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.fault("node: deleted", "pods: a successor under its name", "pods: PDB 0 before")
def test_a_pod_replaced_by_others_a_closed_budget_and_a_node_that_is_gone_are_told_and_given_back(
    stage, settings
):
    settings.EXECUTION_REPLACEMENT_SECONDS, settings.EXECUTION_STEP_SECONDS = 3, 4
    execution, plan = stage.start()
    path = "/apis/policy/v1/namespaces/work/poddisruptionbudgets"
    budget = stage.simulated.ask("GET", path)["items"][0]["metadata"]["name"]
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold"))
    stage.simulated.ask("PATCH", f"{path}/{budget}", {"spec": {"maxUnavailable": 0}})
    tuner = next(move for move in plan.moves if "tuner" in move.pod)
    pod = f"/api/v1/namespaces/work/pods/{tuner.pod.partition('/')[2]}"
    stage.simulated.ask("DELETE", pod)
    for _ in range(6):
        runner.advance(execution.pk, seconds=0.3)
    successor = stage.simulated.ask("GET", pod)["metadata"]["uid"]
    assert successor != tuner.pod_uid
    gone = plan.hand_overs[0].node
    stage.simulated.ask("DELETE", f"/api/v1/nodes/{gone}")
    carry(execution)
    assert execution.state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    services.cancel(execution_id=execution.pk, actor=stage.operator, reason="a node is gone")
    carry(execution)
    assert execution.state == ExecutionState.CANCELLED, stage.told(execution)
    assert {tuner.pod_uid, successor} & set(stage.evicted()) == set()
