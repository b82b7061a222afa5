"""The goal mig on drawn clusters, each plan checked by the independent program."""

import random
from dataclasses import replace

import pytest

from apps.planner.inventory import Gpu, Holding, MigInstance, Tie
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.layouts import list_full_layouts
from apps.planner.mig.planning import plan_mig
from apps.planner.plan_json import plan_from_dict, plan_to_dict
from apps.planner.verification import check_plan
from apps.planner.verification_mig import is_legal
from tests.planner.mig.drawing import PROFILES, mig_cluster, wanting

A100 = MODELS["A100-40GB"]
KINDS = {profile: kind for kind, profile in PROFILES.items()}


def solve(snapshot, max_moves=50):
    plan = plan_mig(snapshot, max_moves=max_moves, deadline=lambda: False)
    assert check_plan(snapshot, plan) == []
    assert plan_from_dict(plan_to_dict(plan)) == plan
    return plan


def cuts(plan):
    return [(one.node, one.index, dict(one.after), one.after_moves) for one in plan.reconfigurations]


def moved(plan):
    return [(move.pod, move.source, move.target) for move in plan.moves]


def test_idle_instances_serve_without_any_change():
    plan = solve(mig_cluster({"n1": ["3g@0 3g@4:a"]}, wanting("3g")))
    assert (cuts(plan), moved(plan), plan.proven_optimal) == ([], [], True)
    assert plan.unlocked == ("team/want-3g-0",)
    assert [one.node for one in plan.hand_overs] == ["n1"]


def test_an_idle_gpu_is_cut_anew_and_nobody_moves():
    plan = solve(mig_cluster({"n1": ["1g@0 1g@1 2g@2", "3g@0:a"]}, wanting("3g", 2)))
    assert cuts(plan) == [("n1", 0, {"3g.20gb": 2}, False)]
    assert (plan.lower_bound, plan.gap, plan.proven_optimal) == (1.0, 0.0, True)


def test_a_used_gpu_is_relaid_only_after_its_pod_moved_to_an_idle_instance_elsewhere():
    plan = solve(mig_cluster({"n1": ["1g@0 1g@1 1g@2:a"], "n2": ["3g@0:B 1g@4 1g@5"]}, wanting("7g")))
    assert cuts(plan) == [("n1", 0, {"7g.40gb": 1}, True)]
    assert moved(plan) == [("team/n1-a", "n1", "n2")]
    assert plan.reconfigurations[0].before == {"1g.5gb": 3}


def test_pods_that_may_not_move_keep_their_gpu_as_it_is():
    plan = solve(mig_cluster({"n1": ["1g@0:A"], "n2": ["1g@0 1g@1"]}, wanting("7g", 2)))
    assert cuts(plan) == [("n2", 0, {"7g.40gb": 1}, False)]
    assert len(plan.unlocked) == 1
    assert "No layouts within the limits" in plan.refused[0].reason


def test_no_more_moves_than_allowed():
    drawn = mig_cluster({"n1": ["1g@0:a 1g@1:b"], "n2": ["1g@0:C 1g@1 1g@2"]}, wanting("7g"))
    assert len(solve(drawn).moves) == 2
    assert solve(drawn, max_moves=1).unlocked == ()


def test_an_idle_instance_is_taken_before_anything_is_relaid():
    plan = solve(
        mig_cluster(
            {"n1": ["7g@0"], "n2": ["1g@0:a 3g@4", "1g@0:b"], "n3": ["1g@0 1g@1 1g@2:C"]},
            wanting("7g"),
        )
    )
    assert cuts(plan) == []
    assert len(plan.unlocked) == 1


def test_a_whole_gpu_is_cut_only_where_no_cut_one_serves_as_well():
    plan = solve(mig_cluster({"n1": ["whole", "1g@0 1g@1"]}, wanting("4g")))
    assert [(one.index, dict(one.before)) for one in plan.reconfigurations] == [(1, {"1g.5gb": 2})]
    plan = solve(mig_cluster({"n1": ["whole", "1g@0:A"]}, wanting("4g")))
    assert plan.reconfigurations[0].index == 0
    assert any("whole and idle" in one for one in plan.relaxed)


