"""Failures in a row stop the cluster, whichever executions they befall; a success begins the count anew."""

import pytest
from django.utils import timezone

from apps.audit.models import AuditEntry
from apps.executions import ledger, locks, services
from apps.executions.errors import HeldByPolicy
from apps.executions.models import Execution, FailureCount, Step
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.plans import services as plan_services
from apps.plans.policies import ban_of, policy_of
from tests.plans.situations import approve, make_cluster, person, proposed

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cluster():
    return make_cluster()


@pytest.fixture
def plan(cluster):
    return approve(proposed(cluster, person("ada", "planner", cluster=cluster)), person("ben", "approver"))


@pytest.fixture
def operator(cluster):
    return person("omar", "operator", cluster=cluster)


@pytest.fixture
def fail(plan, operator):
    """The execution comes to a stop that needs a person, or one that failures in a row brought about."""
    execution = services.start_execution(actor=operator, plan_id=plan.pk)
    lease = locks.claim(execution.pk, owner="test", seconds=60)

    def fail(state=ExecutionState.NEEDS_HUMAN, cause="wrong-node"):
        Execution.objects.filter(pk=execution.pk).update(state=ExecutionState.RUNNING)
        ledger.move_execution(lease, state, "It went wrong.", cause=cause)

    fail.execution, fail.lease = execution, lease
    return fail


def ban(cluster):
    return ban_of(policy_of(cluster), timezone.now())


def test_the_third_failure_in_a_row_throws_the_kill_switch_and_says_why(fail, cluster, operator):
    fail()
    fail(ExecutionState.PAUSED, ledger.FAILURES_IN_ROW)
    assert ban(cluster) is None
    fail()
    thrown = ban(cluster)
    assert "by the console itself: 3 failures in a row (execution " in thrown.sentence
    assert thrown.sentence.endswith("the last: It went wrong.")
    assert AuditEntry.objects.filter(action="policy.stopped", actor=None).exists()
    with pytest.raises(HeldByPolicy, match="kill switch"):
        services.resume(execution_id=fail.execution.pk, actor=operator)


def test_once_an_admin_has_released_it_the_count_begins_anew(fail, cluster):
    for _ in range(3):
        fail()
    admin = person("eve", "admin", cluster=cluster)
    plan_services.release_cluster(actor=admin, cluster=cluster, reason="the switch was replaced")
    fail()
    assert ban(cluster) is None


@pytest.mark.parametrize(
    ("kind", "left"), [(StepKind.AWAIT_REPLACEMENT, 0), (StepKind.RECONFIGURE_MIG, 0), (StepKind.STEER, 2)]
)
def test_only_what_shows_that_changes_work_begins_it_anew(fail, cluster, kind, left):
    fail()
    fail()
    step = Step.objects.create(
        execution=fail.execution, position=1, kind=kind, target="x", state=StepState.ISSUED
    )
    ledger.record_end(fail.lease, step, StepState.VERIFIED, "it is so", {})
    assert FailureCount.objects.get(cluster=cluster).in_row == left


def test_a_pause_by_a_person_and_a_plan_that_went_stale_are_no_failures(fail, cluster, operator):
    Execution.objects.filter(pk=fail.execution.pk).update(state=ExecutionState.RUNNING)
    services.pause(execution_id=fail.execution.pk, actor=operator, reason="lunch")
    Execution.objects.filter(pk=fail.execution.pk).update(state=ExecutionState.PREFLIGHT)
    ledger.move_execution(fail.lease, ExecutionState.FAILED, "Nothing was touched.", cause="plan-stale")
    assert not FailureCount.objects.filter(in_row__gt=0).exists()
