"""The life of a plan: asked for, computed, proposed, decided, withdrawn, edited, begun."""

from datetime import timedelta

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from apps.accounts.errors import Denied, NotVisible
from apps.accounts.models import RoleGrant, User
from apps.audit.models import AuditEntry
from apps.audit.queries import verify_chain
from apps.clusters.models import Cluster
from apps.plans import services
from apps.plans.errors import (
    AlreadyBegun,
    DigestMismatch,
    InvalidRequest,
    NotComputed,
    NothingKnown,
    NothingToDo,
    OutdatedView,
    PlanIsStale,
    RecentLoginNeeded,
    SelfApproval,
    WrongState,
)
from apps.plans.models import Decision, Plan, PlanVersion
from apps.plans.queries import approval_of, current_version, open_plan, plan_for, plans_for, progress_of
from apps.plans.states import PlanState
from tests.plans.situations import (
    approve,
    attach,
    draft,
    make_cluster,
    person,
    picture,
    plan_of_one_move,
    pod,
    proposed,
    see,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    return make_cluster()


@pytest.fixture
def author():
    return person("author", "planner")


@pytest.fixture
def approver():
    return person("approver", "approver")


def told(plan):
    entries = AuditEntry.objects.filter(subject=f"plans.Plan:{plan.pk}")
    return list(entries.values_list("action", "actor__username"))


def test_a_plan_goes_from_request_to_approval_and_the_ledger_tells_it(cluster, author, approver):
    plan = draft(cluster, author)
    assert (plan.state, plan.title) == (PlanState.DRAFT, "Free 1 A100 node")
    assert progress_of(plan, current_version(plan)) == "ready"
    assert open_plan(current_version(plan)) == plan_of_one_move()

    services.propose_plan(plan_id=plan.pk, actor=author)
    done = approve(plan, approver)
    assert done.state == PlanState.APPROVED
    assert done.expires_at > timezone.now() + timedelta(hours=3)
    decision = approval_of(done)
    assert (decision.decided_by, decision.digest) == (approver, current_version(plan).digest)
    assert told(plan) == [
        ("plan.requested", "author"),
        ("plan.computed", None),
        ("plan.proposed", "author"),
        ("plan.approved", "approver"),
    ]
    assert verify_chain().is_intact


def test_only_a_planner_of_the_cluster_asks_and_proposes(cluster, author, approver):
    see(cluster)
    elsewhere = person("elsewhere", "planner", cluster=make_cluster("west"))
    with pytest.raises(Denied):
        services.request_plan(actor=approver, cluster=cluster, goal="free-nodes")
    with pytest.raises(NotVisible):
        services.request_plan(actor=elsewhere, cluster=cluster, goal="free-nodes")
    assert not Plan.objects.exists()
    plan = draft(cluster, author)
    with pytest.raises(Denied):
        services.propose_plan(plan_id=plan.pk, actor=approver)
    assert AuditEntry.objects.filter(action="denied").count() == 3


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"goal": "tidy"}, "goal 'tidy' is not one of"),
        ({"goal": "free-nodes", "workload": "ml/x"}, "takes no workload"),
        ({"goal": "unlock", "workload": "x"}, "not of the form namespace/name"),
        ({"goal": "unlock", "workload": "a/b/c"}, "not of the form namespace/name"),
        ({"goal": "unlock", "workload": "ml/a\x00"}, "not of the form namespace/name"),
        ({"goal": "unlock", "workload": "ml/\u202ea"}, "not of the form namespace/name"),
        ({"goal": "free-nodes", "max_moves": 0}, "take 1 to 5000"),
        ({"goal": "free-nodes", "max_moves": 5001}, "take 1 to 5000"),
        ({"goal": "free-nodes", "seconds": 1e9}, "take 1 to 600"),
    ],
)
def test_a_request_that_cannot_be_planned_is_refused(cluster, author, wish, sentence):
    see(cluster)
    with pytest.raises(InvalidRequest, match=sentence):
        services.request_plan(actor=author, cluster=cluster, **wish)


