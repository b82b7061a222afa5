"""All that waits: the most GPUs, whole gangs, priorities; stages; preemption; the second best way."""

import random
from dataclasses import replace
from itertools import combinations, product

import pytest

from apps.planner.clearing_table import ClearingTable
from apps.planner.defrag import plan_unlock
from apps.planner.placement import Board
from apps.planner.queue_in_turn import sort_largest_first, start_in_turn, worth_of
from apps.planner.queue_unlock import QueueUnlock
from apps.planner.snapshot import Snapshot
from apps.planner.verification import check_plan
from apps.planner.waiting import explain_pending
from benchmarks.checked_plans import plans_of
from benchmarks.random_scenes import Kind, draw_scene
from tests.drawing import budget, cluster, running, waiting


def unlock(snapshot: Snapshot, workload=None, moves=5, **asked):
    plan = plan_unlock(snapshot, workload=workload, max_moves=moves, deadline=lambda: False, **asked)
    assert check_plan(snapshot, plan) == []
    return plan


def draw_queue(seed: int) -> Snapshot:
    """Three nodes of four GPUs, some pods, and up to three pods that wait."""
    draw = random.Random(seed)
    lines = []
    for name in ("a1", "a2", "a3"):
        marks = [draw.choice(["a", "b", "A", ".", "."]) for _ in range(4)]
        lines.append(f"{name} {''.join(marks)}")
    groups = [waiting(f"ml/w{at}", gpus=draw.choice([1, 2, 3, 4])) for at in range(draw.randint(2, 3))]
    return cluster("\n".join(lines), *groups)


def most_gpus(snapshot: Snapshot, most_moves: int) -> int:
    """Every set of moves onto free GPUs of nodes that lose nobody, and every start of what waits."""
    free = {
        name: 4 - sum(pod.requests["nvidia.com/gpu"] for pod in snapshot.pods_on(name))
        for name in snapshot.nodes
    }
    was_free = {name for name, left in free.items() if left == 4}
    pods = [pod for pod in snapshot.pods.values() if pod.node_name and not pod.protections]
    wants = [pod.requests["nvidia.com/gpu"] for pod in snapshot.pending_pods]
    best = 0
    for number in range(most_moves + 1):
        for victims in combinations(pods, number):
            sources = {pod.node_name for pod in victims}
            for targets in product([name for name in free if name not in sources | was_free], repeat=number):
                left = dict(free)
                for pod, target in zip(victims, targets, strict=True):
                    left[target] -= pod.requests["nvidia.com/gpu"]
                if min(left.values()) < 0:
                    continue
                for pod in victims:
                    left[pod.node_name] += pod.requests["nvidia.com/gpu"]
                best = max(best, _most_started(left, wants))
    return best


def _most_started(left: dict[str, int], wants: list[int]) -> int:
    if not wants:
        return 0
    best = _most_started(left, wants[1:])
    for name in left:
        if left[name] >= wants[0]:
            rest = {**left, name: left[name] - wants[0]}
            best = max(best, wants[0] + _most_started(rest, wants[1:]))
    return best


@pytest.mark.parametrize("seed", range(40))
def test_as_many_gpus_start_as_by_trying_everything(seed):
    snapshot = draw_queue(seed)

    plan = unlock(snapshot, moves=2)

    assert plan.unlocked_gpus == most_gpus(snapshot, 2)
    assert plan.measures["unlocked_gpu_bound"] >= plan.unlocked_gpus


@pytest.mark.parametrize("drawing", ["a1 3A\na2 3A\na3 B7", "a1 3AAA\na2 5BBB\na3 3CCC\na4 DDD4"])
def test_the_bound_itself_counts_moved_shares_of_any_size(drawing):
    snapshot = cluster(drawing, waiting("ml/x", gpus=1), waiting("ml/y", gpus=1))
    search = QueueUnlock(Board(snapshot), explain_pending(snapshot), 2, lambda: False)

    started = len(search.run())

    assert started == len(unlock(snapshot, moves=2).unlocked) > 0
    assert search.bound >= 1000 * started


def test_pods_may_move_to_nodes_where_nothing_of_the_queue_may_run():
    kinds = {"a1": "a", "a2": "a", "b1": "b"}
    nodes = {name: {"labels": {"kubernetes.io/hostname": name, "kind": kind}} for name, kind in kinds.items()}
    bound = [waiting(f"ml/{name}", gpus=4, node_selector={"kind": "a"}) for name in "xy"]

    plan = unlock(cluster("a1 a...\na2 b...\nb1 BB..", *bound, nodes=nodes), moves=2)

    assert (plan.unlocked_gpus, {move.target for move in plan.moves}, plan.gap) == (8, {"b1"}, 0.0)


