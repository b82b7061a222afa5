"""What if such pods came: who takes them, what each rule says, how good, how many, and what must move."""

from dataclasses import replace

import pytest

from apps.planner.inventory import Gpu, LinkClass, MigInstance, Taint
from apps.planner.whatif import Shape, count_fitting, rank_for_pod, rank_nodes, room_for
from tests.drawing import cluster, links, waiting


def never() -> bool:
    """A deadline that does not come."""
    return False


def by_node(verdicts):
    return {verdict.node: verdict for verdict in verdicts}


def words(verdict, rule):
    return next(one.words for one in verdict.rules if one.rule == rule)


def test_nodes_that_take_it_come_first_the_fullest_of_them_on_top():
    seen = cluster("""
        a1  ........
        a2  aaaa....
        a3  aaaaaa..
    """)
    ranked = rank_nodes(seen, Shape(gpus=4))
    assert [(one.node, one.fits, one.pods) for one in ranked] == [
        ("a2", True, 1),
        ("a1", True, 2),
        ("a3", False, 0),
    ]
    assert count_fitting(ranked) == 3
    assert words(ranked[2], "gpus") == "2 of 8 GPUs free, 4 wanted."
    assert [one.rule for one in ranked[2].broken] == ["gpus"]


def test_nodes_that_are_too_small_even_when_empty_come_last_however_much_is_free_on_them():
    seen = cluster("""
        a1  ....
        a2  aaaaaaa.
        a3  ........
    """)
    assert [one.node for one in rank_nodes(seen, Shape(gpus=8))] == ["a3", "a2", "a1"]


def test_every_rule_speaks_whether_it_is_met_or_not():
    seen = cluster(
        "a1  aa..",
        nodes={"a1": {"unschedulable": True, "taints": (Taint("team", "x", "NoSchedule"),)}},
    )
    (verdict,) = rank_nodes(seen, Shape(gpus=1, cpu_milli=1000, host_memory_mib=1024))
    assert [one.rule for one in verdict.broken] == ["cordon", "taints"]
    assert words(verdict, "taints") == "Not tolerated: team=x:NoSchedule."
    assert words(verdict, "ready") == "The node is Ready."
    assert {"gpus", "cpu", "memory"} <= {one.rule for one in verdict.rules}


def test_the_taint_named_like_the_resource_is_tolerated_as_admission_would_add_it():
    seen = cluster("a1  ....", nodes={"a1": {"taints": (Taint("nvidia.com/gpu", "present", "NoSchedule"),)}})
    assert rank_nodes(seen, Shape(gpus=1))[0].fits
    assert not rank_nodes(seen, Shape(cpu_milli=100))[0].fits


def test_model_and_gpu_memory_are_rules_of_their_own_and_unknown_is_no_yes():
    big = tuple(Gpu(at, f"u{at}", memory_mib=81_920) for at in range(4))
    seen = cluster(
        """
        a1  ....
        b1  ....
        c1  ....
    """,
        nodes={
            "a1": {"model": "A100-SXM4-80GB", "gpus": big},
            "b1": {"model": "NVIDIA-L40S"},
            "c1": {"model": "A100-PCIE-40GB"},
        },
    )
    found = by_node(rank_nodes(seen, Shape(gpus=1, model="A100", memory_mib=60_000)))
    assert found["a1"].fits
    assert [one.rule for one in found["b1"].broken] == ["model", "gpu-memory"]
    assert words(found["b1"], "model") == "Has L40S."
    assert words(found["c1"], "gpu-memory") == "How much memory its GPUs have is not known."


def test_a_linked_group_counts_and_scores():
    seen = cluster(
        """
        a1  ....
        b1  ....
        c1  ....
    """,
        nodes={
            "a1": {"topology": links("aaaa")},
            "b1": {"topology": links("aabb")},
            "c1": {"topology": None},
        },
    )
    found = by_node(rank_nodes(seen, Shape(gpus=4, link=LinkClass.NVLINK)))
    assert [name for name, one in found.items() if one.fits] == ["a1"]
    assert words(found["b1"], "link") == "The largest free group tied by NVLink has 2 GPUs, 4 wanted."
    assert "unknown" in words(found["c1"], "link")
    loose = by_node(rank_nodes(seen, Shape(gpus=4)))
    assert loose["a1"].score == 100
    assert [part.name for part in loose["b1"].score_parts] == ["packing", "switch", "numa"]
    assert loose["b1"].score == pytest.approx(100 * 0.7 / 1.3)
    for verdict in loose.values():
        assert sum(part.points for part in verdict.score_parts) == pytest.approx(verdict.score)


def test_shares_of_a_gpu_are_counted_per_device():
    seen = cluster("a1  .3a.")
    (verdict,) = rank_nodes(seen, Shape(gpus=1, milli=500))
    assert verdict.pods == 2 + 1 + 2
    (verdict,) = rank_nodes(cluster("a1  77"), Shape(gpus=1, milli=500))
    assert words(verdict, "gpus") == "The emptiest GPU has 30 % left, 50 % wanted."


