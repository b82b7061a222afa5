"""The timer's half of carrying executions forward: each open one is visited, the longest unseen first."""

import pytest
from django.core.management import call_command

from apps.executions import queries, tasks
from apps.executions.models import Execution
from apps.executions.states import ExecutionState
from tests.plans.situations import approve, make_cluster, person, proposed

pytestmark = pytest.mark.django_db(transaction=True)
OPEN = [ExecutionState.RUNNING, ExecutionState.NEEDS_HUMAN, ExecutionState.PAUSED, ExecutionState.CANCELLING]


@pytest.fixture
def executions(settings):
    """One per state, of a cluster that nobody answers for."""
    settings.KUBE_CONNECT_SECONDS = 0.2
    cluster = make_cluster()
    author, approver = person("ada", "planner", cluster=cluster), person("ben", "approver", cluster=cluster)
    made = []
    for state in OPEN:
        plan = proposed(cluster, author)
        approve(plan, approver)
        version = plan.versions.get()
        made.append(Execution.objects.create(plan=plan, version=version, started_by=approver, state=state))
    return made


def unseen():
    return list(Execution.objects.filter(visited_at=None))


def test_without_a_broker_the_command_visits_each(executions):
    call_command("reconcile")
    assert not unseen()


def test_what_was_seen_last_comes_last(executions):
    first = queries.open_executions().first()
    tasks.advance_execution(first.pk)
    assert queries.open_executions().last() == first
