"""What a real API server lets the node agent do, with the manifests as they are shipped."""

import os
from pathlib import Path

import pytest
import yaml

from apps.kube.errors import KubeError
from apps.kube.gateway import NODES
from apps.kube.kubernetes_gateway import KubernetesGateway
from tests.cluster_fixtures import wait_until
from tests.control_plane import WHY_SKIPPED, control_plane  # noqa: F401 (a fixture)

pytestmark = [
    pytest.mark.control_plane,
    pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason=WHY_SKIPPED),
]
FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "agent"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/gpu-defrag-agent/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
}
MATRIX = {"metadata": {"annotations": {"topology.gpu.internal/matrix": "{}"}}}


def apply(plane, name):
    for manifest in yaml.safe_load_all((FOLDER / name).read_text()):
        plane.ask("POST", PATHS[manifest["kind"]], manifest)


@pytest.fixture
def agent(control_plane):  # noqa: F811
    """A gateway with the token of the agent's pod on the node `mine`."""
    for name in ("mine", "other"):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": {"a": "1"}}}
        control_plane.ask("POST", "/api/v1/nodes", node)
    apply(control_plane, "account.yaml")
    apply(control_plane, "policy.yaml")
    place = "/api/v1/namespaces/gpu-defrag-agent"
    spec = {
        "nodeName": "mine",
        "serviceAccountName": "node-agent",
        "containers": [{"name": "a", "image": "a"}],
    }
    pod = control_plane.ask(
        "POST",
        f"{place}/pods",
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent"}, "spec": spec},
    )
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "agent", "uid": pod["metadata"]["uid"]}
    wish = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    given = control_plane.ask(
        "POST", f"{place}/serviceaccounts/node-agent/token", {**wish, "spec": {"boundObjectRef": bound}}
    )
    login = control_plane.credentials
    return KubernetesGateway(server=login.server, ca=login.ca, token=given["status"]["token"])


def refusal(agent, name, change):
    try:
        agent.patch_object(NODES, name, change)
    except KubeError as error:
        return str(error)
    return ""


def test_the_agent_writes_its_two_annotations_of_its_own_node_and_nothing_else(agent):
    # A policy works a moment after it was made.
    wait_until(lambda: refusal(agent, "other", MATRIX), seconds=60, what="the policy does nothing")

    assert refusal(agent, "mine", MATRIX) == ""
    assert "only the node that it runs on" in refusal(agent, "other", MATRIX)
    assert "annotations only" in refusal(agent, "mine", {"metadata": {"labels": {"b": "2"}}})
    assert "annotations only" in refusal(agent, "mine", {"spec": {"unschedulable": True}})
    assert "own two annotations" in refusal(agent, "mine", {"metadata": {"annotations": {"b": "2"}}})
    assert "own two annotations" in refusal(agent, "mine", {"metadata": {"annotations": {"a": "2"}}})
    assert "removes no annotations" in refusal(agent, "mine", {"metadata": {"annotations": {"a": None}}})
