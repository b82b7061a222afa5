"""A plan as lines for a terminal."""

from dataclasses import replace

from apps.planner.plan import Alternative, Preemption, Refusal
from apps.plans.plan_text import as_text
from tests.plans.situations import plan_of_one_move


def test_bound_gap_waves_reasons_preemptions_and_the_second_best_are_told():
    first = plan_of_one_move().moves[0]
    plan = plan_of_one_move(
        sentence="Frees 1 node with 3 moves.",
        moves=(first, replace(first, order=2, risk="No checkpoint."), replace(first, order=3, wave=2)),
        lower_bound=2.0,
        gap=0.5,
        preemptions=(Preemption(1, "uid", "ml/low", "node-a", 8, 5, 60.0, "It ranks lower."),),
        runner_up=Alternative(("node-c",), 4, 0, 90.0, "node-c needs one move more."),
        relaxed=("links are counted, not packed",),
        refused=tuple(Refusal(f"ml/pod-{number}", "it is protected") for number in range(22)),
    )
    lines = as_text(plan, 1.234, is_cut_short=True).splitlines()
    assert lines[:3] == [
        "Frees 1 node with 3 moves.",
        "Not proven optimal: no plan frees more than 2 nodes, gap 50.0%. "
        "(1.23 s, cut short by its time limit)",
        "wave 1: 2 moves in parallel",
    ]
    assert "   2. ml/lora  node-a -> node-b  node-a is freed  risk low: No checkpoint." in lines
    assert "wave 2: 1 move" in lines
    assert "   1. ml/low  leaves node-a  priority 5  It ranks lower." in lines
    assert "second best: node-c needs one move more. (4 moves, 0 preemptions, cost 90)" in lines
    assert "relaxed: links are counted, not packed" in lines
    assert lines[-1] == "refused: and 2 more (--json has them all)"


def test_optimal_is_said_only_where_it_is_proven():
    proven = plan_of_one_move(proven_optimal=True)
    assert "Proven optimal: no plan frees more than 1 node." in as_text(proven, 1, is_cut_short=True)
    assert "cut short" not in as_text(proven, 1, is_cut_short=True)
    assert "Proven" not in as_text(plan_of_one_move(), 1)