def test_where_holders_are_unknown_the_whole_node_is_drained():
    facts = {"n1": {"holdings": None}}
    spare = {"n2": ["1g@0 1g@1 3g@4:B"]}
    plan = solve(mig_cluster({"n1": ["1g@0:a", "2g@0"], **spare}, wanting("7g"), facts=facts))
    assert all(one.whole_node for one in plan.reconfigurations)
    assert moved(plan) == [("team/n1-a", "n1", "n2")]
    assert any("drained whole" in one for one in plan.relaxed)
    stuck = solve(mig_cluster({"n1": ["1g@0:A", "2g@0"], **spare}, wanting("7g"), facts=facts))
    assert (cuts(stuck), stuck.unlocked) == ([], ())


def test_where_layouts_are_unknown_all_gpus_of_the_node_are_relaid():
    drawn = mig_cluster({"n1": ["2g@0", "2g@0"]}, wanting("3g"))
    node = drawn.nodes["n1"]
    bare = replace(node, gpus=tuple(replace(gpu, instances=()) for gpu in node.gpus))
    plan = solve(replace(drawn, nodes={"n1": bare}))
    assert [(one.index, one.before, one.whole_node) for one in plan.reconfigurations] == [
        (0, {}, True),
        (1, {}, True),
    ]


def test_a_gpu_held_without_a_request_is_left_as_it_is():
    drawn = mig_cluster({"n1": ["1g@0 1g@1", "2g@0"]}, wanting("3g"))
    node = drawn.nodes["n1"]
    held = replace(node, holdings=(Holding("uid-nobody", "MIG-n1-0-1"),))
    plan = solve(replace(drawn, nodes={"n1": held}))
    assert [one.index for one in plan.reconfigurations] == [1]
    wrong = spoil(plan, index=0, gpu="GPU-n1-0", before={"1g.5gb": 2})
    assert "while somebody uses it" in " ".join(check_plan(replace(drawn, nodes={"n1": held}), wrong))


def test_where_devices_come_by_claims_nothing_is_relaid():
    claimer = wanting("1g", name="claimer", requests={"cpu": 100}, node_name="n1", phase="Running")
    claimer = [replace(claimer[0], ties=(Tie.CLAIMS,))]
    plan = solve(mig_cluster({"n1": ["1g@0 1g@1", "2g@0"]}, wanting("3g"), claimer))
    assert (cuts(plan), plan.unlocked) == ([], ())


def test_absurd_numbers_are_refused():
    plan = solve(mig_cluster({"n1": ["1g@0"]}, wanting("3g", requests={"nvidia.com/mig-3g.20gb": 10**12})))
    assert "more MIG instances than any node has" in plan.refused[0].reason
    facts = {"n1": {"allocatable": {"nvidia.com/mig-1g.5gb": 10**12}, "gpus": (Gpu(0, "GPU-0", 40960),)}}
    plan = solve(mig_cluster({"n1": ["1g@0"]}, wanting("3g"), facts=facts))
    assert any("more MIG instances than its GPUs can hold" in one for one in plan.relaxed)


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({"mig_strategy": "single"}, "mig.strategy is single"),
        ({"labels": {"nvidia.com/mig.config.state": "pending"}}, "under way or stuck"),
        ({"shares_per_gpu": 4}, "shared in time"),
        ({"model": "A100-SXM4-48GB"}, "No MIG placement table"),
        ({"allocatable": {"nvidia.com/mig-1g.5gb": 5}}, "not those that the kubelet offers"),
    ],
)
def test_what_cannot_be_relied_on_is_left_alone_and_said(facts, word):
    plan = solve(mig_cluster({"n1": ["1g@0"]}, wanting("3g"), facts={"n1": facts}))
    assert (cuts(plan), plan.unlocked) == ([], ())
    assert any(word in one for one in plan.relaxed)


