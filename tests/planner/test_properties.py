"""What holds for every cluster, whatever it looks like."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.planner.defrag import plan_free_nodes, plan_unlock
from apps.planner.fragmentation import measure
from apps.planner.inventory import Holding
from apps.planner.plan import Plan
from apps.planner.plan_json import digest, plan_from_dict, plan_to_dict
from apps.planner.snapshot import Snapshot
from apps.planner.verification import check_plan
from tests.planner.random_clusters import draw_cluster, draw_gang

SEEDS = st.integers(0, 10**6)


def never() -> bool:
    return False


def cluster_of(seed: int) -> Snapshot:
    draw = random.Random(seed)
    return draw_cluster(draw, nodes=draw.choice([4, 6, 8]), gpus=draw.choice([4, 8]), gang=draw_gang(draw))


def plans_of(snapshot: Snapshot) -> list[Plan]:
    return [
        plan_free_nodes(snapshot, max_moves=12, deadline=never),
        plan_unlock(snapshot, workload=None, max_moves=12, deadline=never),
    ]


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_every_prefix_of_every_plan_fits_and_no_pod_is_lost(seed):
    snapshot = cluster_of(seed)

    for plan in plans_of(snapshot):
        assert check_plan(snapshot, plan) == []


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_the_same_cluster_gives_the_same_plan_and_digest(seed):
    first, second = plans_of(cluster_of(seed)), plans_of(cluster_of(seed))

    assert first == second
    assert [digest(plan_to_dict(plan)) for plan in first] == [digest(plan_to_dict(plan)) for plan in second]


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_new_names_change_no_count(seed):
    snapshot = cluster_of(seed)
    renamed = rename(snapshot, random.Random(seed))
    before, after = plans_of(snapshot), plans_of(renamed)

    for one, other in zip(before, after, strict=True):
        assert len(one.freed_nodes) == len(other.freed_nodes)
        assert len(one.moves) == len(other.moves)
        assert one.cost == other.cost
        assert one.unlocked_gpus == other.unlocked_gpus
    assert measure(snapshot).numerator == measure(renamed).numerator


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_more_moves_are_never_worse(seed):
    snapshot = cluster_of(seed)
    freed = [len(plan_free_nodes(snapshot, max_moves=k, deadline=never).freed_nodes) for k in (0, 2, 5, 12)]

    assert freed == sorted(freed)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_a_plan_survives_json(seed):
    for plan in plans_of(cluster_of(seed)):
        assert plan_from_dict(plan_to_dict(plan)) == plan


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_idle_is_what_is_usable_plus_what_is_lost(seed):
    report = measure(cluster_of(seed))

    assert abs(sum(report.by_cause.values()) - report.idle_milli) < 1e-6
    assert abs(report.by_cause["usable"] + report.fragmentation_milli - report.idle_milli) < 1e-6
    assert 0 <= report.ratio <= 1


def rename(snapshot: Snapshot, draw: random.Random) -> Snapshot:
    """Every node and pod under a new name and uid, in another order."""
    names = list(snapshot.nodes)
    fresh = [f"z{number:03}" for number in range(len(names))]
    draw.shuffle(fresh)
    node_names = dict(zip(names, fresh, strict=True))
    uids = {uid: f"p{draw.random()}" for uid in snapshot.pods}
    nodes = {
        node_names[name]: replace(
            node,
            name=node_names[name],
            uid=f"uid-{node_names[name]}",
            labels={**node.labels, "kubernetes.io/hostname": node_names[name]},
            holdings=tuple(Holding(uids[one.pod_uid], one.device, one.milli) for one in node.holdings or ()),
        )
        for name, node in snapshot.nodes.items()
    }
    pods = {
        uids[uid]: replace(
            pod, uid=uids[uid], name=f"n{uids[uid]}", node_name=node_names.get(pod.node_name, "")
        )
        for uid, pod in snapshot.pods.items()
    }
    order = sorted(pods)
    return replace(snapshot, nodes=nodes, pods={uid: pods[uid] for uid in order})
