"""Who uses which instance as far as anybody tells, what fits, what is asked for; how a change stands."""

from dataclasses import replace

import pytest

from apps.planner.inventory import Gpu, MigInstance
from apps.planner.mig.changing import Stage, read_change
from apps.planner.mig.demand import list_demand
from apps.planner.mig.measuring import measure_mig
from apps.planner.mig.use import Use, is_capable, read_use
from tests.planner.mig.drawing import mig_cluster, wanting

PAUSED = "paused-for-mig-change"


def use_of(snapshot, name="n1"):
    return read_use(snapshot.nodes[name], snapshot.pods_on(name))


def drawn(gpu):
    return [(one.profile, one.start, one.size, str(one.use)) for one in gpu.instances]


def test_held_free_and_uncut_stand_where_they_are():
    use = use_of(mig_cluster({"n1": ["3g@0:a 1g@4 1g@6:b", "whole"]}))
    assert drawn(use.gpus[0]) == [
        ("3g.20gb", 0, 4, "held"),
        ("1g.5gb", 4, 1, "free"),
        ("1g.5gb", 6, 1, "held"),
    ]
    assert use.gpus[0].uncut == ((5, 1), (7, 1))
    assert use.gpus[0].more["1g.5gb"] == 1
    assert use.gpus[0].more["2g.10gb"] == 0
    assert (use.gpus[1].is_cut, use.gpus[1].use) == (False, Use.FREE)
    assert use.idle == {"1g.5gb": 1}


def test_instances_of_a_failed_gpu_are_neither_idle_nor_room_for_others():
    drawn_so = {"n1": ["1g@0:a 1g@1 1g@2", "1g@0 2g@2"]}
    whole = mig_cluster(drawn_so)
    gpus = whole.nodes["n1"].gpus
    failed = mig_cluster(drawn_so, facts={"n1": {"gpus": (replace(gpus[0], healthy=False), gpus[1])}})
    assert use_of(whole).idle == {"1g.5gb": 3, "2g.10gb": 1}
    assert use_of(failed).idle == {"1g.5gb": 1, "2g.10gb": 1}
    assert (use_of(failed).gpus[0].more, use_of(failed).gpus[0].trouble) == (None, "unhealthy")
    assert measure_mig(failed).idle == {"1g.5gb": 1, "2g.10gb": 1}
    idle = {one.profile: (one.idle, one.more) for one in list_demand(failed, [use_of(failed)])}
    assert idle["1g.5gb"] == (1, use_of(whole).gpus[1].more["1g.5gb"])


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        (["1g@0 1g@1"], {"free"}),
        (["1g@0:a 1g@1:b"], {"held"}),
        (["1g@0:a 1g@1"], {"unknown"}),
    ],
)
def test_without_holders_the_numbers_still_tell_all_or_nothing(gpus, expected):
    use = use_of(mig_cluster({"n1": gpus}, facts={"n1": {"holdings": None}}))
    assert {str(one.use) for one in use.gpus[0].instances} == expected
    assert not use.has_holders


def test_without_an_agent_only_counts_are_known():
    seen = mig_cluster({"n1": ["1g@0:a 1g@1", "whole"]})
    bare = tuple(Gpu(at) for at in range(2))
    use = use_of(mig_cluster({"n1": ["1g@0:a 1g@1", "whole"]}, facts={"n1": {"gpus": bare}}))
    assert not use.has_layouts
    assert (use.offered, use.asked) == ({"1g.5gb": 2}, {"1g.5gb": 1})
    assert use_of(seen).has_layouts


def test_under_the_single_strategy_the_product_names_the_profile():
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        "nvidia.com/mig.strategy": "single",
    }
    seen = mig_cluster({"n1": ["whole"]})
    node = replace(seen.nodes["n1"], labels=labels, allocatable={"nvidia.com/gpu": 7}, mig_strategy="single")
    assert read_use(node, ()).offered == {"1g.5gb": 7}


def test_what_cannot_be_cut_is_not_capable():
    node = mig_cluster({"n1": ["whole"]}).nodes["n1"]
    assert is_capable(node)
    assert not is_capable(replace(node, labels={"nvidia.com/mig.capable": "false"}))
    assert not is_capable(replace(node, model="L40S", vendor="nvidia", mig_strategy=""))


