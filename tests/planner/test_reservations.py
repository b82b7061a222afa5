"""Room that a migration under way holds on paper belongs to nobody else's plan."""

from dataclasses import replace

import pytest

from apps.planner.defrag import plan_free_nodes, plan_unlock
from apps.planner.plan import Goal, Move, Plan
from apps.planner.verification import check_plan
from tests.drawing import cluster, waiting

TWO_NODES = """
    a  aa......
    b  BBBBBB..
"""


def never() -> bool:
    return False


def paper_hold(node: str, gpus: int):
    (pod,) = waiting("gpu-defrag/hold-1-1", gpus=gpus)
    return (replace(pod, hold=True, nominated_node=node, workload="", owner_kind=""),)


@pytest.mark.parametrize(("held", "moves"), [(0, 1), (2, 0)])
def test_a_held_target_takes_no_move_of_another_plan(held, moves):
    holds = [paper_hold("b", held)] if held else []
    picture = cluster(TWO_NODES, waiting("ml/big", gpus=8), *holds)
    found = plan_unlock(picture, workload="ml/big", max_moves=5, deadline=never)
    assert len(found.moves) == moves


def test_a_node_on_which_room_is_held_is_not_emptied():
    picture = cluster(TWO_NODES, paper_hold("a", 2))
    assert plan_free_nodes(picture, max_moves=5, deadline=never).freed_nodes == ()


def test_the_checker_counts_held_room_by_itself():
    free = cluster(TWO_NODES)
    plan = plan_free_nodes(free, max_moves=5, deadline=never)
    assert [move.target for move in plan.moves] == ["b"]
    assert check_plan(free, plan) == []
    held = cluster(TWO_NODES, paper_hold("b", 2))
    assert any("b" in fault for fault in check_plan(held, plan))


def test_a_steered_replacement_keeps_its_room_while_its_gate_stands():
    (pod,) = waiting("team/successor", gpus=2)
    picture = cluster(TWO_NODES, (replace(pod, steering="steer-1-1", nominated_node="b", gates=("g",)),))
    move = Move(1, 1, "uid-a", "team/a", "a", "b", 2, 1.0, "because")
    assert plan_free_nodes(picture, max_moves=5, deadline=never).moves == ()
    assert check_plan(picture, Plan(Goal.FREE_NODES, moves=(move,))) != []