@pytest.mark.parametrize("facts", [{"unschedulable": True}, {"ready": False}, {"stale_since": 1.0}])
def test_a_closed_node_is_not_planned_on(facts):
    plan = solve(mig_cluster({"n1": ["3g@0"]}, wanting("3g"), facts={"n1": facts}))
    assert (cuts(plan), plan.unlocked) == ([], ())


def test_layouts_that_are_only_inferred_need_a_confirmation():
    drawn = mig_cluster({"n1": ["whole"]}, wanting("3g.71gb"), facts={"n1": {"model": "H200"}})
    node = drawn.nodes["n1"]
    gpu = replace(node.gpus[0], memory_mib=143771)
    plan = solve(replace(drawn, nodes={"n1": replace(node, gpus=(gpu,))}))
    assert plan.reconfigurations[0].needs_confirmation
    assert any("confirm the layout on a device" in one for one in plan.relaxed)


def test_a_gang_gets_all_its_instances_or_nothing_is_cut_for_it():
    gang = wanting("3g", 3, name="gang", gang="team/gang")
    plan = solve(mig_cluster({"n1": ["1g@0 1g@1"]}, gang, wanting("2g")))
    assert plan.unlocked == ("team/want-2g-0",)
    assert plan.refused[0].pod == "team/gang"
    whole = solve(mig_cluster({"n1": ["1g@0 1g@1"], "n2": ["whole"]}, gang))
    assert whole.unlocked == ("team/gang",)
    assert len(whole.hand_overs) == 3


def test_a_pod_with_two_profiles_gets_both_on_one_node():
    two = wanting("3g", requests={"nvidia.com/mig-3g.20gb": 1, "nvidia.com/mig-1g.5gb": 2})
    plan = solve(mig_cluster({"n1": ["whole"], "n2": ["1g@0:A"]}, two))
    assert [one.node for one in plan.hand_overs] == ["n1"]


def test_higher_priority_comes_first():
    low, high = wanting("7g", name="low"), wanting("3g", name="high", priority=10)
    plan = solve(mig_cluster({"n1": ["whole"]}, low, high))
    assert plan.unlocked == ("team/high-0",)


def test_selectors_decide_which_gpu_is_cut():
    labels = {"n2": {"labels": {"pool": "b"}}}
    plan = solve(
        mig_cluster(
            {"n1": ["1g@0"], "n2": ["1g@0"]}, wanting("3g", node_selector={"pool": "b"}), facts=labels
        )
    )
    assert [one.node for one in plan.reconfigurations] == ["n2"]
    none = solve(mig_cluster({"n1": ["1g@0"]}, wanting("3g", node_selector={"pool": "b"})))
    assert "selectors" in none.refused[0].reason


def test_a_node_without_memory_for_the_pod_is_no_place_for_it():
    full = {"n1": {"allocatable": {"cpu": 500, "nvidia.com/mig-1g.5gb": 1}}}
    plan = solve(mig_cluster({"n1": ["1g@0"]}, wanting("1g"), facts=full))
    assert (plan.unlocked, plan.proven_optimal) == ((), False)


def test_nothing_waits():
    plan = solve(mig_cluster({"n1": ["1g@0:a"]}))
    assert plan.sentence.startswith("No pending pod asks")


def random_drawing(rng):
    nodes = {}
    for number in range(rng.randint(1, 5)):
        gpus = []
        for _ in range(rng.randint(1, 4)):
            layout = rng.choice([(), *list_full_layouts(A100, tuple(PROFILES.values()))])
            parts = [
                f"{KINDS[cut.profile]}@{cut.start}"
                + (f":{rng.choice('aA')}{len(gpus)}{cut.start}" if rng.random() < 0.4 else "")
                for cut in layout
                if rng.random() < 0.9
            ]
            gpus.append(" ".join(parts) if parts else "whole")
        nodes[f"n{number}"] = gpus
    wants = [wanting(kind, rng.randint(1, 4)) for kind in PROFILES if rng.random() < 0.5]
    facts = {name: {"holdings": None} for name in nodes if rng.random() < 0.2}
    return mig_cluster(nodes, *wants, facts=facts)


