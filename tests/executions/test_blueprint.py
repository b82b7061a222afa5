"""From a plan to steps, and what preflight refuses. No cluster; pictures drawn by hand."""

from dataclasses import replace

import pytest

from apps.executions.blueprint import cordoned_nodes, draft_steps
from apps.executions.preflight import why_not_here
from apps.executions.services import claimed_subjects
from apps.executions.states import StepKind
from apps.executions.verifying import as_carried_out
from apps.planner.plan import Goal, HandOver, Reconfiguration
from tests.plans.situations import node, picture, plan_of_one_move, pod


@pytest.fixture(autouse=True)
def _steering_has_an_address(settings):
    settings.STEERING_URL = "https://127.0.0.1:1"


def waiting(name, **facts):
    return pod(name, "", 8, phase="Pending", ready=False, gang="ml/gang", workload="job", **facts)


def with_gang():
    gang = [waiting("gang-0"), waiting("gang-1")]
    hand_overs = tuple(
        HandOver(pod_uid=one.uid, pod=one.key, node=where)
        for one, where in zip(gang, ["node-a", "node-c"], strict=True)
    )
    pods = [pod("lora", "node-a", 1), pod("train", "node-b", 7), *gang]
    return plan_of_one_move(hand_overs=hand_overs, unlocked=("ml/gang",)), picture(pods=pods)


def test_steps_come_in_the_order_cordons_holds_moves_nodes():
    drafts = draft_steps(plan_of_one_move(), picture(), owned="7-ab")
    assert [draft.kind for draft in drafts] == [
        StepKind.CORDON_NODE,
        StepKind.HOLD_TARGET,
        StepKind.CHECKPOINT,
        StepKind.STEER,
        StepKind.EVICT_POD,
        StepKind.AWAIT_REPLACEMENT,
        StepKind.RELEASE,
        StepKind.RELEASE,
    ]
    assert [draft.move for draft in drafts] == [0, 1, 1, 1, 1, 1, 1, 0]


def test_a_node_that_is_handed_over_is_not_released_as_free():
    plan, seen = with_gang()
    drafts = draft_steps(plan, seen, owned="7-ab")
    handed = [draft for draft in drafts if draft.kind == StepKind.HAND_OVER]
    assert [draft.params["node"] for draft in handed] == ["node-a", "node-c"]
    assert not [draft for draft in drafts if draft.kind == StepKind.RELEASE and not draft.move]
    assert {draft.params["wanted"] for draft in handed} == {2}
    assert len({draft.params["taint"] for draft in handed}) == 1


def test_a_node_that_a_move_lands_on_is_not_cordoned():
    plan = plan_of_one_move(freed_nodes=("node-a", "node-b"))
    assert cordoned_nodes(plan) == ["node-a"]


def test_a_stateful_pod_is_steered_by_its_name_too():
    stateful = pod("db-0", "node-a", 1, owner_kind="StatefulSet", uid="uid-lora")
    drafts = draft_steps(plan_of_one_move(), picture(pods=[stateful]), owned="7-ab")
    assert {draft.params["pod_name"] for draft in drafts if draft.move} == {"db-0"}


@pytest.mark.parametrize(
    ("form", "waves", "steered"),
    [("", (1, 2, 4), "111"), ("parameter", (1, 2, 4), "113"), ("parameter", (1, 1, 2), "111")],
)
def test_moves_of_one_owner_are_steered_together_by_the_policy_only_without_a_gap(form, waves, steered):
    plan = plan_of_one_move()
    orders = range(1, 4)
    moves = tuple(
        replace(plan.moves[0], order=order, wave=wave, pod_uid=f"uid-lora-{order}")
        for order, wave in zip(orders, waves, strict=True)
    )
    pods = [pod(f"lora-{order}", "node-a", 1, workload="rs-lora") for order in orders]
    drafts = draft_steps(replace(plan, moves=moves), picture(pods=pods), owned="7-ab", form=form)
    named = {draft.move: draft.params["steering"] for draft in drafts if draft.kind == StepKind.STEER}
    assert [named[order] for order in orders] == [f"steer-7-ab-{first}" for first in steered]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"scheduler": "kai-scheduler"}, "scheduler"),
        ({"protections": ("The annotation protect says so.",)}, "protect"),
        ({"priority": 2_000_000_000}, "system priority"),
        ({"workload": "x' || true"}, "admission rule"),
    ],
)
def test_what_cannot_be_moved_safely_is_refused_with_its_reason(facts, words):
    reasons = why_not_here(plan_of_one_move(), picture(pods=[pod("lora", "node-a", 1, **facts)]))
    assert any(words in reason for reason in reasons), reasons


def test_a_hostname_that_two_nodes_share_cannot_be_pinned_to():
    nodes = [node("node-a"), node("node-b"), node("node-c", hostname="node-b")]
    pods = [pod("lora", "node-a", 1)]
    assert any("hostname" in one for one in why_not_here(plan_of_one_move(), picture(nodes=nodes, pods=pods)))
    assert why_not_here(plan_of_one_move(), picture(pods=pods)) == []


