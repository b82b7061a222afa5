"""Replays of small traces: every policy's points by hand, and what must hold for all of them."""

import random

import numpy as np
import pytest

from apps.planner.replay.arrivals import Draw
from apps.planner.replay.asks import Ask, read_asks, workload_of
from apps.planner.replay.defragging import Crowd, Outcome, defragment
from apps.planner.replay.nodes import EmptyNode, NodeTable, Seat
from apps.planner.replay.replaying import POLICIES, ReplayRequest, replay_trace
from apps.planner.replay.scheduler import NO_ROOM, Scheduler
from apps.planner.replay.usable import Usable
from apps.planner.workload import Spec, Workload

CPU_ONLY = Ask(cpu=12_800, memory=10)
HALF = Ask(cpu=6_400, memory=10, milli=500, gpus=1)
ONE = Ask(cpu=6_400, memory=10, milli=1000, gpus=1)
TWO = Ask(cpu=12_800, memory=10, milli=1000, gpus=2)
WANTED = Workload(((Spec(4_000, 500, 1), 3), (Spec(4_000, 1000, 2), 1)))


def node(name, cpu=128_000, gpus=4, model="A", memory=1000):
    return EmptyNode(name, cpu, memory, gpus, model)


def points_of(name, table, ask, workload=WANTED):
    scored = POLICIES[name](table, workload).score(ask, np.arange(len(table)))
    return scored.points.tolist()


def filled(*nodes, taken=()):
    """taken: (row, ask, GPU indexes) of what runs already."""
    table = NodeTable(nodes)
    for row, ask, devices in taken:
        table.take(Seat(row, devices), ask)
    return table


def test_dot_product_prefers_where_little_is_left_of_what_is_asked():
    table = filled(node("full"), node("used"), taken=[(1, TWO, (0, 1))])

    # d = 1·0.05 + 0.5·0.125 = 0.1125, and 0.9·0.05 + 0.25·0.125 = 0.07625
    assert points_of("dot-product", table, ONE) == [94, 96]


def test_best_fit_counts_what_is_left_after_placing():
    table = filled(node("full"), node("used"), taken=[(1, TWO, (0, 1))])

    # 1 − ½·0.95 − ½·0.375, and 1 − ½·0.85 − ½·0.125
    assert points_of("best-fit", table, ONE) == [33, 51]


def test_clustering_puts_pods_of_one_kind_together():
    table = filled(
        *(node(name) for name in ("empty", "alone", "among", "others")),
        taken=[(1, HALF, (0,)), (2, HALF, (0,)), (2, ONE, (1,)), (3, TWO, (0, 1))],
    )

    # 25·(8000 − left)/8000: 12, 14, 17, 18
    assert points_of("clustering", table, HALF) == [25 + 12, 75 + 14, 50 + 17, 0 + 18]
    assert points_of("clustering", table, CPU_ONLY) == [0, 0, 0, 0]


def test_packing_prefers_started_gpus_then_started_nodes_then_small_free_nodes():
    table = filled(
        *(node("free"), node("free pair", gpus=2), node("started"), node("tight")),
        taken=[(2, ONE, (0,)), (3, HALF, (0,))],
    )

    assert points_of("packing", table, HALF) == [29, 31, 49, 95]
    assert points_of("packing", table, TWO) == [29, 31, 48, 48]


def test_fgd_rounds_the_change_of_fragmentation_through_a_sigmoid():
    table = filled(node("whole", gpus=2), node("half", gpus=2), taken=[(1, HALF, (0,))])

    # Weights 3 : 1. "whole": F goes from 0 to ¼·1500. "half": from ¼·1500 to ¼·1000 (0 for the halves).
    assert points_of("fgd-exact", table, HALF) == [-1500, 500]
    assert points_of("fgd", table, HALF) == [40, 53]


def test_fgd_takes_the_gpu_that_loses_least():
    table = filled(node("n", gpus=3), taken=[(0, HALF, (1,))])
    policy = POLICIES["fgd"](table, WANTED)

    assert policy.score(HALF, np.array([0])).devices.tolist() == [1]


def test_the_topology_score_is_the_share_in_use():
    table = filled(node("free"), node("used"), taken=[(1, ONE, (0,))])

    assert points_of("topology-score", table, ONE) == [250_000, 500_000]
    assert points_of("topology-score", table, CPU_ONLY) == [100_000, 150_000]


def test_demand_fit_spares_the_model_that_others_are_bound_to():
    nodes = [node("wanted", model="A"), node("spare", model="B")]
    workload = Workload(((Spec(4_000, 1000, 1, "A"), 1), (Spec(4_000, 1000, 1), 1)))
    table = NodeTable(nodes)
    scheduler = Scheduler(table, POLICIES["demand-fit"](table, workload), Draw(0))

    assert [scheduler.place(ONE).row for _ in range(4)] == [1, 1, 1, 1]
    assert scheduler.place(ONE).row == 0


