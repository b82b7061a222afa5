"""What went wrong for users of MIG: layouts that never came, were believed too early, or could not be."""

from __future__ import annotations

import json

import pytest

from apps.clusters.mig_files import read_mig_text
from apps.clusters.mig_listing_answer import Question
from apps.kube.mig_configs import find_configs
from apps.planner.ledger_rows import Standing
from apps.planner.mig.catalogue import MODELS, UnknownModel, find_model
from apps.planner.mig.changing import Stage, is_stuck, read_change
from apps.planner.mig.facts import idle_gpus
from apps.planner.mig.named import find_named, told_layouts
from apps.planner.mig.planning import plan_mig
from tests.cases.reading import HOLDERS, MATRIX, holders, ledger, matrix, read
from tests.kube.objects import node, pod

A100 = MODELS["A100-80GB"]
MIXED = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/mig.strategy": "mixed",
    "nvidia.com/mig.capable": "true",
}
CUT = {"GPU-1": [{"profile": "2g.20gb", "start": at, "uuid": f"MIG-{at}"} for at in (0, 2, 4)]}


def mig_node(config="", state="", *, count=1, offers=None, annotations=None, **labels):
    told = {**MIXED, "nvidia.com/gpu.count": str(count)}
    if config:
        told["nvidia.com/mig.config"] = config
    if state:
        told["nvidia.com/mig.config.state"] = state
    told |= {f"nvidia.com/{name.replace('__', '.')}": value for name, value in labels.items()}
    amounts = {f"nvidia.com/mig-{name}": str(number) for name, number in (offers or {}).items()}
    whole = {"nvidia.com/gpu": "0"} if offers else {}
    return node(
        gpus=count,
        labels=told,
        capacity={**amounts, **whole},
        annotations=annotations or {},
    )


def wants(name, **profiles):
    asked = {f"nvidia.com/mig-{key[1:].replace('_', '.')}": str(number) for key, number in profiles.items()}
    return {"containers": [{"name": name, "resources": {"requests": asked, "limits": asked}}]}


def answer(one):
    return read_mig_text("node.json", json.dumps(one))


def change_of(one):
    return read_change(read(one).nodes["node-a"])


PAUSED = {"gpu__deploy__device-plugin": "paused-for-mig-change", "gpu__deploy__dcgm": "paused-for-mig-change"}


def test_a_pause_that_nobody_ends_is_stuck_after_ten_minutes_and_the_repair_is_said():
    wedged = mig_node("all-2g.20gb", "pending", count=2, **PAUSED)
    wedged["status"]["allocatable"]["nvidia.com/gpu"] = wedged["status"]["capacity"]["nvidia.com/gpu"] = "0"
    change = change_of(wedged)
    assert [is_stuck(change, minutes * 60) for minutes in (9, 11)] == [False, True]
    told = answer(wedged)
    assert (told["physical_gpus"], told["schedulable"], told["verdict"]) == (2, 0, "stuck")
    assert (told["state"], told["config_state"]) == ("stuck", "pending")
    assert "gpu.deploy.* labels back to true" in told["repair"]


def test_a_busy_gpu_is_not_relaid():
    told = {MATRIX: matrix("GPU-1", mig=CUT), HOLDERS: holders(MIG_2=[("uid-user", "user")])}
    held = mig_node(offers={"2g.20gb": 3}, annotations=told)
    guest = pod("user", gpus=0, on="node-a", spec=wants("main", p2g_20gb=1), owner=None)
    assert idle_gpus(read(held)) == {("node-a", 0)}
    assert idle_gpus(read(held, guest)) == frozenset()


@pytest.mark.parametrize(
    ("offers", "stage"),
    [
        ({"1g.10gb": 7}, Stage.DONE),
        ({"1g.10gb": 7, "2g.20gb": 0}, Stage.DONE),  # a key of an earlier layout is left at zero
        ({"2g.20gb": 3}, Stage.WRONG),
        ({}, Stage.WRONG),
    ],
)
def test_success_is_believed_only_when_the_instances_are_offered(offers, stage):
    change = change_of(mig_node("all-1g.10gb", "success", offers=offers))
    assert change.stage is stage
    assert answer(mig_node("all-1g.10gb", "success", offers=offers))["done"] is (stage is Stage.DONE)


