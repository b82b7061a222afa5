"""A few small clusters solved a second time, by another solver on another formulation.

Hundreds of them, and larger ones: `python -m benchmarks.cross_checks`.
"""

import random
from dataclasses import replace

import pytest

from apps.planner.plan import Goal
from apps.planner.searching import PlanRequest, search_plan
from benchmarks.cross_checks import Tally, draw_case, judge, run_case
from benchmarks.second_solver import Answer, fewest_moves, most_freed
from tests.drawing import cluster, waiting


@pytest.mark.parametrize("seed", range(16))
def test_a_second_solver_finds_nothing_better(seed):
    snapshot, most = draw_case(random.Random(f"suite/{seed}"), (4, 5, 6))
    tally = Tally()

    run_case(tally, snapshot, most, f"seed {seed}", seconds=30.0)

    assert tally.wrong == []
    assert not [words for words, number in tally.counts.items() if "moves" in words or "fewer" in words]


def test_the_second_solver_knows_what_people_see():
    packed = cluster("a1 a...\na2 ab..\na3 AA..\na4 ....", waiting("ml/train", gpus=4, count=2))

    assert most_freed(packed, 9) == Answer(1, 1, True)
    assert most_freed(packed, 0) == Answer(0, 0, True)
    assert fewest_moves(packed, [pod for pod in packed.pods.values() if pod.is_pending], 9) == Answer(
        2, 1, True
    )
    assert fewest_moves(packed, [pod for pod in packed.pods.values() if pod.is_pending], 0).best is None


def test_what_our_restriction_costs_is_seen_without_it():
    """c has room on a1 only when a has left it for a2, and no target may wait for another move."""
    chain = cluster("a1 aaA.\na2 BB..\na3 ccc.")
    plan = search_plan(chain, PlanRequest(Goal.FREE_NODES, 9), deadline=lambda: False)

    assert (len(plan.freed_nodes), plan.lower_bound) == (0, 0.0)
    assert most_freed(chain, 9) == Answer(0, 0, True)
    assert most_freed(chain, 9, free=True) == Answer(1, 2, True)


def test_a_plan_that_is_beaten_is_told():
    snapshot = cluster("a1 a...\na2 aaa.")
    plan = search_plan(snapshot, PlanRequest(Goal.FREE_NODES, 9), deadline=lambda: False)
    best = most_freed(snapshot, 9)

    assert judge(plan, best) == ("the optimum", "")
    worse = replace(plan, freed_nodes=(), moves=(), lower_bound=1.0)
    assert judge(replace(worse, proven_optimal=False), best)[0] == "fewer"
    assert judge(worse, best)[0] == "false proof"
    assert judge(replace(worse, lower_bound=0.0), best)[0] == "bound beaten"
    assert judge(plan, Answer(0, 0, True))[0] == "beyond the optimum"