def test_demand_fit_keeps_cpu_for_idle_gpus():
    """r = 10,000 milli-CPU a GPU: the first node needs its CPU, the second has more than it needs."""
    workload = Workload(((Spec(10_000, 1000, 1), 1),))
    table = NodeTable([node("balanced", cpu=40_000), node("surplus", cpu=90_000)])
    scheduler = Scheduler(table, POLICIES["demand-fit"](table, workload), Draw(0))

    assert scheduler.place(CPU_ONLY).row == 1
    assert scheduler.place(Ask(2_000, 0, 1000, 1)).row == 0


def test_demand_fit_leaves_free_nodes_free_and_sends_cpu_only_pods_to_nodes_without_gpus():
    workload = Workload(((Spec(10_000, 1000, 1), 1),))
    nodes = [node("free", cpu=80_000, gpus=4), node("started", cpu=80_000, gpus=4), node("plain", gpus=0)]
    table = filled(*nodes, taken=[(1, Ask(10_000, 0, 1000, 1), (0,))])
    scheduler = Scheduler(table, POLICIES["demand-fit"](table, workload), Draw(0))

    assert scheduler.choose(Ask(12_000, 0, 1000, 1)).row == 1
    assert scheduler.choose(CPU_ONLY).row == 2


def test_a_part_takes_the_tightest_gpu_and_whole_gpus_come_in_index_order():
    table = filled(node("n"), taken=[(0, Ask(0, 0, 300, 1), (2,)), (0, HALF, (1,))])
    policy = POLICIES["first-fit"](table, WANTED)

    assert policy.seat(HALF, 0, None).devices == (1,)
    assert policy.seat(Ask(0, 0, 600, 1), 0, None).devices == (2,)
    assert policy.seat(TWO, 0, None).devices == (0, 3)


@pytest.mark.parametrize("lacking", ["cpu", "memory", "model", "gpus", "part"])
def test_a_pod_is_dropped_where_something_is_short(lacking):
    ask = {
        "cpu": Ask(1001, 0),
        "memory": Ask(0, 1001),
        "model": Ask(0, 0, 1000, 1, ("B",)),
        "gpus": Ask(0, 0, 1000, 2),
        "part": Ask(0, 0, 600, 1),
    }[lacking]
    table = filled(node("n", cpu=1000, gpus=2), taken=[(0, Ask(0, 0, 500, 1), (0,))])
    table.take(Seat(0, (1,)), Ask(0, 0, 500, 1))

    assert Scheduler(table, POLICIES["first-fit"](table, WANTED), Draw(0)).place(ask) is None


def make_trace(seed, size=160):
    rng = random.Random(seed)
    nodes = [
        node(f"n{at}", rng.choice((8_000, 32_000, 96_000)), rng.choice((0, 1, 2, 4, 8)), rng.choice("AB"), 90)
        for at in range(12)
    ] + [node("n12")]
    shapes = [
        Ask(rng.randrange(0, 9_000, 500), rng.randrange(9), milli, gpus, models)
        for milli, gpus in [(0, 0), (1000, 1), (1000, 2), (1000, 8), (160, 1), (470, 1), (810, 1)]
        for models in ((), ("A",))
    ]
    return nodes, rng.choices(shapes, k=size)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_independent_recount_finds_nothing_over_capacity(policy):
    nodes, asks = make_trace(1)
    replay = replay_trace(nodes, asks, ReplayRequest(policy, seed=3))

    held = [ask for ask, _ in replay.crowd.running.values()]
    for row, one in enumerate(replay.nodes):
        here = [(ask, seat) for ask, seat in replay.crowd.running.values() if seat.row == row]
        assert sum(ask.cpu for ask, _ in here) <= one.cpu
        assert sum(ask.memory for ask, _ in here) <= one.memory
        assert all(not ask.models or one.model in ask.models for ask, _ in here)
        for at in range(one.gpus):
            assert sum(ask.milli for ask, seat in here if at in seat.devices) <= 1000
        assert all(max(seat.devices, default=-1) < one.gpus for _, seat in here)
    assert all(len(seat.devices) == ask.gpus for ask, seat in replay.crowd.running.values())
    assert replay.used_milli == sum(ask.gpu_milli for ask in held)
    assert replay.failed + len(held) == replay.decisions


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "random"])
def test_remembered_points_equal_points_computed_anew(policy):
    nodes, asks = make_trace(2)
    workload = workload_of(asks)
    table = NodeTable(nodes)
    scheduler = Scheduler(table, POLICIES[policy](table, workload), Draw(0))
    rng = random.Random(5)
    running = []
    for ask in asks:
        seat = scheduler.place(ask)
        if seat is not None:
            running.append((seat, ask))
        if running and rng.random() < 0.2:
            scheduler.give_back(*running.pop(rng.randrange(len(running))))
        asked = rng.choice(asks)
        anew = Scheduler(table, POLICIES[policy](table, workload), Draw(0)).points(asked)
        known = scheduler.points(asked)
        assert known.points.tolist() == anew.points.tolist()
        fits = anew.points != NO_ROOM
        assert known.devices[fits].tolist() == anew.devices[fits].tolist()