@pytest.mark.parametrize("seed", range(60))
def test_random_clusters_give_sound_plans(seed):
    snapshot = random_drawing(random.Random(seed))
    plan = solve(snapshot)
    assert plan == solve(snapshot)
    assert plan.gap == 0 or not plan.proven_optimal


def test_the_checker_knows_legal_from_illegal_by_itself():
    assert is_legal(A100, {"4g.20gb": 1, "3g.20gb": 1})
    for counts in ({}, {"3g.20gb": 2, "1g.5gb": 1}, {"1g.5gb": 8}, {"1g.23gb": 1}, {"1g.5gb+me": 2}):
        assert not is_legal(A100, counts)
    assert not is_legal(MODELS["RTX-PRO-6000-Blackwell-96GB"], {"1g.24gb+me.all": 1, "1g.24gb": 1})


def spoil(plan, **changes):
    return replace(plan, reconfigurations=(replace(plan.reconfigurations[0], **changes),))


def test_the_checker_finds_what_is_wrong_with_a_plan():
    snapshot = mig_cluster({"n1": ["1g@0 1g@1 1g@2:a"], "n2": ["3g@0:B 1g@4 1g@5"]}, wanting("7g"))
    plan = solve(snapshot)

    def faults(broken):
        return " ".join(check_plan(snapshot, broken))

    assert "while team/n1-a uses it" in faults(replace(plan, moves=(), cost=0.0))
    assert "while team/n1-a uses it" in faults(spoil(plan, after_moves=False))
    assert "no legal layout" in faults(spoil(plan, after={"3g.20gb": 3}))
    assert "not cut as the plan says" in faults(spoil(plan, before={"1g.5gb": 2}))
    assert "nvidia.com/mig-7g.40gb" in faults(spoil(plan, after={"3g.20gb": 2}))
    assert "has no GPU" in faults(spoil(plan, index=4))
    assert "model" in faults(spoil(plan, model="H100-80GB"))


def test_a_refusal_names_who_uses_the_gpus():
    plan = solve(mig_cluster({"n1": ["1g@0:A"]}, wanting("7g")))
    assert "In use by team/n1-A on n1 (Its owner protects it.)." in plan.refused[0].reason


def test_a_single_gpu_without_known_starts_is_cut_as_the_kubelet_offers_it():
    stale = (MigInstance("1g.5gb"), MigInstance("3g.20gb"))
    facts = {"n1": {"gpus": (Gpu(0, "GPU-n1-0", 40960, instances=stale),), "holdings": None}}
    drawn = mig_cluster({"n1": ["1g@0"]}, wanting("4g"), facts=facts)
    plan = solve(drawn)
    assert [dict(one.before) for one in plan.reconfigurations] == [{"1g.5gb": 1}]


def test_pods_with_a_wish_keep_the_place_that_only_they_need():
    labels = {"n1": {"labels": {"pool": "a"}}, "n2": {"labels": {"pool": "b"}}}
    free = wanting("3g", name="anywhere", priority=0)
    bound = wanting("3g", name="only-a", node_selector={"pool": "a"})
    plan = solve(mig_cluster({"n1": ["3g@0"], "n2": ["3g@0", "1g@0:A"]}, free, bound, facts=labels))
    assert {one.pod: one.node for one in plan.hand_overs} == {
        "team/anywhere-0": "n2",
        "team/only-a-0": "n1",
    }
    assert plan.proven_optimal


def test_the_search_tells_how_far_it_is():
    told = []
    drawn = mig_cluster({"n1": ["1g@0:a 1g@1:b"], "n2": ["1g@0:C 1g@1 1g@2"]}, wanting("7g"))
    plan_mig(drawn, max_moves=5, deadline=lambda: False, tell=told.append)
    assert [one.stage for one in told][0] == "Reading the layouts."
    assert told[-1].achieved == 0
    assert told[-1].bound == 7
