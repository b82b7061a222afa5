"""Of several people who press a button at the same moment exactly one wins. Real threads on PostgreSQL."""

import threading
from functools import partial

import pytest
from django.db import connection, transaction
from django.utils import timezone

from apps.accounts.models import RoleGrant
from apps.audit.models import AuditEntry
from apps.audit.queries import verify_chain
from apps.plans import services
from apps.plans.errors import DigestMismatch, WrongState
from apps.plans.models import Decision, Plan
from apps.plans.queries import current_version
from apps.plans.states import PlanState
from tests.plans.situations import approve, make_cluster, person, proposed

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 6


def at_once(*deeds):
    """Run the deeds in threads that start together; what each returned or raised, in order."""
    gate, outcomes = threading.Barrier(len(deeds)), [None] * len(deeds)

    def act(number, deed):
        try:
            gate.wait(10)
            outcomes[number] = deed()
        except Exception as error:
            outcomes[number] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=act, args=pair) for pair in enumerate(deeds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return outcomes


@pytest.fixture
def author():
    return person("author", "planner")


@pytest.fixture
def approvers():
    return [person(f"approver-{number}", "approver") for number in range(4)]


def test_of_several_approvers_one_wins(author, approvers):
    cluster = make_cluster()
    for _ in range(ROUNDS):
        plan = proposed(cluster, author)
        outcomes = at_once(*(partial(approve, plan, who) for who in approvers))
        winners = [one for one in outcomes if isinstance(one, Plan)]
        losers = [one for one in outcomes if isinstance(one, WrongState)]
        assert (len(winners), len(losers)) == (1, 3), outcomes
        assert Decision.objects.filter(plan=plan).count() == 1
        subject = f"plans.Plan:{plan.pk}"
        assert AuditEntry.objects.filter(subject=subject, action="plan.approved").count() == 1
    assert verify_chain().is_intact


def test_approve_against_reject_leaves_one_decision(author, approvers):
    cluster = make_cluster()
    for _ in range(ROUNDS):
        plan = proposed(cluster, author)
        digest = current_version(plan).digest
        outcomes = at_once(
            partial(approve, plan, approvers[0]),
            partial(
                services.reject_plan, plan_id=plan.pk, digest=digest, approver=approvers[1], comment="no"
            ),
        )
        assert sorted(isinstance(one, WrongState) for one in outcomes) == [False, True], outcomes
        plan.refresh_from_db()
        verdict = "approved" if plan.state == PlanState.APPROVED else "rejected"
        assert Decision.objects.get(plan=plan).verdict == verdict


def test_approve_against_withdraw_never_leaves_an_approved_plan(author, approvers):
    cluster = make_cluster()
    for _ in range(ROUNDS):
        plan = proposed(cluster, author)
        approval, _ = at_once(
            partial(approve, plan, approvers[0]),
            partial(services.withdraw_plan, plan_id=plan.pk, actor=author),
        )
        plan.refresh_from_db()
        assert plan.state == PlanState.WITHDRAWN
        was_approved = Decision.objects.filter(plan=plan).exists()
        assert was_approved == (not isinstance(approval, WrongState))


def test_approve_against_edit_never_approves_what_nobody_looked_at(author, approvers):
    cluster = make_cluster()
    for _ in range(ROUNDS):
        plan = proposed(cluster, author)
        approval, edit = at_once(
            partial(approve, plan, approvers[0]),
            partial(services.revise_plan, plan_id=plan.pk, actor=author, max_moves=9),
        )
        assert not isinstance(edit, Exception), edit
        assert isinstance(approval, Plan | WrongState | DigestMismatch), approval
        plan.refresh_from_db()
        assert (plan.state, plan.version_number) == (PlanState.DRAFT, 2)
        assert current_version(plan) is None


def test_a_role_revoked_while_the_approver_waits_for_the_row_counts_as_revoked(author, approvers):
    plan = proposed(make_cluster(), author)
    approver = approvers[0]
    digest = current_version(plan).digest
    asked, outcome = threading.Event(), []

    def press():
        try:
            asked.set()
            outcome.append(
                services.approve_plan(
                    plan_id=plan.pk,
                    digest=digest,
                    approver=approver,
                    comment="",
                    logged_in_at=timezone.now(),
                )
            )
        except Exception as error:
            outcome.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=press)
    with transaction.atomic():
        Plan.objects.select_for_update().get(pk=plan.pk)
        thread.start()
        assert asked.wait(10)
        wait_until_somebody_waits_for_a_lock()
        RoleGrant.objects.filter(user=approver).delete()
    thread.join(30)
    assert type(outcome[0]).__name__ == "NotVisible", outcome
    plan.refresh_from_db()
    assert plan.state == PlanState.PROPOSED
    assert AuditEntry.objects.filter(action="denied", actor=approver).count() == 1


def wait_until_somebody_waits_for_a_lock():
    for _ in range(200):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            if cursor.fetchone()[0]:
                return
        threading.Event().wait(0.05)
    raise AssertionError("nobody came to wait for the lock")
