"""Drift: a node against what it has shown before."""

from dataclasses import replace

import pytest

from apps.planner.drift import Expected, find_drift, learn
from apps.planner.inventory import Gpu, Node, Topology

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"


def node(count=4, code="NV12", **fields):
    links = tuple(tuple("X" if a == b else code for b in range(count)) for a in range(count))
    return Node("n1", uid="u1", gpus=tuple(Gpu(i) for i in range(count)), topology=Topology(links), **fields)


def cut(count, state="success", config="all-1g.10gb"):
    labels = {CONFIG: config, STATE: state, "nvidia.com/mig-1g.10gb.count": str(count)}
    return node(labels=labels, allocatable={"nvidia.com/mig-1g.10gb": count} if count else {})


def test_a_count_that_is_no_number_counts_nothing():
    odd = node(labels={CONFIG: "all-1g.10gb", STATE: "success", "nvidia.com/mig-1g.10gb.count": "²"})
    assert learn(None, odd).instances == {}


def test_a_node_as_it_was_has_no_drift():
    assert find_drift(learn(None, node()), node()) == ()


def test_a_lost_gpu_is_told_whether_it_is_gone_or_sick():
    expected = learn(None, node(4))
    assert find_drift(expected, node(3)) == ("4 healthy GPUs were seen here, now there are 3",)
    sick = replace(node(4), gpus=(Gpu(0, healthy=False), Gpu(1), Gpu(2), Gpu(3)))
    assert find_drift(expected, sick) == ("4 healthy GPUs were seen here, now there are 3",)


def test_less_is_never_learned_and_more_always():
    expected = learn(learn(None, node(4)), node(3))
    assert find_drift(expected, node(3)) != ()
    assert learn(expected, node(8)).gpus == 8


def test_links_that_went_down_are_told_and_links_nobody_tells_are_not():
    expected = learn(None, node(4, "NV12"))
    assert find_drift(expected, node(4, "PHB")) == ("6 pairs of GPUs were joined by NVLink here, now 0 are",)
    assert find_drift(expected, replace(node(4), topology=None)) == ()
    assert learn(learn(None, node(4)), replace(node(4), topology=None)) == learn(None, node(4))


def test_a_layout_that_vanished_under_the_same_label_is_told():
    assert find_drift(learn(None, cut(28)), cut(0)) == (
        "the MIG layout all-1g.10gb offered 28 of 1g.10gb here, "
        "now 0 are offered though its label is the same",
    )


@pytest.mark.parametrize("now", [cut(0, state="pending"), cut(0, config="all-disabled"), cut(28)])
def test_a_layout_that_is_being_changed_or_was_changed_on_purpose_is_no_drift(now):
    assert find_drift(learn(None, cut(28)), now) == ()


def test_another_configuration_is_learned_afresh_once_it_has_settled():
    known = learn(None, cut(28))
    assert learn(known, cut(0, state="pending", config="other")) == known
    assert learn(known, cut(3, config="other")) == Expected(4, 6, "other", {"1g.10gb": 3})


def test_the_earlier_layout_is_not_learned_under_the_label_that_is_to_change_it():
    known = learn(None, cut(28))
    asked = cut(28, state="", config="other")
    assert learn(known, asked) == known
    paused = cut(28, config="other")
    paused = replace(paused, labels={**paused.labels, "nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"})
    assert learn(known, paused) == known
    half = replace(cut(28, config="other"), allocatable={})  # the device plugin is not back yet
    assert learn(known, half) == known
    assert find_drift(learn(learn(known, asked), half), cut(3, config="other")) == ()
