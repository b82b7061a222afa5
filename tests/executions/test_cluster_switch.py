"""The kill switch that stands in the cluster itself: seen before every new effect, kept, told, and lifted."""

import pytest
from django.core.management import call_command
from django.urls import reverse

from apps.audit.models import AuditEntry
from apps.executions import services, tasks
from apps.executions.cluster_preflight.kill_switch import judge_switch
from apps.executions.cluster_preflight.lines import Standing
from apps.executions.cluster_preflight.rights import Right
from apps.executions.cluster_switch import Seen, keep, read_switch, why_unread
from apps.executions.errors import HeldByPolicy
from apps.executions.models import Execution
from apps.executions.states import ExecutionState, StepKind
from tests.executions.test_freeze import cluster, running, two_plans, visit  # noqa: F401
from tests.executions.test_rights import add_token, limit_to, rights
from tests.executions.test_stories import carry, carry_until, has_sent

pytestmark = pytest.mark.django_db(transaction=True)
State = ExecutionState
MAPS = "/api/v1/namespaces/gpu-defrag/configmaps"
REFUSED = Seen(error="403: not allowed", is_refused=True)
AWAY = Seen(error="503: away", is_lasting=False)


@pytest.mark.parametrize(
    ("found", "is_on", "reason"),
    [
        (None, False, ""),
        ({"data": {"stop": "true", "reason": "storage\n migration"}}, True, "storage migration"),
        ({"data": {"stop": "ture"}}, True, ""),
        ({}, True, ""),
        ({"data": {"stop": " False ", "reason": "over"}}, False, ""),
    ],
)
def test_whatever_it_says_but_false_stops(found, is_on, reason):
    seen = read_switch(found)
    assert (seen.is_on, seen.reason) == (is_on, reason)


def test_whoever_has_kubectl_stops_an_execution_and_a_person_goes_on_once_it_is_lifted(stage, client):
    limit_to(stage, "reader.yaml", "executor.yaml")
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold"))
    body = {"metadata": {"name": "kill-switch"}, "data": {"stop": "true", "reason": "storage\0migration"}}
    stage.simulated.ask("POST", MAPS, body)
    written = {one["path"] for one in stage.requests() if one["method"] != "GET"}
    visit(execution)
    assert {one["path"] for one in stage.requests() if one["method"] != "GET"} == written
    assert (execution.state, execution.cause) == (State.PAUSED, "kill-switch-cluster")
    assert execution.state_reason == "Paused by the kill switch in the cluster (storage\ufffdmigration)."
    with pytest.raises(HeldByPolicy, match="kill switch in sim itself .* storage.migration"):
        services.resume(execution_id=execution.pk, actor=stage.operator)
    client.force_login(stage.operator)
    for name in ("policies", "preflight"):
        shown = client.get(reverse(name, args=["sim"])).content.decode()
        assert "ConfigMap gpu-defrag/kill-switch) is on" in shown

    stage.simulated.ask("DELETE", f"{MAPS}/kill-switch")
    visit(execution, times=2)
    assert execution.state == State.PAUSED
    call_command("reconcile")
    keep(stage.cluster, Seen(is_on=True))
    tasks.look_at_kill_switches()
    services.resume(execution_id=execution.pk, actor=stage.operator)
    # The right to read it goes: nothing new is sent until it is back.
    granted = rights("reader.yaml", "executor.yaml")
    add_token(stage, "limited", {right for right in granted if right.resource != "/configmaps"})
    evicted = stage.evicted()
    visit(execution)
    assert (execution.state, execution.cause) == (State.PAUSED, "kill-switch-unreadable")
    assert stage.evicted() == evicted
    add_token(stage, "limited", granted)
    carry(execution)
    assert execution.state == State.SUCCEEDED, stage.told(execution)
    assert len(stage.evicted()) == len(plan.moves)
    actions = AuditEntry.objects.filter(action__startswith="cluster.switch_").order_by("pk")
    on_and_off = ["cluster.switch_seen_on", "cluster.switch_seen_off"]
    assert list(actions.values_list("action", flat=True)) == on_and_off * 2


def test_nothing_is_started_while_it_stands_and_what_is_queued_ends_untouched(cluster, two_plans, running):  # noqa: F811
    keep(cluster, Seen(is_on=True, reason="stop"))
    with pytest.raises(HeldByPolicy, match="nothing may be started now: The kill switch in east itself"):
        services.start_execution(actor=Execution.objects.get().started_by, plan_id=two_plans[1].pk)
    kept, execution = running()
    assert (kept, execution.state) == (True, State.FAILED)
    assert "Nothing was touched" in execution.state_reason


def test_what_was_read_once_must_be_readable(cluster, running):  # noqa: F811
    keep(cluster, REFUSED)
    assert why_unread(cluster, REFUSED) == ""
    assert running(state=State.RUNNING)[0] is None
    keep(cluster, Seen())
    assert why_unread(cluster, REFUSED) == why_unread(cluster, REFUSED) == REFUSED.error
    keep(cluster, AWAY)
    assert why_unread(cluster, AWAY) == AWAY.error
    assert running()[0] is None  # nothing is sent, but it is not paused for a moment's trouble
    keep(cluster, REFUSED)
    kept, execution = running()
    assert (kept, execution.state, execution.is_frozen) == (True, State.PAUSED, True)
    keep(cluster, Seen())
    kept, execution = running()
    assert (kept, execution.state) == (True, State.RUNNING)
    assert execution.state_reason.startswith("The kill switch in the cluster can be read again")


def test_the_preflight_of_a_cluster_says_whether_there_is_one():
    lacking = [Right("executor.yaml", "get", "", "configmaps", "gpu-defrag", "kill-switch")]
    for missing, seen, standing in (
        (lacking, REFUSED, Standing.WARNING), ([], Seen(is_on=True), Standing.WARNING),
        ([], AWAY, Standing.UNKNOWN), ([], Seen(), Standing.OK),
    ):  # fmt: skip
        (line,) = judge_switch(missing, seen)
        assert line.standing == standing
    assert "There is no kill switch in the cluster" in next(judge_switch(lacking, REFUSED)).found
