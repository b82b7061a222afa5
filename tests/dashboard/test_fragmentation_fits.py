"""What still fits, beside FGD and under its own names, on the Fragmentation page."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.dashboard.reading.fits import tell_fits
from apps.dashboard.reading.trend import Trend
from apps.fragmentation.trends import Scope, TrendPoint
from tests.dashboard.conftest import log_in
from tests.dashboard.test_grid_pages import text_of

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
GROUPS = {"nvlink": {"2": 5, "4": 2, "8": 0}, "node": {"2": 9, "4": 4, "8": 1}}
MEMORY = {"whole_mib": 81920, "shared_mib": 4096, "crumbs_mib": 1024, "unknown_gpus": 0, "shares": []}


def fits_of(**body):
    point = TrendPoint(1, 1, NOON, NOON, {"link_groups": GROUPS, **body})
    return tell_fits(Trend("1h", Scope(), NOON, NOON + timedelta(hours=1), [point], [], [], []))


def shape(**facts):
    known = {
             "workload": "train", "gpus_per_pod": 8, "milli": 1000, "memory_mib": None, "link": "nvlink",
             "profiles": {}, "waiting_pods": 4, "startable_pods": 1, "nodes": 1, "at_most": False,
    }  # fmt: skip
    return {**known, **facts}


def test_groups_are_told_by_how_closely_they_are_tied():
    fits = fits_of(links_unknown_nodes=1)

    assert [(line.tie, line.counts) for line in fits.groups] == [
        ("NVLink", [5, 2, 0]),
        ("same node", [9, 4, 1]),
    ]
    assert fits.note == "1 node with free GPUs does not tell their links."


@pytest.mark.parametrize(
    ("facts", "words", "count"),
    [
        ({}, "8 GPUs, NVLink", "1"),
        ({"at_most": True, "link": ""}, "8 GPUs", "at most 1"),
        ({"milli": 250, "gpus_per_pod": 1, "link": ""}, "1 × 0.25 GPU", "1"),
        ({"milli": 1, "gpus_per_pod": 1, "memory_mib": 10240, "link": ""}, "1 × 10 GiB", "1"),
        ({"gpus_per_pod": 0, "profiles": {"3g.40gb": 2}}, "2 × 3g.40gb", "1"),
    ],
)
def test_the_queue_is_told_by_shape(facts, words, count):
    (line,) = fits_of(startable=[shape(**facts)]).queue

    assert (line.workload, line.shape, line.waiting, line.startable) == ("train", words, 4, count)


def test_of_many_shapes_the_rest_is_counted():
    fits = fits_of(startable=[shape()] * 9)

    assert (len(fits.queue), fits.more) == (6, 3)


def test_memory_mig_and_what_is_wanted_are_sentences():
    share = {
        "resource": "nvidia.com/gpu",
        "gpus": 1,
        "milli": 500,
        "memory_mib": None,
        "wanted": 3,
        "fit": 12,
    }
    mig = {"uncut_memory_slices": 3, "memory_slices": 16, "more_fit": {"1g.5gb": 3, "7g.40gb": 0}}
    wanted = {"basis": "window", "window_hours": 24.0, "requests": 1200, "pending_longer": 1, "shapes": 3}

    assert fits_of(gpu_memory={**MEMORY, "shares": [share]}, mig=mig, wanted=wanted).lines == [
        "GPU memory left: 80 GiB on free GPUs, 4 GiB on shared ones, "
        "1 GiB of it too little for any wanted share.",
        "Shares that fit, each size alone: 12 × 0.5 GPU.",
        "MIG: 3 of 16 memory slices are uncut; as they are cut, each profile alone, 3 × 1g.5gb would fit.",
        "Wanted: 1,200 pods asked for in 24 h and 1 pod that waits for longer.",
    ]
    assert fits_of(wanted={**wanted, "basis": "running"}).lines == [
        "Nobody asked for a GPU in 24 h, so what runs counts as wanted."
    ]
    assert fits_of(wanted={**wanted, "basis": "dump"}).lines == ["Wanted: what the pods of the dump ask for."]


def test_a_report_older_than_these_measures_tells_none():
    assert fits_of(link_groups={}) is None


@pytest.mark.django_db(transaction=True)
def test_the_page_shows_what_still_fits(viewer, picture):
    page = text_of(log_in(viewer).get("/clusters/gpu-east-1/fragmentation/"))

    assert "What still fits so many groups of free GPUs, each size by itself" in page
    assert "Wanted:" in page
