"""What makes a plan stale or lets it expire, and the sentence that names it."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.planner.inventory import DisruptionBudget, LabelSelector, PodTerm, Requirement, Taint
from apps.planner.plan import Goal, HandOver
from apps.planner.staleness import what_changed
from apps.plans import services
from apps.plans.models import Plan
from apps.plans.states import PlanState
from tests.plans.situations import (
    approve,
    draft,
    make_cluster,
    node,
    person,
    picture,
    plan_of_one_move,
    pod,
    proposed,
    see,
)

PODS = [pod("lora", "node-a", 1), pod("train", "node-b", 7), pod("serve", "node-c", 8)]


def budget(allowed):
    wants_lora = LabelSelector((Requirement("app", "In", ("lora",)),))
    return DisruptionBudget(
        namespace="ml",
        name="lora-pdb",
        uid="pdb",
        selector=wants_lora,
        disruptions_allowed=allowed,
        current_healthy=1,
        expected_pods=1,
    )


def nodes(**changed):
    return [replace(node(name), **changed.get(name[-1], {})) for name in ("node-a", "node-b", "node-c")]


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        ({"pods": PODS[1:]}, "ml/lora is gone (move 1)"),
        (
            {"pods": [replace(PODS[0], uid="new"), *PODS[1:]]},
            "ml/lora was replaced by another pod of that name (move 1)",
        ),
        ({"pods": [replace(PODS[0], terminating=True), *PODS[1:]]}, "ml/lora is ending (move 1)"),
        (
            {"pods": [replace(PODS[0], node_name="node-c"), *PODS[1:2]]},
            "ml/lora runs on node-c, not on node-a (move 1)",
        ),
        (
            {"pods": [pod("lora", "node-a", 1, requests={"cpu": 2000, "nvidia.com/gpu": 1}), *PODS[1:]]},
            "ml/lora asks for other resources than planned (move 1)",
        ),
        (
            {"pods": [replace(PODS[0], protections=("its owner opted out",)), *PODS[1:]]},
            "ml/lora must not be moved now: its owner opted out (move 1)",
        ),
        ({"nodes": nodes()[::2]}, "node node-b is gone"),
        ({"nodes": nodes(b={"uid": "new"})}, "node node-b was replaced by another node of that name"),
        ({"nodes": nodes(b={"ready": False})}, "node node-b is not ready"),
        ({"nodes": nodes(b={"unschedulable": True})}, "node node-b was cordoned"),
        ({"nodes": nodes(b={"taints": (Taint("dedicated"),)})}, "node node-b was tainted with dedicated"),
        (
            {"pods": [*PODS, pod("late", "node-b", 1)]},
            "node-b has too little nvidia.com/gpu left for move 1, taken by ml/late",
        ),
        ({"pods": [*PODS, pod("late", "node-a", 2)]}, "ml/late started on node-a, which the plan frees"),
        (
            {"budgets": {"pdb": budget(0)}},
            "budget lora-pdb allows no eviction now, 1 of 1 ready (move 1)",
        ),
    ],
)
def test_the_sentence_names_what_changed(now, sentence):
    before = picture(budgets={"pdb": budget(1)})
    after = picture(**{"budgets": {"pdb": budget(1)}, **now})
    assert sentence in what_changed(plan_of_one_move(), before, after)
    assert what_changed(plan_of_one_move(), before, before) == []


@pytest.mark.parametrize(
    "now",
    [
        {"pods": [*PODS[:2], pod("other", "node-c", 4)]},
        {"pods": [*PODS, pod("exporter", "node-a", 0, requests={"cpu": 100})]},
        {"nodes": [*nodes(), node("node-d")]},
        {"nodes": nodes(b={"taints": (Taint("soft", effect="PreferNoSchedule"),)})},
        {"nodes": nodes(c={"ready": False})},
        {"pods": [replace(PODS[0], labels={"app": "lora", "x": "y"}), *PODS[1:]]},
    ],
)
def test_what_the_plan_does_not_stand_on_may_change(now):
    assert what_changed(plan_of_one_move(), picture(), picture(**now)) == []


def test_without_the_old_snapshot_only_what_the_plan_names_is_compared():
    assert what_changed(plan_of_one_move(), None, picture()) == []
    assert what_changed(plan_of_one_move(), None, picture(nodes=nodes(b={"uid": "new"})))
    assert what_changed(plan_of_one_move(), None, picture(pods=[*PODS, pod("late", "node-b", 1)])) == [
        "node-b has too little nvidia.com/gpu left for move 1"
    ]


def test_an_unlock_is_stale_once_nobody_waits_any_more():
    waits = pod("llama", "", 8, phase="Pending", ready=False)
    plan = plan_of_one_move(goal=Goal.UNLOCK, hand_overs=(HandOver("uid-llama", "ml/llama", "node-a"),))
    assert what_changed(plan, None, picture(pods=[*PODS, waits])) == []
    assert what_changed(plan, None, picture()) == ["ml/llama no longer waits for node-a"]


@pytest.mark.django_db
def test_the_timer_marks_what_is_stale_and_leaves_the_rest():
    east, west = make_cluster("east"), make_cluster("west")
    author, approver = person("author", "planner"), person("approver", "approver")
    waiting, decided = proposed(east, author), approve(proposed(east, author), approver)
    unasked, elsewhere = draft(east, author), proposed(west, author)
    assert services.mark_stale_plans() == 0

    see(east, picture(pods=[*PODS, *(pod(f"late-{n}", "node-a", 1) for n in range(5))]))
    assert services.mark_stale_plans() == 2
    states = {plan.pk: plan.state for plan in Plan.objects.all()}
    assert [states[one.pk] for one in (waiting, decided, unasked, elsewhere)] == [
        PlanState.STALE,
        PlanState.STALE,
        PlanState.DRAFT,
        PlanState.PROPOSED,
    ]
    decided.refresh_from_db()
    assert decided.state_reason.endswith("and 2 more")


@pytest.mark.django_db
def test_a_rule_without_a_sentence_of_its_own_makes_a_plan_stale_too():
    cluster = make_cluster()
    plan = proposed(cluster, person("author", "planner"))
    picky = LabelSelector((Requirement("app", "In", ("lora",)),))
    no_neighbour = PodTerm("kubernetes.io/hostname", picky)
    shy = pod("shy", "node-b", 0, requests={"cpu": 100}, pod_anti_affinity=(no_neighbour,))
    see(cluster, picture(pods=[*PODS, shy]))
    assert services.mark_stale_plans() == 1
    plan.refresh_from_db()
    assert plan.state == PlanState.STALE
    assert "ml/lora" in plan.state_reason


@pytest.mark.django_db
def test_a_plan_that_cannot_be_compared_holds_up_no_other():
    broken, fine = make_cluster("broken"), make_cluster("fine")
    author = person("author", "planner")
    proposed(fine, author)
    proposed(broken, author)
    see(fine, picture(pods=[]))
    see(broken, picture(pods=[]))
    broken.snapshots.update(body=b"not a snapshot")
    assert services.mark_stale_plans() == 1


@pytest.mark.django_db
def test_a_plan_expires_when_nobody_decides_or_nobody_starts_it():
    cluster = make_cluster()
    author, approver = person("author", "planner"), person("approver", "approver")
    waiting, decided, fresh = (proposed(cluster, author) for _ in range(3))
    approve(decided, approver)
    assert services.expire_plans() == 0
    past = timezone.now() - timedelta(minutes=1)
    Plan.objects.filter(pk__in=[waiting.pk, decided.pk]).update(expires_at=past)
    assert services.expire_plans() == 2
    for plan, word in ((waiting, "approved"), (decided, "started")):
        plan.refresh_from_db()
        assert plan.state == PlanState.EXPIRED
        assert plan.state_reason.startswith(f"It was not {word} before {past:%Y-%m-%d %H:%M} UTC")
    fresh.refresh_from_db()
    assert fresh.state == PlanState.PROPOSED
