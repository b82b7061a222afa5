"""The official Python client and kubectl against the server, as the console and its operators use them."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from kubernetes import client, watch
from kubernetes.config import new_client_from_config_dict
from pydantic import ValidationError

from tests.simulator.api_server.conftest import NS, node, pod


@pytest.fixture
def core(api):
    connection = new_client_from_config_dict(yaml.safe_load(api.server.kubeconfig()))
    yield client.CoreV1Api(connection)
    connection.close()


@pytest.fixture
def kubectl(api, tmp_path):
    program = str(Path(sys.executable).parent / "kubectl")
    config = tmp_path / "kubeconfig"
    config.write_text(api.server.kubeconfig())

    def run(*arguments):
        command = [program, f"--kubeconfig={config}", f"--cache-dir={tmp_path}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_behaviour_57_the_client_lists_patches_and_watches(api, core):
    api.post("/api/v1/nodes", node())
    nodes = core.list_node()
    assert nodes.items[0].status.allocatable["nvidia.com/gpu"] == "8"
    core.patch_node("n1", {"metadata": {"labels": {"x": "1"}}})
    core.patch_node("n1", {"metadata": {"labels": {"x": None}}})
    core.patch_node("n1", [{"op": "add", "path": "/spec/unschedulable", "value": True}])
    stream = watch.Watch().stream(
        core.list_node, resource_version=nodes.metadata.resource_version, timeout_seconds=1
    )
    events = [
        (e["type"], e["object"].metadata.labels.get("x"), e["object"].spec.unschedulable) for e in stream
    ]
    assert events == [("MODIFIED", "1", None), ("MODIFIED", None, None), ("MODIFIED", None, True)]


def test_behaviour_56_the_client_evicts_and_reads_refusals(api, core):
    api.post(f"{NS}/pods", pod(nodeName="n1"))
    body = client.V1Eviction(metadata=client.V1ObjectMeta(name="p", namespace="default"))
    assert core.create_namespaced_pod_eviction("p", "default", body).kind == "Status"
    assert core.read_namespaced_pod("p", "default").metadata.deletion_timestamp is not None
    with pytest.raises(client.ApiException) as refused:
        core.read_namespaced_pod("nope", "default")
    assert (refused.value.status, refused.value.reason) == (404, "Not Found")


def test_behaviour_56_a_binding_binds_the_pod_whatever_the_client_makes_of_the_answer(api, core):
    for name, options in (("raises", {}), ("quiet", {"_preload_content": False})):
        api.post(f"{NS}/pods", pod(name))
        target = client.V1ObjectReference(kind="Node", name="n1")
        body = client.V1Binding(metadata=client.V1ObjectMeta(name=name), target=target)
        with contextlib.nullcontext() if options else pytest.raises(ValidationError):
            core.create_namespaced_pod_binding(name, "default", body, **options)
        assert core.read_namespaced_pod(name, "default").spec.node_name == "n1"


def test_behaviour_56_what_the_client_makes_of_deletions(api, core):
    api.post(f"{NS}/configmaps", {"metadata": {"name": "c"}})
    api.post(f"{NS}/pods", pod(nodeName="n1"))
    assert core.delete_namespaced_config_map("c", "default")["status"] == "Success"
    assert isinstance(core.delete_namespaced_pod("p", "default"), client.V1Pod)


def test_behaviour_57_a_label_is_taken_away_by_a_dict_not_by_an_object():
    with pytest.raises(ValidationError):
        client.V1ObjectMeta(labels={"k": None})


def test_custom_objects_are_merge_patched(api, core):
    custom = client.CustomObjectsApi(core.api_client)
    place = ("scheduling.x-k8s.io", "v1alpha1", "default", "podgroups")
    head = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}}
    custom.create_namespaced_custom_object(*place, {**head, "spec": {"minMember": 2}})
    patched = custom.patch_namespaced_custom_object(*place, "g", {"spec": {"minMember": 4}})
    assert patched["spec"] == {"minMember": 4}
    (listed,) = custom.list_namespaced_custom_object(*place)["items"]
    assert (listed["kind"], listed["apiVersion"]) == ("PodGroup", "scheduling.x-k8s.io/v1alpha1")


def test_kubectl_gets_describes_labels_and_cordons(api, kubectl):
    api.post("/api/v1/nodes", node())
    assert "n1" in kubectl("get", "nodes", "-o", "wide")
    assert "nvidia.com/gpu:  8" in kubectl("describe", "node", "n1")
    kubectl("label", "node", "n1", "rack=r1")
    kubectl("cordon", "n1")
    assert "SchedulingDisabled" in kubectl("get", "no", "-l", "rack=r1")
    assert "podgroups" in kubectl("api-resources")
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"


def test_kubectl_drains_a_node_by_evictions(api, kubectl):
    api.post("/api/v1/nodes", node())
    api.post(f"{NS}/pods", pod("done", nodeName="n1"))
    api.patch(f"{NS}/pods/done/status", {"status": {"phase": "Succeeded"}})
    kubectl("drain", "n1", "--force", "--timeout=20s")
    assert api.get(f"{NS}/pods/done").code == 404
    assert api.get("/api/v1/nodes/n1").json["spec"]["unschedulable"] is True


def test_kubectl_creates_and_applies_with_the_servers_validation(api, kubectl, tmp_path):
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **pod()}))
    assert "created" in kubectl("create", "-f", str(manifest))
    assert "pod/p" in kubectl("apply", "-f", str(manifest))
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", str(manifest))
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    assert api.get(f"{NS}/configmaps/c").json["data"] == {"a": "b"}
    kubectl("delete", "pod", "p", "--wait=false")
    assert api.get(f"{NS}/pods/p").code == 404
