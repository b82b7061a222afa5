"""The node page's devices: one row each, who holds it and by whom that is known, allocated beside used."""

import time
from dataclasses import replace

import pytest

from apps.planner.inventory import DeviceGroup, Gpu, Holding, Source
from tests.dashboard.conftest import log_in, make_picture
from tests.dashboard.pictures import Board
from tests.dashboard.test_grid_pages import GRID, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def page_of(cluster, viewer):
    def show(board, node):
        snapshot = board.snapshot()
        make_picture(cluster, replace(snapshot, nodes={**snapshot.nodes, node.name: node}))
        return text_of(log_in(viewer).get(f"{GRID}nodes/{node.name}/"))

    return show


def shared_card(board, **facts):
    """One card of 40,000 MiB in ten units, with a share of cores and memory and one of memory alone."""
    offer = {"cpu": 64_000, "memory": 2**38, "pods": 110, "nvidia.com/gpu": 10}
    node = board.node("n-1", ".", sharing="hami", shares_per_gpu=10, allocatable=offer, holdings=None)
    first = board.pod("ES", node, 1, gpu_milli=300, gpu_memory_mib=10_000)
    second = board.pod("OC", node, 1, gpu_milli=0, gpu_memory_mib=9_000)
    by = {"source": Source.SCHEDULER}
    holdings = (
        Holding(first.uid, "GPU-n-1-0", 300, 10_000, **by),
        Holding(second.uid, "GPU-n-1-0", 0, 9_000, container="ocr", **by),
    )
    gpu = replace(node.gpus[0], memory_mib=40_000, units=10)
    return replace(node, gpus=(gpu,), holdings=holdings, **facts)


def test_shares_are_told_with_their_memory_and_by_whom_they_are_known(page_of):
    board = Board(now=time.time())
    page = page_of(board, shared_card(board))
    assert "1 physical, 1 schedulable, 0.5 allocated; 10 units offered, 2 in use" in page
    assert "serving/embed-svc-0 30 %, 10,000 MiB · by the scheduler" in page
    assert "serving/ocr-svc-0 (ocr) 9,000 MiB · by the scheduler" in page
    assert "19,000 of 40,000 MiB" in page


def test_memory_used_is_another_number_and_not_measured_is_said(page_of):
    board = Board(now=time.time())
    page = page_of(board, shared_card(board))
    assert "Memory allocated Memory used" in page
    assert "19,000 of 40,000 MiB not measured" in page


def test_a_holder_that_the_agent_tells_has_its_age(page_of):
    board = Board(now=time.time())
    node = board.node("n-1", "CA2 . .")
    seen = tuple(replace(one, observed_at=time.time() - 185) for one in node.holdings)
    page = page_of(board, replace(node, holdings=seen))
    assert page.count("serving/chat-api-0 by the node agent, 3 min") == 2


def test_a_device_that_nobody_places_a_pod_on_is_unknown_and_never_empty(page_of):
    board = Board(now=time.time())
    node = board.node("n-1", "CA2 . .", holdings=None)
    page = page_of(board, node)
    assert "no source tells the devices of 1 pod" in page
    assert "serving/chat-api-0 2 GPUs, unknown on this node" in page
    assert page.count("holder unknown unknown on this node") == 4


def test_devices_of_other_vendors_are_rows_of_their_own(page_of):
    board = Board(now=time.time())
    mlu = (Gpu(0, "MLU-0", 24_000), Gpu(1, "MLU-1", 24_000, healthy=False))
    node = board.node("n-1", ". .")
    offer = {**node.allocatable, "cambricon.com/mlu": 2}
    group = DeviceGroup("cambricon", "cambricon.com/mlu", "MLU370", mlu, alive=False)
    page = page_of(board, replace(node, others=(group,), allocatable=offer))
    assert "cambricon.com/mlu · MLU370 2 physical, 0 schedulable" in page
    assert "Its device plugin is silent" in page
    assert "1 unhealthy" in page


def test_more_asked_than_offered_is_clamped_and_said(page_of):
    board = Board(now=time.time())
    node = board.node(
        "n-1", "CA4", allocatable={"cpu": 128_000, "memory": 2**40, "pods": 110, "nvidia.com/gpu": 3}
    )
    page = page_of(board, node)
    assert "Overcommitted: pods ask for 1 of nvidia.com/gpu more than is offered." in page
    assert "Free, to be had whole 0" in page


