"""An execution that leaves a gang short of members does not end before a person was told."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.utils import timezone

from apps.accounts.models import User
from apps.executions import locks, services
from apps.executions.context import Context, read_place
from apps.executions.models import Execution, Step
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.executions.undoing import cancel
from apps.kube.gateway import PODS
from tests.executions import things
from tests.plans.situations import draft, make_cluster, person

pytestmark = pytest.mark.django_db(transaction=True)
State = ExecutionState
PARAMS = {"pod": "ml/w0", "namespace": "ml", "uid": "uid-w0", "gang": "ml/train", "gang_needs": 2}


@pytest.fixture
def execution():
    """Cancelled after one member of a gang of two was evicted; the wait for its replacement was given up."""
    cluster = make_cluster()
    plan = draft(cluster, person("ada", "planner"))
    facts = {"plan": plan, "version": plan.versions.get(), "started_by": person("omar", "operator")}
    made = Execution.objects.create(state=State.CANCELLING, **facts)
    ended = timezone.now() - timedelta(seconds=settings.EXECUTION_REPLACEMENT_SECONDS + 60)
    states = {StepKind.EVICT_POD: StepState.VERIFIED, StepKind.AWAIT_REPLACEMENT: StepState.SUPERSEDED}
    for position, (kind, state) in enumerate(states.items(), start=1):
        known = {"execution": made, "position": position, "move": 1, "params": PARAMS, "finished_at": ended}
        Step.objects.create(kind=kind, state=state, observed={"seen": {"evicted": True}}, **known)
    return made


def turn(execution, *members):
    """One turn of the cancelling, with these members of the gang in the cluster. Gives whether it moved."""
    lease = locks.claim(execution.pk, owner="test", seconds=60)
    row = Execution.objects.select_related("plan__cluster").get(pk=execution.pk)
    gateway = SimpleNamespace(list_objects=lambda kind, **where: list(members) if kind == PODS else [])
    context = Context(gateway, lease, row, list(row.steps.all()), timezone.now(), read_place())
    moved = cancel(context)
    locks.release(lease)
    execution.refresh_from_db()
    return moved


def member(name, **facts):
    labels = {"scheduling.x-k8s.io/pod-group": "train"}
    return things.pod(name, **{"on": "node-a", "ready": True, "labels": labels, **facts})


def test_a_gang_that_is_whole_again_lets_it_end(execution):
    assert turn(execution, member("w1"), member("w2"))
    assert execution.state == State.CANCELLED


def test_a_gang_that_its_owner_ended_lets_it_end(execution):
    assert turn(execution)
    assert execution.state == State.CANCELLED


def test_one_that_is_short_of_members_stays_open_until_a_person_closes_it(execution):
    short = (member("w1"), member("w2", ready=False))
    Step.objects.update(finished_at=timezone.now())
    assert not turn(execution, *short)
    assert execution.state == State.CANCELLING  # a replacement may still come by itself
    Step.objects.update(finished_at=timezone.now() - timedelta(days=1))
    assert turn(execution, *short)
    assert (execution.state, execution.cause) == (State.NEEDS_HUMAN, "gang-in-part")
    assert execution.state_reason.startswith(
        "Gang ml/train needs 2 members and 1 are Ready: ml/w0 was evicted by this execution."
    )
    omar = User.objects.get(username="omar")
    services.cancel(execution_id=execution.pk, actor=omar, reason="the job is restarted by hand")
    assert turn(execution, *short)
    assert execution.state == State.CANCELLED
    assert execution.outcome["gangs_told"]
