"""One sentence about what would let a workload start."""

from apps.planner.defrag import plan_unlock
from apps.planner.mig.planning import plan_mig
from apps.planner.plan import Goal, Plan, Refusal
from apps.planner.unblocking import list_names, part_for, tell_unblocking
from tests.drawing import cluster, waiting
from tests.planner.mig.drawing import mig_cluster, wanting


def never() -> bool:
    """A deadline that does not come."""
    return False


def test_the_pods_to_move_and_the_node_that_gets_free_are_named():
    seen = cluster("a1 a.......\na2 bbbb....", waiting("ml/train", gpus=8))
    plan = plan_unlock(seen, workload="ml/train", max_moves=5, deadline=never)
    assert tell_unblocking(plan) == "Moving team/a1-a makes room on a1."


def test_who_stays_is_named_when_nothing_helps():
    seen = cluster("a1 A.......", waiting("ml/train", gpus=8))
    plan = plan_unlock(seen, workload="ml/train", max_moves=5, deadline=never)
    assert tell_unblocking(plan).endswith("team/a1-A on a1 stays: its owner protects it.")


def test_of_a_plan_of_layouts_each_workload_is_told_its_own_part():
    seen = mig_cluster({"n1": ["2g@0"], "n2": ["1g@0"]}, wanting("7g", 1, "big"), wanting("1g", 1, "small"))
    plan = plan_mig(seen, max_moves=5, deadline=never)
    told = {
        name: tell_unblocking(part_for(plan, f"team/{name}-0", {f"uid-{name}-0"}))
        for name in ("big", "small")
    }
    assert told == {
        "big": "Cutting GPU 0 of n1 anew makes room on n1.",
        "small": "There is room on n2 now.",
    }


def test_a_workload_that_the_layouts_leave_out_hears_why():
    plan = Plan(Goal.MIG, unlocked=("t/a",), refused=(Refusal("t/b", "No GPU has it."),), sentence="Other.")
    assert tell_unblocking(part_for(plan, "t/b", {"b"})) == "No GPU has it."


def test_many_names_are_cut_short():
    assert list_names(["a"]) == "a"
    assert list_names(["a", "b", "c"]) == "a, b and c"
    assert list_names(["a", "b", "c", "d", "e"]) == "a, b and 3 more"
    assert list_names([]) == ""
