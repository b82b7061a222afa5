"""What a node still says about itself although it is not so any more."""

from __future__ import annotations

import json

import pytest

from apps.planner.counting import count_gpus
from apps.planner.defrag import plan_free_nodes
from apps.planner.waiting import explain_pending
from tests.cases.reading import HOLDERS, MATRIX, holders, ledger, matrix, read
from tests.kube.objects import node, pod

REGISTER = json.dumps(
    [
        {"id": f"GPU-{at}", "index": at, "count": 10, "devmem": 46068, "devcore": 100, "type": "NVIDIA L40S"}
        | {"numa": 0, "health": True}
        for at in range(2)
    ]
)


def hami_node(handshake, name="node-a", offered=20, heard="2026-02-01T09:00:00Z"):
    return node(
        name,
        gpus=offered,
        product="",
        annotations={"hami.io/node-handshake": handshake, "hami.io/node-nvidia-register": REGISTER},
        ready={"lastHeartbeatTime": heard},
    )


@pytest.mark.parametrize(
    ("handshake", "schedulable"),
    [
        ("Reported 2026-02-01 08:59:40", 2),
        ("Deleted_2026.02.01 08:59:40", 0),
        ("Requesting_2026.02.01 08:00:00", 0),
    ],
)
def test_cards_of_a_plugin_that_is_gone_stay_shown_and_are_planned_by_nobody(handshake, schedulable):
    snapshot = read(
        hami_node(handshake),
        node("node-b", gpus=20, product=""),
        pod("guest", on="node-a"),
        pod("other", on="node-b"),
    )
    found = ledger(snapshot)
    assert (found.physical, found.schedulable) == (2, schedulable)
    told = snapshot.nodes["node-a"]
    assert (told.stale_since is not None) is (schedulable == 0)
    plan = plan_free_nodes(snapshot, max_moves=5, deadline=lambda: False)
    assert schedulable or not any("node-a" in (move.source, move.target) for move in plan.moves)


def test_a_powered_off_nodes_annotations_are_no_gpus_to_give():
    facts = {MATRIX: matrix("GPU-1", "GPU-2"), HOLDERS: holders()}
    off = node(
        gpus=2,
        annotations=facts,
        ready={
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "lastTransitionTime": "2026-01-09T00:00:00Z",
        },
    )
    snapshot = read(off, node("node-b", gpus=1), pod("asks", gpus=2))
    found = ledger(snapshot)
    assert (found.physical, found.schedulable, found.free) == (2, 0, 0)
    assert found.closed == "not Ready (NodeStatusUnknown)"
    counts = count_gpus(snapshot)
    assert (counts.physical, counts.schedulable) == (3, 1)
    [waits] = explain_pending(snapshot)
    assert waits.reason_code != "fits"


def test_a_pod_that_names_a_node_that_is_gone_is_told_so():
    spec = {"nodeSelector": {"kubernetes.io/hostname": "node-z"}}
    [waits] = explain_pending(read(node(gpus=8), pod("asks", gpus=1, spec={**pod()["spec"], **spec})))
    assert waits.reason_code == "node-selector"
    assert "No node has the label kubernetes.io/hostname=node-z" in waits.sentence


def test_a_scheduler_that_names_a_pod_that_is_gone_holds_nothing_by_it():
    facts = {MATRIX: matrix("GPU-1", "GPU-2"), HOLDERS: holders(GPU_1=[("uid-ghost", "ghost")])}
    found = ledger(read(node(gpus=2, annotations=facts)))
    assert (found.allocated_milli, found.free) == (0, 2)


def test_more_gpus_on_the_label_than_the_agent_sees_is_told():
    told = read(
        node(gpus=2, labels={"nvidia.com/gpu.count": "4"}, annotations={MATRIX: matrix("GPU-1", "GPU-2")})
    ).nodes["node-a"]
    assert len(told.gpus) == 2
    assert any("says 4 GPUs, the node agent sees 2" in one for one in told.warnings)
