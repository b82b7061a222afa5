"""Leases, fences, and what people decide: on PostgreSQL, with real transactions and threads."""

import threading
import time

import pytest
from django.db import connection, connections

from apps.accounts.errors import Denied
from apps.audit.models import AuditEntry
from apps.executions import ledger, locks, services
from apps.executions.decisions import act
from apps.executions.errors import InUse, LostLease, WrongState
from apps.executions.leased_gateway import lease_seconds, seconds_per_call
from apps.executions.models import Claim, Execution, Step, StepEvent
from apps.executions.states import ExecutionState, StepKind, StepState
from tests.plans.situations import approve, make_cluster, person, proposed

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cluster():
    return make_cluster()


@pytest.fixture
def operator(cluster):
    return person("omar", "operator", cluster=cluster)


def approved_plan(cluster, number=1):
    author = person(f"ada-{number}", "planner", cluster=cluster)
    plan = proposed(cluster, author)
    approve(plan, person(f"ben-{number}", "approver", cluster=cluster))
    return plan


@pytest.fixture
def execution(cluster, operator):
    return services.start_execution(actor=operator, plan_id=approved_plan(cluster).pk)


def take(execution, seconds=60):
    return locks.claim(execution.pk, owner="test", seconds=seconds)


def add_step(execution, **facts):
    known = {"position": 1, "kind": StepKind.CORDON_NODE, "target": "node node-a"}
    return Step.objects.create(execution=execution, **{**known, **facts})


def set_state(execution, state):
    Execution.objects.filter(pk=execution.pk).update(state=state)