def test_an_illegal_layout_says_why_nothing_can_be_said():
    twice = (MigInstance("3g.20gb", 0, "a"), MigInstance("2g.10gb", 2, "b"))
    use = use_of(mig_cluster({"n1": ["whole"]}, facts={"n1": {"gpus": (Gpu(0, "g", instances=twice),)}}))
    assert use.gpus[0].more is None
    assert "overlaps" in use.gpus[0].trouble


def test_demand_stands_beside_what_is_idle_and_what_would_fit():
    seen = mig_cluster(
        {"n1": ["3g@0:a 1g@4"], "n2": ["1g@0 1g@1"]},
        wanting("1g", 2, "b", created_at=50.0),
        wanting("3g", 1, "c"),
        facts={"n2": {"unschedulable": True}},
    )
    uses = [read_use(node, seen.pods_on(node.name)) for node in seen.nodes.values()]
    first, second = list_demand(seen, uses)
    assert (first.profile, first.wanted, first.idle, first.missing, first.more) == ("1g.5gb", 2, 1, 1, 2)
    assert (first.oldest, first.waiting) == (50.0, ("team/b-0", "team/b-1"))
    assert (second.profile, second.in_use, second.missing, second.more) == ("3g.20gb", 1, 1, 0)


def change(facts=None, **labels):
    names = {f"nvidia.com/{key.replace('__', '.').replace('_', '-')}": value for key, value in labels.items()}
    node = mig_cluster({"n1": ["1g@0 1g@1"]}).nodes["n1"]
    return read_change(replace(node, labels=names, **(facts or {})))


@pytest.mark.parametrize(
    ("labels", "stage"),
    [
        ({}, Stage.NONE),
        ({"mig__config": "all-1g.5gb"}, Stage.ASKED),
        ({"mig__config": "x", "mig__config__state": "pending"}, Stage.PENDING),
        ({"mig__config": "x", "mig__config__state": "rebooting"}, Stage.REBOOTING),
        ({"mig__config": "x", "mig__config__state": "failed"}, Stage.FAILED),
        ({"mig__config": "x", "mig__config__state": "success"}, Stage.DONE),
        ({"mig__config__state": "success", "gpu__deploy__dcgm": PAUSED}, Stage.WRONG),
        ({"gpu__deploy__dcgm": PAUSED}, Stage.PENDING),
        ({"gpu__product": "NVIDIA-A100-SXM4-40GB-MIG-INVALID"}, Stage.INVALID),
    ],
)
def test_the_labels_tell_how_far_a_change_is(labels, stage):
    assert change(**labels).stage is stage


def test_success_is_not_believed_when_labels_kubelet_and_gpus_disagree():
    stale = change(mig__config__state="success", **{"mig_1g__5gb__count": "7"})
    assert (stale.stage, stale.differing) == (Stage.WRONG, {"1g.5gb": (7, 2)})
    lost = change({"allocatable": {"nvidia.com/mig-1g.5gb": 1}}, mig__config__state="success")
    assert (lost.stage, lost.unseen) == (Stage.WRONG, {"1g.5gb": (2, 1)})
    kept = change(mig__config="all-1g.5gb", mig__config__state="success")
    assert (kept.stage, kept.promised) == (Stage.DONE, "")
    left = change(mig__config="all-3g.20gb", mig__config__state="success")
    assert (left.stage, left.promised) == (Stage.WRONG, "3g.20gb on every GPU")
    off = change(mig__config="all-disabled", mig__config__state="success")
    assert off.promised == "no instances"
    assert change(gpu__deploy__dcgm=PAUSED).paused == ("dcgm",)


def test_what_is_idle_is_not_for_those_that_no_node_takes():
    seen = mig_cluster({"n1": ["1g@0 1g@1"]}, wanting("1g", 2, "b"))
    uses = [read_use(node, ()) for node in seen.nodes.values()]
    (demand,) = list_demand(seen, uses, {"team/b-1"})
    assert (demand.wanted, demand.idle, demand.kept_out, demand.missing) == (2, 2, 1, 1)
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}
    single = [replace(use, node=replace(use.node, labels=labels)) for use in uses]
    (demand,) = list_demand(seen, single)
    assert (demand.idle, demand.missing) == (0, 2)