def test_a_node_whose_change_failed_is_not_planned_on():
    failed = mig_node("all-3g.40gb", "failed", offers={"2g.20gb": 3})
    waiting = pod("asks", gpus=0, spec=wants("main", p3g_40gb=1))
    plan = plan_mig(read(failed, waiting), max_moves=5, deadline=lambda: False)
    assert plan.reconfigurations == ()
    assert any("node-a is left as it is" in one for one in plan.relaxed)


def test_an_operand_left_paused_after_a_failure_is_found():
    change = change_of(mig_node("all-3g.40gb", "failed", **PAUSED))
    assert change.paused == ("dcgm", "device-plugin")
    assert change_of(mig_node("all-3g.40gb", "success", **PAUSED)).stage is Stage.WRONG


def test_a_profile_of_another_memory_size_is_refused_with_those_the_model_has():
    entry = "version: v1\nmig-configs:\n  it: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]\n"
    told = read_mig_text("a.yaml", entry, Question(A100))
    assert told["valid"] == {"it": False}
    assert told["why"]["it"] == "A100-80GB has no profile 1g.5gb. It has 1g.10gb, 1g.10gb+me, 1g.20gb."


@pytest.mark.parametrize("product", ["NVIDIA-H100-64GB", "NVIDIA-B777", "GRID-A100X-8C", "NVIDIA-A100"])
def test_a_model_that_no_table_knows_is_refused_and_not_guessed(product):
    with pytest.raises(UnknownModel):
        find_model(product)
    stranger = mig_node(offers={"2g.20gb": 1})
    stranger["metadata"]["labels"]["nvidia.com/gpu.product"] = product
    waiting = pod("asks", gpus=0, spec=wants("main", p3g_40gb=1))
    plan = plan_mig(read(stranger, waiting), max_moves=5, deadline=lambda: False)
    assert plan.reconfigurations == ()


def test_a_known_model_with_the_memory_of_another_is_refused():
    assert find_model("NVIDIA-A100-SXM4-80GB", 81920) is A100
    with pytest.raises(UnknownModel, match="has 40960 MiB here"):
        find_model("NVIDIA-A100-SXM4-80GB", 40960)


EMPTY = """
version: v1
mig-configs:
  on-and-empty: [{devices: all, mig-enabled: true, mig-devices: {}}]
  halves: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}]
"""


def test_mig_on_without_an_instance_is_warned_of_and_never_planned():
    told = read_mig_text("a.yaml", EMPTY)
    assert [one for one in told["warnings"] if one.startswith("on-and-empty: MIG is switched on without")]
    configs = find_configs(EMPTY)
    assert told_layouts(configs["on-and-empty"], [0], A100) is None
    assert find_named(configs, {0: {"3g.40gb": 2}}, {0: {}}, A100) is None
    waiting = pod("asks", gpus=0, spec=wants("main", p3g_40gb=1))
    plan = plan_mig(read(mig_node(offers={"2g.20gb": 3}), waiting), max_moves=5, deadline=lambda: False)
    assert plan.reconfigurations
    assert all(one.after for one in plan.reconfigurations)


def test_a_cordon_of_somebody_else_is_not_ours_and_keeps_the_node_closed():
    theirs = {**mig_node(offers={"2g.20gb": 3}), "spec": {"unschedulable": True}}
    ours = mig_node(
        offers={"2g.20gb": 3}, annotations={"defrag.gpu.internal/cordon": '{"execution": 4, "reason": "x"}'}
    )
    assert read(theirs).nodes["node-a"].cordon == ""
    assert read(ours).nodes["node-a"].cordon
    assert ledger(read(theirs)).closed == "cordoned"
    waiting = pod("asks", gpus=0, spec=wants("main", p3g_40gb=1))
    assert plan_mig(read(theirs, waiting), max_moves=5, deadline=lambda: False).reconfigurations == ()


def test_instances_of_a_failed_gpu_are_nobodys():
    told = {MATRIX: matrix("GPU-1", mig=CUT, GPU_1={"healthy": False}), HOLDERS: holders()}
    found = ledger(read(mig_node(offers={"2g.20gb": 3}, annotations=told)))
    assert (found.schedulable, found.free, found.main.unhealthy) == (0, 0, 1)
    [card] = found.devices
    assert card.standing is Standing.UNHEALTHY
    assert {one.standing for one in card.instances} == {Standing.UNHEALTHY}
    waiting = pod("asks", gpus=0, spec=wants("main", p2g_20gb=1))
    snapshot = read(mig_node(offers={"2g.20gb": 3}, annotations=told), waiting)
    assert plan_mig(snapshot, max_moves=5, deadline=lambda: False).unlocked == ()
