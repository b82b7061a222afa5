import random

import pytest

from apps.planner.defrag import plan_free_nodes
from apps.planner.inventory import PodTerm
from apps.planner.verification import check_plan
from tests.drawing import budget, cluster, running, select
from tests.planner.brute_force import best_freeing
from tests.planner.random_clusters import draw_cluster

HOST = "kubernetes.io/hostname"


def never() -> bool:
    return False


def free(snapshot, moves=20):
    plan = plan_free_nodes(snapshot, max_moves=moves, deadline=never)
    assert check_plan(snapshot, plan) == []
    return plan


def test_the_node_with_one_small_pod_is_emptied_onto_the_fuller_one():
    plan = free(cluster("a1 a.......\na2 abcdefg."))

    assert [(move.pod, move.source, move.target) for move in plan.moves] == [("team/a1-a", "a1", "a2")]
    assert plan.freed_nodes == ("a1",)
    assert plan.proven_optimal
    assert plan.sentence == "Moving 1 pod frees 1 whole node with 8 GPUs."
    assert plan.moves[0].reason == "a1 becomes a free node with 8 GPUs."


def test_no_more_pods_move_than_allowed():
    snapshot = cluster("a1 ab......\na2 a.......\na3 abcd....")

    assert [len(free(snapshot, moves=most).moves) for most in (0, 1, 2, 3)] == [0, 1, 1, 3]


def test_a_free_node_stays_free():
    assert free(cluster("a1 aaaa....\na2 bbbbb...\na3 ........")).moves == ()


def test_a_node_with_a_protected_pod_is_never_emptied_and_says_why():
    plan = free(cluster("a1 A.......\na2 abcd...."))

    assert plan.freed_nodes == ("a2",)
    assert [(one.pod, one.reason) for one in plan.refused] == [("team/a1-A", "Its owner protects it.")]


def test_cpu_pods_may_stay_on_a_freed_node():
    plan = free(cluster("a1 a.......\na2 abc.....", extra=[running("web", "a1")]))

    assert plan.freed_nodes == ("a1",)
    assert [move.pod for move in plan.moves] == ["team/a1-a"]


def test_two_halves_of_a_gpu_share_one_device():
    assert free(cluster("a1 5...\na2 5aaa")).freed_nodes == ("a1",)
    assert free(cluster("a1 5...\na2 7aaa")).freed_nodes == ()


def test_a_full_disruption_budget_keeps_a_pod_where_it_is():
    pods = {"a1-a": {"labels": {"app": "db"}}}
    drawing = "a1 a...\na2 AAA."

    assert free(cluster(drawing, pods=pods, budgets=[budget("db", allowed=0, app="db")])).moves == ()
    assert len(free(cluster(drawing, pods=pods, budgets=[budget("db", allowed=1, app="db")])).moves) == 1


def test_a_wave_never_takes_more_of_a_budget_than_it_allows():
    pods = {name: {"labels": {"app": "db"}} for name in ("a1-a", "a1-b", "a1-c")}
    plan = free(cluster("a1 abc.\na2 AAAA....", pods=pods, budgets=[budget("db", allowed=2, app="db")]))

    assert [move.wave for move in plan.moves] == [1, 1, 2]


def test_a_cordoned_or_stale_node_is_neither_emptied_nor_a_target():
    drawing = "a1 a...\na2 aaa."

    for facts in ({"unschedulable": True}, {"ready": False}, {"stale_since": 1.0}):
        assert free(cluster(drawing, nodes={"a2": facts})).moves == ()


def test_the_tightest_plan_beats_emptying_the_least_used_node():
    """The least used node (a1) would fill the only places that empty the other two."""
    snapshot = cluster("a1 aab.\na2 ab..\na3 ab..\na4 AA..\na5 AAA.")

    assert len(free(snapshot).freed_nodes) == best_freeing(snapshot, 20)[0]


def test_a_deadline_that_has_passed_gives_an_honest_plan():
    plan = plan_free_nodes(cluster("a1 a...\na2 aaa."), max_moves=5, deadline=lambda: True)

    assert (plan.moves, plan.proven_optimal, plan.lower_bound, plan.gap) == ((), False, 2.0, 1.0)


@pytest.mark.parametrize("seed", range(150))
def test_freed_nodes_and_moves_equal_those_of_trying_everything(seed):
    draw = random.Random(seed)
    snapshot = draw_cluster(draw, nodes=draw.choice([3, 4, 5]), shares=seed % 2 == 0)
    most = draw.choice([2, 4, 8])

    plan = free(snapshot, most)

    assert (len(plan.freed_nodes), len(plan.moves)) == best_freeing(snapshot, most)
    assert plan.lower_bound >= len(plan.freed_nodes)


