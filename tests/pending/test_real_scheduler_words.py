"""Our reasons beside kube-scheduler's own message, on a real control plane: the same counts, node by node."""

import os
import time

import pytest

from apps.kube.gateway import NODES, PODS
from apps.kube.translate import build_snapshot
from apps.planner.waiting import explain_pending
from tests.cluster_fixtures import wait_until
from tests.control_plane import WHY_SKIPPED, control_plane  # noqa: F401
from tests.executions.real_cluster import (
    NAMESPACE,
    Kubelets,
    clear,
    exists,
    make_stranger,
    pods,
    ready_nodes,
)

pytestmark = [
    pytest.mark.control_plane,
    pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason=WHY_SKIPPED),
    pytest.mark.timeout(300),
]
SECONDS = 90
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]
        }
    }
}
SHY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"stranger": "yes"}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
EXPECTED = {
    "too-large": ("too-large", {"gpu": 2, "taint": 1, "cordoned": 1}),
    "scattered": ("gpus-scattered", {"gpu": 2, "taint": 1, "cordoned": 1}),
    "elsewhere": ("node-selector", {"selector": 2, "taint": 1, "cordoned": 1}),
    "affine": ("node-selector", {"selector": 2, "taint": 1, "cordoned": 1}),
    "no-model": ("no-such-model", {"selector": 2, "taint": 1, "cordoned": 1}),
    "hungry": ("cpu", {"cpu": 2, "taint": 1, "cordoned": 1}),
    "shy": ("pod-affinity", {"pod-affinity": 2, "taint": 1, "cordoned": 1}),
    "gated": ("gated", {}),
}
"""By pod: our main reason, and the counts that kube-scheduler gives."""


@pytest.fixture
def plane(control_plane):  # noqa: F811
    """Four nodes of 8 A100s: two open with 3 GPUs taken each, one cordoned, one with a taint."""
    if not control_plane.has_controllers:
        pytest.fail("this story needs kube-controller-manager and kube-scheduler in KUBEBUILDER_ASSETS")
    kubelets = Kubelets(control_plane, time_scale=10)
    furnish(control_plane)
    yield control_plane
    clear(control_plane)
    kubelets.stop()


def furnish(plane):
    if not exists(plane, f"/api/v1/namespaces/{NAMESPACE}"):
        plane.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    wait_until(lambda: exists(plane, account), seconds=SECONDS, what="the namespace's service account")
    for number in range(1, 5):
        marks = {"sim.gpu.internal/hardware": "a100-sxm4-80gb:8"}
        plane.ask("POST", "/api/v1/nodes", {"metadata": {"name": f"gpu-{number}", "annotations": marks}})
    wait_until(lambda: len(ready_nodes(plane)) == 4, seconds=SECONDS, what="four Ready nodes")
    plane.ask("PATCH", "/api/v1/nodes/gpu-3", {"spec": {"unschedulable": True}})
    taint = {"key": "team", "value": "blue", "effect": "NoSchedule"}
    plane.ask("PATCH", "/api/v1/nodes/gpu-4", {"spec": {"taints": [taint]}})
    wait_until(lambda: len(taints(plane)) == 2, seconds=SECONDS, what="the taints")
    for number in (1, 2):
        hostname = {"kubernetes.io/hostname": f"gpu-{number}"}
        make_stranger(plane, f"runs-{number}", gpus=3, nodeSelector=hostname)
    wait_until(lambda: running(plane) == 2, seconds=SECONDS, what="two running pods")


def taints(plane):
    nodes = plane.ask("GET", "/api/v1/nodes")["items"]
    return {node["metadata"]["name"] for node in nodes if node["spec"].get("taints")}


def running(plane):
    return sum(pod["status"]["phase"] == "Running" for pod in pods(plane))


def explain(plane, without=""):
    """By the pod's name; as if the node `without` had gone since the scheduler spoke."""
    objects = {kind: plane.ask("GET", f"/api/v1/{name}")["items"] for kind, name in READ.items()}
    objects[NODES] = [node for node in objects[NODES] if node["metadata"]["name"] != without]
    found = explain_pending(build_snapshot("real", objects, time.time()))
    return {one.key.partition("/")[2]: one for one in found}


READ = {NODES: "nodes", PODS: "pods"}


def test_our_counts_are_those_of_kube_scheduler(plane):
    make_stranger(plane, "too-large", gpus=16)
    make_stranger(plane, "scattered", gpus=8)
    make_stranger(plane, "elsewhere", gpus=1, nodeSelector={"pool": "gone"})
    make_stranger(plane, "affine", gpus=1, affinity=AFFINITY)
    make_stranger(plane, "no-model", gpus=1, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100"})
    hungry = {"name": "main", "image": "x", "resources": {"limits": {"cpu": "10000"}}}
    make_stranger(plane, "hungry", containers=[hungry])
    make_stranger(plane, "shy", affinity=SHY)
    make_stranger(plane, "gated", schedulingGates=[{"name": "example.com/wait"}])

    def are_told():
        found = explain(plane)
        return len(found) == len(EXPECTED) and all(
            one.saying.message for key, one in found.items() if key != "gated"
        )

    wait_until(are_told, seconds=SECONDS, what="a message about each pod")
    found = explain(plane)
    for key, one in found.items():
        print(f"{key}: {one.sentence}\n    kube-scheduler: {one.saying.message}")
    assert {key: (one.reason_code, dict(one.saying.by_kind)) for key, one in found.items()} == EXPECTED
    assert {key: dict(one.first) for key, one in found.items() if key != "gated"} == {
        key: counts for key, (_, counts) in EXPECTED.items() if key != "gated"
    }
    assert {one.differs for key, one in found.items() if key != "gated"} == {""}
    overtaken = explain(plane, without="gpu-3")["scattered"].differs
    assert overtaken.startswith(
        "kube-scheduler counted 4 nodes, the snapshot has 3: its message is from before"
    )
