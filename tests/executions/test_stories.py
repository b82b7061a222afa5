"""Whole executions over HTTP against the simulated cluster, judged by what the API server logged."""

import pytest

from apps.executions import runner
from apps.executions.models import Claim, Execution
from apps.executions.states import ExecutionState

pytestmark = pytest.mark.django_db(transaction=True)


def carry(execution, seconds=60):
    runner.advance(execution.pk, seconds=seconds)
    execution.refresh_from_db()
    return execution


def test_a_gang_gets_its_nodes(stage):
    execution, plan = stage.start()
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert sorted(stage.evicted()) == sorted(move.pod_uid for move in plan.moves)
    assert stage.traces() == []
    assert not Claim.objects.exists()
    gang = [pod for pod in stage.picture().pods.values() if pod.gang == "ml/big-train"]
    assert sorted(pod.node_name for pod in gang) == sorted(one.node for one in plan.hand_overs)
    assert Execution.objects.get(pk=execution.pk).outcome["matches"]