def test_of_many_runners_exactly_one_gets_the_claim(execution):
    start, got = threading.Barrier(8), []

    def try_to_claim():
        start.wait()
        got.append(take(execution))
        connections.close_all()

    threads = [threading.Thread(target=try_to_claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([lease for lease in got if lease is not None]) == 1


def test_a_lease_that_ran_out_goes_to_the_next_one_and_the_first_writes_nothing_more(execution):
    step = add_step(execution)
    set_state(execution, ExecutionState.RUNNING)
    first = take(execution, seconds=0.2)
    assert take(execution) is None
    time.sleep(0.3)
    second = take(execution)
    assert second.fence == first.fence + 1
    with pytest.raises(LostLease):
        ledger.record_intent(first, step, act("cordon", "x"), during=["running"], seconds=9)
    with pytest.raises(LostLease):
        first.ensure(1)
    step.refresh_from_db()
    assert step.state == StepState.PENDING
    assert not AuditEntry.objects.filter(action__startswith="step.").exists()


def test_an_answer_that_leaves_too_little_time_is_asked_for_again_and_then_not_believed(execution):
    lease = take(execution, seconds=5)
    lease.renew(4)
    with pytest.raises(LostLease, match="no lease of 5 s leaves 5 s"):
        lease.renew(5)


def test_a_lease_outlives_a_call_whatever_the_time_outs(settings):
    assert lease_seconds() == settings.EXECUTION_LEASE_SECONDS == 60
    settings.KUBE_READ_SECONDS = 60
    assert lease_seconds() > seconds_per_call() > 180


def test_releasing_an_old_claim_does_not_free_the_new_one(execution):
    first = take(execution, seconds=0.1)
    time.sleep(0.2)
    assert take(execution) is not None
    locks.release(first)
    assert take(execution) is None


def test_an_ended_execution_cannot_be_claimed(execution):
    set_state(execution, ExecutionState.SUCCEEDED)
    assert take(execution) is None


def test_an_intent_stands_with_its_ledger_entry_before_anything_is_sent(execution):
    step = add_step(execution)
    set_state(execution, ExecutionState.RUNNING)
    ledger.record_intent(take(execution), step, act("cordon", "free it"), during=["running"], seconds=9)
    step.refresh_from_db()
    assert (step.state, step.attempts, step.observed["sent"]) == (StepState.INTENT, 1, ["cordon"])
    assert AuditEntry.objects.get(action="step.cordon_node.cordon").detail["execution"] == execution.pk
    assert StepEvent.objects.filter(step=step, state="intent").exists()


def test_a_cancel_that_comes_before_the_intent_wins(execution, operator):
    step = add_step(execution)
    set_state(execution, ExecutionState.RUNNING)
    lease = take(execution)
    services.cancel(execution_id=execution.pk, actor=operator, reason="no")
    with pytest.raises(WrongState):
        ledger.record_intent(lease, step, act("cordon", "x"), during=["running"], seconds=9)
    step.refresh_from_db()
    assert step.state == StepState.PENDING


def test_a_step_that_was_read_in_another_state_is_not_written(execution):
    step = add_step(execution)
    lease = take(execution)
    Step.objects.filter(pk=step.pk).update(state=StepState.VERIFIED)
    with pytest.raises(LostLease):
        ledger.record_end(lease, step, StepState.SUPERSEDED, "late", {})


def test_starting_claims_every_pod_node_and_workload_and_two_plans_cannot_share_one(
    cluster, operator, execution
):
    subjects = set(Claim.objects.values_list("subject", flat=True))
    assert subjects == {
        "east:pod:uid-lora",
        "east:node:uid-node-a",
        "east:node:uid-node-b",
        "east:workload:rs-lora",
    }
    other = approved_plan(cluster, number=2)
    with pytest.raises(InUse, match="cannot start now"):
        services.start_execution(actor=operator, plan_id=other.pk)
    assert Execution.objects.count() == 1


def test_who_may_not_operate_is_told_that_and_nothing_of_the_plans_state(cluster):
    plan = proposed(cluster, person("ada", "planner", cluster=cluster))
    with pytest.raises(Denied, match="operate"):
        services.start_execution(actor=person("vera", "viewer", cluster=cluster), plan_id=plan.pk)
    assert AuditEntry.objects.filter(action="denied", actor__username="vera").exists()


def test_a_plan_is_carried_out_once_at_a_time(execution, operator):
    with pytest.raises(WrongState, match="already"):
        services.start_execution(actor=operator, plan_id=execution.plan_id)


def test_without_the_role_nothing_starts_or_changes_and_the_refusal_is_recorded(cluster, execution):
    stranger = person("eve", "approver", cluster=cluster)
    with pytest.raises(Denied):
        services.cancel(execution_id=execution.pk, actor=stranger, reason="no")
    execution.refresh_from_db()
    assert execution.state == ExecutionState.QUEUED
    assert AuditEntry.objects.filter(action="denied", actor=stranger).exists()


def test_ending_gives_the_claims_back_and_ended_is_ended(execution, operator):
    lease = take(execution)
    ledger.move_execution(lease, ExecutionState.PREFLIGHT, "")
    ledger.move_execution(lease, ExecutionState.FAILED, "nothing was touched")
    assert not Claim.objects.exists()
    for change in (services.cancel, services.pause, services.resume, services.roll_back):
        with pytest.raises(WrongState):
            change(execution_id=execution.pk, actor=operator, reason="x")


def test_of_a_pause_and_a_cancel_at_once_both_leave_a_known_state(execution, operator):
    set_state(execution, ExecutionState.RUNNING)
    start, told = threading.Barrier(2), []

    def press(change):
        start.wait()
        try:
            change(execution_id=execution.pk, actor=operator, reason="now")
            told.append("done")
        except WrongState:
            told.append("refused")
        connections.close_all()

    threads = [threading.Thread(target=press, args=(c,)) for c in (services.cancel, services.pause)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    execution.refresh_from_db()
    assert execution.state == ExecutionState.CANCELLING
    assert told.count("done") + told.count("refused") == 2


def test_resuming_looks_afresh_at_what_waited_for_a_person(execution, operator):
    set_state(execution, ExecutionState.NEEDS_HUMAN)
    step = add_step(execution, state=StepState.BLOCKED, observed={"needs_person": True, "failures": 3})
    services.resume(execution_id=execution.pk, actor=operator, reason="fixed")
    step.refresh_from_db()
    assert step.observed == {"needs_person": False, "failures": 0, "crashes": 0}
    execution.refresh_from_db()
    assert execution.state == ExecutionState.RUNNING


def test_leases_go_by_the_databases_clock_alone(execution, monkeypatch):
    lease = take(execution)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert take(execution) is None
    with connection.cursor() as cursor:
        cursor.execute("SELECT lease_until > clock_timestamp() FROM executions_execution")
        assert cursor.fetchone() == (True,)
    locks.release(lease)
    assert take(execution) is not None
