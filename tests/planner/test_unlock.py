import random
from dataclasses import replace

import pytest

from apps.planner.defrag import plan_unlock
from apps.planner.inventory import LabelSelector, PodTerm
from apps.planner.resources import Demand
from apps.planner.rooms import free_room
from apps.planner.verification import check_plan
from tests.drawing import NVLINK, budget, cluster, links, running, select, waiting
from tests.planner.brute_force import fewest_unlocking_moves
from tests.planner.random_clusters import draw_cluster, draw_gang

MAIN_STORY = """
n01 abc.....
n02 aab.....
n03 aab.....
n04 AAAAAA..
n05 BBBBBB..
n06 AAAAAAA.
n07 AAAAAAA.
n08 AAAAAAA.
n09 AAAAAAA.
n10 AAAAAAA.
n11 AAAAAAA.
n12 !AAABBBB
"""


def never() -> bool:
    return False


def unlock(snapshot, workload="ml/train", moves=20):
    plan = plan_unlock(snapshot, workload=workload, max_moves=moves, deadline=never)
    assert check_plan(snapshot, plan) == []
    return plan


def test_seven_moves_free_three_whole_nodes_for_the_gang():
    snapshot = cluster(MAIN_STORY, waiting("ml/train", gpus=8, count=3, link=NVLINK))

    plan = unlock(snapshot)

    assert len(plan.moves) == 7
    assert plan.freed_nodes == ("n01", "n02", "n03")
    assert plan.unlocked == ("ml/train",)
    assert plan.unlocked_gpus == 24
    assert plan.proven_optimal
    assert plan.sentence == "25 A100s are free, but the best node has 5; moving 7 pods frees 3 whole nodes."
    assert {one.node for one in plan.hand_overs} == {"n01", "n02", "n03"}
    assert all(move.reason.endswith("can then take train.") for move in plan.moves)


def test_a_gang_gets_room_whole_or_not_at_all():
    snapshot = cluster("a1 a...\na2 AA..\na3 BBB.", waiting("ml/train", gpus=4, count=2))

    plan = unlock(snapshot)

    assert (plan.moves, plan.unlocked, plan.hand_overs) == ((), (), ())
    assert plan.refused[0].pod == "ml/train"
    assert "No set of up to 20 moves makes room" in plan.refused[0].reason
    assert ("team/a2-A", "On a2: Its owner protects it.") in {(one.pod, one.reason) for one in plan.refused}


def test_what_fits_already_moves_nothing_and_says_so():
    plan = unlock(cluster("a1 ....\na2 aaa.", waiting("ml/train", gpus=2)))

    assert plan.moves == ()
    assert plan.unlocked == ("ml/train",)
    assert plan.sentence == "train fits as the cluster is; nothing has to move."


def test_one_large_pod_moves_rather_than_two_small_ones():
    snapshot = cluster("a1 aab.\na2 aabb\na3 AA..\na4 BB..", waiting("ml/train", gpus=3))

    assert len(unlock(snapshot).moves) == 1


def test_among_equally_many_moves_the_least_work_is_lost():
    pods = {"a1-a": {"started_at": 0.0}, "a2-a": {"started_at": 9000.0}}
    snapshot = cluster("a1 a...\na2 a...\na3 AAA.", waiting("ml/train", gpus=4), pods=pods, taken_at=10_000.0)

    plan = unlock(snapshot)

    assert [move.pod for move in plan.moves] == ["team/a2-a"]
    assert plan.cost == 1000 + 47


def test_a_checkpoint_makes_a_pod_cheaper_to_move():
    pods = {"a1-a": {"started_at": 0.0, "checkpointed_at": 9990.0}, "a2-a": {"started_at": 9000.0}}
    snapshot = cluster("a1 a...\na2 a...\na3 AAA.", waiting("ml/train", gpus=4), pods=pods, taken_at=10_000.0)

    assert [move.pod for move in unlock(snapshot).moves] == ["team/a1-a"]


def test_production_is_disturbed_last_and_named_a_high_risk():
    drawing = "a1 a...\na2 a...\na3 AAA."
    facts = {"a1-a": {"environment": "prod"}}

    assert unlock(cluster(drawing, waiting("ml/train", gpus=4), pods=facts)).moves[0].source == "a2"
    facts["a2-a"] = {"environment": "prod"}
    move = unlock(cluster(drawing, waiting("ml/train", gpus=4), pods=facts)).moves[0]
    assert (move.risk_level, move.risk) == ("high", "It serves production.")


def test_a_cpu_pod_moves_where_cpu_is_what_is_missing():
    """As in the public trace: most of what blocks whole nodes is CPU pods on GPU nodes."""
    snapshot = cluster(
        "a1 ....\nb1 AAAA\nb2 AAAA",
        waiting("ml/train", gpus=4, cpu=100_000),
        extra=[running("web", "a1", cpu=40_000), running("tiny", "a1", cpu=1000)],
    )

    plan = unlock(snapshot)

    assert [(move.pod, move.gpus) for move in plan.moves] == [("team/web", 0)]


