"""What of ours is in a cluster: read over HTTP while an execution is under way, joined with the ledger."""

import json
from dataclasses import replace

import pytest
from django.core.management import CommandError, call_command

from apps.executions import names, services
from apps.executions.holdings import (
    LEFT_OVER,
    OURS,
    UNKNOWN,
    Held,
    join_executions,
    traces_on_node,
    traces_on_pod,
)
from apps.executions.models import Execution
from apps.executions.states import ExecutionState, StepKind
from tests.executions import things
from tests.executions.test_stories import carry, carry_until, has_sent
from tests.plans.situations import make_cluster

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_cordon_names_its_execution_reason_and_deadline():
    cordon = {
        "execution": 7,
        "mark": "ab",
        "reason": "freed by plan 3",
        "deadline": "2026-01-01T00:00:00+00:00",
    }
    (found,) = traces_on_node(things.node(cordoned=True, cordon=cordon))
    assert (found.what, found.where, found.owned) == ("cordon", "node node-a", "7-ab")
    assert found.detail == "freed by plan 3"
    assert found.deadline.year == 2026


def test_a_cordon_of_somebody_else_is_none_of_ours():
    assert not list(traces_on_node(things.node(cordoned=True)))


def test_taint_gate_and_toleration_are_seen():
    taint = {"key": names.HELD, "value": "cafe", "effect": "NoSchedule"}
    assert [one.what for one in traces_on_node(things.node(taints=[taint]))] == ["taint"]
    (gate,) = traces_on_pod(things.pod(gated=True, steering="steer-7-ab-1"))
    assert (gate.what, gate.owned) == ("gate", "7-ab")
    tolerant = things.pod(spec={"tolerations": [{"key": names.HELD, "value": "cafe"}]})
    assert [one.what for one in traces_on_pod(tolerant)] == ["toleration"]


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 30, "\u0664", "-1", ""], ids=len)
def test_whatever_somebody_writes_beside_our_gate_hides_nothing_else(number):
    """Whoever may make a pod may write that, and `release_everything` has to read past it."""
    place = make_cluster()
    pod = things.pod(gated=True, steering=f"steer-{number}-ab-1")
    note = {"execution": number, "mark": "ab", "reason": "x" * 9000}
    node = things.node(cordoned=True, cordon=note)
    found = join_executions([*traces_on_pod(pod), *traces_on_node(node)], place)
    assert [(one.what, one.standing) for one in found] == [("cordon", UNKNOWN), ("gate", UNKNOWN)]
    assert max(len(one.owned + one.detail) for one in found) < 1000


def test_everything_held_is_told_while_it_runs_and_nothing_is_left_after(stage, capsys):
    execution, _ = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "nominate_hold"))
    cluster = execution.plan.cluster
    call_command("held_now", cluster.name, "--json")
    (told,) = json.loads(capsys.readouterr().out)
    mine = [one for one in told["held"] if one["execution"] == execution.pk]
    assert {"cordon", "hold"} <= {one["what"] for one in mine}
    assert {one["standing"] for one in mine} == {OURS}
    assert all(one["deadline"] for one in mine)
    assert not any(one["is_overdue"] for one in mine)
    stranger = Held("cordon", "node x", f"{execution.pk}-00000000")
    known = replace(stranger, owned=names.owned_value(execution.pk, execution.created_at))
    assert join_executions([stranger], cluster)[0].standing == UNKNOWN
    services.cancel(execution_id=execution.pk, actor=execution.started_by, reason="enough")
    assert carry(execution).state == ExecutionState.CANCELLED
    assert join_executions([known], cluster)[0].standing == LEFT_OVER
    call_command("held_now", cluster.name, "--json")
    (told,) = json.loads(capsys.readouterr().out)
    assert {one["standing"] for one in told["held"]} <= {"stays"}
    assert Execution.objects.count() == 1


def test_a_wrong_name_is_one_line_and_exit_2():
    with pytest.raises(CommandError) as wrong:
        call_command("held_now", "nowhere")
    assert wrong.value.returncode == 2
    assert "registered are" in str(wrong.value)
