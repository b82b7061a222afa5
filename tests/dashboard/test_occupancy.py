"""Who sits where: seen from holdings, never guessed."""

from dataclasses import replace

import pytest

from apps.dashboard.reading.occupancy import Bar, memory_slices, occupy
from apps.planner.inventory import Gpu, Holding, MigInstance, Node
from tests.dashboard.pictures import Board
from tests.dashboard.pictures_mig import mig_board


def seats_of(row: str, **more):
    board = Board()
    node = board.node("n-1", row, **more)
    return occupy(node, board.snapshot().pods_on("n-1"))


def test_a_pod_on_neighbouring_gpus_is_one_bar():
    seats = seats_of("AB2 . . AB2 . .")
    assert seats.bars == (Bar("uid-asr-batch-0", (0, 1)), Bar("uid-asr-batch-1", (4, 5)))
    assert seats.free == (2, 3, 6, 7)


def test_a_bar_ends_at_the_numa_border_and_says_that_it_goes_on():
    seats = seats_of("ES . . EN2 . . .")
    assert [(bar.positions, bar.joined) for bar in seats.bars] == [((0,), False), ((3,), True), ((4,), False)]


def test_a_pod_with_the_whole_node_is_one_bar_over_the_border():
    assert seats_of("PM8").bars == (Bar("uid-pretrain-mm-0", tuple(range(8))),)


def test_where_nobody_tells_the_holders_pods_are_counted_and_not_placed():
    seats = seats_of("CA4 ES . x .", holdings=None)
    assert seats.bars == ()
    assert seats.free == ()
    assert dict(seats.unplaced) == {"uid-chat-api-0": 4000, "uid-embed-svc-0": 1000}
    assert seats.free_count == 2
    assert not seats.is_told


def test_a_pod_that_started_after_the_holders_were_read_is_counted_too():
    board = Board()
    node = board.node("n-1", "CA4 . . . .")
    board.pod("ES", node, 2)
    seats = occupy(node, board.snapshot().pods_on("n-1"))
    assert [bar.positions for bar in seats.bars] == [(0, 1, 2, 3)]
    assert seats.unplaced == (("uid-embed-svc-0", 2000),)
    assert seats.free_count == 2


def test_holders_that_left_the_cluster_hold_nothing():
    board = Board()
    node = board.node("n-1", ". . . .")
    node = replace(node, holdings=(Holding("uid-long-gone", node.gpus[0].uuid),))
    assert occupy(node, ()).free == (0, 1, 2, 3)


def test_mig_instances_keep_their_start_and_size():
    seats = seats_of("mc . . .")
    used, idle = seats.parts[0]
    assert (used.start, used.size, used.label) == (0, 0.5, "3g.40gb")
    assert (idle.start, idle.size, idle.pod_uid) == (0.5, 0.25, "")


def test_shares_that_exceed_the_device_are_drawn_in_proportion():
    board = Board()
    node = board.node("n-1", ". .")
    first, second = board.pod("ES", node, 1, gpu_milli=800), board.pod("OC", node, 1, gpu_milli=800)
    device = node.gpus[0].uuid
    node = replace(node, holdings=(Holding(first.uid, device, 800), Holding(second.uid, device, 800)))
    parts = occupy(node, (first, second)).parts[0]
    assert [part.size for part in parts] == [0.5, 0.5]


def test_a_profiles_memory_slices_follow_from_the_gpus_memory():
    assert memory_slices("3g.40gb", 81920) == 4
    assert memory_slices("1g.5gb", 40960) == 1
    assert memory_slices("7g.80gb", 81920) == 8


def test_gpus_of_a_node_whose_layout_nobody_tells_are_not_called_free():
    snapshot = mig_board().snapshot()
    node = snapshot.nodes["mig-03"]
    seats = occupy(node, snapshot.pods_on("mig-03"))
    assert (seats.free, seats.free_count, seats.withheld) == ((), 0, 2)
    one_whole = replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": 1})
    assert occupy(one_whole, snapshot.pods_on("mig-03")).free_count == 1


@pytest.mark.parametrize(("offered", "free", "places"), [(6, 4, 5), (0, 0, 0)])
def test_gpus_that_the_kubelet_does_not_offer_are_not_free(offered, free, places):
    board = Board()
    there = board.node("n-1", "AB2 . . . . . x")
    there = replace(there, allocatable={**there.allocatable, there.gpu_resource: offered})
    seats = occupy(there, board.snapshot().pods_on("n-1"))
    assert (seats.free_count, len(seats.free)) == (free, places)


def test_pieces_follow_the_placement_table_of_the_model():
    halves = (MigInstance("2g.12gb", 0, "a"), MigInstance("1g.6gb", 3, "b"))
    node = Node("n", model="A30", gpus=(Gpu(0, "g", 24_576, instances=halves),))
    assert [(part.start, part.size) for part in occupy(node, ()).parts[0]] == [(0, 0.5), (0.75, 0.25)]