def test_physical_and_slots_are_different_numbers(page_of):
    board = Board(now=time.time())
    offer = {"cpu": 64_000, "memory": 2**38, "pods": 110, "nvidia.com/gpu": 12}
    node = board.node("n-1", ".", sharing="time-slicing", shares_per_gpu=12, allocatable=offer, holdings=None)
    pods = [board.pod("ES", node, 1) for _ in range(5)]
    held = tuple(Holding(pod.uid, "GPU-n-1-0") for pod in pods)
    page = page_of(board, replace(node, holdings=held))
    assert "Physical 1 Schedulable 1 Allocated 0.4" in page
    assert "Slots in use 5 of 12" in page
    assert "not divided, 81,920 MiB for all" in page
    assert "7 of 12 slots left" in page


def test_devices_of_other_vendors_are_round_cells_of_the_grid(cluster, viewer):
    board = Board(now=time.time())
    node = board.node("n-1", "CA2")
    group = DeviceGroup("acme", "acme.example/npu", gpus=(Gpu(0, "NPU-0"), Gpu(1, "NPU-1", healthy=False)))
    pod = board.pod("ES", node, 0, requests={"acme.example/npu": 1})
    offer = {**node.allocatable, "acme.example/npu": 2}
    held = (*node.holdings, Holding(pod.uid, "NPU-0"))
    node = replace(node, others=(group,), allocatable=offer, holdings=held)
    make_picture(cluster, replace(board.snapshot(), nodes={"n-1": node}))
    page = log_in(viewer).get(GRID).content.decode()
    row = page[page.index('id="n-n-1"') : page.index("</li>", page.index('id="n-n-1"'))]
    assert row.count('rx="9"') == 3, "two devices, one of them hatched"
    assert "2 of acme.example/npu beside them" in row


def test_units_of_shared_gpus_are_not_taken_for_gpus(page_of):
    board = Board(now=time.time())
    node = shared_card(board)
    board.pod("LS", node, 8)
    page = page_of(board, node)
    assert "research/lora-sweep-0 8 units, unknown on this node" in page
    assert "1 held, seats unknown" in page


def test_a_pod_on_another_vendors_devices_is_told_there_and_not_as_a_mig_instance(page_of):
    board = Board(now=time.time())
    node = board.node("n-1", ". .")
    pod = board.pod("OC", node, 0, requests={"cambricon.com/mlu": 1, "cpu": 1000})
    group = DeviceGroup("cambricon", "cambricon.com/mlu", "MLU370", (Gpu(0, "MLU-0", 24_000),))
    held = (*(node.holdings or ()), Holding(pod.uid, "MLU-0"))
    page = page_of(board, replace(node, others=(group,), holdings=held))
    assert f"{pod.name} {pod.namespace} · Why there? MLU370 0" in page


def test_two_pods_that_share_a_claimed_gpu_hold_one_gpu(page_of):
    board = Board(now=time.time())
    node = board.node("n-1", ". .", capacity={}, allocatable={"cpu": 64_000, "pods": 110})
    both = [
        board.pod(code, node, 0, requests={"cpu": 1000}, claims=("serving/one",)) for code in ("ES", "OC")
    ]
    held = tuple(Holding(pod.uid, "GPU-n-1-0", source=Source.DRA) for pod in both)
    page = page_of(board, replace(node, holdings=held))
    assert "1 held whole" in page
    assert "GPU resource by resource claims (DRA)" in page


def test_memory_of_gpus_that_take_turns_is_not_divided_whoever_holds_them(page_of):
    board = Board(now=time.time())
    node = board.node("n-1", ". .", sharing="time-slicing", shares_per_gpu=12, holdings=None)
    board.pod("ES", node, 1)
    node = replace(node, gpus=tuple(replace(gpu, units=12) for gpu in node.gpus))
    page = page_of(board, node)
    assert page.count("not divided, 81,920 MiB for all") == 2


def test_idle_gpus_of_a_node_that_takes_nothing_are_not_called_free(page_of):
    board = Board(now=time.time())
    node = board.node("n-1", "CA . .")
    assert "2 free of 3" in page_of(board, node)
    page = page_of(board, replace(node, stale_since=time.time() - 200))
    assert "2 idle of 3" in page
    assert "device plugin has not been alive for 3 min 20 s: GPUs present, not schedulable" in page
