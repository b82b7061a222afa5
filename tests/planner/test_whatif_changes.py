"""What if the cluster were another one: nodes more or fewer, cordoned, or cut anew; and what comes of it."""

from dataclasses import replace

import pytest

from apps.planner.inventory import Taint
from apps.planner.queues import Entrance
from apps.planner.whatif import Shape, rank_nodes
from apps.planner.whatif_changes import BadChange, added_nodes, apply_changes, read_changes
from apps.planner.whatif_effect import compare_clusters
from apps.planner.workload import choose_workload, wanted_pods
from tests.dashboard.pictures_mig import mig_board
from tests.drawing import cluster, waiting
from tests.planner.test_quota import kueue, wanted

DRAWN = """
    a1  aabb....
    a2  aaaaaa..
    b1  ........
"""


def never() -> bool:
    """A deadline that does not come."""
    return False


def changed(seen, *texts):
    return apply_changes(seen, read_changes(texts))


def effect_of(seen, *texts):
    wanted = choose_workload(wanted_pods(seen))
    return compare_clusters(seen, changed(seen, *texts), workload=wanted, deadline=never)


def test_a_copied_node_is_sound_empty_and_of_the_same_make():
    passing = Taint("node.kubernetes.io/not-ready", "", "NoExecute")
    taints = (Taint("team", "x", "NoSchedule"), passing)
    broken = {"a1": {"taints": taints, "ready": False, "unschedulable": True}}
    seen = cluster("a1  aab!", nodes=broken)
    after = changed(seen, "add:2:a1")
    assert added_nodes(seen, after) == {"a1+1", "a1+2"}
    copy = after.nodes["a1+2"]
    assert (copy.model, len(copy.gpus), copy.topology) == (
        seen.nodes["a1"].model,
        4,
        seen.nodes["a1"].topology,
    )
    assert copy.ready
    assert not copy.unschedulable
    assert [taint.key for taint in copy.taints] == ["team"]
    assert copy.labels["kubernetes.io/hostname"] == copy.hostname == "a1+2"
    assert all(gpu.healthy for gpu in copy.gpus)
    tolerant = replace(copy, taints=())
    ranked = rank_nodes(replace(after, nodes={"a1+2": tolerant}), Shape(gpus=3))
    assert ranked[0].free_gpus == 3  # the capacity that the node told, one GPU was broken then


def test_a_model_names_a_kind_only_where_all_its_nodes_are_alike():
    seen = cluster(DRAWN)
    assert added_nodes(seen, changed(seen, "add:1:a100")) == {"a1+1"}
    small = cluster(DRAWN + "    c1  ..")
    with pytest.raises(BadChange, match=r"'A100' are of 2 kinds: name the node to copy, such as a1, c1"):
        changed(small, "add:1:A100")


def test_a_gang_that_lacks_a_node_could_start_with_one_more():
    seen = cluster(DRAWN, waiting("team/train", gpus=8, count=2), waiting("team/huge", gpus=16))
    effect = effect_of(seen, "add:1:b1")
    assert effect.before.starts == ()
    assert effect.new_starts == ("team/train",)
    assert (effect.before.gpus, effect.after.gpus) == (24, 32)
    assert (effect.before.free_blocks["8"], effect.after.free_blocks["8"]) == (1, 2)
    assert (effect.before.gang_pods, effect.after.gang_pods) == (1, 2)


def test_a_removed_nodes_pods_wait_with_the_others_and_a_cordoned_nodes_stay():
    seen = cluster(DRAWN, waiting("team/train", gpus=8))
    gone = effect_of(seen, "remove:a1")
    assert gone.new_waiting == ("team/a1-a", "team/a1-b")
    assert gone.before.starts == ("team/train",)
    closed = effect_of(seen, "cordon:b1")
    assert closed.lost_starts == ("team/train",)
    assert not closed.new_waiting
    both = effect_of(seen, "cordon:b1", "add:1:a1")
    assert both.before.starts == both.after.starts == ("team/train",)