def test_a_gang_of_another_scheduler_is_handed_nothing():
    plan, seen = with_gang()
    gang = [replace(one, scheduler="volcano") for one in seen.pods.values() if one.gang]
    reasons = why_not_here(plan, seen.with_pods(gang))
    assert any("another scheduler" in reason for reason in reasons)


def test_which_pod_of_a_gang_took_which_of_its_nodes_does_not_matter():
    plan, seen = with_gang()
    first, second = sorted(uid for uid, one in seen.pods.items() if one.gang)
    swapped = [
        replace(seen.pods[first], node_name="node-c", phase="Running"),
        replace(seen.pods[second], node_name="node-a", phase="Running"),
    ]
    carried = as_carried_out(plan, [], seen.with_pods(swapped))
    assert {one.pod_uid: one.node for one in carried.hand_overs} == {first: "node-c", second: "node-a"}
    strayed = [replace(seen.pods[first], node_name="node-z", phase="Running"), swapped[1]]
    carried = as_carried_out(plan, [], seen.with_pods(strayed))
    assert {one.pod_uid: one.node for one in carried.hand_overs} == {first: "node-c", second: "node-a"}


def test_claims_name_the_cluster_so_that_two_clusters_do_not_meet():
    assert set(claimed_subjects("east", plan_of_one_move())) == {
        "east:pod:uid-lora",
        "east:node:uid-node-a",
        "east:node:uid-node-b",
        "east:workload:rs-lora",
    }


def cut(node, **facts):
    known = {"gpu": "0", "index": 0, "before": {}, "after": {"7g.80gb": 1}, "reason": ""}
    return Reconfiguration(1, node, **{**known, "node_uid": f"uid-{node}", **facts})


def with_cuts():
    """node-b is relaid first, the pod of node-a moves there, then node-a is relaid for what waits."""
    plan, seen = with_gang()
    cuts = (cut("node-b"), cut("node-a", after_moves=True))
    plan = replace(plan, goal=Goal.MIG, freed_nodes=(), reconfigurations=cuts)
    layouts = [
        {"node": "node-b", "before_moves": True, "offers": {"nvidia.com/mig-7g.80gb": 1}},
        {"node": "node-a", "before_moves": False, "offers": {}},
    ]
    return plan, seen, draft_steps(plan, seen, owned="7-ab", layouts=layouts)


def test_nodes_are_relaid_before_and_after_the_moves_and_opened_for_what_lands_there():
    _plan, _seen, drafts = with_cuts()
    assert [(draft.kind, draft.params.get("node", "")) for draft in drafts if not draft.move] == [
        (StepKind.CORDON_NODE, "node-b"),
        (StepKind.CORDON_NODE, "node-a"),
        (StepKind.RECONFIGURE_MIG, "node-b"),
        (StepKind.RELEASE, "node-b"),
        (StepKind.RECONFIGURE_MIG, "node-a"),
        (StepKind.HAND_OVER, "node-a"),
    ]
    kinds = [draft.kind for draft in drafts]
    assert kinds.index(StepKind.RECONFIGURE_MIG) < kinds.index(StepKind.HOLD_TARGET)
    assert kinds.index(StepKind.HOLD_TARGET) < kinds.index(StepKind.RELEASE) < kinds.index(StepKind.EVICT_POD)


def test_a_relaid_node_that_nobody_is_kept_for_is_opened_at_the_end():
    plan, seen, _ = with_cuts()
    plan = replace(plan, moves=(), hand_overs=(), reconfigurations=plan.reconfigurations[:1])
    layouts = [{"node": "node-b", "before_moves": True, "offers": {}}]
    drafts = draft_steps(plan, seen, owned="7-ab", layouts=layouts)
    assert [draft.kind for draft in drafts] == [
        StepKind.CORDON_NODE,
        StepKind.RECONFIGURE_MIG,
        StepKind.RELEASE,
    ]
    assert "before_moves" not in drafts[-1].params


def test_which_idle_instance_a_waiting_pod_took_does_not_matter_where_no_node_was_kept():
    plan, seen, _ = with_cuts()
    first, second = sorted(uid for uid, one in seen.pods.items() if one.gang)
    placed = seen.with_pods(
        [
            replace(seen.pods[first], node_name="node-a", phase="Running"),
            replace(seen.pods[second], node_name="node-z", phase="Running"),
        ]
    )
    assert {one.node for one in as_carried_out(plan, [], placed).hand_overs} == {"node-a", "node-z"}


def test_nodes_to_be_relaid_are_claimed():
    plan, _seen, _ = with_cuts()
    assert {"east:node:uid-node-a", "east:node:uid-node-b"} <= set(claimed_subjects("east", plan))


def test_each_step_of_a_move_says_how_its_replacement_is_steered():
    plan, seen, _ = with_cuts()
    drafts = draft_steps(plan, seen, owned="7-abc", form="parameter")
    assert {draft.params.get("form") for draft in drafts if draft.move} == {"parameter"}
    assert not any("form" in draft.params for draft in drafts if not draft.move)