def test_a_cluster_that_was_never_seen_cannot_be_planned(cluster, author):
    with pytest.raises(NothingKnown, match="east"):
        services.request_plan(actor=author, cluster=cluster, goal="free-nodes")


def test_a_draft_that_is_not_computed_cannot_be_proposed(cluster, author):
    see(cluster)
    plan = services.request_plan(actor=author, cluster=cluster, goal="unlock", workload="ml/llama")
    assert plan.title == "Make room for ml/llama"
    assert progress_of(plan, current_version(plan)) == "computing"
    with pytest.raises(NotComputed, match="still being computed"):
        services.propose_plan(plan_id=plan.pk, actor=author)
    services.give_up_draft(plan_id=plan.pk, number=1, reason="It broke a rule.")
    plan.refresh_from_db()
    assert progress_of(plan, current_version(plan)) == "failed"
    with pytest.raises(NotComputed, match="It broke a rule"):
        services.propose_plan(plan_id=plan.pk, actor=author)


def test_a_plan_that_moves_nothing_is_kept_with_its_sentence_and_not_proposed(cluster, author):
    empty = plan_of_one_move(moves=(), freed_nodes=(), sentence="No node can be freed.")
    plan = draft(cluster, author, empty)
    assert (plan.state_reason, plan.title) == ("No node can be freed.", "Nothing to move: free whole nodes")
    assert progress_of(plan, current_version(plan)) == "empty"
    with pytest.raises(NothingToDo, match="No node can be freed"):
        services.propose_plan(plan_id=plan.pk, actor=author)


@pytest.mark.parametrize("part", ["created_by", "edited_by", "proposed_by"])
def test_nobody_approves_what_he_had_a_part_in(cluster, author, part):
    both = person("both", "planner", "approver")
    plan = proposed(cluster, author)
    Plan.objects.update(**{part: both})
    with pytest.raises(SelfApproval, match="somebody else"):
        approve(plan, both)
    plan.refresh_from_db()
    assert plan.state == PlanState.PROPOSED
    assert not Decision.objects.exists()
    assert AuditEntry.objects.filter(action="denied", actor=both, detail__kind="SelfApproval").exists()


def test_a_superuser_approves_neither_his_own_plan_nor_without_the_role(cluster, author):
    root = User.objects.create_superuser("root")
    plan = proposed(cluster, author)
    with pytest.raises(NotVisible):
        approve(plan, root)
    RoleGrant.objects.create(user=root, role="planner")
    RoleGrant.objects.create(user=root, role="approver")
    own = proposed(cluster, root)
    with pytest.raises(SelfApproval):
        approve(own, root)


def test_an_admin_approves_nothing(cluster, author):
    with pytest.raises(Denied):
        approve(proposed(cluster, author), person("chief", "admin", "planner", "operator", "auditor"))


@pytest.mark.parametrize("age", [timedelta(hours=13), None])
def test_approval_asks_for_a_recent_login(cluster, author, approver, age):
    plan = proposed(cluster, author)
    with pytest.raises(RecentLoginNeeded, match="log in again"):
        approve(plan, approver, logged_in_at=age and timezone.now() - age)
    assert approve(plan, approver, logged_in_at=timezone.now() - timedelta(hours=11)).state == "approved"


def test_an_approval_binds_the_digest_that_was_looked_at(cluster, author, approver):
    plan = proposed(cluster, author)
    with pytest.raises(DigestMismatch, match="look at it again"):
        approve(plan, approver, digest="0" * 64)
    with pytest.raises(DigestMismatch):
        services.reject_plan(plan_id=plan.pk, digest="", approver=approver, comment="no")
    plan.refresh_from_db()
    assert plan.state == PlanState.PROPOSED


