"""What holds for plans of clusters with everything that real pods ask for.

    python -m pytest tests/planner/test_plan_properties.py --hypothesis-profile thorough

tries fifty times as many clusters.
"""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.planner.inventory import Holding
from apps.planner.plan import Goal, Plan
from apps.planner.rooms import free_room
from apps.planner.searching import PlanRequest, search_plan
from apps.planner.snapshot import Snapshot
from apps.planner.verification import check_plan, replay_faults
from benchmarks.checked_plans import shuffle_waves
from benchmarks.random_scenes import Kind, draw_scene

SEEDS = st.integers(0, 10**9)


def examples(number: int) -> settings:
    """So many of every hundred that the profile asks for."""
    return settings(max_examples=max(1, number * settings().max_examples // 100), deadline=None)


def scene_of(seed: int, **facts) -> Snapshot:
    draw = random.Random(seed)
    kind = Kind(nodes=draw.choice([5, 8]), load=draw.choice([0.3, 0.6]), protected=0.02, models=1)
    return draw_scene(draw, replace(kind, **facts))


def plans_of(snapshot: Snapshot, most: int = 20) -> list[Plan]:
    requests = (PlanRequest(Goal.FREE_NODES, most), PlanRequest(Goal.UNLOCK, most))
    return [search_plan(snapshot, request, deadline=lambda: False) for request in requests]


def applied(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The cluster after the plan; who sits on which device of a target is not known."""
    targets = {move.pod_uid: move.target for move in plan.moves}
    targets |= {one.pod_uid: one.node for one in plan.hand_overs}
    gone = {one.pod_uid for one in plan.preemptions}
    pods = {
        uid: replace(pod, node_name=targets.get(uid, pod.node_name), phase="Running")
        if uid in targets
        else pod
        for uid, pod in snapshot.pods.items()
        if uid not in gone
    }
    nodes = {
        name: replace(
            node,
            holdings=tuple(one for one in node.holdings or () if one.pod_uid not in targets.keys() | gone),
        )
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes, pods=pods)


@examples(12)
@given(SEEDS)
def test_moves_of_a_wave_may_come_in_any_order(seed):
    snapshot, draw = scene_of(seed), random.Random(seed)

    for plan in plans_of(snapshot):
        assert check_plan(snapshot, plan) == []
        for _ in range(3):
            assert replay_faults(snapshot, shuffle_waves(plan.moves, draw)) == []


@examples(12)
@given(SEEDS)
def test_no_gpu_and_no_pod_is_lost_or_made(seed):
    snapshot = scene_of(seed, shares=0.0)
    before = free_room(snapshot)

    for plan in plans_of(snapshot):
        after = free_room(applied(snapshot, plan))
        started = sum(after.demand(snapshot.pods[one.pod_uid]).gpu_milli for one in plan.hand_overs)
        assert idle(after) == idle(before) - started
        assert set(after.where) == set(before.where) | {one.pod_uid for one in plan.hand_overs}
        started_on = {one.node for one in plan.hand_overs}
        assert not any(pods_with_gpus(after, name) for name in {*plan.freed_nodes} - started_on)


def idle(rooms) -> int:
    return sum(room.idle_milli for room in rooms.by_node.values())


def pods_with_gpus(rooms, name):
    return [pod for pod in rooms.by_node[name].pods.values() if rooms.demand(pod).gpus]


@examples(10)
@given(SEEDS)
def test_more_moves_never_free_fewer_nodes_and_never_loosen_a_bound_that_was_reached(seed):
    snapshot = scene_of(seed)
    plans = [plans_of(snapshot, most)[0] for most in (0, 3, 8, 20)]
    freed = [len(plan.freed_nodes) for plan in plans]

    assert freed == sorted(freed)
    for plan, later in zip(plans, plans[1:], strict=False):
        assert later.lower_bound >= len(plan.freed_nodes)


@examples(10)
@given(SEEDS)
def test_the_same_cluster_by_other_names_gives_the_same_nodes_moves_and_cost(seed):
    snapshot = scene_of(seed, by_node=True)
    renamed, names = rename(snapshot, random.Random(seed))

    for one, other in zip(plans_of(snapshot), plans_of(renamed), strict=True):
        if not (one.proven_optimal and other.proven_optimal):
            continue
        assert (len(one.freed_nodes), len(one.moves), one.cost, one.unlocked_gpus) == (
            len(other.freed_nodes),
            len(other.moves),
            other.cost,
            other.unlocked_gpus,
        )


@examples(6)
@given(SEEDS)
def test_the_order_in_which_a_cluster_is_listed_changes_nothing(seed):
    snapshot, draw = scene_of(seed), random.Random(seed)
    shuffled = replace(
        snapshot, **{part: _shuffled(getattr(snapshot, part), draw) for part in ("nodes", "pods")}
    )

    assert plans_of(shuffled) == plans_of(snapshot)


def _shuffled(facts, draw):
    keys = list(facts)
    draw.shuffle(keys)
    return {key: facts[key] for key in keys}


def rename(snapshot: Snapshot, draw: random.Random) -> tuple[Snapshot, dict[str, str]]:
    """Every node and pod under a new name and uid, in another order; the nodes' names, old to new."""
    fresh = [f"z{number:03}" for number in range(len(snapshot.nodes))]
    draw.shuffle(fresh)
    names = dict(zip(snapshot.nodes, fresh, strict=True))
    uids = {uid: f"p{draw.random()}" for uid in snapshot.pods}
    nodes = {
        names[name]: replace(
            node,
            name=names[name],
            uid=f"uid-{names[name]}",
            labels={**node.labels, "kubernetes.io/hostname": names[name]},
            holdings=tuple(Holding(uids[one.pod_uid], one.device, one.milli) for one in node.holdings or ()),
        )
        for name, node in snapshot.nodes.items()
    }
    pods = {
        uids[uid]: replace(pod, uid=uids[uid], name=f"n{uids[uid]}", node_name=names.get(pod.node_name, ""))
        for uid, pod in snapshot.pods.items()
    }
    return replace(snapshot, nodes=nodes, pods={uid: pods[uid] for uid in sorted(pods)}), names