@pytest.mark.parametrize("asked", range(2, 40, 3))
def test_whenever_time_runs_out_the_plan_so_far_is_sound_and_its_bound_holds(asked):
    snapshot = draw_cluster(random.Random(5), nodes=12)
    calls = []

    def late():
        calls.append(1)
        return len(calls) > asked

    whole = plan_free_nodes(snapshot, max_moves=12, deadline=lambda: False)
    plan = plan_free_nodes(snapshot, max_moves=12, deadline=late)

    assert check_plan(snapshot, plan) == []
    assert plan.lower_bound >= len(whole.freed_nodes)
    assert len(plan.freed_nodes) <= len(whole.freed_nodes)


@pytest.mark.parametrize(
    ("drawing", "moves", "why"),
    [
        ("a1 ....\na2 ....", 5, "No node has GPU pods that could be moved: there is nothing to free."),
        (
            "a1 A...\na2 BB..",
            5,
            "Every node with GPU pods holds one that may not move (2 of 2: Its owner protects it.)",
        ),
        ("a1 ab..\na2 ccd.", 1, "Emptying even a1 takes 2 moves; 1 are allowed."),
        (
            "a1 aaa.\na2 bbb.",
            5,
            "No other node has room for team/a1-a, and no other node can be emptied, either.",
        ),
    ],
)
def test_where_nothing_can_be_freed_the_sentence_says_what_stands_in_the_way(drawing, moves, why):
    assert free(cluster(drawing), moves).sentence == why


def test_a_rule_between_pods_is_called_relaxed_only_where_there_is_one():
    drawing = "a1 aab.\na2 ab..\na3 ab..\na4 AA..\na5 AAA."
    nodes = {f"a{number}": {"labels": {HOST: f"a{number}", "zone": "z"}} for number in range(1, 6)}

    def is_relaxed(topology_key):
        shy = {"a2-a": {"pod_anti_affinity": (PodTerm(topology_key, select(app="x")),)}}
        return any("Rules between" in one for one in free(cluster(drawing, pods=shy, nodes=nodes)).relaxed)

    assert not any("Rules between" in one for one in free(cluster(drawing, nodes=nodes)).relaxed)
    assert is_relaxed("zone")
    assert not is_relaxed(HOST)  # a node answers it by itself, so the program knows it


SHY = {"labels": {"app": "x"}, "pod_anti_affinity": (PodTerm(HOST, select(app="x")),)}
MET = {"labels": {"app": "x"}}


@pytest.mark.parametrize(
    ("a", "b", "c", "freed"),
    [
        ({}, {}, {}, ("a1", "a2", "a3")),
        (SHY, SHY, {}, ("a1", "a2", "a3")),  # one on each of the two targets
        (SHY, SHY, SHY, ("a1", "a2")),
        (SHY, MET, MET, ("a1", "a2", "a3")),
        ({"host_ports": (80,)}, {"host_ports": (80,)}, {"host_ports": (80,)}, ("a1", "a2")),
    ],
)
def test_pods_that_keep_each_other_off_a_host_share_its_one_place_exactly(a, b, c, freed):
    nodes = {f"a{number}": {"labels": {HOST: f"a{number}"}} for number in range(1, 6)}
    seen = cluster(
        "a1 a...\na2 b...\na3 c...\na4 AB..\na5 DE..",
        nodes=nodes,
        pods={"a1-a": a, "a2-b": b, "a3-c": c},
    )
    plan = free(seen)

    assert len(plan.freed_nodes) == len(freed)
    assert plan.lower_bound == len(freed)
    assert plan.proven_optimal


def test_who_is_on_a_host_for_good_keeps_others_off_it_in_the_bound_as_well():
    nodes = {f"a{number}": {"labels": {HOST: f"a{number}"}} for number in range(1, 4)}
    pods = {"a1-a": SHY, "a2-A": MET, "a3-B": {}}
    plan = free(cluster("a1 a...\na2 AAA.\na3 BBB.", nodes=nodes, pods=pods))
    assert [(move.source, move.target) for move in plan.moves] == [("a1", "a3")]

    pods = {"a1-a": SHY, "a2-A": MET, "a3-B": MET}
    plan = free(cluster("a1 a...\na2 AAA.\na3 BBB.", nodes=nodes, pods=pods))
    assert (plan.freed_nodes, plan.lower_bound, plan.proven_optimal) == ((), 0.0, True)
