"""What a cluster's policy does to plans, and who may change it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.errors import Denied, NotVisible
from apps.audit.models import AuditEntry
from apps.audit.queries import verify_chain
from apps.clusters.queries import latest_snapshot, open_snapshot
from apps.planner.movability import movability
from apps.planner.protecting import guard_namespaces, why_protected
from apps.plans import services
from apps.plans.computing import compute_draft
from apps.plans.errors import InvalidPolicy, OverLimit, PlanIsStale, WrongState
from apps.plans.models import ClusterPolicy, Plan
from apps.plans.policies import ban_of, policy_of
from apps.plans.queries import current_version, open_plan
from apps.plans.states import PlanState
from tests.plans.situations import approve, draft, make_cluster, person, picture, pod, proposed, see

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cluster():
    return make_cluster()


@pytest.fixture
def author():
    return person("ada", "planner")


@pytest.fixture
def admin(cluster):
    return person("root", "admin", cluster=cluster)


@pytest.fixture
def set_policy(cluster, admin):
    return lambda **wishes: services.change_policy(actor=admin, cluster=cluster, wishes=wishes)


def test_a_cluster_without_a_policy_limits_nothing(cluster):
    policy = policy_of(cluster)
    assert (policy.version, policy.protected_namespaces, policy.max_moves_per_plan) == (0, [], None)
    assert ban_of(policy, timezone.now()) is None
    assert not ClusterPolicy.objects.exists()


def test_a_change_is_written_with_what_was_there_before_and_counted(set_policy, admin, cluster):
    set_policy(protected_namespaces=["prod-*", "prod-*"], max_moves_per_plan=9)
    set_policy(max_moves_per_plan=5)
    assert set_policy(max_moves_per_plan=5).version == 2
    policy = policy_of(cluster)
    assert (policy.version, policy.changed_by, policy.protected_namespaces) == (2, admin, ["prod-*"])
    first, second = AuditEntry.objects.filter(action="policy.changed")
    assert (first.actor, first.cluster, first.subject) == (admin, "east", f"plans.ClusterPolicy:{policy.pk}")
    assert first.detail["before"] == {"protected_namespaces": [], "max_moves_per_plan": None}
    assert (second.detail["before"], second.detail["after"]) == (
        {"max_moves_per_plan": 9},
        {"max_moves_per_plan": 5},
    )
    assert verify_chain().is_intact


def test_only_an_admin_of_that_cluster_changes_it(cluster, author):
    west_admin = person("west", "admin", cluster=make_cluster("west"))
    for actor, error in ((author, Denied), (west_admin, NotVisible)):
        with pytest.raises(error):
            services.change_policy(actor=actor, cluster=cluster, wishes={"max_moves_per_plan": 1})
    with pytest.raises(Denied):
        services.stop_cluster(actor=author, cluster=cluster, reason="x")
    assert AuditEntry.objects.filter(action="denied").count() == 3
    assert not ClusterPolicy.objects.filter(version__gt=0).exists()


@pytest.mark.parametrize(
    "wish", [{"max_moves_per_plan": True}, {"stopped_at": None}, {"freeze_windows": ["x"]}]
)
def test_what_is_no_policy_is_refused(set_policy, wish):
    with pytest.raises(InvalidPolicy):
        set_policy(**wish)


@pytest.mark.parametrize(
    ("namespace", "patterns", "is_protected"),
    [
        ("prod", ["prod"], True),
        ("prod-eu", ["prod"], False),
        ("prod-eu", ["prod-*"], True),
        ("prod", ["prod-*"], False),
        ("dev1", ["dev?"], True),
        ("dev", ["*"], True),
    ],
)
def test_names_and_globs(namespace, patterns, is_protected):
    assert bool(why_protected(namespace, patterns)) == is_protected


def test_protection_changes_nothing_but_the_pods_of_that_namespace():
    seen = picture(pods=[pod("a", "node-a", 1), pod("b", "node-b", 1, namespace="prod-eu")])
    guarded = guard_namespaces(seen, ["prod-*"])
    assert guarded.pods["uid-a"] is seen.pods["uid-a"]
    verdict = movability(guarded, guarded.pods["uid-b"])
    assert verdict.reasons == ("its namespace prod-eu is protected by the cluster's policy (prod-*)",)
    assert guard_namespaces(seen, ["other"]) is seen


def test_the_planner_leaves_protected_pods_and_every_page_sees_why(cluster, author, set_policy):
    see(cluster)
    set_policy(protected_namespaces=["ml"])
    plan = services.request_plan(actor=author, cluster=cluster, goal="free-nodes")
    compute_draft(plan.pk)
    assert open_plan(current_version(plan)).moves == ()
    seen = open_snapshot(latest_snapshot(cluster))
    assert "its namespace ml is protected by the cluster's policy" in seen.pods["uid-lora"].protections
    set_policy(protected_namespaces=[])
    services.revise_plan(plan_id=plan.pk, actor=author)
    compute_draft(plan.pk)
    plan.refresh_from_db()
    assert [move.pod for move in open_plan(current_version(plan)).moves] == ["ml/lora"]


def test_plans_that_break_a_new_policy_go_stale_and_say_why(cluster, author, set_policy):
    waiting = proposed(cluster, author)
    decided = approve(proposed(cluster, author), person("ben", "approver"))
    fresh = draft(cluster, author)
    set_policy(protected_namespaces=["m*"])
    assert services.mark_stale_plans() == 2
    reason = (
        "ml/lora must not be moved now: its namespace ml is protected by the cluster's policy (m*) (move 1)"
    )
    assert {plan.state_reason for plan in Plan.objects.filter(pk__in=[waiting.pk, decided.pk])} == {reason}
    with pytest.raises(PlanIsStale, match="its namespace ml is protected"):
        services.propose_plan(plan_id=fresh.pk, actor=author)


def test_a_plan_with_more_moves_than_allowed_now_is_not_approved(cluster, author, set_policy):
    plan = proposed(cluster, author)
    set_policy(max_moves_per_plan=1)
    assert services.mark_stale_plans() == 0
    ClusterPolicy.objects.update(max_moves_per_plan=0)
    with pytest.raises(PlanIsStale, match="has 1 move and the policy of the cluster allows 0"):
        approve(plan, person("ben", "approver"))
    assert Plan.objects.get(pk=plan.pk).state == PlanState.STALE


def test_a_request_keeps_to_the_cap(cluster, author, set_policy):
    see(cluster)
    set_policy(max_moves_per_plan=20)
    with pytest.raises(OverLimit, match=r"policy of east allows 20 moves a plan \(max_moves_per_plan\)"):
        services.request_plan(actor=author, cluster=cluster, goal="free-nodes", max_moves=21)
    plan = services.request_plan(actor=author, cluster=cluster, goal="free-nodes")
    assert plan.request["max_moves"] == 20
    set_policy(max_moves_per_plan=10)
    assert services.revise_plan(plan_id=plan.pk, actor=author, seconds=5).request["max_moves"] == 10
    with pytest.raises(OverLimit):
        services.revise_plan(plan_id=plan.pk, actor=author, max_moves=11)


def test_an_approval_holds_as_long_as_the_policy_says(cluster, author, set_policy):
    set_policy(approval_expires_after_seconds=600)
    plan = approve(proposed(cluster, author), person("ben", "approver"))
    left = plan.expires_at - timezone.now()
    assert timedelta(minutes=9) < left <= timedelta(minutes=10)


def test_the_kill_switch_is_thrown_once_and_released_by_an_admin_alone(cluster, admin):
    operator = person("omar", "operator", cluster=cluster)
    services.stop_cluster(actor=operator, cluster=cluster, reason="the network\nburns")
    ban = ban_of(policy_of(cluster), timezone.now())
    assert ban.short == "paused by the kill switch (omar: the network burns)"
    with pytest.raises(WrongState, match="on already: the network burns"):
        services.stop_cluster(actor=admin, cluster=cluster, reason="again")
    with pytest.raises(Denied):
        services.release_cluster(actor=operator, cluster=cluster, reason="out")
    with pytest.raises(InvalidPolicy, match="why it is safe again"):
        services.release_cluster(actor=admin, cluster=cluster, reason=" ")
    services.release_cluster(actor=admin, cluster=cluster, reason="out")
    assert ban_of(policy_of(cluster), timezone.now()) is None
    with pytest.raises(WrongState, match="is not on"):
        services.release_cluster(actor=admin, cluster=cluster, reason="out")