def test_a_version_changed_behind_the_console_is_not_approved(cluster, author, approver):
    plan = proposed(cluster, author)
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE plans_planversion SET body = jsonb_set(body, '{cost}', '1')")
        cursor.execute("SET session_replication_role = DEFAULT")
    with pytest.raises(DigestMismatch, match="not what was stored"):
        approve(plan, approver)


def test_an_edit_voids_the_approval_and_its_editor_may_not_approve(cluster, author, approver):
    editor = person("editor", "planner", "approver")
    plan = approve(proposed(cluster, author), approver)
    old = current_version(plan)
    services.revise_plan(plan_id=plan.pk, actor=editor, max_moves=7)
    plan.refresh_from_db()
    assert (plan.state, plan.version_number, plan.request["max_moves"]) == (PlanState.DRAFT, 2, 7)
    assert current_version(plan) is None
    assert approval_of(plan) is None
    with transaction.atomic(), pytest.raises(WrongState):
        services.begin_plan(plan_id=plan.pk)

    attach(plan, see(cluster), plan_of_one_move(cost=61.0))
    services.propose_plan(plan_id=plan.pk, actor=author)
    with pytest.raises(SelfApproval, match="edited"):
        approve(plan, editor)
    with pytest.raises(DigestMismatch):
        approve(plan, approver, digest=old.digest)
    assert approve(plan, approver).state == PlanState.APPROVED
    assert Decision.objects.filter(plan=plan).count() == 2


def test_a_result_for_an_older_version_is_dropped(cluster, author):
    row = see(cluster)
    plan = services.request_plan(actor=author, cluster=cluster, goal="free-nodes")
    services.revise_plan(plan_id=plan.pk, actor=author, max_moves=3)
    assert attach(plan, row, plan_of_one_move()) is None
    plan.refresh_from_db()
    assert attach(plan, row, plan_of_one_move()).number == 2
    assert attach(plan, row, plan_of_one_move()) is None


def test_rejected_and_withdrawn_are_the_end(cluster, author, approver):
    first, second = proposed(cluster, author), proposed(cluster, author)
    digest = current_version(first).digest
    services.reject_plan(plan_id=first.pk, digest=digest, approver=approver, comment="Too risky today.")
    services.withdraw_plan(plan_id=second.pk, actor=author)
    first.refresh_from_db()
    assert (first.state, first.state_reason) == (PlanState.REJECTED, "Too risky today.")
    for plan in (first, second):
        with pytest.raises(WrongState, match="cannot become"):
            approve(plan, approver)
        with pytest.raises(WrongState):
            services.revise_plan(plan_id=plan.pk, actor=author, max_moves=2)


def test_only_its_author_or_an_admin_takes_a_plan_back(cluster, author, approver):
    plan = proposed(cluster, author)
    for stranger in (person("other", "planner"), approver):
        with pytest.raises(Denied):
            services.withdraw_plan(plan_id=plan.pk, actor=stranger)
    RoleGrant.objects.filter(user=author).delete()
    with pytest.raises(Denied):
        services.withdraw_plan(plan_id=plan.pk, actor=author)
    services.withdraw_plan(plan_id=plan.pk, actor=person("chief", "admin"), reason="Wrong week.")
    plan.refresh_from_db()
    assert plan.state_reason == "Wrong week."


def test_a_plan_that_the_cluster_left_behind_is_neither_proposed_nor_approved(cluster, author, approver):
    early, late = draft(cluster, author), proposed(cluster, author)
    see(cluster, picture(pods=[pod("train", "node-b", 7), pod("serve", "node-c", 8)]))
    for plan, press in (
        (early, lambda: services.propose_plan(plan_id=early.pk, actor=author)),
        (late, lambda: approve(late, approver)),
    ):
        with pytest.raises(PlanIsStale, match="ml/lora is gone"):
            press()
        plan.refresh_from_db()
        assert plan.state == PlanState.STALE
        assert "ml/lora is gone (move 1)" in plan.state_reason


