"""The choice of layouts for a cluster, compared with trying everything."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.planner.mig.blocks import Block, CutGpu, Want, group_alike
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.choosing import choose_layouts
from apps.planner.mig.layout_program import LayoutProgram, Limits
from apps.planner.mig.layouts import Cut, counts_of, list_layouts, uncut_slices
from apps.planner.mig.placing import place_counts
from apps.planner.mig.pruning import keep_useful
from tests.planner.mig.brute_force import best_choice

A30 = MODELS["A30-24GB"]
A100 = MODELS["A100-40GB"]
PLAIN = {
    "A30-24GB": ("1g.6gb", "2g.12gb", "4g.24gb"),
    "A100-40GB": ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb"),
}
GROUPS = [frozenset("a"), frozenset("b"), frozenset("ab")]


def in_time():
    return False


def gpu(model, layout):
    return CutGpu(model, counts_of(layout), uncut_slices(model, layout), whole=not layout)


def random_block(rng, key, model, group="a", groups=(frozenset("a"),), site=""):
    layout = rng.choice(list_layouts(model, PLAIN[model.name]))
    used = Counter((cut.profile, rng.choice(groups)) for cut in layout if rng.random() < 0.4)
    return Block(
        key=key,
        group=group,
        gpus=(gpu(model, layout),),
        offered=counts_of(layout),
        used=tuple(sorted(used.items(), key=lambda one: (one[0][0], sorted(one[0][1])))),
        fixed=bool(used) and rng.random() < 0.2,
        site=site,
    )


def score(choice, wants):
    ranks = sorted({want.rank for want in wants})
    lost = Counter()
    for at, number in choice.unmet.items():
        lost[wants[at].rank] += number * wants[at].worth
    return (
        tuple(lost[rank] for rank in ranks),
        choice.reconfigurations,
        choice.moves,
        choice.whole,
        choice.uncut,
    )


def random_wants(rng, model, groups, ranks):
    return [
        Want(
            (profile, rng.choice(groups)),
            rng.randint(1, 4),
            rank=rng.choice(ranks),
            worth=model.by_name[profile].compute_slices,
        )
        for profile in PLAIN[model.name]
        if rng.random() < 0.6
    ]


@pytest.mark.parametrize("seed", range(40))
def test_a_few_a30s_are_relaid_as_well_as_can_be(seed):
    rng = random.Random(seed)
    blocks = [random_block(rng, f"g{at}", A30) for at in range(3)]
    wants = random_wants(rng, A30, [frozenset("a")], [0])
    choice = choose_layouts(blocks, wants, deadline=in_time)
    assert choice.proven
    assert score(choice, wants) == best_choice(blocks, wants, PLAIN["A30-24GB"])
    assert choice.bound == choice.reconfigurations


@pytest.mark.parametrize("seed", range(40))
def test_groups_ranks_and_a_limit_of_moves_are_obeyed(seed):
    rng = random.Random(1000 + seed)
    blocks = [random_block(rng, f"g{at}", A30, rng.choice("ab"), GROUPS) for at in range(3)]
    wants = random_wants(rng, A30, GROUPS, [0, 1])
    limit = rng.choice([None, 0, 1, 2])
    choice = choose_layouts(blocks, wants, deadline=in_time, max_moves=limit)
    assert choice.proven
    assert score(choice, wants) == best_choice(blocks, wants, PLAIN["A30-24GB"], limit)


@pytest.mark.parametrize("seed", range(30))
def test_nothing_moves_onto_a_node_that_is_being_drained(seed):
    rng = random.Random(3000 + seed)
    places = [(f"{group}{number}", group) for group in "ab" for number in range(2)]
    blocks = []
    for at in range(4):
        site, group = rng.choice(places)
        blocks.append(random_block(rng, f"g{at}", A30, group, GROUPS, site))
    wants = random_wants(rng, A30, GROUPS, [0])
    choice = choose_layouts(blocks, wants, deadline=in_time)
    assert choice.proven
    assert score(choice, wants) == best_choice(blocks, wants, PLAIN["A30-24GB"])


@pytest.mark.parametrize("seed", range(6))
def test_two_a100s_are_relaid_as_well_as_can_be(seed):
    rng = random.Random(2000 + seed)
    blocks = [random_block(rng, f"g{at}", A100) for at in range(2)]
    wants = random_wants(rng, A100, [frozenset("a")], [0])
    choice = choose_layouts(blocks, wants, deadline=in_time)
    assert choice.proven
    assert score(choice, wants) == best_choice(blocks, wants, (*PLAIN["A100-40GB"], "1g.10gb", "7g.40gb"))


@st.composite
def clusters(draw):
    rng = random.Random(draw(st.integers(0, 10**9)))
    model = draw(st.sampled_from([A30, A100]))
    blocks = [
        random_block(rng, f"g{at}", model, rng.choice("ab"), GROUPS) for at in range(draw(st.integers(1, 12)))
    ]
    return model, blocks, random_wants(rng, model, GROUPS, [0, 1])


@settings(max_examples=60, deadline=None)
@given(clusters(), st.randoms(use_true_random=False))
def test_names_and_order_do_not_change_what_is_found(cluster, rng):
    _, blocks, wants = cluster
    renamed = [replace(block, key=f"x{at}") for at, block in enumerate(blocks)]
    rng.shuffle(renamed)
    first, second = (choose_layouts(some, wants, deadline=in_time) for some in (blocks, renamed))
    assert score(first, wants) == score(second, wants)


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_only_drained_gpus_are_relaid_and_all_new_layouts_are_legal(cluster):
    model, blocks, wants = cluster
    by_key = {block.key: block for block in blocks}
    choice = choose_layouts(blocks, wants, deadline=in_time)
    for key, gpus in choice.relaid.items():
        assert not by_key[key].fixed
        assert not by_key[key].used or key in choice.drained
        for counts in gpus.values():
            assert place_counts(model, dict(counts))
    assert choice.moves == sum(by_key[key].pods for key in choice.drained)
    assert choice.bound == choice.reconfigurations


@settings(max_examples=30, deadline=None)
@given(clusters())
def test_more_moves_allowed_never_serve_less(cluster):
    _, blocks, wants = cluster
    lost = [
        score(choose_layouts(blocks, wants, deadline=in_time, max_moves=most), wants)[0]
        for most in (0, 2, None)
    ]
    assert lost == sorted(lost, reverse=True)


def test_without_time_idle_instances_still_serve_and_nothing_is_claimed():
    blocks = [Block("g", "a", (gpu(A30, (Cut(0, "2g.12gb"),)),), (("2g.12gb", 1),))]
    wants = [Want(("2g.12gb", frozenset("a")), 3)]
    choice = choose_layouts(blocks, wants, deadline=lambda: True)
    assert (choice.unmet, choice.reconfigurations, choice.proven) == ({0: 2}, 0, False)


def test_a_bundle_is_served_whole_or_not_at_all():
    blocks = [Block(f"g{at}", "a", (gpu(A30, ()),)) for at in range(2)]
    gang = Want(("2g.12gb", frozenset("a")), 5, worth=2, bundle="gang")
    single = Want(("4g.24gb", frozenset("a")), 1, worth=4)
    choice = choose_layouts(blocks, [gang, single], deadline=in_time)
    assert choice.unmet == {0: 5}
    assert choose_layouts(blocks, [replace(gang, number=4)], deadline=in_time).unmet == {}


@pytest.mark.parametrize("seed", range(5))
def test_leaving_most_gpus_out_of_the_program_changes_nothing(seed):
    rng = random.Random(5000 + seed)
    blocks = [random_block(rng, f"g{at}", A30, rng.choice("ab"), GROUPS, f"{at // 4}") for at in range(24)]
    wants = random_wants(rng, A30, GROUPS, [0, 1])
    kinds = group_alike(blocks, by_site=True)
    whole = LayoutProgram(kinds, wants, Limits(moves=6), Counter()).run(in_time, lambda _: 0.0).choice
    staged = choose_layouts(blocks, wants, deadline=in_time, max_moves=6)
    assert staged.proven
    assert score(staged, wants) == score(whole, wants)


def test_a_gpu_is_kept_while_fewer_better_ones_are_there_than_could_be_relaid():
    empty, cut = Block("e", "a", (gpu(A30, ()),)), random_block(random.Random(1), "c", A30)
    worse = replace(cut, used=(), offered=(("1g.6gb", 4),), gpus=(CutGpu(A30, (("1g.6gb", 4),)),))
    better = [
        replace(worse, key=f"b{at}", offered=(("1g.6gb", 2),), gpus=(CutGpu(A30, (("1g.6gb", 2),), 2),))
        for at in range(2)
    ]
    kinds = group_alike([empty, worse, *better], by_site=False)
    wanted = frozenset({"1g.6gb"})
    assert len(keep_useful(kinds, wanted, 3)) == 3
    assert worse.offered not in [kind.blocks[0].offered for kind in keep_useful(kinds, wanted, 2)]


def test_of_gpus_alike_the_cheapest_to_drain_is_drained():
    cut = (Cut(0, "1g.6gb"), Cut(1, "1g.6gb"))
    used = ((("1g.6gb", frozenset("a")), 1),)
    blocks = [Block(f"g{at}", "a", (gpu(A30, cut),), counts_of(cut), used, site=f"n{at}") for at in range(3)]
    wants = [Want(("4g.24gb", frozenset("a")), 1, worth=4)]
    costs = {"g0": 5.0, "g1": 1.0, "g2": 3.0}
    choice = choose_layouts(blocks, wants, deadline=in_time, cost_of=lambda block: costs[block.key])
    assert choice.drained == ["g1"]
