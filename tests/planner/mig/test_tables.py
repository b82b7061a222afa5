"""The placement tables: every row legal, the known figures met, no model guessed."""

import pytest

from apps.planner.mig.catalogue import (
    MODELS,
    UnknownModel,
    find_model,
    profile_resource,
    resource_profile,
    warn_about,
)
from apps.planner.mig.layouts import (
    Cut,
    counts_of,
    free_starts,
    how_many_more,
    list_full_layouts,
    list_layouts,
    uncut_slices,
    why_illegal,
)
from apps.planner.mig.models import SOURCES
from apps.planner.mig.placing import place_counts, reach_layout, why_unplaceable

A100 = MODELS["A100-40GB"]
H100 = MODELS["H100-80GB"]
RTX = MODELS["RTX-PRO-6000-Blackwell-96GB"]
CLASSIC = ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")
EVERY_MODEL = pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))


@EVERY_MODEL
def test_each_row_can_be_cut_alone_and_as_often_as_it_says(model):
    for profile in model.profiles:
        assert profile.memory_slices <= model.axis
        assert set(profile.starts) <= set(range(model.axis - profile.memory_slices + 1))
        assert all(not why_illegal(model, [Cut(start, profile.name)]) for start in profile.starts)
        assert how_many_more(model, (), profile.name) == profile.most
    assert set(model.sources) <= set(SOURCES)


@EVERY_MODEL
def test_no_legal_layout_exceeds_the_compute_slices(model):
    base = tuple(name for name in model.by_name if "+" not in name)
    for layout in list_layouts(model, base):
        assert why_illegal(model, layout) == ""
        assert sum(model.by_name[cut.profile].compute_slices for cut in layout) <= model.compute_slices


def test_an_a100_has_nineteen_full_layouts_in_fourteen_kinds():
    full = list_full_layouts(A100, CLASSIC)
    assert len(full) == 19
    assert len({counts_of(layout) for layout in full}) == 14


def test_with_the_double_memory_profile_there_are_more():
    full = list_full_layouts(A100, (*CLASSIC, "1g.10gb"))
    assert (len(full), len({counts_of(layout) for layout in full})) == (78, 38)


@pytest.mark.parametrize(
    ("product", "model"),
    [
        ("NVIDIA-A100-SXM4-40GB", "A100-40GB"),
        ("A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "A100-80GB"),
        ("NVIDIA-A30-SHARED", "A30-24GB"),
        ("NVIDIA-H100-80GB-HBM3", "H100-80GB"),
        ("NVIDIA H100 NVL", "H100-94GB"),
        ("NVIDIA-GH200-480GB", "H100-96GB"),
        ("H200", "H200-141GB"),
        ("NVIDIA B200", "B200-180GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-Blackwell-96GB"),
    ],
)
def test_products_are_known_by_their_names(product, model):
    assert find_model(product).name == model


@pytest.mark.parametrize("product", ["", "Tesla-T4", "A100", "A100-SXM4-48GB", "NVIDIA-L40S", "H100", "H20"])
def test_an_unknown_product_is_refused(product):
    with pytest.raises(UnknownModel, match="No MIG placement table"):
        find_model(product)


def test_a_product_with_another_memory_is_refused():
    assert find_model("NVIDIA-A100-SXM4-80GB", 81251).name == "A100-80GB"
    with pytest.raises(UnknownModel, match="40960 MiB"):
        find_model("NVIDIA-A100-SXM4-80GB", 40960)


def test_what_is_not_recorded_is_warned_about():
    assert warn_about(A100) == ""
    assert "inferred" in warn_about(MODELS["H200-141GB"])
    assert "uncertain" in warn_about(MODELS["GH200-144GB"])


@pytest.mark.parametrize("profile", ["1g.5gb", "1g.5gb+me", "1g.24gb+gfx", "1g.24gb+me.all", "1g.24gb-me"])
def test_a_profile_survives_the_way_over_its_resource(profile):
    resource = profile_resource(profile)
    assert "+" not in resource
    assert resource_profile(resource.removeprefix("nvidia.com/mig-")) == profile


@pytest.mark.parametrize(
    ("cuts", "reason"),
    [
        ([(0, "3g.20gb"), (4, "3g.20gb"), (6, "1g.5gb")], "overlaps"),
        ([(1, "2g.10gb")], "only at 0, 2, 4"),
        ([(0, "9g.90gb")], "no profile"),
        ([(0, "1g.5gb+me"), (1, "1g.5gb+me")], "at most 1"),
        ([(7, "1g.5gb")], "cannot start at memory slice 7"),
    ],
)
def test_an_illegal_layout_says_why(cuts, reason):
    assert reason in why_illegal(A100, [Cut(*cut) for cut in cuts])


def test_media_engines_are_one_pool_where_the_model_shares_them():
    whole = [Cut(0, "1g.24gb+me.all")]
    assert "1 x" not in why_illegal(RTX, whole)
    assert "video decoders" in why_illegal(RTX, [*whole, Cut(3, "1g.24gb")])
    assert why_illegal(RTX, [*whole, Cut(3, "1g.24gb-me"), Cut(6, "2g.48gb-me")]) == ""


def test_room_is_counted_by_start_slice_not_by_number():
    layout = (Cut(0, "1g.10gb"), Cut(1, "1g.10gb"), Cut(5, "1g.10gb"))
    more = {name: how_many_more(H100, layout, name) for name in ("3g.40gb", "4g.40gb", "2g.20gb")}
    assert more == {"3g.40gb": 0, "4g.40gb": 0, "2g.20gb": 1}
    moved = (Cut(0, "1g.10gb"), Cut(1, "1g.10gb"), Cut(2, "1g.10gb"))
    assert free_starts(H100, moved, "3g.40gb") == (4,)
    assert uncut_slices(H100, moved) == 5


def test_counts_find_their_start_slices():
    assert place_counts(A100, {"4g.20gb": 1, "3g.20gb": 1}) == (Cut(0, "4g.20gb"), Cut(4, "3g.20gb"))
    assert place_counts(A100, {"3g.20gb": 2, "1g.5gb": 1}) is None
    assert place_counts(A100, {"1g.23gb": 1}) is None
    assert place_counts(A100, {}) == ()


def test_counts_that_do_not_fit_say_why():
    assert "need 9 memory slices" in why_unplaceable(A100, {"3g.20gb": 2, "1g.5gb": 1})
    assert "at most 7" in why_unplaceable(A100, {"1g.5gb": 8})
    assert "start slices" in why_unplaceable(A100, {"4g.20gb": 1, "2g.10gb": 2})
    assert why_unplaceable(A100, {"2g.10gb": 3, "1g.5gb": 1}) == ""


def test_a_layout_is_reached_around_what_is_in_use():
    in_use = (Cut(4, "1g.5gb"),)
    reached = reach_layout(A100, in_use, {"1g.5gb": 1, "3g.20gb": 1})
    assert reached == (Cut(0, "3g.20gb"), Cut(4, "1g.5gb"))
    assert reach_layout(A100, in_use, {"3g.20gb": 2}) is None
    assert reach_layout(A100, (Cut(2, "1g.5gb"),), {"1g.5gb": 1, "4g.20gb": 1}) is None