def test_the_gangs_nodes_take_no_moved_pods():
    snapshot = cluster("a1 a...\na2 ....\na3 AAA.", waiting("ml/train", gpus=4, count=2))

    plan = unlock(snapshot)

    assert [(move.source, move.target) for move in plan.moves] == [("a1", "a3")]
    assert {one.node for one in plan.hand_overs} == {"a1", "a2"}


def test_a_wanted_link_decides_which_node_is_cleared():
    drawing = "a1 a...\na2 ab..\na3 AAA.\na4 BB.."
    gang = waiting("ml/train", gpus=4, link=NVLINK)

    assert unlock(cluster(drawing, gang)).moves[0].source == "a1"
    split = cluster(drawing, gang, nodes={"a1": {"topology": links("aabb")}})
    assert {move.source for move in unlock(split).moves} == {"a2"}
    names, missing = (
        ("a1", "a2", "a3", "a4"),
        "no node that has as many tells its links: no GPU topology metadata.",
    )
    blind = unlock(cluster(drawing, gang, nodes={name: {"topology": None} for name in names}))
    assert (blind.unlocked, blind.sentence) == ((), f"It wants 4 GPUs tied by nvlink; {missing}")
    apart = {name: {"topology": links("aabb")} for name in names[:3]} | {"a4": {"topology": None}}
    assert missing not in unlock(cluster(drawing, gang, nodes=apart)).sentence


def test_only_the_pods_on_the_right_gpus_have_to_go_for_a_linked_pair():
    snapshot = cluster(
        "a1 bc.A\na2 AAA.\na3 BBB.",
        waiting("ml/train", gpus=2, link=NVLINK),
        nodes={"a1": {"topology": links("abba")}},
    )

    assert [move.pod for move in unlock(snapshot).moves] == ["team/a1-c"]


def test_gang_members_that_avoid_each_other_get_a_node_each():
    apart = PodTerm("kubernetes.io/hostname", LabelSelector(select(gang="t").requirements))
    gang = waiting("ml/train", gpus=2, count=2, labels={"gang": "t"}, pod_anti_affinity=(apart,))

    plan = unlock(cluster("a1 ....\na2 abA.\na3 BBB.\na4 CCC.", gang))

    assert {one.node for one in plan.hand_overs} == {"a1", "a2"}
    assert len(plan.moves) == 1


def test_a_gang_that_lacks_members_or_waits_behind_a_gate_is_refused():
    gang = waiting("ml/train", gpus=2, count=3)
    snapshot = cluster("a1 ....\na2 ....", gang)
    short = replace(snapshot, pods={uid: pod for uid, pod in snapshot.pods.items() if uid != "uid-train-0"})
    gated = cluster("a1 ....", waiting("ml/train", gpus=2, gates=("kueue.x-k8s.io/admission",)))

    assert "lacks 1 of its members" in unlock(short).refused[0].reason
    assert "kueue.x-k8s.io/admission" in unlock(gated).refused[0].reason


def test_a_name_that_nobody_has_is_refused():
    assert unlock(cluster("a1 ...."), workload="ml/nobody").refused[0].reason == (
        "No pending workload has this name."
    )


def test_the_whole_queue_is_served_by_priority():
    first, second = waiting("ml/low", gpus=4, priority=1), waiting("ml/high", gpus=4, priority=9)
    snapshot = cluster("a1 a...\na2 AAA.", first, second)

    plan = unlock(snapshot, workload=None)

    assert plan.unlocked == ("ml/high",)
    assert [one.pod for one in plan.refused] == ["ml/low"]


def test_among_equals_the_most_gpus_start_whoever_needs_fewer_moves():
    snapshot = cluster(
        "a1 ab..\na2 AAA.\na3 BBB.\na4 c.CC", waiting("ml/pair", gpus=2), waiting("ml/quad", gpus=4)
    )

    assert unlock(snapshot, workload=None, moves=2).unlocked == ("ml/quad",)
    assert unlock(snapshot, workload=None, moves=1).unlocked == ("ml/pair",)


def test_a_plan_for_the_whole_queue_says_how_many_start_and_with_how_many_gpus():
    snapshot = cluster("a1 a...\na2 ....\na3 AAA.", waiting("ml/one", gpus=4), waiting("ml/two", gpus=4))
    easy = cluster("a1 ....\na2 ....", waiting("ml/one", gpus=4), waiting("ml/two", gpus=4))

    assert unlock(snapshot, workload=None).sentence == (
        "Moving 1 pod lets 2 waiting workloads start, 8 GPUs in all."
    )
    assert unlock(easy, workload=None).sentence == (
        "Without any move there is room to let 2 waiting workloads start, 8 GPUs in all."
    )


