"""Parts of a card add up exactly, a card is as full as the larger of its cores and its memory."""

from __future__ import annotations

import pytest

from apps.planner.inventory import MigInstance, Source
from apps.planner.ledger import ledger_of
from apps.planner.ledger_rows import Standing
from tests.planner.test_ledger import MEMORY, card, held, node, only_device, pod

PARTS = "aliyun.com/gpu-mem"


@pytest.mark.parametrize(("pods", "allocated"), [(20, 1667), (96, 8000)])
def test_turns_of_many_pods_are_rounded_once(pods: int, allocated: int) -> None:
    there = node(*map(card, range(8)), offered=96, sharing="time-slicing", shares_per_gpu=12, holdings=None)
    ledger = ledger_of(there, [pod(f"p{at}", 1) for at in range(pods)])
    assert ledger.allocated_milli == allocated == sum(one.milli for one in ledger.unlocated)


def test_turns_on_known_cards_are_rounded_once() -> None:
    seats = tuple(held(f"p{at}", f"GPU-{at}") for at in range(3))
    there = node(*map(card, range(3)), offered=9, sharing="mps", shares_per_gpu=3, holdings=seats)
    ledger = ledger_of(there, [pod(f"p{at}", 1) for at in range(3)])
    assert [row.taken_milli for row in ledger.devices] == [333, 333, 333]
    assert ledger.allocated_milli == 1000


def test_three_thirds_of_a_card_by_its_memory_are_the_whole_of_it() -> None:
    offer = {"cpu": 64_000, "aliyun.com/gpu-count": 2, PARTS: 30}
    seats = tuple(held(f"p{at}", "GPU-0", 333, memory_mib=5000, source=Source.SCHEDULER) for at in range(3))
    there = node(
        card(0, memory_mib=15_000),
        card(1, memory_mib=15_000),
        gpu_resource="aliyun.com/gpu-count",
        allocatable=offer,
        holdings=seats,
    )
    ledger = ledger_of(there, [pod(f"p{at}", requests={PARTS: 5}) for at in range(3)])
    assert (ledger.allocated_milli, ledger.stranded_milli, ledger.free) == (1000, 0, 1)
    assert ledger.main.parts == {PARTS: (30, 15)}


@pytest.mark.parametrize(("memory", "allocated"), [(MEMORY, 1000), (MEMORY // 4, 250)])
def test_a_card_without_a_limit_of_cores_is_measured_by_its_memory(memory: int, allocated: int) -> None:
    seat = held("a", "GPU-0", 0, memory_mib=memory, source=Source.SCHEDULER)
    there = node(card(cores=0, units=10), offered=10, sharing="hami", shares_per_gpu=10, holdings=(seat,))
    ledger = ledger_of(there, [pod("a", 1, gpu_milli=0, gpu_memory_mib=memory)])
    row = ledger.devices[0]
    assert (ledger.allocated_milli, ledger.stranded_milli, row.waste) == (allocated, 0, None)
    assert row.standing is (Standing.HELD if allocated == 1000 else Standing.PART)


def test_the_larger_share_counts_whether_or_not_the_card_is_known() -> None:
    seat = held("a", "GPU-0", 300, memory_mib=20_000)
    guest = pod("a", 1, gpu_milli=300, gpu_memory_mib=20_000)
    known, unknown = (ledger_of(node(card(), holdings=seats), [guest]) for seats in ((seat,), None))
    assert (known.allocated_milli, unknown.allocated_milli) == (500, 500)
    assert only_device(node(card(), holdings=(seat,)), guest).taken_milli == 300


def test_instances_under_single_have_the_memory_that_the_label_tells() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu.memory": "4864"}
    cut = card(instances=tuple(MigInstance("1g.5gb", at, f"MIG-{at}") for at in range(7)))
    there = node(cut, offered=7, mig_strategy="single", labels=labels, holdings=(held("a", "MIG-0"),))
    row = only_device(there, pod("a", 1))
    assert {one.memory_mib for one in row.instances} == {4864}
    assert (row.taken_memory_mib, row.allocated_milli) == (4864, 143)
