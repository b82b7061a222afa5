"""The tables beside a board say what looking at every node would say, after any moves and undos."""

import random

import pytest

from apps.planner.clearing import NodeClearing
from apps.planner.emptying import make_place
from apps.planner.placement import Board
from apps.planner.ranking import Ranking
from apps.planner.resources import asks_gpu
from tests.drawing import cluster
from tests.planner.random_clusters import draw_cluster, draw_gang


def shake(board: Board, draw: random.Random) -> None:
    """Some moves, of which a part is taken back."""
    for _ in range(6):
        mark = board.checkpoint()
        for uid in draw.sample(sorted(board.final.where), 3):
            pod = board.snapshot.pods.get(uid)
            target = pod and board.choose_target(pod, board.final.where[uid])
            if pod is not None and target and all(move.pod.uid != uid for move in board.moves):
                board.move(pod, target)
        if draw.random() < 0.5:
            board.undo(mark)


def looked_up_target(board: Board, pod, source: str) -> str | None:
    keep = board.kept_free if asks_gpu(pod) else ()
    rooms, demand = board.held.by_node, board.final.demand(pod)
    names = [
        name
        for name in board.open_nodes(pod)
        if name not in (source, *board.closed, *keep) and rooms[name].fits(demand)
    ]

    def rank(name):
        room = rooms[name]
        left = room.left.get("cpu", 0), room.left.get("memory", 0), len(room.pods)
        return room.idle_milli, *left, board._picture(name), name

    return min(names, key=rank, default=None)


@pytest.mark.parametrize("seed", range(12))
def test_the_chosen_target_is_the_tightest_of_all_nodes(seed):
    draw = random.Random(seed)
    board = Board(draw_cluster(draw, nodes=12, gpus=4))
    for _ in range(4):
        shake(board, draw)
        for uid, source in list(board.final.where.items()):
            pod = board.snapshot.pods[uid]
            assert board.choose_target(pod, source) == looked_up_target(board, pod, source)


@pytest.mark.parametrize("seed", range(12))
def test_a_ranking_follows_the_board_and_never_overstates_a_node(seed):
    draw = random.Random(seed)
    gang = draw_gang(draw)
    board = Board(draw_cluster(draw, nodes=12, gpus=4, gang=gang))
    rankings = [Ranking(board, gang[0], starts) for starts in (1, 2)]
    for _ in range(4):
        shake(board, draw)
        for ranking in rankings:
            ranking.refresh()
            fresh = Ranking(board, gang[0], ranking.starts)
            assert ranking.least == fresh.least
            assert ranking.cheapest(99, 99) == fresh.cheapest(99, 99)
            for name in board.open_nodes(gang[0]):
                node = NodeClearing(board, name, board.final.demand(gang[0]))
                for found in node.find(ranking.starts, 99):
                    option = next(one for one in fresh.cheapest(99, 99) if one.node == name)
                    assert option.price <= found.price


def test_a_move_sent_elsewhere_is_taken_back_with_all_that_came_after_it():
    snapshot = cluster("a1 a...\na2 bb..\na3 ccc.\na4 ddd.")
    board = Board(snapshot)
    mark = board.checkpoint()
    board.move(snapshot.pods["uid-a1-a"], "a3")
    between = board.checkpoint()

    board.retarget(0, "a4")
    assert board.moves[0].target == "a4"
    assert [board.held.by_node[name].free_gpus for name in ("a3", "a4")] == [1, 0]
    board.undo(between)
    assert board.moves[0].target == "a3"
    assert [board.held.by_node[name].free_gpus for name in ("a3", "a4")] == [0, 1]
    board.retarget(0, "a4")
    board.undo(mark)

    assert board.moves == []
    assert [board.held.by_node[name].free_gpus for name in ("a3", "a4")] == [1, 1]


def test_a_pod_gets_its_place_when_an_earlier_move_can_go_elsewhere():
    """a's only way is onto a3, where b has gone already although a4 would take it, too."""
    fast = {"a3": {"labels": {"disk": "ssd"}}}
    snapshot = cluster(
        "a1 a...\na2 b...\na3 ccc.\na4 ddd.", nodes=fast, pods={"a1-a": {"node_selector": {"disk": "ssd"}}}
    )
    board = Board(snapshot)
    board.closed.update({"a1", "a2"})
    board.move(snapshot.pods["uid-a2-b"], "a3")

    assert make_place(board, snapshot.pods["uid-a1-a"], "a1")
    assert [(move.pod.name, move.target) for move in board.moves] == [("a2-b", "a4"), ("a1-a", "a3")]