def test_a_unit_that_is_no_whole_gpu_is_called_what_it_is():
    host = {"cpu": 64_000, "memory": 2**40, "pods": 110, "nvidia.com/gpu": 8}
    shared = {"allocatable": host, "sharing": "time-slicing", "shares_per_gpu": 4, "holdings": None}
    (verdict,) = rank_nodes(cluster("a1  ..", nodes={"a1": shared}), Shape(gpus=1))
    assert words(verdict, "gpus") == "8 of nvidia.com/gpu free, each one of 4 turns on a GPU; 1 wanted."
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}
    single = {"allocatable": {**host, "nvidia.com/gpu": 14}, "labels": labels, "mig_strategy": "single"}
    (verdict,) = rank_nodes(cluster("a1  ..", nodes={"a1": single}), Shape(gpus=1))
    assert "14 of nvidia.com/gpu free, each a MIG instance 1g.5gb" in words(verdict, "gpus")


def test_gpus_that_claims_give_out_are_neither_offered_nor_counted_as_free_by_number():
    host = {"cpu": 64_000, "memory": 2**40, "pods": 110}
    seen = cluster("a1  ....", nodes={"a1": {"allocatable": host, "capacity": host, "claimable": True}})
    (verdict,) = rank_nodes(seen, Shape(gpus=1))
    (broken,) = verdict.broken
    assert broken.words == (
        "Offers no nvidia.com/gpu: resource claims give out its 4 GPUs; only the scheduler can match them."
    )
    assert "gpus" not in [one.rule for one in verdict.rules]
    (pod,) = (replace(one, claim_wishes=("1 of gpu.nvidia.com",)) for one in waiting("ml/train", gpus=0))
    (verdict,) = rank_for_pod(cluster("a1  ....", (pod,)), pod)
    assert not verdict.fits
    assert words(verdict, "device") == (
        "Its devices come by resource claims: only the scheduler can match them."
    )


def mig_node():
    gpu = Gpu(0, "g0", 40_960, instances=(MigInstance("3g.20gb", 0, "m0"), MigInstance("1g.5gb", 4, "m1")))
    offers = {"nvidia.com/mig-3g.20gb": 1, "nvidia.com/mig-1g.5gb": 1, "cpu": 64_000, "pods": 110}
    return {"model": "A100-SXM4-40GB", "gpus": (gpu,), "mig_strategy": "mixed", "allocatable": offers}


def test_mig_instances_are_asked_by_profile():
    seen = cluster("a1  .", nodes={"a1": mig_node()})
    (verdict,) = rank_nodes(seen, Shape(mig=(("3g.20gb", 1),)))
    assert (verdict.fits, verdict.pods) == (True, 1)
    (verdict,) = rank_nodes(seen, Shape(mig=(("1g.5gb", 2),)))
    assert words(verdict, "mig") == "1 of 1 instances 1g.5gb idle, 2 wanted."
    (verdict,) = rank_nodes(seen, Shape(mig=(("2g.10gb", 1),)))
    assert words(verdict, "mig") == "Offers no 2g.10gb, 1 wanted."


def test_a_waiting_pod_is_judged_with_its_own_wishes():
    (pod,) = waiting("ml/train", gpus=2, node_selector={"pool": "b"})
    seen = cluster("a1  ....", (pod,))
    (verdict,) = rank_for_pod(seen, pod)
    assert words(verdict, "selector") == "Its node selector wants pool=b: does not match."


def test_the_moves_that_would_make_room_are_those_of_the_planner():
    seen = cluster("""
        a1  a.......
        a2  bbbb....
    """)
    plan = room_for(seen, Shape(gpus=8), max_moves=5, deadline=never)
    assert [(move.pod, move.target) for move in plan.moves] == [("team/a1-a", "a2")]
    fixed = replace(seen, nodes={**seen.nodes, "a1": replace(seen.nodes["a1"], model="L40S")})
    plan = room_for(fixed, Shape(gpus=8, model="H100"), max_moves=5, deadline=never)
    assert not plan.moves
    assert not plan.unlocked
    (refusal,) = room_for(fixed, Shape(gpus=8, model="B200"), max_moves=5, deadline=never).refused
    assert refusal.reason == "No node has GPUs of the model B200."
    gang = room_for(seen, Shape(gpus=4, count=2), max_moves=5, deadline=never)
    assert gang.unlocked == ("what-if/what-if",)


def test_mig_layouts_are_planned_for_the_shape_alone():
    others = replace(waiting("ml/other", gpus=0)[0], requests={"nvidia.com/mig-7g.40gb": 1})
    seen = cluster("a1  .", (others,), nodes={"a1": mig_node()})
    plan = room_for(seen, Shape(mig=(("2g.10gb", 1),)), max_moves=5, deadline=never)
    assert plan.unlocked == ("what-if/what-if",)
    assert plan.reconfigurations[0].node == "a1"
    assert plan.reconfigurations[0].after["2g.10gb"] >= 1
