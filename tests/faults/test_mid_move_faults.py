"""What others do to a move whose pod has left already: seen whole, on a simulated cluster."""

import pytest

from apps.executions import services
from apps.executions.models import Step
from apps.executions.states import ExecutionState, StepKind
from tests.executions.test_stories import carry, carry_until, has_sent

pytestmark = pytest.mark.django_db(transaction=True)
RESOURCES = {"ReplicaSet": "deployments", "StatefulSet": "statefulsets", "Job": "jobs"}


@pytest.mark.fault("pods: owner deleted in mid-move", "node: target deleted in mid-move")
def test_an_owner_and_a_target_that_are_deleted_after_the_eviction_are_told_and_given_back(stage, settings):
    settings.EXECUTION_REPLACEMENT_SECONDS, settings.EXECUTION_STEP_SECONDS = 4, 4
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.EVICT_POD, "evict"))
    first = next(one for one in moves_of(execution) if "evict" in one.observed.get("sent", []))
    kind, _, where = first.params["owner"].partition(" ")
    space, _, name = where.partition("/")
    group = "batch/v1" if kind == "Job" else "apps/v1"
    stage.simulated.ask("DELETE", f"/apis/{group}/namespaces/{space}/{RESOURCES[kind]}/{name}")
    carry_until(execution, lambda: len(stage.evicted()) == 2 or is_standing(execution))
    target = next(
        one.params["target"] for one in moves_of(execution) if one.params["uid"] != first.params["uid"]
    )
    stage.simulated.ask("DELETE", f"/api/v1/nodes/{target}")
    carry(execution, seconds=40)
    assert execution.state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    assert execution.cause, stage.told(execution)
    services.cancel(execution_id=execution.pk, actor=stage.operator, reason="its world is gone")
    carry(execution)
    assert execution.state == ExecutionState.CANCELLED, stage.told(execution)
    assert set(stage.evicted()) <= {move.pod_uid for move in plan.moves}
    assert len(stage.evicted()) == len(set(stage.evicted()))
    assert stage.traces() == []


def moves_of(execution):
    return list(Step.objects.filter(execution=execution, kind=StepKind.EVICT_POD).order_by("move"))


def is_standing(execution):
    execution.refresh_from_db()
    return execution.state == ExecutionState.NEEDS_HUMAN