def test_higher_priority_starts_first_though_fewer_gpus_do():
    small, large = waiting("ml/small", gpus=1, priority=9), waiting("ml/large", gpus=4)

    assert unlock(cluster("a1 ....", small, large), moves=0).unlocked == ("ml/small",)


def test_a_gang_of_the_queue_starts_whole_or_leaves_the_room_to_others():
    gang, single = waiting("ml/gang", gpus=2, count=3), waiting("ml/one", gpus=2)

    assert unlock(cluster("a1 ..AA\na2 ..AA", gang, single)).unlocked == ("ml/one",)


def test_a_gang_with_a_member_without_gpus_starts_whole_or_not_at_all():
    def with_launcher(cpu):
        workers = waiting("ml/gang", gpus=2, count=2)
        (launcher,) = waiting("ml/launcher", gpus=0, cpu=cpu)
        return (*workers, replace(launcher, gang="ml/gang", workload=workers[0].workload))

    others = waiting("ml/x", gpus=4), waiting("ml/y", gpus=3)
    light, heavy = (cluster("a1 ab..\na2 cd..\na3 A...", with_launcher(cpu), *others) for cpu in (500, 10**6))

    assert unlock(light, moves=0).unlocked == ("ml/gang", "ml/y")
    assert unlock(light).unlocked_gpus == 7
    assert unlock(heavy).unlocked == ("ml/x", "ml/y")


def test_a_later_stage_may_use_room_that_an_earlier_one_makes_if_it_is_allowed():
    """The GPU pod on a1 needs the CPU that a pod without GPUs gives back on a2."""
    nodes = {"a1": {"allocatable": {"cpu": 20_000, "memory": 2**40, "pods": 20, "nvidia.com/gpu": 4}}}
    nodes["a2"] = {"allocatable": {"cpu": 8_000, "memory": 2**40, "pods": 20, "nvidia.com/gpu": 4}}
    extra = [running("web", "a2", cpu=4000)]
    gang = waiting("ml/quad", gpus=4, cpu=18_000)
    snapshot = cluster(
        "a1 a...\na2 A...\nc1 A", gang, waiting("ml/other", gpus=4, cpu=19_000), nodes=nodes, extra=extra
    )

    assert unlock(snapshot).unlocked == ()
    plan = unlock(snapshot, stages=2)
    assert plan.unlocked_gpus == 4
    assert [(move.pod, move.stage) for move in plan.moves] == [("team/web", 1), ("team/a1-a", 2)]
    assert plan.moves[0].wave < plan.moves[1].wave


def draw_crowded_queue(seed: int) -> Snapshot:
    """Nodes with idle GPUs whose CPU pods without GPUs hold, and a node with CPU to spare."""
    draw = random.Random(seed)
    nodes = {"c1": {"allocatable": {"cpu": 64_000, "memory": 2**40, "pods": 50, "nvidia.com/gpu": 4}}}
    extra, lines = [], ["c1 aBCD"]
    for name in ("a1", "a2", "a3"):
        nodes[name] = {"allocatable": {"cpu": 16_000, "memory": 2**40, "pods": 50, "nvidia.com/gpu": 4}}
        lines.append(f"{name} {''.join(draw.choice('ab...') for _ in range(4))}")
        extra += [running(f"web-{name}-{at}", name, cpu=draw.choice((4000, 6000))) for at in range(2)]
    groups = [waiting(f"ml/w{at}", gpus=draw.choice((1, 2, 4)), cpu=9000) for at in range(4)]
    return cluster("\n".join(lines), *groups, nodes=nodes, extra=extra)


@pytest.mark.parametrize("seed", range(12))
def test_stages_start_no_fewer_gpus_and_neither_do_more_moves(seed):
    snapshot = draw_crowded_queue(seed)
    held_first = unlock(snapshot, moves=4).unlocked_gpus

    started = [unlock(snapshot, moves=moves, stages=8).unlocked_gpus for moves in range(5)]

    assert started == sorted(started)
    assert started[4] >= held_first


def test_who_started_in_one_stage_keeps_its_gpus_in_the_next():
    snapshot = cluster("a1 aabb\na2 c...\na3 d...", waiting("ml/w", gpus=4))
    board = Board(snapshot)
    before = board.checkpoint()
    leaving = sorted(snapshot.pods_on("a1"), key=lambda pod: pod.uid)
    for pod, target in zip(leaving, ("a2", "a3"), strict=True):
        board.move(pod, target)
    board.start(snapshot.pending_pods[0], "a1")

    board.next_stage()

    assert not board.held.fits(snapshot.pods_on("a2")[0], "a1")
    board.undo(before)
    assert board.stage == 1


