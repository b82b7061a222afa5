"""From the layout that a GPU has to a wanted one, with some of its instances in use."""

import random

import pytest

from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.layouts import Cut, counts_of, list_layouts, why_illegal
from apps.planner.mig.reaching import find_way, moves_that_make_room, what_fits, why_not_now
from tests.planner.mig.drawing import mig_cluster

A100, H200 = MODELS["A100-40GB"], MODELS["H200-141GB"]
SCATTERED = (Cut(0, "1g.18gb"), Cut(2, "1g.18gb"), Cut(6, "1g.18gb"))


def test_what_fits_goes_by_start_slices_not_by_numbers():
    assert what_fits(H200, SCATTERED) == {
        "1g.18gb": 4,
        "1g.35gb": 1,
        "2g.35gb": 1,
        "3g.71gb": 0,
        "4g.71gb": 0,
        "7g.141gb": 0,
    }


def test_one_instance_elsewhere_makes_room_and_it_is_said_which():
    assert moves_that_make_room(H200, SCATTERED, "3g.71gb") == ((Cut(6, "1g.18gb"), (1, 3)),)
    assert moves_that_make_room(H200, SCATTERED, "7g.141gb") == ()


def test_instances_in_use_stay_and_idle_ones_go_only_if_they_must():
    way = find_way(
        A100, [Cut(0, "1g.5gb"), Cut(1, "1g.5gb")], [Cut(1, "1g.5gb")], {"1g.5gb": 2, "3g.20gb": 1}
    )
    assert way.exists
    assert way.destroyed == ()
    assert way.created == (Cut(4, "3g.20gb"),)
    assert not way.clears  # mig-parted would clear the GPU first, and one of its instances is in use


def test_an_instance_in_the_way_is_named():
    in_use = [Cut(0, "1g.5gb"), Cut(5, "1g.5gb")]
    way = find_way(A100, in_use, in_use, {"1g.5gb": 2, "3g.20gb": 1})
    assert way.why.endswith("1g.5gb at 0 would have to be cut anew elsewhere.")
    gone = find_way(A100, in_use, in_use, {"7g.40gb": 1})
    assert gone.why == "2 x 1g.5gb are in use, and the wanted layout has 0."
    assert find_way(A100, in_use, [], {"7g.40gb": 1}).clears


def test_what_no_gpu_of_the_model_can_be_is_refused_before_anything_else():
    assert "9 memory slices" in find_way(A100, [], [], {"3g.20gb": 2, "1g.5gb": 1}).why
    assert "It has 1g.5gb" in find_way(A100, [], [], {"1g.12gb": 1}).why
    assert "cannot start at memory slice 3" in find_way(A100, [Cut(3, "3g.20gb")], [], {}).why


@pytest.mark.parametrize("seed", range(25))
def test_a_way_ends_in_what_was_wanted_and_touches_nothing_in_use(seed):
    rng = random.Random(seed)
    model = rng.choice(list(MODELS.values()))
    plain = tuple(name for name in model.by_name if "+" not in name and "-" not in name)
    layouts = list_layouts(model, plain)
    present, target = rng.choice(layouts), rng.choice(layouts)
    in_use = tuple(cut for cut in present if rng.random() < 0.4)
    way = find_way(model, present, in_use, dict(counts_of(target)))
    if not way.exists:
        possible = [one for one in layouts if counts_of(one) == counts_of(target) and set(in_use) <= set(one)]
        assert possible == []
        return
    assert counts_of(way.layout) == counts_of(target)
    assert not why_illegal(model, way.layout)
    assert set(in_use) <= set(way.layout)
    assert set(present) - set(way.destroyed) | set(way.created) == set(way.layout)


def test_who_is_on_a_gpu_is_named():
    snapshot = mig_cluster({"n1": ["1g@0:a 1g@1"], "n2": ["2g@0 1g@2"]})
    nodes = snapshot.nodes
    assert why_not_now(nodes["n1"], snapshot.pods_on("n1")) == "1g.5gb instance in use by team/n1-a."
    assert why_not_now(nodes["n2"], snapshot.pods_on("n2")) == ""


def test_somebody_whose_instance_nobody_names_is_in_the_way_as_well():
    snapshot = mig_cluster({"n1": ["1g@0:a 1g@1"]}, facts={"n1": {"holdings": None}})
    assert why_not_now(snapshot.nodes["n1"], snapshot.pods_on("n1")) == "1g.5gb instance in use by team/n1-a."
