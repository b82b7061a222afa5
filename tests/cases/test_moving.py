"""What goes wrong when pods are moved: the cases that no other folder has a test of (docs/samples.md)."""

from __future__ import annotations

import json

import pytest

from apps.kube import errors
from apps.kube.answers import error_of
from apps.kube.connection import Answer, Request
from apps.planner.defrag import plan_free_nodes
from apps.planner.fitting import Fitting
from apps.planner.movability import movability
from apps.planner.rooms import Rooms
from apps.planner.verification import check_plan
from apps.planner.waiving import is_waivable
from tests.cases.reading import read
from tests.kube.objects import node, pod

EVICTION = Request("POST", "/api/v1/namespaces/vms/pods/virt-launcher-a/eviction")
WEBHOOK = 'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: '


def plan_of(snapshot):
    plan = plan_free_nodes(snapshot, max_moves=9, deadline=lambda: False)
    assert check_plan(snapshot, plan) == []
    return plan


@pytest.mark.parametrize(
    ("message", "request_", "kind"),
    [
        (WEBHOOK + 'Eviction triggered evacuation of VMI "vms/a"', EVICTION, errors.MovedByItsOwner),
        (WEBHOOK + "ask again in a minute", EVICTION, errors.TooManyRequests),
        ("Too many requests, please try again later: migration", EVICTION, errors.TooManyRequests),
        (WEBHOOK + "evacuation", Request("PATCH", "/api/v1/nodes/a"), errors.TooManyRequests),
        (
            "Cannot evict pod as it would violate the pod's disruption budget.",
            EVICTION,
            errors.BudgetExhausted,
        ),
    ],
)
def test_a_429_that_began_a_live_migration_is_no_refusal(message, request_, kind):
    """descheduler#1397: the eviction was asked for again and again, while the machine was being moved."""
    status = {"kind": "Status", "code": 429, "message": message}
    assert type(error_of(Answer(429, {}, json.dumps(status).encode()), request_)) is kind


def test_a_virtual_machine_is_left_to_its_own_mover():
    """descheduler#1397: its pod is not steered by us, and no waiver makes it so."""
    launcher = pod("virt-launcher-a", on="node-a", owner=("VirtualMachineInstance", "a"))
    [sentence] = movability(
        read(node(), launcher), read(node(), launcher).pods["uid-virt-launcher-a"]
    ).reasons
    assert sentence == "it runs the virtual machine a, which KubeVirt itself moves by live migration"
    assert not is_waivable(sentence)


@pytest.mark.parametrize(
    ("annotations", "target"),
    [
        ({}, "other"),
        ({"defrag.gpu.internal/checkpoint": "true"}, "same"),
        ({"defrag.gpu.internal/checkpoint-done": "2026-01-02T00:00:00Z"}, "same"),
        ({"defrag.gpu.internal/checkpoint": "false"}, "other"),
    ],
)
def test_what_was_saved_on_a_gpu_is_moved_to_the_same_model_only(annotations, target):
    """cuda-checkpoint#18, #54: a restore on another type of GPU fails, and the work is lost."""
    rest = [pod("full", on="other", gpus=7, owner=None), pod("half", on="same", gpus=4, owner=None)]
    moved = pod("saved", on="node-a", annotations=annotations)
    snapshot = read(node(), node("same"), node("other", product="H100-PCIE-80GB"), moved, *rest)
    assert [move.target for move in plan_of(snapshot).moves] == [target]


def test_saved_work_without_another_node_of_its_model_stays():
    """cuda-checkpoint#18, #54; the checker by its own reading, too."""
    other, full = node("other", product=""), pod("full", on="other", gpus=4, owner=None)
    plain = read(node(), other, full, pod("saved", on="node-a"))
    saves = pod("saved", on="node-a", annotations={"defrag.gpu.internal/checkpoint": "true"})
    assert plan_of(read(node(), other, full, saves)).moves == ()
    plan = plan_of(plain)
    assert [move.target for move in plan.moves] == ["other"]
    [fault] = check_plan(read(node(), other, full, saves), plan)
    assert fault == "team-a/saved saved its work on A100-SXM4-80GB, other has other GPUs"


def test_saved_work_of_a_pod_without_gpus_goes_anywhere():
    worker = pod("worker", on="node-a", gpus=0, annotations={"defrag.gpu.internal/checkpoint": "true"})
    snapshot = read(node(), node("other", product="H100-PCIE-80GB"), worker)
    assert Fitting(Rooms(snapshot)).static_reasons(snapshot.pods["uid-worker"], snapshot.nodes["other"]) == ()
