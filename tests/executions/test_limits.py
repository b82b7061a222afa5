"""What a real API server lets the console's account write, with the manifests as they are shipped."""

import itertools
import os

import pytest

from apps.kube.errors import KubeError
from apps.kube.gateway import NODES, PODS
from apps.kube.kubernetes_gateway import KubernetesGateway
from tests.cluster_fixtures import wait_until
from tests.control_plane import WHY_SKIPPED, control_plane  # noqa: F401 (a fixture)
from tests.executions.real_cluster import apply_manifests, delete_manifests

pytestmark = [
    pytest.mark.control_plane,
    pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason=WHY_SKIPPED),
]
LIMITS = "admission/limits.yaml"
OURS = "defrag.gpu.internal"
HELD = {"key": f"{OURS}/held", "value": "v", "effect": "NoSchedule"}


def pod(name, *gates):
    spec = {
        "containers": [{"name": "main", "image": "x"}],
        "schedulingGates": [{"name": gate} for gate in gates],
    }
    return {"metadata": {"name": name, "annotations": {"theirs": "1"}}, "spec": spec}


@pytest.fixture
def console(control_plane):  # noqa: F811
    apply_manifests(control_plane, "rbac/reader.yaml", "rbac/executor.yaml", LIMITS)
    account = "/api/v1/namespaces/gpu-defrag/serviceaccounts/gpu-defrag-console/token"
    wish = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    given = control_plane.ask("POST", account, wish)
    node = {"metadata": {"name": "limited", "annotations": {"theirs": "1"}}}
    control_plane.ask("POST", "/api/v1/nodes", node)
    where = "/api/v1/namespaces/default/pods"
    control_plane.ask("POST", where, pod("ours", f"{OURS}/steer", "example.com/theirs"))
    control_plane.ask("POST", where, pod("theirs", "example.com/theirs"))
    login = control_plane.credentials
    yield KubernetesGateway(server=login.server, ca=login.ca, token=given["status"]["token"])
    delete_manifests(control_plane, LIMITS)
    control_plane.ask("DELETE", "/api/v1/nodes/limited")
    for name in ("ours", "theirs"):
        control_plane.ask("DELETE", f"{where}/{name}", {"gracePeriodSeconds": 0})


def refusal(console, kind, name, change, **how):
    try:
        namespace = None if kind is NODES else "default"
        console.patch_object(kind, name, change, namespace=namespace, **how)
    except KubeError as error:
        return str(error)
    return ""


def test_the_consoles_account_writes_its_own_marks_and_nothing_else(console):
    def node(change):
        return refusal(console, NODES, "limited", change)

    def drop(gate):
        return {"spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]}}

    numbers = itertools.count()

    def write_foreign():
        """Another value each time: what went through before the policy was in force is no change again."""
        return node({"metadata": {"labels": {"theirs": str(next(numbers))}}})

    wait_until(write_foreign, seconds=60, what="the policy does nothing")
    assert "no annotations of a Node" in node({"metadata": {"annotations": {"theirs": None}}})
    assert "no taints of a Node" in node({"spec": {"taints": [{**HELD, "key": "theirs"}]}})
    cordon = {"metadata": {"annotations": {f"{OURS}/cordon": "{}"}}, "spec": {"unschedulable": True}}
    assert node(cordon) == ""
    assert node({"metadata": {"labels": {"nvidia.com/mig.config": "x"}}}) == ""

    assert "no scheduling gate" in refusal(console, PODS, "ours", drop("example.com/theirs"), strategic=True)
    pin = {"nodeSelector": {"kubernetes.io/hostname": "limited"}}
    assert "pins only pods" in refusal(console, PODS, "theirs", {"spec": pin})
    assert "no labels" in refusal(console, PODS, "ours", {"metadata": {"labels": {"a": "1"}}})
    failed = {"status": {"phase": "Failed"}}
    assert "but its nomination" in refusal(console, PODS, "ours", failed, subresource="status")
    nominated = {"status": {"nominatedNodeName": "limited"}}
    assert refusal(console, PODS, "ours", nominated, subresource="status") == ""
    landing = {"spec": {**pin, **drop(f"{OURS}/steer")["spec"]}}
    assert refusal(console, PODS, "ours", landing, strategic=True) == ""