def test_a_budget_limits_each_wave_of_an_unlock():
    pods = {name: {"labels": {"app": "db"}} for name in ("a1-a", "a1-b")}
    snapshot = cluster(
        "a1 ab..\na2 AA..",
        waiting("ml/train", gpus=4),
        pods=pods,
        budgets=[budget("db", allowed=1, app="db")],
    )

    assert [move.wave for move in unlock(snapshot).moves] == [1, 2]


@pytest.mark.parametrize("seed", range(150))
def test_the_number_of_moves_equals_that_of_trying_everything(seed):
    draw = random.Random(1000 + seed)
    gang = draw_gang(draw)
    snapshot = draw_cluster(draw, nodes=draw.choice([3, 4]), gpus=4, shares=seed % 3 == 0, gang=gang)
    workload = gang[0].gang or gang[0].key

    plan = unlock(snapshot, workload=workload, moves=4)

    fewest = fewest_unlocking_moves(snapshot, list(gang), 4)
    assert (len(plan.moves) if plan.unlocked else None) == fewest
    if plan.unlocked:
        assert plan.lower_bound <= len(plan.moves)


def test_shares_that_do_not_pack_together_lead_to_another_choice():
    """Counted, the shares of n2 and two whole pods of n0 fit on what is left; packed, they do not."""
    drawing = "n0 a..b\nn1 .7a5\nn2 ..7.\nn3 .5ab"
    gang = waiting("ml/train", gpus=4, count=2, cpu=4000)
    small = {"memory": 900 * 2**30, "pods": 20, "nvidia.com/gpu": 4}
    cpu = {"n0": 15_000, "n1": 24_000, "n2": 24_000, "n3": 16_000}
    snapshot = cluster(
        drawing, gang, nodes={name: {"allocatable": {"cpu": cpu[name], **small}} for name in cpu}
    )

    plan = unlock(snapshot, moves=6)

    assert (len(plan.moves) or None) == fewest_unlocking_moves(snapshot, list(gang), 6)
    assert plan.unlocked == ("ml/train",)


def test_time_that_ran_out_is_said_and_nothing_is_called_impossible():
    snapshot = cluster(
        "a1 ab..\na2 cd..\na3 ....", waiting("ml/train", gpus=4, priority=1), waiting("ml/b", gpus=3)
    )
    for workload in (None, "ml/train"):
        plan = plan_unlock(snapshot, workload=workload, max_moves=5, deadline=lambda: True)

        assert plan.moves == ()
        assert "Time ran out" in plan.refused[0].reason


def test_the_deadline_is_asked_while_nodes_are_looked_at_and_what_is_found_is_no_proof():
    drawing = "\n".join(f"n{number} ab.." for number in range(60))
    calls = []

    def late():
        calls.append(1)
        return len(calls) > 3

    plan = plan_unlock(
        cluster(drawing, waiting("ml/train", gpus=4)), workload=None, max_moves=5, deadline=late
    )

    assert len(calls) < 200
    assert not plan.proven_optimal


def test_several_pods_with_parts_of_two_gpus_share_one_node():
    gang = waiting("ml/halves", gpus=2, count=2, gpu_milli=500)
    snapshot = cluster("a1 ..\na2 a.\na3 B.", gang)

    plan = plan_unlock(snapshot, workload="ml/halves", max_moves=5, deadline=lambda: False)

    assert check_plan(snapshot, plan) == []
    assert (plan.moves, {one.node for one in plan.hand_overs}, plan.proven_optimal) == ((), {"a1"}, True)


@pytest.mark.parametrize(
    ("left", "fits"), [((1000, 500, 500), 2), ((1000, 400, 400), 0), ((1000, 1000), 2), ((500, 500, 500), 1)]
)
def test_pods_with_parts_of_two_gpus_are_counted_on_different_ones(left, fits):
    room = free_room(cluster("a1 " + "." * len(left))).by_node["a1"]
    halves = Demand(gpu_resource="nvidia.com/gpu", gpus=2, milli=500)

    assert room.count_shares(halves, list(left), room.memory_left) == fits


def test_pods_that_keep_the_waiting_one_off_its_node_leave_as_well():
    """With room for it, and no room needed from them; the other node is as bad by a rule of its own."""
    shy = (PodTerm("kubernetes.io/hostname", select(app="train"), ("ml",)),)
    host = {name: {"labels": {"kubernetes.io/hostname": name}} for name in ("a1", "a2")}
    extra = [running("web", "a1", pod_anti_affinity=shy)]
    train = waiting("ml/train", gpus=4, labels={"app": "train"})
    movable = cluster("a1 a...\na2 AA..", train, nodes=host, extra=extra)
    held = cluster("a1 a...\na2 AA..", train, nodes=host, extra=[replace(extra[0], owner_kind="DaemonSet")])

    plan = unlock(movable, "ml/train")

    assert {move.pod for move in plan.moves} == {"team/a1-a", "team/web"}
    assert unlock(held, "ml/train").unlocked == ()
