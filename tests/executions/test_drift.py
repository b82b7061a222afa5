"""A node that loses a GPU while a plan is carried out: nothing more is begun there, what flies lands."""

from dataclasses import replace

import pytest

from apps.clusters.accepting import accept_drift
from apps.clusters.expectations import Expectations
from apps.clusters.services import record_snapshot
from apps.executions import services
from apps.executions.drifting import drifted_nodes
from apps.executions.models import Step
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.plans import services as plan_services
from apps.plans.states import PlanState
from tests.cluster_fixtures import wait_until
from tests.executions.test_stories import carry, carry_until, has_sent, step_of
from tests.plans.situations import person

pytestmark = pytest.mark.django_db(transaction=True)
State = ExecutionState


def look(stage, expectations):
    """What the watcher does; whether it sees drift."""
    picture = expectations.judge(stage.picture())
    record_snapshot(cluster_id=stage.cluster.pk, snapshot=picture)
    return {name: node.drift for name, node in picture.nodes.items() if node.drift}


def test_nothing_is_begun_on_a_node_that_drifted_and_it_goes_on_once_a_person_accepts_it(stage):
    admin = person("root", "admin", cluster=stage.cluster)
    plan_services.change_policy(actor=admin, cluster=stage.cluster, wishes={"max_evictions_in_flight": 1})
    expectations = Expectations(stage.cluster.pk)
    execution, plan = stage.start()
    look(stage, expectations)
    carry_until(execution, lambda: has_sent(execution, StepKind.EVICT_POD, "evict"))
    begun = {step.move for step in Step.objects.filter(execution=execution, kind=StepKind.EVICT_POD)
             if "evict" in step.observed.get("sent", [])}  # fmt: skip
    safe = {move.target for move in plan.moves if move.order in begun}
    held = next(move for move in plan.moves if move.target not in safe and move.order not in begun)

    stage.simulated.ask("POST", "/_sim/faults", {"name": "gpu-lost", "node": held.target})
    assert list(wait_until(lambda: look(stage, expectations))) == [held.target]
    carry(execution)
    assert execution.state in (State.PAUSED, State.NEEDS_HUMAN), stage.told(execution)
    stopped = step_of(execution, StepKind.EVICT_POD, held.order)
    assert held.pod_uid not in stage.evicted()
    told = " ".join(Step.objects.filter(execution=execution).values_list("reason", flat=True))
    assert f"Node {held.target} has drifted: 8 healthy GPUs were seen here, now there are 7" in told
    landing = Step.objects.filter(execution=execution, kind=StepKind.AWAIT_REPLACEMENT, move__in=begun)
    carry_until(execution, lambda: not landing.exclude(state=StepState.VERIFIED).exists())
    assert stopped.state != StepState.VERIFIED

    uid = stage.picture().nodes[held.target].uid
    accept_drift(actor=stage.operator, cluster_id=stage.cluster.pk, node_uid=uid, node=held.target)
    assert expectations.read_again()
    assert look(stage, expectations) == {}
    services.resume(execution_id=execution.pk, actor=stage.operator)
    carry(execution)
    assert held.pod_uid in stage.evicted(), stage.told(execution)


def test_a_plan_whose_target_has_drifted_goes_stale_before_anything_is_cordoned(stage):
    """The lists of preflight say nothing of what a node showed before; the watcher's snapshot does."""
    execution, plan = stage.start()
    move = plan.moves[0]
    row = record_snapshot(cluster_id=stage.cluster.pk, snapshot=stage.picture())
    row.summary |= {"drifted": {move.source: "links are gone", move.target: "links are gone"}}
    row.save()
    carry(execution)
    execution.plan.refresh_from_db()
    assert (execution.state, execution.plan.state) == (State.FAILED, PlanState.STALE), stage.told(execution)
    assert f"node {move.target} has drifted: links are gone" in execution.plan.state_reason
    assert drifted_nodes(stage.cluster, replace(plan, moves=(move,), hand_overs=())) == [
        f"node {move.target} has drifted: links are gone"
    ]
    assert stage.traces() == []