def test_only_legal_layouts_of_free_gpus_are_tried():
    seen = mig_board().snapshot()
    after = changed(seen, "layout:mig-06:0:3g.40gb=1,2g.20gb=2")
    offered = after.nodes["mig-06"].allocatable
    assert offered["nvidia.com/mig-3g.40gb"] == 1
    assert offered["nvidia.com/mig-2g.20gb"] == 2
    assert offered["nvidia.com/gpu"] == 3
    assert rank_nodes(seen, Shape(mig=(("2g.20gb", 1),)))[0].node != "mig-06"
    fits = {one.node for one in rank_nodes(after, Shape(mig=(("2g.20gb", 1),))) if one.fits}
    assert "mig-06" in fits
    again = changed(after, "layout:mig-06:all:whole")
    assert again.nodes["mig-06"].allocatable["nvidia.com/gpu"] == 4
    assert not rank_nodes(again, Shape(mig=(("2g.20gb", 5),)))[0].fits


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("grow", "'grow' is no change: write it as add:NUMBER:NODE"),
        ("add:0:mig-01", "'add:0:mig-01': write add:NUMBER:NODE, with 1 to 1000 nodes to add"),
        ("add:1:v900", "There is no node and no GPU model 'v900' here"),
        ("remove:nobody", "there is no node 'nobody' in this cluster"),
        ("layout:mig-06:0:9g.10gb=1", "no GPU can be cut so. .* has no profile 9g.10gb"),
        ("layout:mig-06:0:3g.40gb=3", "no GPU can be cut so."),
        ("layout:mig-06:9:whole", "mig-06 has no GPU 9: it has 4, counted from 0"),
        ("layout:mig-06:0", "write layout:NODE:GPU:PROFILE=NUMBER"),
        ("layout:mig-04:0:whole", "mig-04 is left as it is cut: a MIG change is under way"),
        ("layout:mig-01:0:whole", "GPU 0 of mig-01 is used by .*only a drained GPU is cut anew"),
        ("layout:mig-03:0:whole", "mig-03"),
    ],
)
def test_what_cannot_be_read_or_made_is_one_clear_sentence(text, said):
    with pytest.raises(BadChange, match=said):
        changed(mig_board().snapshot(), text)


def test_there_is_a_limit_to_what_is_added():
    seen = cluster(DRAWN)
    with pytest.raises(BadChange, match="At most 1000 nodes can be added, not 1100"):
        changed(seen, "add:900:a1", "add:200:a1")
    with pytest.raises(BadChange, match="At most 20 changes"):
        read_changes(["cordon:a1"] * 21)


def test_without_its_queues_quota_a_workload_could_start_and_nobody_else_lends_of_it():
    seen = cluster("a1  ........", waiting("team-a/train", gpus=4))
    held = kueue(quota=2, used=0, cohort="all", borrow=0)
    queued = wanted(name="train", gpus=4, pods=1, owners=("uid-train",))
    seen = replace(
        seen,
        queues={held.key: held},
        entrances={"team-a/train": Entrance("team-a/train", held.key)},
        queued={queued.key: queued},
    )
    seen = seen.with_pods([replace(seen.pods["uid-train"], workload="uid-train")])
    effect = effect_of(seen, "quota:Kueue/team-a")
    assert (effect.before.held_back, effect.after.held_back) == (1, 0)
    assert effect.before.starts == ()
    assert effect.new_starts == ("team-a/train",)
    with pytest.raises(BadChange, match="there is no queue 'Kueue/x'; there are Kueue/team-a"):
        changed(seen, "quota:Kueue/x")


def test_a_node_that_is_added_after_another_went_takes_nobodys_name():
    seen = cluster("a1  ....")
    after = changed(seen, "add:2:a1", "remove:a1+1", "add:2:a1")
    assert added_nodes(seen, after) == {"a1+1", "a1+2", "a1+3"}
