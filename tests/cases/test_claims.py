"""Devices that come by resource claims: who has them, and how often they count."""

from __future__ import annotations

from apps.planner.rooms import free_room
from tests.cases.reading import ledger, read
from tests.kube.objects import node, pod


def claimed(name):
    """A pod that uses the claim `shared`."""
    return pod(
        name,
        gpus=0,
        on="node-a",
        spec={
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}],
            "containers": [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}],
        },
    )


def dra_objects():
    devices = [
        {"name": f"gpu-{at}", "attributes": {"uuid": {"string": f"GPU-{at}"}, "type": {"string": "gpu"}}}
        for at in range(2)
    ]
    pool = {"name": "node-a", "generation": 1, "resourceSliceCount": 1}
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-a", "device": "gpu-1"}
    users = [{"resource": "pods", "name": one, "uid": f"uid-{one}"} for one in ("left", "right")]
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "node-a-gpu", "uid": "slice"},
            "spec": {"driver": "gpu.nvidia.com", "nodeName": "node-a", "pool": pool, "devices": devices},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "shared", "namespace": "team-a", "uid": "claim"},
            "spec": {},
            "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": users},
        },
    ]


def test_a_claim_that_two_pods_share_takes_its_device_once():
    bare = node(gpus=0, capacity={"nvidia.com/gpu": "0"}, labels={"nvidia.com/gpu.count": "2"})
    found = ledger(read(bare, *dra_objects(), claimed("left"), claimed("right")))
    assert (found.physical, found.allocated_milli, found.free) == (2, 1000, 1)
    held = found.device("GPU-1")
    assert (held.taken_milli, held.over_milli, held.flags) == (1000, 0, ())
    assert {taker.pod for taker in held.takers} == {"team-a/left", "team-a/right"}


def test_a_claim_that_no_pod_uses_keeps_its_device():
    bare = node(gpus=0, capacity={"nvidia.com/gpu": "0"}, labels={"nvidia.com/gpu.count": "2"})
    slices, claim = dra_objects()
    kept = {**claim, "status": {**claim["status"], "reservedFor": []}}
    snapshot = read(bare, slices, kept)
    found = ledger(snapshot)
    assert (found.allocated_milli, found.free) == (1000, 1)
    held = found.device("GPU-1")
    assert [taker.pod for taker in held.takers] == ["claim team-a/shared, no pod"]
    room = free_room(snapshot).by_node["node-a"]
    assert 1 not in room.usable


def test_what_plugin_and_claims_give_out_beyond_the_cards_is_said():
    offering = node(gpus=2, labels={"nvidia.com/gpu.count": "2"})
    found = ledger(read(offering, *dra_objects(), claimed("left"), pod("both", gpus=2, on="node-a")))
    assert (found.physical, found.overcommitted) == (2, 1)
    fitting = ledger(read(offering, *dra_objects(), claimed("left"), pod("one", gpus=1, on="node-a")))
    assert fitting.overcommitted == 0
