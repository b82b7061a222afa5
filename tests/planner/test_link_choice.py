"""The fast choice of GPUs agrees with trying every set, and ends on any matrix."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.planner.inventory import Gpu, LinkClass, Node, Topology
from apps.planner.link_choice import Weighed, alike
from apps.planner.link_groups import by_class, by_value, closest_class, connected
from apps.planner.topology import RANK, _weigh, best_group, largest_group, link_class

CODES = ["NV1", "NV2", "PIX", "PHB", "SYS", "", "WARP"]


@st.composite
def matrices(draw, most=8):
    size = draw(st.integers(2, most))
    homes = [draw(st.integers(0, 2)) for _ in range(size)]
    of = {pair: draw(st.sampled_from(CODES)) for pair in combinations(range(3), 2)} | {
        (home, home): draw(st.sampled_from(CODES)) for home in range(3)
    }
    cells = [["X"] * size for _ in range(size)]
    for a, b in combinations(range(size), 2):
        low, high = sorted((homes[a], homes[b]))
        cells[a][b] = cells[b][a] = of[low, high]
    for _ in range(draw(st.integers(0, 4))):
        a, b = draw(st.integers(0, size - 1)), draw(st.integers(0, size - 1))
        if a != b:
            cells[a][b] = draw(st.sampled_from(CODES))
    return tuple(map(tuple, cells))


def node_of(links):
    return Node("n", gpus=tuple(Gpu(at) for at in range(len(links))), topology=Topology(links))


def weigh(links, group):
    weights = [min(_weigh(links[a][b]), _weigh(links[b][a])) for a, b in combinations(group, 2)]
    return min((rank for rank, _ in weights), default=4), sum(width for _, width in weights)


@settings(max_examples=120, deadline=None)
@given(matrices(), st.data())
def test_no_other_set_is_better(links, data):
    size = len(links)
    free = sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))
    count = data.draw(st.integers(1, len(free)))
    found = best_group(node_of(links), free, count)
    assert set(found) <= set(free)
    assert len(found) == count
    assert weigh(links, found) == max(weigh(links, group) for group in combinations(free, count))


@settings(max_examples=100, deadline=None)
@given(matrices(), st.sampled_from([LinkClass.NVLINK, LinkClass.PCIE_SWITCH, LinkClass.NUMA]))
def test_a_group_is_refused_only_where_no_set_meets_the_class(links, wanted):
    node, size = node_of(links), len(links)
    for count in range(1, size + 1):
        meets = any(
            count == 1 or weigh(links, group)[0] >= RANK[wanted] for group in combinations(range(size), count)
        )
        found = best_group(node, range(size), count, wanted)
        assert (found is not None) == meets
        assert (largest_group(node, range(size), wanted) >= count) == meets


def test_any_gpus_of_a_node_will_do_where_nothing_closer_is_wanted():
    node = node_of((("X", ""), ("", "X")))
    assert best_group(node, range(2), 2, LinkClass.NODE) == (0, 1)
    assert best_group(node, range(2), 2, LinkClass.NUMA) is None


def test_gpus_of_one_kind_are_told_by_their_links_alone():
    weights = tuple(tuple((4, 100) if a // 2 == b // 2 else (1, 32) for b in range(6)) for a in range(6))
    assert alike(Weighed(weights), tuple(range(6))) == ((0, 1), (2, 3), (4, 5))


def test_sixteen_alike_are_chosen_from_by_number():
    links = tuple(tuple("X" if a == b else "NV6" for b in range(16)) for a in range(16))
    assert best_group(node_of(links), range(16), 8, LinkClass.NVLINK) == tuple(range(8))


def test_a_huge_wild_matrix_is_answered():
    links = tuple(
        tuple("X" if a == b else CODES[(min(a, b) * 7 + max(a, b) * 13) % 4] for b in range(96))
        for a in range(96)
    )
    found = best_group(node_of(links), range(96), 8)
    assert len(set(found)) == 8
    assert largest_group(node_of(links), range(96), LinkClass.PCIE_SWITCH) > 1


PAIRS = (
    ("X", "NV4", "SYS", ""),
    ("NV4", "X", "SYS", "SYS"),
    ("SYS", "SYS", "X", "PIX"),
    ("", "SYS", "PIX", "X"),
)


def test_groups_of_each_class():
    assert closest_class(PAIRS) is LinkClass.NVLINK
    assert connected(PAIRS, LinkClass.NVLINK) == ((0, 1), (2,), (3,))
    assert by_class(PAIRS)[LinkClass.PCIE_SWITCH] == ((0, 1), (2, 3))
    assert closest_class((("X", ""), ("", "X"))) is LinkClass.UNKNOWN


def test_groups_by_a_value_leave_the_unknown_out():
    assert by_value([1, None, 0, 1]) == ((2,), (0, 3))
    assert by_value(["96-119", "0-23", "96-119"]) == ((1,), (0, 2))


def test_words_of_other_makers_are_links_of_theirs():
    kinds = {
        code: link_class(code) for code in ("HT", "SIO", "MLK", "MT2", "XL8", "MUL", "PCIE", "NA", "ETH")
    }
    assert [code for code, kind in kinds.items() if kind is LinkClass.NVLINK] == [
        "HT",
        "SIO",
        "MLK",
        "MT2",
        "XL8",
    ]
    assert (kinds["MUL"], kinds["PCIE"]) == (LinkClass.PCIE_SWITCH, LinkClass.NODE)
    assert kinds["NA"] is kinds["ETH"] is LinkClass.UNKNOWN


def remainder_by_trying(links, rest):
    """How many 8-, 4- and 2-GPU groups at once, for each link class from the best on."""

    def most(rest, rank, size):
        groups = (
            group
            for group in combinations(rest, size)
            if all(weigh(links, pair)[0] >= rank for pair in combinations(group, 2))
        )
        return max((1 + most(set(rest) - set(group), rank, size) for group in groups), default=0)

    return tuple(most(rest, rank, size) for rank in (4, 3, 2) for size in (8, 4, 2))


@settings(max_examples=40, deadline=None)
@given(matrices(most=6), st.data())
def test_among_equal_groups_the_one_that_leaves_most_for_the_next_is_taken(links, data):
    free = sorted(data.draw(st.sets(st.integers(0, len(links) - 1), min_size=1)))
    count = data.draw(st.integers(1, len(free)))

    def worth(group):
        rest = [one for one in free if one not in group]
        return weigh(links, group), remainder_by_trying(links, rest), tuple(-one for one in group)

    assert best_group(node_of(links), free, count) == max(combinations(free, count), key=worth)


def test_two_gpus_come_from_the_broken_quad_and_not_from_a_whole_one():
    links = tuple(
        tuple("X" if a == b else "NV4" if a // 4 == b // 4 else "SYS" for b in range(16)) for a in range(16)
    )
    assert best_group(node_of(links), (0, 1, 2, 3, 4, 5, 6, 7, 10, 11), 2) == (10, 11)
    assert best_group(node_of(links), (0, 1, 2, 3, 4, 5, 6, 10, 11), 1) == (4,)
