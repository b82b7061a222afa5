"""Planning on cards that are shared: by cores and by memory, units as a limit too, and no card sold twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apps.planner.clearing import NodeClearing
from apps.planner.defrag import plan_free_nodes, plan_unlock
from apps.planner.fitting import Fitting, Reason, why_not
from apps.planner.inventory import Gpu, HeldDevice, Holding, Node, Pod, Source
from apps.planner.ledger import ledger_of
from apps.planner.movability import movability
from apps.planner.placement import Board
from apps.planner.plan import Goal, HandOver, Plan
from apps.planner.resources import asks_gpu
from apps.planner.rooms import Rooms, free_room, is_free_node
from apps.planner.snapshot import Snapshot
from apps.planner.verification import check_plan
from tests.drawing import GIB, GPU, cluster, running, waiting

MEMORY = 40_000


def shared(name: str, cards: int = 2, **facts: Any) -> Node:
    """Cards dealt into 10 units each, whose memory and cores are divided."""
    gpus = tuple(Gpu(at, f"GPU-{name}-{at}", MEMORY, units=10) for at in range(cards))
    shape: dict[str, Any] = {
        "name": name,
        "uid": f"uid-{name}",
        "gpu_resource": GPU,
        "gpus": gpus,
        "allocatable": {"cpu": 64_000, "memory": 512 * GIB, "pods": 110, GPU: 10 * cards},
        "sharing": "hami",
        "shares_per_gpu": 10,
        "holdings": (),
    }
    return Node(**{**shape, **facts})


def share(name: str, *, milli: int = 0, memory: int | None = None, **facts: Any) -> Pod:
    return replace(waiting(f"team/{name}", gpus=1, **facts)[0], gpu_milli=milli, gpu_memory_mib=memory)


def on(node: Node, *pods: Pod) -> Snapshot:
    return Snapshot("lab", 0.0, nodes={node.name: node}, pods={pod.uid: pod for pod in pods})


def held(node: Node, *entries: tuple[str, int, int, int | None]) -> tuple[Node, list[Pod]]:
    """entries: (pod, card, milli, MiB)."""
    pods = [
        running(name, node.name, gpus=1, gpu_milli=milli, gpu_memory_mib=memory)
        for name, _, milli, memory in entries
    ]
    holdings = tuple(
        Holding(f"uid-{name}", node.gpus[card].uuid, milli, memory) for name, card, milli, memory in entries
    )
    return replace(node, holdings=holdings), pods


@pytest.mark.parametrize(
    ("milli", "memory", "fits"),
    [
        (300, 10_000, True),
        (300, 35_000, False),
        (0, 30_000, True),
        (0, 30_001, False),
        (1000, None, False),
        (900, 5_000, False),
    ],
)
def test_a_share_fits_a_card_by_its_cores_and_by_its_memory(
    milli: int, memory: int | None, fits: bool
) -> None:
    node, pods = held(shared("n1", cards=1), ("a", 0, 200, 10_000))
    asks = share("b", milli=milli, memory=memory)
    snapshot = on(node, *pods, asks)
    assert free_room(snapshot).fits(asks, "n1") is fits


def test_memory_that_nobody_tells_is_no_room_and_the_reason_says_so() -> None:
    node = shared("n1")
    dark = replace(node, gpus=tuple(replace(gpu, memory_mib=None) for gpu in node.gpus))
    asks = share("a", memory=1000)
    assert why_not(free_room(on(dark, asks)), asks, dark) == [str(Reason.GPU_MEMORY_UNKNOWN)]
    full, pods = held(shared("n1", cards=1), ("b", 0, 0, MEMORY))
    assert why_not(free_room(on(full, *pods, asks)), asks, full) == [str(Reason.GPU_MEMORY)]


def test_units_are_a_limit_beside_cores_and_memory() -> None:
    node = shared("n1", cards=1, allocatable={"cpu": 64_000, "memory": 512 * GIB, "pods": 110, GPU: 2})
    node, pods = held(replace(node, shares_per_gpu=2), ("a", 0, 10, 100), ("b", 0, 10, 100))
    asks = share("c", milli=10, memory=100)
    assert not free_room(on(node, *pods, asks)).fits(asks, "n1")
    assert free_room(on(node, pods[0], asks)).fits(asks, "n1")


def test_a_whole_card_is_not_given_where_a_share_of_its_memory_is() -> None:
    node, pods = held(shared("n1", cards=2), ("a", 0, 0, 500))
    one, two = waiting("team/one", gpus=1)[0], waiting("team/two", gpus=2)[0]
    rooms = free_room(on(node, *pods, one, two))
    assert rooms.by_node["n1"].free_positions() == (1,)
    assert rooms.fits(one, "n1")
    assert not rooms.fits(two, "n1")


def test_taking_a_share_back_gives_all_of_it_back() -> None:
    node, pods = held(shared("n1", cards=1), ("a", 0, 300, 7000))
    rooms = free_room(on(node, *pods))
    room = rooms.by_node["n1"]
    assert (room.gpu_left, room.memory_left, room.left[GPU]) == ([700], [33_000], 9)
    mark = rooms.checkpoint()
    rooms.remove(pods[0])
    assert (room.gpu_left, room.memory_left, room.left[GPU]) == ([1000], [MEMORY], 10)
    rooms.undo(mark)
    assert (room.gpu_left, room.memory_left, room.left[GPU]) == ([700], [33_000], 9)


def test_turns_have_no_devices_and_only_count() -> None:
    node = shared("n1", cards=1, sharing="time-slicing", holdings=None)
    asks = share("a", memory=1000)
    rooms = free_room(on(node, running("b", "n1", gpus=3), asks))
    assert not rooms.by_node["n1"].by_device
    assert rooms.by_node["n1"].left[GPU] == 7
    assert not rooms.fits(asks, "n1")


def test_a_second_name_for_the_same_cards_takes_them() -> None:
    snapshot = cluster(
        "a1 ....", extra=[running("x", "a1", requests={"cpu": 1000, "nvidia.com/gpu.shared": 2})]
    )
    room = free_room(snapshot).by_node["a1"]
    assert room.free_gpus == 2
    assert not room.located


def test_a_placeholder_takes_no_device_and_never_moves() -> None:
    keeper = running("keeper", "a1", gpus=1, reservation=True)
    snapshot = cluster("a1 ..", extra=[keeper])
    assert free_room(snapshot).by_node["a1"].free_gpus == 2
    assert is_free_node(snapshot, snapshot.nodes["a1"])
    assert not asks_gpu(keeper)
    assert (
        "It is a placeholder that keeps a device for the shares on it."
        in movability(snapshot, keeper).reasons
    )


def test_a_pod_on_an_unhealthy_card_takes_no_second_one() -> None:
    snapshot = cluster("a1 a...")
    node = snapshot.nodes["a1"]
    sick = replace(node, gpus=(replace(node.gpus[0], healthy=False), *node.gpus[1:]))
    room = Rooms(replace(snapshot, nodes={"a1": replace(sick, allocatable={**node.allocatable, GPU: 3})}))
    assert room.by_node["a1"].free_gpus == 3
    assert room.by_node["a1"].located


def test_clearing_asks_for_the_memory_that_the_leaving_give_back() -> None:
    node, pods = held(shared("n1", cards=1), ("a", 0, 0, 20_000), ("b", 0, 0, 15_000))
    other = shared("n2", cards=1)
    asks = share("big", memory=30_000)
    snapshot = replace(on(node, *pods, asks), nodes={"n1": node, "n2": other})
    board = Board(snapshot)
    clearing = NodeClearing(board, "n1", board.final.demand(asks), [[pods[0]], [pods[1]]])
    assert not clearing.is_enough((0, 0), 1)
    assert not clearing.is_enough((0, 1), 1)
    assert not clearing.is_enough((1, 0), 1)
    assert clearing.is_enough((1, 1), 1)


def test_plans_with_shares_hold_before_the_independent_books() -> None:
    node, pods = held(shared("n1", cards=1), ("a", 0, 0, 20_000), ("b", 0, 0, 15_000))
    asks = share("big", memory=30_000)
    snapshot = replace(on(node, *pods, asks), nodes={"n1": node, "n2": shared("n2", cards=1)})
    plan = plan_unlock(snapshot, workload=asks.key, max_moves=5, deadline=lambda: False)
    assert plan.goal is Goal.UNLOCK
    assert check_plan(snapshot, plan) == []
    assert plan.unlocked == (asks.key,)


def test_the_books_refuse_a_card_whose_memory_is_gone() -> None:
    node, pods = held(shared("n1", cards=1), ("a", 0, 100, 39_000))
    asks = share("b", milli=100, memory=2000)
    snapshot = on(node, *pods, asks)
    plan = Plan(Goal.UNLOCK, unlocked=(asks.key,), hand_overs=(HandOver(asks.uid, asks.key, "n1"),))
    assert check_plan(snapshot, plan) == ["hand-over: team/b finds no GPUs on n1"]


def test_rooms_and_ledger_have_the_same_left() -> None:
    node, pods = held(shared("n1", cards=3), ("a", 0, 300, 7000), ("b", 0, 200, None), ("c", 2, 0, 9000))
    snapshot = on(node, *pods)
    room, ledger = free_room(snapshot).by_node["n1"], ledger_of(node, snapshot.pods_on("n1"))
    assert room.memory_left == [row.left_memory_mib for row in ledger.devices]
    assert [row.left_milli for row in ledger.devices] == [500, 1000, 1000]
    assert room.gpu_left == [500, 1000, 999], "a share of the memory alone leaves no whole card"
    assert room.free_gpus == ledger.free == 1


def test_nodes_whose_plugin_is_silent_take_nothing() -> None:
    node = shared("n1", stale_since=1.0)
    asks = share("a", memory=1000)
    rooms = free_room(on(node, asks))
    assert Reason.STALE in Fitting(rooms).reasons(asks, node)


def test_what_a_source_leaves_open_is_no_second_place_on_the_card_that_it_names():
    """A pod of two cards, of which its scheduler names a tenth of one."""
    told = Holding("p", "GPU-n-0", 100)
    there = shared("n", 3, allocatable={GPU: 3}, shares_per_gpu=1, sharing="", holdings=(told,))
    asking = replace(running("team/p", "n", gpus=2), uid="p")
    room = free_room(on(there, asking)).by_node["n"]
    assert room.gpu_left == [900, 0, 1000]


def test_a_node_is_not_free_while_a_pod_was_given_a_device_without_asking_by_name():
    """Of one idea are the planner and the checker of its plans."""
    given = (HeldDevice(Source.SCHEDULER, index=0, resource=GPU),)
    offered = {"cpu": 64_000, "memory": 512 * GIB, "pods": 110, GPU: 1}
    nodes = [shared(name, 1, allocatable=offered, shares_per_gpu=1) for name in ("n", "m")]
    pods = [running("p", "n", devices=given), running("q", "m", gpus=1)]
    found = Snapshot("lab", 0.0, nodes={one.name: one for one in nodes}, pods={one.uid: one for one in pods})
    assert not is_free_node(found, nodes[0])
    plan = plan_free_nodes(found, max_moves=3, deadline=lambda: False)
    assert plan.freed_nodes == ("n",)
    assert check_plan(found, plan) == []
