"""Which nodes the cluster's extender is told to keep, from the rows of executions alone."""

import pytest

from apps.executions.kept_nodes import nodes_kept_in
from apps.executions.models import Execution, Step
from apps.executions.states import ExecutionState, StepKind, StepState
from tests.plans.situations import draft, make_cluster, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def execution():
    plan = draft(make_cluster(), person("ada", "planner"))
    version = plan.versions.get(number=plan.version_number)
    row = Execution.objects.create(
        plan=plan, version=version, state=ExecutionState.RUNNING, started_by=person("omar", "operator")
    )
    handed = {"node": "node-a", "node_uid": "a", "keys": ["ml/train"], "display": "ml/train"}
    Step.objects.create(execution=row, position=1, kind=StepKind.HAND_OVER, target="node a", params=handed)
    moved = {"workload_uid": "rs-web", "target": "node-a", "target_uid": "a"}
    for position, kind in ((2, StepKind.HOLD_TARGET), (3, StepKind.AWAIT_REPLACEMENT)):
        Step.objects.create(execution=row, position=position, kind=kind, target="pod", params=moved)
    return row


def kept(execution):
    return nodes_kept_in(execution.plan.cluster_id)


def test_a_node_to_be_handed_over_is_kept_for_its_gang_and_for_what_moves_there(execution):
    (found,) = kept(execution)
    assert (found.node, found.keys, found.owners) == ("node-a", {"ml/train"}, {"rs-web"})
    assert found.reason == f"kept for ml/train by execution {execution.pk}"
    assert nodes_kept_in(execution.plan.cluster_id + 1) == []


@pytest.mark.parametrize("state", [ExecutionState.PAUSED, ExecutionState.NEEDS_HUMAN])
def test_it_stays_kept_while_a_person_is_waited_for(execution, state):
    Execution.objects.update(state=state)
    assert len(kept(execution)) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda: Execution.objects.update(state=ExecutionState.ROLLING_BACK),
        lambda: Execution.objects.update(state=ExecutionState.CANCELLING),
        lambda: Step.objects.update(state=StepState.VERIFIED),
        lambda: Step.objects.update(observed={"sent": ["taint", "untaint"]}),
    ],
    ids=["rolled back", "cancelled", "handed over", "given up at its deadline"],
)
def test_it_is_free_once_the_execution_lets_go(execution, change):
    change()
    assert kept(execution) == []
