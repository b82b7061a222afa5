"""A scene, dumped as kubectl does and loaded again, is the same cluster."""

import json

import pytest

from apps.simulator.scenes import SCENES
from apps.simulator.scenes.dump import read_dump

PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Deployment": "/apis/apps/v1/deployments",
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Job": "/apis/batch/v1/jobs",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "PodGroup": "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}
CHANGED_BY_READING = "sim.gpu.internal/kubelet"  # a node that was not ready stays so


def lists_of(api):
    return {kind: api.ask("GET", path) for kind, path in PATHS.items()}


def as_kubectl(kind, answer):
    """Items of a List carry what items of a typed list leave out."""
    head = {"kind": kind, "apiVersion": answer["apiVersion"]}
    return {"kind": "List", "apiVersion": "v1", "items": [{**head, **each} for each in answer["items"]]}


def without_version(answer):
    objects = {}
    for each in answer["items"]:
        metadata = {key: value for key, value in each["metadata"].items() if key != "resourceVersion"}
        notes = metadata.get("annotations", {})
        metadata["annotations"] = {key: text for key, text in notes.items() if key != CHANGED_BY_READING}
        objects[metadata.get("namespace", ""), metadata["name"]] = {**each, "metadata": metadata}
    return objects


@pytest.mark.parametrize("scene", ["fragmented", "mig"])
def test_a_dump_in_two_files_is_the_scene_again(new_api_server, tmp_path, scene):
    first, second = new_api_server(), new_api_server()
    first.seed(*SCENES[scene]())
    before = lists_of(first)
    files = [tmp_path / "workloads.json", tmp_path / "nodes.yaml"]
    others = [as_kubectl(kind, answer) for kind, answer in before.items() if kind != "Node"]
    items = [each for answer in others for each in answer["items"]]
    files[0].write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    files[1].write_text(json.dumps(as_kubectl("Node", before["Node"]), indent=1))
    second.seed(*read_dump(*map(str, files)))
    after = lists_of(second)
    for kind in PATHS:
        assert without_version(after[kind]) == without_version(before[kind]), kind
