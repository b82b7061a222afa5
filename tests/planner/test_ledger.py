"""One account per physical device: taken and left make the whole, whatever names it is asked by."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.planner.counting import count_gpus
from apps.planner.fragmentation import measure
from apps.planner.inventory import DeviceGroup, Gpu, Holding, MigInstance, Node, Pod, Source, Taint
from apps.planner.ledger import ledger_of, node_ledger
from apps.planner.ledger_rows import DeviceLedger, Flag, NodeLedger, Standing, Waste
from apps.planner.rooms import free_room
from apps.planner.snapshot import Snapshot
from tests.drawing import GIB, GPU, cluster, running, waiting

MEMORY = 40_000


def card(index: int = 0, **facts: Any) -> Gpu:
    return Gpu(**{"index": index, "uuid": f"GPU-{index}", "memory_mib": MEMORY, **facts})


def node(*gpus: Gpu, offered: int | None = None, **facts: Any) -> Node:
    amount = len(gpus) if offered is None else offered
    shape: dict[str, Any] = {
        "name": "n1",
        "uid": "uid-n1",
        "vendor": "nvidia",
        "model": "A100-SXM4-40GB",
        "gpu_resource": GPU,
        "gpus": gpus,
        "allocatable": {"cpu": 64_000, "memory": 512 * GIB, "pods": 110, GPU: amount},
        "holdings": (),
    }
    return Node(**{**shape, **facts})


def pod(name: str, gpus: int = 0, **facts: Any) -> Pod:
    requests = {"cpu": 1000, "memory": GIB, **({GPU: gpus} if gpus else {}), **facts.pop("requests", {})}
    return running(name, "n1", **{"requests": requests, **facts})


def held(pod_name: str, device: str, milli: int = 1000, **facts: Any) -> Holding:
    return Holding(f"uid-{pod_name}", device, milli, **facts)


def only_device(there: Node, *pods: Pod) -> DeviceLedger:
    return ledger_of(there, pods).devices[0]


def test_a_card_in_twelve_turns_is_one_gpu() -> None:
    there = node(card(), offered=12, sharing="time-slicing", shares_per_gpu=12, holdings=None)
    ledger = ledger_of(there, [pod("a", 5)])
    assert (ledger.physical, ledger.schedulable, ledger.free) == (1, 1, 0)
    assert (ledger.main.units_offered, ledger.main.units_used, ledger.main.units_free) == (12, 5, 7)
    assert ledger.allocated_milli == 417


def test_turns_whose_gpu_is_told_stand_on_it() -> None:
    there = node(
        card(0), card(1), offered=8, sharing="mps", shares_per_gpu=4, holdings=(held("a", "GPU-1"),) * 2
    )
    first, second = ledger_of(there, [pod("a", 2)]).devices
    assert (first.units_used, second.units_used, second.left_milli) == (0, 2, 500)
    assert second.left_memory_mib is None, "turns do not divide the memory"


def test_shares_are_kept_by_cores_and_by_memory() -> None:
    there = node(
        card(units=10),
        offered=10,
        sharing="hami",
        shares_per_gpu=10,
        holdings=(
            held("a", "GPU-0", 300, memory_mib=10_000, source=Source.SCHEDULER),
            held("b", "GPU-0", 0, memory_mib=8_000, source=Source.SCHEDULER),
        ),
    )
    found = only_device(there, pod("a", 1, gpu_milli=300), pod("b", 1, gpu_milli=0, gpu_memory_mib=8_000))
    assert (found.taken_milli, found.left_milli) == (300, 700)
    assert (found.taken_memory_mib, found.left_memory_mib) == (18_000, 22_000)
    assert (found.units, found.units_used) == (10, 2)
    assert [taker.milli for taker in found.takers] == [300, None]
    assert found.standing is Standing.PART


def test_two_containers_of_a_pod_on_one_card_take_two_units_of_it() -> None:
    there = node(
        card(units=10),
        offered=10,
        sharing="hami",
        shares_per_gpu=10,
        holdings=(
            held("a", "GPU-0", 0, memory_mib=3000, container="x"),
            held("a", "GPU-0", 0, memory_mib=5000, container="y"),
        ),
    )
    found = only_device(there, pod("a", 2, gpu_milli=0, gpu_memory_mib=5000))
    assert (found.units_used, found.taken_memory_mib) == (2, 8000)


@pytest.mark.parametrize(
    ("milli", "memory", "waste", "stranded"),
    [
        (500, MEMORY, Waste.NO_MEMORY, (500, 0)),
        (1000, 10_000, Waste.NO_CORES, (0, MEMORY - 10_000)),
        (500, 10_000, None, (0, 0)),
    ],
)
def test_what_one_half_of_is_gone_is_stranded(milli: int, memory: int, waste: Waste | None, stranded) -> None:
    there = node(card(), holdings=(held("a", "GPU-0", milli, memory_mib=memory),))
    found = only_device(there, pod("a", 1, gpu_milli=milli, gpu_memory_mib=memory))
    assert found.waste is waste
    assert (found.stranded_milli, found.stranded_memory_mib) == stranded


def test_more_memory_given_out_than_there_is_is_said_and_nothing_is_left() -> None:
    there = node(
        card(),
        holdings=(
            held("a", "GPU-0", 500, memory_mib=30_000),
            held("b", "GPU-0", 500, memory_mib=20_000),
        ),
    )
    found = only_device(there, pod("a", 1, gpu_milli=500), pod("b", 1, gpu_milli=500))
    assert (found.left_memory_mib, found.over_memory_mib) == (0, 10_000)
    assert found.flags == (Flag.OVERSUBSCRIBED,)


def test_two_pods_with_the_whole_of_one_card_are_a_contradiction() -> None:
    there = node(card(), card(1), holdings=(held("a", "GPU-0"), held("b", "GPU-0")))
    ledger = ledger_of(there, [pod("a", 1), pod("b", 1)])
    assert ledger.devices[0].flags == (Flag.HELD_TWICE,)
    assert ledger.devices[0].left_milli == 0


def test_pods_that_share_a_claim_have_its_device_once() -> None:
    by_claim = {"source": Source.DRA}
    there = node(card(), card(1), holdings=(held("a", "GPU-0", **by_claim), held("b", "GPU-0", **by_claim)))
    guests = [pod("a", claims=("team/one",)), pod("b", claims=("team/one",))]
    ledger = ledger_of(there, guests)
    assert ledger.devices[0].flags == ()
    assert (ledger.allocated_milli, ledger.free) == (1000, 1)
    apart = ledger_of(there, [guests[0], replace(guests[1], claims=("team/two",))])
    assert apart.devices[0].flags == (Flag.HELD_TWICE,)


def test_whole_and_cut_gpus_of_one_card_are_never_both_given() -> None:
    cut = card(instances=(MigInstance("3g.20gb", 0, "MIG-a"), MigInstance("3g.20gb", 4, "MIG-b")))
    there = node(
        cut,
        card(1),
        offered=1,
        mig_strategy="mixed",
        allocatable={"cpu": 64_000, GPU: 1, "nvidia.com/mig-3g.20gb": 2},
        holdings=(held("a", "MIG-a"),),
    )
    ledger = ledger_of(there, [pod("a", requests={"nvidia.com/mig-3g.20gb": 1})])
    first, second = ledger.devices
    assert (first.standing, first.taken_milli) == (Standing.CUT, 429)
    assert [one.standing for one in first.instances] == [Standing.HELD, Standing.FREE]
    assert first.instances[0].memory_mib == MEMORY // 2
    assert (ledger.free, second.standing) == (1, Standing.FREE)
    assert first.waste is Waste.NO_PROFILE, "two of 3g take all memory, one compute slice is left over"
    assert first.stranded_milli == 1000 - 429 - 429


def test_a_free_instance_is_no_waste_and_neither_is_room_for_another() -> None:
    cut = card(instances=(MigInstance("3g.20gb", 0, "MIG-a"),))
    there = node(cut, offered=0, mig_strategy="mixed", allocatable={"cpu": 8000, "nvidia.com/mig-3g.20gb": 1})
    found = only_device(there)
    assert (found.waste, found.left_milli) == (None, 1000)
    assert found.more is not None
    assert found.more["3g.20gb"] == 1


def test_a_pod_nobody_places_is_counted_and_not_placed() -> None:
    ledger = ledger_of(node(card(0), card(1), card(2), holdings=None), [pod("a", 2)])
    assert [row.standing for row in ledger.devices] == [Standing.UNKNOWN] * 3
    assert (ledger.allocated_milli, ledger.free) == (2000, 1)
    assert ledger.unlocated[0].sentence == "Which device team/a holds is unknown on this node."


def test_once_every_card_is_taken_each_is_held_though_nobody_tells_by_whom() -> None:
    ledger = ledger_of(node(card(0), card(1), holdings=None), [pod("a", 2)])
    assert [row.standing for row in ledger.devices] == [Standing.HELD] * 2
    assert not any(row.takers for row in ledger.devices)


def test_the_rest_of_a_pod_that_is_placed_in_part_is_counted() -> None:
    ledger = ledger_of(node(card(0), card(1), card(2), holdings=(held("a", "GPU-0"),)), [pod("a", 2)])
    assert (ledger.allocated_milli, ledger.free) == (2000, 1)
    assert ledger.unlocated[0].devices == 1


def test_the_second_name_of_the_same_cards_is_the_same_account() -> None:
    there = node(card(0), card(1))
    ledger = ledger_of(there, [pod("a", 1), pod("b", requests={"nvidia.com/gpu.shared": 1})])
    assert (ledger.allocated_milli, ledger.free) == (2000, 0)


def test_less_offered_than_asked_is_clamped_and_said() -> None:
    there = node(card(0), card(1, healthy=False), offered=1)
    ledger = ledger_of(there, [pod("a", 2)])
    assert (ledger.overcommitted, ledger.main.units_free) == (1, 0)
    assert (ledger.free, ledger.main.left_milli) == (0, 0)


def test_an_unhealthy_card_is_physical_and_stranded_but_not_schedulable() -> None:
    ledger = ledger_of(node(card(0), card(1, healthy=False), offered=1), [])
    assert (ledger.physical, ledger.schedulable, ledger.main.unhealthy) == (2, 1, 1)
    assert ledger.main.stranded_by == {Waste.UNHEALTHY: 1000}


def test_a_card_that_is_not_offered_is_not_schedulable_though_nobody_says_which() -> None:
    ledger = ledger_of(node(card(0), card(1), card(2), offered=2), [])
    assert (ledger.physical, ledger.schedulable, ledger.free) == (3, 2, 2)
    assert ledger.main.stranded_by == {Waste.NOT_OFFERED: 1000}


@pytest.mark.parametrize(
    ("facts", "closed"),
    [
        ({"unschedulable": True}, "cordoned"),
        ({"ready": False, "ready_reason": "KubeletDown"}, "not Ready (KubeletDown)"),
        ({"stale_since": 1.0}, "its facts are stale"),
        (
            {"taints": (Taint("node.kubernetes.io/unreachable", "", "NoExecute"),)},
            "taint node.kubernetes.io/",
        ),
    ],
)
def test_a_closed_node_has_its_gpus_but_none_to_give(facts: dict[str, Any], closed: str) -> None:
    ledger = ledger_of(node(card(0), card(1), **facts), [pod("a", 1)])
    assert ledger.closed.startswith(closed)
    assert (ledger.physical, ledger.schedulable, ledger.free, ledger.stranded_milli) == (2, 0, 0, 0)
    assert ledger.allocated_milli == 1000


@pytest.mark.parametrize(("claimable", "free"), [(True, 2), (False, 0)])
def test_gpus_given_out_by_claims_are_offered_by_no_number(claimable: bool, free: int) -> None:
    host = {"cpu": 64_000, "memory": 512 * GIB, "pods": 110}
    beside = DeviceGroup("intel", "gpu.intel.com/i915", gpus=(Gpu(0), Gpu(1)), claimable=claimable)
    there = node(card(0), card(1), allocatable=host, claimable=claimable, others=(beside,))
    ledger = ledger_of(there, ())
    for group in (ledger.main, ledger.others[0]):
        assert (group.schedulable, group.free, group.stranded_milli) == (free, free, 1000 * (2 - free))
    found = measure(Snapshot("lab", 0.0, nodes={"n1": there}))
    assert found.free_nodes == ({"2": 1} if claimable else {})
    assert found.idle_milli == 0  # nothing that asks by number finds any there


def test_gpus_of_a_node_without_cpu_are_stranded() -> None:
    there = node(card(0), card(1))
    ledger = ledger_of(there, [pod("a", 1), pod("web", requests={"cpu": 64_000})])
    assert ledger.main.stranded_by == {Waste.NO_CPU: 1000}


def test_a_ghost_holds_nothing_and_is_told() -> None:
    ledger = ledger_of(node(card(), holdings=(held("gone", "GPU-0"),)), [])
    assert (ledger.free, ledger.devices[0].flags) == (1, (Flag.UNKNOWN_HOLDER,))


def test_placeholders_are_no_load() -> None:
    there = node(card(), holdings=(held("keeper", "GPU-0"), held("a", "GPU-0", 400)))
    guests = [pod("keeper", 1, reservation=True), pod("a", gpu_milli=400)]
    assert only_device(there, *guests).taken_milli == 400


def test_a_device_that_is_not_there_is_said() -> None:
    ledger = ledger_of(node(card(), holdings=(held("a", "GPU-9"),)), [pod("a", 1)])
    assert [one.pod for one in ledger.strays] == ["team/a"]
    assert ledger.unlocated[0].devices == 1


def test_devices_of_another_vendor_have_their_own_account() -> None:
    group = DeviceGroup("cambricon", "cambricon.com/mlu", "MLU370", (Gpu(0, "MLU-0"), Gpu(1, "MLU-1")))
    dead = DeviceGroup("acme", "acme.com/npu", gpus=(Gpu(0, "NPU-0"),), alive=False)
    there = node(
        card(),
        others=(group, dead),
        allocatable={"cpu": 64_000, GPU: 1, "cambricon.com/mlu": 2, "acme.com/npu": 1},
    )
    ledger = ledger_of(there, [pod("a", 1), pod("b", requests={"cambricon.com/mlu": 1})])
    mlu, npu = ledger.others
    assert ledger.physical == 1
    assert (mlu.physical, mlu.schedulable, mlu.allocated_milli, mlu.free) == (2, 2, 1000, 1)
    assert (npu.physical, npu.schedulable, npu.free) == (1, 0, 0)


def test_total_schedulable_and_eligible_are_three_numbers() -> None:
    snapshot = cluster(
        """
        a1  ....
        a2  ....
        a3  ..
        """,
        waiting("team/job", gpus=1),
        nodes={"a1": {"unschedulable": True}, "a3": {"taints": (Taint("team", "x", "NoSchedule"),)}},
    )
    counts = count_gpus(snapshot, snapshot.pending_pods[0])
    assert (counts.physical, counts.schedulable, counts.eligible) == (10, 6, 4)


def amounts(row: DeviceLedger) -> tuple[Any, ...]:
    return (row.taken_milli, row.left_milli, row.over_milli, row.taken_memory_mib, row.left_memory_mib)


@st.composite
def shared_nodes(draw: st.DrawFn) -> tuple[Node, list[Pod]]:
    """Whole holders, shares and pods that nobody places, on one node, fitting or not."""
    count = draw(st.integers(1, 4))
    gpus = tuple(card(at, healthy=draw(st.integers(0, 5)) > 0) for at in range(count))
    pods: list[Pod] = []
    holdings: list[Holding] = []
    for number in range(draw(st.integers(0, 6))):
        milli = draw(st.sampled_from([0, 200, 500, 1000]))
        memory = draw(st.sampled_from([None, 5_000, 25_000])) if milli < 1000 else None
        if milli == 0 and memory is None:
            memory = 1000
        one = pod(f"p{number}", 1, gpu_milli=milli, gpu_memory_mib=memory)
        pods.append(one)
        if draw(st.booleans()):
            device = f"GPU-{draw(st.integers(0, count - 1))}"
            holdings.append(Holding(one.uid, device, milli, memory))
    offered = draw(st.integers(0, count))
    there = node(*gpus, offered=offered, holdings=tuple(holdings) if draw(st.booleans()) else None)
    return there, pods


def check_sums(ledger: NodeLedger) -> None:
    for row in ledger.devices:
        assert row.taken_milli + row.left_milli - row.over_milli == row.whole_milli
        assert min(row.taken_milli, row.left_milli, row.over_milli) >= 0
        assert 0 <= row.stranded_milli <= row.left_milli
        if row.taken_memory_mib is not None:
            assert row.left_memory_mib is not None
            assert row.taken_memory_mib + row.left_memory_mib - row.over_memory_mib == MEMORY
            assert row.left_memory_mib >= row.stranded_memory_mib >= 0
    main = ledger.main
    assert main.allocated_milli + main.left_milli == 1000 * main.physical
    assert 0 <= main.stranded_milli <= main.left_milli
    assert 0 <= 1000 * main.free <= main.left_milli
    assert main.free <= main.schedulable <= main.physical


@settings(max_examples=150, deadline=None)
@given(shared_nodes())
def test_taken_and_left_make_the_whole_and_nothing_is_negative(drawn: tuple[Node, list[Pod]]) -> None:
    check_sums(ledger_of(*drawn))


@settings(max_examples=60, deadline=None)
@given(shared_nodes(), st.randoms(use_true_random=False))
def test_neither_the_order_of_pods_nor_their_names_matter(
    drawn: tuple[Node, list[Pod]], draw: random.Random
) -> None:
    there, pods = drawn
    before = ledger_of(there, pods)
    mixed = draw.sample(pods, len(pods))
    names = {one.uid: f"{draw.randrange(10)}-{at}" for at, one in enumerate(pods)}
    renamed = [replace(one, uid=names[one.uid]) for one in mixed]
    holdings = there.holdings and tuple(
        replace(one, pod_uid=names[one.pod_uid]) for one in reversed(there.holdings)
    )
    after = ledger_of(replace(there, holdings=holdings), renamed)
    assert [amounts(row) for row in after.devices] == [amounts(row) for row in before.devices]
    assert [row.standing for row in after.devices] == [row.standing for row in before.devices]
    assert (after.free, after.allocated_milli, after.main.stranded_by) == (
        before.free,
        before.allocated_milli,
        before.main.stranded_by,
    )


def test_the_ledger_of_a_drawn_cluster_counts_what_is_drawn() -> None:
    snapshot = cluster("a1 aab3..!.")
    ledger = node_ledger(snapshot, snapshot.nodes["a1"])
    assert (ledger.physical, ledger.schedulable, ledger.free) == (8, 7, 3)
    assert ledger.allocated_milli == 3300


def test_instances_by_the_name_of_whole_gpus_are_no_whole_gpus() -> None:
    there = node(
        card(),
        offered=7,
        mig_strategy="single",
        labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"},
        holdings=None,
    )
    ledger = ledger_of(there, [pod("a", 2)])
    assert (ledger.physical, ledger.schedulable, ledger.free) == (1, 1, 0)
    assert ledger.allocated_milli == 286
    assert (ledger.main.units_offered, ledger.main.units_used) == (7, 2)
    assert ledger.devices[0].standing is Standing.CUT


def test_cores_sold_more_than_once_are_a_larger_whole_only_where_they_are_percents() -> None:
    sold = card(cores=500, mode="hami-core", units=10)
    there = node(sold, offered=10, sharing="hami", shares_per_gpu=10, holdings=(held("a", "GPU-0", 1000),))
    found = only_device(there, pod("a", 1))
    assert (found.whole_milli, found.taken_milli) == (5000, 5000)
    amd = node(card(cores=304, mode="hami-core"), vendor="amd")
    assert only_device(amd).whole_milli == 1000


@pytest.mark.parametrize(("memory", "found"), [(MEMORY, 8000), (None, None)])
def test_a_part_of_a_card_by_another_name_is_counted_by_what_the_node_offers_of_it(memory, found) -> None:
    offer = {"cpu": 64_000, GPU: 2, "aliyun.com/gpu-mem": 80}
    there = node(card(0, memory_mib=memory), card(1, memory_mib=memory), allocatable=offer, holdings=None)
    ledger = ledger_of(there, [pod("a", requests={"aliyun.com/gpu-mem": 8})])
    assert (ledger.free, ledger.unlocated[0].devices, ledger.unlocated[0].memory_mib) == (1, 1, found)


def test_a_share_that_nobody_places_may_be_anywhere() -> None:
    there = node(card(0), card(1), holdings=(held("a", "GPU-1", 200, memory_mib=8000),))
    ledger = ledger_of(there, [pod("a", gpu_milli=200), pod("b", gpu_milli=300)])
    assert [row.standing for row in ledger.devices] == [Standing.UNKNOWN, Standing.PART]
    assert (ledger.free, ledger.allocated_milli) == (0, 500)


def test_an_instance_is_not_free_while_a_pod_that_asks_for_it_is_placed_by_nobody() -> None:
    cut = card(instances=(MigInstance("1g.5gb", 0, "MIG-a"), MigInstance("1g.5gb", 1, "MIG-b")))
    offer = {"cpu": 64_000, "nvidia.com/mig-1g.5gb": 3}
    there = node(cut, mig_strategy="mixed", allocatable=offer, holdings=(held("a", "MIG-a"),))
    wants = {"requests": {"nvidia.com/mig-1g.5gb": 1}}
    found = only_device(there, pod("a", **wants), pod("late", **wants))
    assert [one.standing for one in found.instances] == [Standing.HELD, Standing.UNKNOWN]
    alone = only_device(there, pod("a", **wants), pod("whole", 1))
    assert [one.standing for one in alone.instances] == [Standing.HELD, Standing.FREE]


def test_what_is_asked_of_another_vendors_devices_takes_none_of_the_main_ones() -> None:
    group = DeviceGroup("cambricon", "cambricon.com/vmlu", gpus=(Gpu(0, "MLU-0"),))
    there = node(card(0), card(1), others=(group,))
    guests = [
        pod("a", requests={"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vmemory": 4}),
        pod("b", requests={"cambricon.com/mlu": 1}),
    ]
    ledger = ledger_of(there, guests)
    assert (ledger.allocated_milli, ledger.free) == (0, 2)
    assert free_room(Snapshot("lab", 0.0, {"n1": there}, {one.uid: one for one in guests})).by_node[
        "n1"
    ].gpu_left == [1000, 1000]