def test_nobody_decides_on_a_cluster_that_is_silent(cluster, author, approver):
    plan = proposed(cluster, author)
    long_ago = timezone.now() - timedelta(minutes=9)
    Cluster.objects.update(watched_at=long_ago)
    cluster.snapshots.update(taken_at=long_ago)
    with pytest.raises(OutdatedView, match="9 min ago"):
        approve(plan, approver)
    plan.refresh_from_db()
    assert plan.state == PlanState.PROPOSED


def test_a_plan_that_began_neither_changes_nor_ages(cluster, author, approver):
    plan = approve(proposed(cluster, author), approver)
    with transaction.atomic():
        version = services.begin_plan(plan_id=plan.pk)
    assert version == current_version(plan)
    see(cluster, picture(pods=[]))
    Plan.objects.update(expires_at=timezone.now() - timedelta(hours=1))
    assert services.mark_stale_plans() == services.expire_plans() == 0
    for change in (
        lambda: services.withdraw_plan(plan_id=plan.pk, actor=author),
        lambda: services.revise_plan(plan_id=plan.pk, actor=author, max_moves=1),
    ):
        with pytest.raises(AlreadyBegun, match="cancel its execution"):
            change()


def test_a_second_try_asks_for_an_approval_that_still_holds(cluster, author, approver):
    plan = approve(proposed(cluster, author), approver)
    for _ in range(2):
        with transaction.atomic():
            services.begin_plan(plan_id=plan.pk)
    Plan.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with transaction.atomic(), pytest.raises(WrongState, match="expired"):
        services.begin_plan(plan_id=plan.pk)


@pytest.mark.parametrize("state", [PlanState.DRAFT, PlanState.PROPOSED, PlanState.STALE, PlanState.REJECTED])
def test_only_an_approved_plan_begins(cluster, author, state):
    plan = proposed(cluster, author)
    Plan.objects.update(state=state)
    with transaction.atomic(), pytest.raises(WrongState, match="only an approved plan"):
        services.begin_plan(plan_id=plan.pk)


def test_an_approval_that_expired_or_is_missing_starts_nothing(cluster, author, approver):
    plan = approve(proposed(cluster, author), approver)
    Plan.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with transaction.atomic(), pytest.raises(WrongState, match="expired"):
        services.begin_plan(plan_id=plan.pk)
    other = proposed(cluster, author)
    Plan.objects.filter(pk=other.pk).update(state=PlanState.APPROVED)
    with transaction.atomic(), pytest.raises(DigestMismatch, match="no approval"):
        services.begin_plan(plan_id=other.pk)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("sql", ["UPDATE plans_planversion SET digest = 'x'", "DELETE FROM plans_decision"])
def test_the_database_refuses_to_change_what_was_decided(sql):
    plan = proposed(make_cluster(), person("author", "planner"))
    approve(plan, person("approver", "approver"))
    with pytest.raises(DatabaseError, match="never changes"), transaction.atomic():
        connection.cursor().execute(sql)
    plan.cluster.snapshots.all().delete()
    assert PlanVersion.objects.get().snapshot is None


def test_what_may_not_be_seen_looks_absent(cluster, author):
    plan = draft(cluster, author)
    stranger = person("stranger", "viewer", cluster=make_cluster("west"))
    assert list(plans_for(stranger)) == []
    for number in (plan.pk, plan.pk + 1):
        with pytest.raises(NotVisible, match=f"no plan {number}"):
            plan_for(stranger, number)
    assert plan_for(author, plan.pk) == plan


def test_an_approver_who_lost_the_role_meanwhile_approved_nothing(cluster, author, approver):
    plan = approve(proposed(cluster, author), approver)
    grants = RoleGrant.objects.filter(user=approver, role="approver")
    assert grants.exists()
    grants.delete()
    with transaction.atomic(), pytest.raises(WrongState, match="may no longer approve on east"):
        services.begin_plan(plan_id=plan.pk)
    plan.refresh_from_db()
    assert plan.begun_at is None