def test_a_plan_in_stages_says_that_the_console_does_not_carry_it_out():
    plan = next(
        plan
        for plan in (unlock(draw_crowded_queue(seed), moves=4, stages=8) for seed in range(12))
        if any(move.stage > 1 for move in plan.moves)
    )

    assert "The console makes and carries out plans of one stage only." in plan.relaxed[0]


def test_who_can_move_moves_and_only_the_rest_gives_way():
    snapshot = cluster("a1 aab.\na2 AAA.", waiting("ml/train", gpus=4, priority=10))

    plan = unlock(snapshot, "ml/train", may_preempt=True)

    assert [move.pod for move in plan.moves] == ["team/a1-b"]
    assert [(one.pod, one.node, one.priority) for one in plan.preemptions] == [("team/a1-a", "a1", 0)]
    assert plan.cost == round(sum(one.cost for one in (*plan.moves, *plan.preemptions)), 3)
    assert unlock(snapshot, "ml/train").preemptions == ()


def test_the_least_important_give_way_and_nobody_of_equal_rank():
    drawing = "a1 aabb\na2 ccdd"
    pods = {"a1-a": {"priority": 5}, "a2-c": {"priority": 1}}
    ranked = cluster(drawing, waiting("ml/train", gpus=2, priority=10), pods=pods)
    equal = cluster(drawing, waiting("ml/train", gpus=2, priority=0))
    polite = cluster(drawing, waiting("ml/train", gpus=2, priority=10, preemption_policy="Never"), pods=pods)

    assert unlock(ranked, "ml/train", may_preempt=True).preemptions[0].priority == 0
    assert unlock(equal, "ml/train", may_preempt=True).unlocked == ()
    assert unlock(polite, "ml/train", may_preempt=True).unlocked == ()


def test_moves_are_rather_taken_than_anybodys_place():
    snapshot = cluster("a1 ab..\na2 AA..", waiting("ml/train", gpus=4, priority=10))

    plan = unlock(snapshot, "ml/train", may_preempt=True)

    assert (len(plan.moves), plan.preemptions) == (2, ())


def test_preemption_takes_no_more_of_a_budget_than_it_allows():
    pods = {name: {"labels": {"app": "db"}} for name in ("a1-a", "a1-b")}
    gang = waiting("ml/train", gpus=4, priority=10)
    tight = cluster("a1 aabb", gang, pods=pods, budgets=[budget("db", allowed=1, app="db")])
    wide = cluster("a1 aabb", gang, pods=pods, budgets=[budget("db", allowed=2, app="db")])

    assert unlock(tight, "ml/train", may_preempt=True).unlocked == ()
    assert len(unlock(wide, "ml/train", may_preempt=True).preemptions) == 2


def test_the_second_best_way_is_named_with_its_price():
    snapshot = cluster("a1 a...\na2 abb.\na3 AAA.", waiting("ml/train", gpus=4))

    second = unlock(snapshot, "ml/train").runner_up

    assert (second.nodes, second.moves, second.preemptions) == (("a2",), 2, 0)
    assert second.sentence == "Starting on a2 instead would take 2 moves, 1 more."


@pytest.mark.parametrize("seed", [10, 19, 34])
def test_a_queue_as_a_whole_starts_no_fewer_gpus_than_one_after_the_other(seed):
    draw = random.Random(seed)
    kind = Kind(
        nodes=16, load=draw.choice([0.6, 0.8]), rules=0.2, waiting=8, models=draw.choice([1, 3]), cpu_pods=0.5
    )
    snapshot = draw_scene(draw, kind)
    board = Board(snapshot)
    table = ClearingTable(board, lambda: False)
    queue = sort_largest_first(board, explain_pending(snapshot))
    alone = worth_of(board, queue, start_in_turn(board, table, queue, 20, lambda: False))

    plan = unlock(snapshot, moves=20)

    assert plan.measures["unlocked_gpu_milli"] >= sum(alone[0]) > 0


def test_whoever_gives_way_is_still_there_while_others_move():
    """A pod that is preempted in the end avoids one that moves before: its absence is no help to the move."""
    for snapshot, words, plan in plans_of(random.Random("1/506"), large=False):
        assert check_plan(snapshot, plan) == [], words
