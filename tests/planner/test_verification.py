"""The checker finds every kind of broken plan; the planner's own plans pass it in every other test."""

from dataclasses import replace

import pytest

from apps.planner.defrag import plan_free_nodes, plan_unlock
from apps.planner.inventory import LabelSelector, PodTerm, SpreadConstraint, Taint
from apps.planner.plan import Goal, HandOver, Move, Plan
from apps.planner.verification import check_plan, compare_outcome
from tests.drawing import PROTECTED, budget, cluster, running, select, waiting

HOST = "kubernetes.io/hostname"
DRAWING = "a1 a...\na2 bb..\na3 ccc."


def move(pod="a1-a", source="a1", target="a2", order=1, wave=1, gpus=1):
    return Move(order, wave, f"uid-{pod}", f"team/{pod}", source, target, gpus, 0.0, "because")


def plan_of(*moves, **facts):
    return Plan(Goal.UNLOCK, moves=moves, **facts)


def faults(plan, drawing=DRAWING, *groups, **facts):
    return check_plan(cluster(drawing, *groups, **facts), plan)


def says(found, words):
    assert any(words in one for one in found), found


def test_a_sound_plan_has_no_faults():
    assert faults(plan_of(move())) == []


def test_a_pod_that_was_moved_once_may_be_moved_again_but_not_before_it_runs():
    landed = {"steering": "steer-7", "phase": "Running", "ready": True}

    assert faults(plan_of(move()), pods={"a1-a": landed}) == []
    says(faults(plan_of(move()), pods={"a1-a": landed | {"ready": False}}), "already moving")


@pytest.mark.parametrize(
    ("moves", "words"),
    [
        ([move(source="a3")], "is not the pod that runs on"),
        ([replace(move(), pod_uid="uid-nobody")], "is not the pod that runs on"),
        ([move(target="a1")], "no other node as its target"),
        ([move(target="a9")], "no other node as its target"),
        ([move(), move(order=2, target="a3")], "is moved 2 times"),
        ([move(order=2)], "has gaps"),
        ([move(wave=2), move("a2-b", "a2", "a3", order=2, wave=1)], "waves do not follow"),
    ],
)
def test_the_form_of_the_moves_is_checked(moves, words):
    says(faults(plan_of(*moves)), words)


def test_a_pod_whose_devices_come_by_claims_is_found():
    says(faults(plan_of(move()), pods={"a1-a": {"claims": ("team/c",)}}), "by resource claims")


def test_a_target_without_gpus_left_is_found():
    says(faults(plan_of(move("a2-b", "a2", "a3"))), "finds no GPUs on a3")


def test_room_that_only_an_earlier_move_makes_cannot_be_held():
    moves = [move("a3-c", "a3", "a1"), move("a2-b", "a2", "a3", order=2)]

    says(faults(plan_of(*moves)), "before the first eviction")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"ready": False}, "not Ready"),
        ({"stale_since": 1.0}, "not Ready or stale"),
        ({"unschedulable": True}, "cordoned"),
        ({"taints": (Taint("gpu"),)}, "does not tolerate"),
        ({"allocatable": {"cpu": 9000, "memory": 2**50, "nvidia.com/gpu": 4}}, "needs cpu"),
        ({"allocatable": {"cpu": 90000, "memory": 2**50, "nvidia.com/gpu": 4, "pods": 1}}, "no further pod"),
    ],
)
def test_a_target_that_must_not_take_it_is_found(facts, words):
    says(faults(plan_of(move()), nodes={"a2": facts}), words)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"protections": (PROTECTED,)}, PROTECTED),
        ({"owner_kind": "DaemonSet"}, "would not be created elsewhere"),
        ({"workload": ""}, "would not be created elsewhere"),
        ({"terminating": True}, "terminating"),
        ({"volumes_pin_node": True}, "pinned by a volume"),
        ({"scheduler": "volcano"}, "scheduler volcano"),
        ({"node_selector": {"zone": "a"}}, "selects other nodes"),
    ],
)
def test_a_pod_that_must_stay_is_found(facts, words):
    says(faults(plan_of(move()), pods={"a1-a": facts}), words)


def test_host_ports_and_rules_between_pods_are_checked():
    web = running("web", "a2", host_ports=(80,), labels={"app": "web"})
    shy = {"pod_anti_affinity": (PodTerm(HOST, select(app="web")),)}
    lonely = {"pod_affinity": (PodTerm(HOST, select(app="gone")),)}
    even = {"labels": {"app": "web"}, "spread": (SpreadConstraint(HOST, 1, select(app="web")),)}

    says(faults(plan_of(move()), extra=[web], pods={"a1-a": {"host_ports": (80,)}}), "host port")
    says(faults(plan_of(move()), extra=[web], pods={"a1-a": shy}), "meets a pod it avoids")
    says(faults(plan_of(move()), extra=[web], pods={"a1-a": lonely}), "no company")
    says(faults(plan_of(move()), extra=[web], pods={"a1-a": even}), "breaks the spread")
    hermit = replace(web, pod_anti_affinity=(PodTerm(HOST, LabelSelector()),))
    says(faults(plan_of(move()), extra=[hermit]), "avoids")


