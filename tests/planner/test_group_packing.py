"""How many linked groups still fit on a node: every way of taking disjoint groups is tried beside it."""

import random
from itertools import combinations

import pytest

from apps.planner.group_packing import GROUP_SIZES, LINK_CLASSES, count_link_groups, most_groups
from apps.planner.inventory import LinkClass, Topology
from apps.planner.rooms import free_room
from apps.planner.topology import RANK, link_class
from tests.drawing import cluster, links

CUBE = ("1234", "0235", "0136", "0124", "0567", "1467", "2457", "3456")
"""A hybrid cube mesh: two quads tied throughout, and each GPU to its twin of the other."""


def room_of(picture: str, topology: Topology | None = None, **facts):
    facts = {"topology": topology, **facts} if topology else facts
    return free_room(cluster(f"a1 {picture}", nodes={"a1": facts})).by_node["a1"]


def counted(room) -> dict[str, dict[int, int]]:
    numbers = iter(count_link_groups(room))
    return {str(link): {size: next(numbers) for size in GROUP_SIZES} for link in LINK_CLASSES}


def test_two_quads_hold_two_groups_of_four_and_none_of_eight():
    found = counted(room_of("........", links("aaaabbbb")))

    assert found["nvlink"] == {2: 4, 4: 2, 8: 0}
    assert found["node"] == {2: 4, 4: 2, 8: 1}


def test_a_pod_in_each_quad_leaves_no_group_of_four():
    assert counted(room_of("a...b...", links("aaaabbbb")))["nvlink"] == {2: 2, 4: 0, 8: 0}


def test_a_share_of_a_gpu_breaks_its_group():
    assert counted(room_of("...7", links("aaaa")))["nvlink"] == {2: 1, 4: 0, 8: 0}


def test_where_links_are_not_known_only_numbers_count():
    found = counted(room_of("....", holdings=()))
    untold = free_room(cluster("a1 ....", nodes={"a1": {"topology": None}})).by_node["a1"]

    assert found["nvlink"][4] == 1
    assert counted(untold) == {
        "nvlink": {2: 0, 4: 0, 8: 0},
        "pcie-switch": {2: 0, 4: 0, 8: 0},
        "numa": {2: 0, 4: 0, 8: 0},
        "node": {2: 2, 4: 1, 8: 0},
    }
    assert most_groups(untold, 4, LinkClass.UNKNOWN) == 1


def test_where_holders_are_not_known_no_linked_group_is_promised():
    room = room_of("aa..", holdings=None)

    assert counted(room)["nvlink"][2] == 0
    assert counted(room)["node"][2] == 1


def most_by_trying(ties: list[set[int]], free: frozenset[int], size: int) -> int:
    groups = [
        set(group)
        for group in combinations(sorted(free), size)
        if all(b in ties[a] for a, b in combinations(group, 2))
    ]
    return max((1 + most_by_trying(ties, free - group, size) for group in groups), default=0)


@pytest.mark.parametrize("seed", range(4))
def test_no_other_choice_of_groups_holds_more(seed):
    draw = random.Random(seed)
    codes = ["NV4", "PIX", "NODE", "SYS", ""]
    for _ in range(6):
        size = draw.choice([2, 4, 6])
        table = [[draw.choice(codes) if a != b else "X" for b in range(size)] for a in range(size)]
        room = room_of("." * size, Topology(tuple(map(tuple, table)), source="drawn"))
        for link in LINK_CLASSES[:3]:
            ties = [
                {b for b in range(size) if a != b and min(RANK[link_class(table[a][b])],
                 RANK[link_class(table[b][a])]) >= RANK[link]}
                for a in range(size)
            ]  # fmt: skip
            for number in (2, 4):
                expected = most_by_trying(ties, frozenset(range(size)), number)
                assert most_groups(room, number, link) == expected
                assert counted(room)[str(link)][number] == expected


def test_a_cube_mesh_holds_two_quads_however_they_are_numbered():
    table = [["X" if a == b else "NV1" if str(b) in CUBE[a] else "SYS" for b in range(8)] for a in range(8)]
    room = room_of("........", Topology(tuple(map(tuple, table)), source="drawn"))

    assert counted(room)["nvlink"] == {2: 4, 4: 2, 8: 0}


def test_a_huge_wild_matrix_is_answered():
    codes = ("NV4", "PIX", "NODE", "SYS")
    table = tuple(
        tuple("X" if a == b else codes[(min(a, b) * 7 + max(a, b) * 13) % 4] for b in range(96))
        for a in range(96)
    )
    room = room_of("." * 96, Topology(table, source="drawn"))

    assert most_groups(room, 8, LinkClass.PCIE_SWITCH) >= 1
    assert 1 <= most_groups(room, 2, LinkClass.NVLINK) <= 48