def test_fragmentation_equals_the_definition_read_node_by_node():
    nodes, asks = make_trace(3)
    replay = replay_trace(nodes, asks, ReplayRequest("best-fit", seed=1))
    table = NodeTable(replay.nodes)
    for ask, seat in replay.crowd.running.values():
        table.take(seat, ask)
    workload = workload_of(asks)

    lost = 0
    for row, one in enumerate(replay.nodes):
        left = table.gpu[row, : one.gpus].tolist()
        for spec, count in workload.specs:
            serving = [value for value in left if spec.gpus and value >= spec.milli]
            fits = spec.gpus and len(serving) >= spec.gpus and table.cpu[row] >= spec.cpu
            fits = fits and (not spec.models or one.model in spec.models.split("|"))
            lost += count * (sum(left) - (sum(serving) if fits else 0))
    assert replay.numerator == lost == Usable(table, workload).numerator


def test_file_order_takes_each_pod_once_and_the_first_of_equal_nodes():
    nodes = [node(name, gpus=1) for name in "cab"]
    replay = replay_trace(nodes, [ONE, ONE, ONE, ONE], ReplayRequest("first-fit", 7, file_order=True))

    assert [replay.nodes[seat.row].name for _, seat in replay.crowd.running.values()] == ["c", "a", "b"]
    assert (replay.decisions, replay.failed) == (4, 1)
    assert sorted(replay.noted) == [90, 95, 100, 110, 130]


def test_a_seed_says_everything_and_another_seed_something_else():
    nodes, asks = make_trace(4)
    first, again, other = (replay_trace(nodes, asks, ReplayRequest("random", seed)) for seed in (1, 1, 2))

    assert first.crowd == again.crowd
    assert first.crowd != other.crowd
    assert first.arrived_milli * 100 >= 130 * first.capacity_milli


def test_moves_let_in_what_waits():
    """One GPU is taken on each of two nodes, so a pair waits until one of them moves."""
    table = NodeTable([node(name, gpus=2) for name in ("a", "b")])
    scheduler = Scheduler(table, POLICIES["best-fit"](table, WANTED), Draw(0))
    crowd = Crowd({1: (ONE, Seat(0, (0,))), 2: (ONE, Seat(1, (1,)))}, {3: TWO})
    for ask, seat in crowd.running.values():
        scheduler.take(seat, ask)

    outcome = defragment(scheduler, crowd, max_moves=1, deadline=lambda: False)

    assert outcome == Outcome(moves=1, started=1, started_milli=2000)
    assert not crowd.waiting
    assert sorted(seat.row for _, seat in crowd.running.values()) in ([0, 0, 1], [0, 1, 1])
    assert table.idle.tolist() == [0, 0]


def test_a_replay_with_moves_places_more_and_counts_them():
    nodes, asks = make_trace(6)
    plain = replay_trace(nodes, asks, ReplayRequest("random", seed=2))
    moved = replay_trace(nodes, asks, ReplayRequest("random", seed=2, defrag_every=40, max_moves=5))

    assert moved.moves > 0
    assert moved.used_milli > plain.used_milli
    assert moved.used_milli == sum(ask.gpu_milli for ask, _ in moved.crowd.running.values())
    assert moved.failed == moved.decisions - len(moved.crowd.running)


def test_rows_become_asks_and_a_part_is_always_of_one_gpu():
    row = {"name": "p", "cpu_milli": "1", "memory_mib": "2", "num_gpu": "3", "gpu_milli": "400"}

    assert read_asks([{**row, "gpu_spec": "A|B"}])[0] == Ask(1, 2, 400, 1, ("A", "B"))
    assert read_asks([{**row, "gpu_milli": "1000"}])[0] == Ask(1, 2, 1000, 3)
    assert read_asks([{**row, "num_gpu": "0"}])[0] == Ask(1, 2)


@pytest.mark.parametrize(
    ("nodes", "asks", "sentence"),
    [
        ([], [ONE], "there are no nodes"),
        ([node("n")], [], "there are no pods"),
        ([node("n")], [CPU_ONLY], "no pod asks for a GPU"),
        ([node("n", gpus=0)], [ONE], "no node has a GPU"),
        ([node("n")] * 3000, [Ask(0, 0, 1, 1)], "would have to arrive"),
    ],
)
def test_a_trace_without_end_is_refused(nodes, asks, sentence):
    with pytest.raises(ValueError, match=sentence):
        replay_trace(nodes, asks, ReplayRequest("fgd"))