def test_a_plan_made_without_a_view_of_the_budgets_is_found():
    blind = replace(cluster(DRAWING), problems=("poddisruptionbudgets cannot be read: no right",))

    says(check_plan(blind, plan_of(move())), "could not be read, which may forbid")


def test_an_unhealthy_pod_spends_nothing_of_a_budget_that_lets_it_go():
    lenient = replace(budget("db", allowed=0, app="db"), always_allow_unhealthy=True)
    sick = {"a1-a": {"labels": {"app": "db"}, "ready": False}}
    well = {"a1-a": {"labels": {"app": "db"}}}

    assert faults(plan_of(move()), pods=sick, budgets=[lenient]) == []
    says(faults(plan_of(move()), pods=well, budgets=[lenient]), "takes 1 pods of budget db")


def test_a_wave_beyond_its_budget_is_found():
    pods = {name: {"labels": {"app": "db"}} for name in ("a1-a", "a2-b")}
    budgets = [budget("db", allowed=1, app="db")]
    moves = [move(target="a2"), move("a2-b", "a2", "a1", order=2, gpus=2)]

    says(faults(plan_of(*moves), pods=pods, budgets=budgets), "takes 2 pods of budget db")
    apart = [moves[0], replace(moves[1], wave=2)]
    assert faults(plan_of(*apart), pods=pods, budgets=budgets) == []


def test_a_freed_node_must_be_free_and_must_not_have_been():
    says(
        faults(Plan(Goal.FREE_NODES, freed_nodes=("a1",), lower_bound=1.0)), "a1 is not free after the moves"
    )
    says(
        faults(Plan(Goal.FREE_NODES, freed_nodes=("a1",), lower_bound=1.0), "a1 ....\na2 a..."),
        "a1 was free before",
    )
    says(
        faults(Plan(Goal.FREE_NODES, moves=(move(),)), "a1 a...\na2 ...."), "was free and is used as a target"
    )


def test_a_gang_unlocked_in_part_is_found():
    gang = waiting("ml/train", gpus=1, count=2)
    given = tuple(HandOver(pod.uid, pod.key, "a1") for pod in gang)

    assert faults(plan_of(hand_overs=given, unlocked=("ml/train",), unlocked_gpus=2), DRAWING, gang) == []
    says(faults(plan_of(hand_overs=given[:1], unlocked=("ml/train",)), DRAWING, gang), "gets no node")
    says(faults(plan_of(hand_overs=given), DRAWING, gang), "is not unlocked")


def test_a_hand_over_without_room_is_found():
    pod = waiting("ml/train", gpus=4)[0]
    plan = plan_of(hand_overs=(HandOver(pod.uid, pod.key, "a1"),), unlocked=("ml/train",))

    says(faults(plan, DRAWING, (pod,)), "hand-over: ml/train finds no GPUs on a1")


def test_sums_and_bounds_that_do_not_add_up_are_found():
    says(faults(plan_of(move(), cost=5.0)), "is not the sum")
    snapshot = cluster("a1 a...\na2 bbb.")
    plan = plan_free_nodes(snapshot, max_moves=5, deadline=lambda: False)
    says(check_plan(snapshot, replace(plan, lower_bound=0.0)), "beyond the bound")


def test_every_move_left_out_of_a_plan_is_missed():
    """A plan is no longer than it must be: without any one move the checker finds a fault."""
    snapshot = cluster("a1 ab..\na2 aab.\na3 BBB.\na4 BB..\na5 B...", waiting("ml/train", gpus=4, count=2))
    plan = plan_unlock(snapshot, workload="ml/train", max_moves=9, deadline=lambda: False)
    assert len(plan.moves) == 4

    for left_out in plan.moves:
        kept = [one for one in plan.moves if one is not left_out]
        shorter = replace(plan, moves=tuple(replace(one, order=at) for at, one in enumerate(kept, start=1)))
        assert check_plan(snapshot, shorter)


def outcome(after_drawing, replacements, plan=None):
    after = cluster(after_drawing)
    return compare_outcome(
        plan or Plan(Goal.FREE_NODES, moves=(move(),), freed_nodes=("a1",)), after, replacements
    )


def test_an_outcome_as_promised_matches():
    assert outcome("a1 ....\na2 bba.\na3 ccc.", {"uid-a1-a": "uid-a2-a"}).matches


def test_a_successor_elsewhere_and_a_node_refilled_are_told_apart():
    found = outcome("a1 x...\na2 bb..\na3 ccca", {"uid-a1-a": "uid-a3-a"})

    assert not found.matches
    assert found.differences == (
        "Promised: team/a1-a runs on a2. Found: team/a1-a runs on a3.",
        "Promised: a1 is free. Found: a1 holds team/a1-x.",
    )


def test_a_successor_that_never_came_is_said():
    assert outcome(DRAWING, {}).differences[0].endswith("team/a1-a has no running successor.")


def test_a_waiting_pod_that_got_its_node_matches():
    pod = waiting("ml/train", gpus=1)[0]
    plan = plan_of(hand_overs=(HandOver(pod.uid, pod.key, "a1"),), unlocked=("ml/train",))
    runs = replace(pod, node_name="a1", phase="Running")

    assert compare_outcome(plan, cluster(DRAWING, (runs,)), {}).matches
    assert not compare_outcome(plan, cluster(DRAWING, (pod,)), {}).matches
