import random
from itertools import combinations

import pytest

from apps.planner.inventory import Gpu, LinkClass, Node, Topology
from apps.planner.topology import best_group, class_matrix, largest_group, link_class
from tests.drawing import links

NVLINK, SWITCH, NUMA, NODE = LinkClass.NVLINK, LinkClass.PCIE_SWITCH, LinkClass.NUMA, LinkClass.NODE


def node_with(topology: Topology | None, gpus: int = 8) -> Node:
    return Node("n", gpus=tuple(Gpu(at) for at in range(gpus)), topology=topology)


@pytest.mark.parametrize(
    ("code", "kind"),
    [("NV18", NVLINK), ("XGMI", NVLINK), ("HCCS", NVLINK), ("PIX", SWITCH), ("PXB", SWITCH), ("PHB", NUMA),
     ("NODE", NUMA), ("SYS", NODE), ("???", LinkClass.UNKNOWN), ("NV", LinkClass.UNKNOWN)],
)  # fmt: skip
def test_a_code_has_one_link_class_and_an_unknown_word_none(code, kind):
    assert link_class(code) is kind


def test_a_group_stays_inside_one_nvlink_domain():
    assert best_group(node_with(links("aabbbbaa")), range(8), 4, NVLINK) in ((2, 3, 4, 5), (0, 1, 6, 7))


def test_a_group_that_no_domain_holds_is_refused():
    node = node_with(links("aaabbbcc"))

    assert best_group(node, range(8), 4, NVLINK) is None
    assert best_group(node, range(8), 4, NODE) is not None


def test_two_gpus_do_not_break_the_last_quad():
    node = node_with(links("aabbbb"), gpus=6)

    assert best_group(node, range(6), 2, NVLINK) == (0, 1)


def test_unknown_links_are_never_no_link_and_never_a_link():
    node = node_with(None)

    assert best_group(node, range(8), 2, NVLINK) is None
    assert largest_group(node, range(8), NVLINK) == 0
    assert best_group(node, range(8), 2) == (0, 1)
    assert largest_group(node, range(8), NODE) == 8


def test_a_matrix_of_another_size_than_the_node_is_unknown():
    assert largest_group(node_with(links("aaaa")), range(8), NVLINK) == 0


def test_the_largest_group_agrees_with_trying_every_set():
    draw = random.Random(7)
    for _ in range(60):
        size = draw.randint(2, 8)
        codes = [["X"] * size for _ in range(size)]
        for a, b in combinations(range(size), 2):
            codes[a][b] = codes[b][a] = draw.choice(["NV4", "PIX", "SYS"])
        node = node_with(Topology(tuple(map(tuple, codes))), size)
        matrix = class_matrix(node.topology)
        free = sorted(draw.sample(range(size), draw.randint(1, size)))
        tried = max(
            count
            for count in range(1, len(free) + 1)
            for group in combinations(free, count)
            if all(matrix[a][b] is NVLINK for a, b in combinations(group, 2))
        )
        assert largest_group(node, free, NVLINK) == tried
