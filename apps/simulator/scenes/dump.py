"""A scene from what `kubectl get nodes,pods,… -A -o json|yaml` printed.

Owners that the dump leaves out are made from their pods, so that an evicted pod comes back.
Not here: reading a dump for the console (apps.kube).
"""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from apps.simulator.controllers.objects import condition_of, controller_of, labels_of

Json = dict[str, Any]

_MADE_UP = {
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
}
_BOUND_FIELDS = ("nodeName", "priority", "preemptionPolicy", "hostname", "schedulingGates")


def read_dump(*paths: str) -> list[Json]:
    """paths: files, or "-" for stdin. Raises ValueError with what is wrong and where."""
    objects = [each for path in paths for each in _read_file(path)]
    for each in objects:
        each["metadata"].pop("resourceVersion", None)
        each["metadata"].pop("managedFields", None)
        if each["kind"] == "Node":
            _keep_trouble(each)
    return [*objects, *_missing_owners(objects)]


def _read_file(path: str) -> list[Json]:
    text = sys.stdin.read() if path == "-" else Path(path).read_text()
    objects: list[Json] = []
    for document in _documents(text, path):
        objects += document.get("items", [document])
    for position, each in enumerate(objects):
        if not isinstance(each, dict) or not each.get("kind") or not each.get("metadata", {}).get("name"):
            raise ValueError(
                f"{path}: object {position + 1} has no kind or no metadata.name: "
                "give the output of kubectl get -o json or -o yaml"
            )
    return objects


def _documents(text: str, path: str) -> list[Json]:
    try:
        if text.lstrip().startswith("{"):
            return [json.loads(text)]
        return [each for each in yaml.safe_load_all(text) if each]
    except (ValueError, yaml.YAMLError) as error:
        line = str(error).splitlines()[0]
        raise ValueError(f"{path} is neither JSON nor YAML: {line}") from None


def _keep_trouble(node: Json) -> None:
    """A node that was not ready stays so: its simulated kubelet does not run."""
    ready = condition_of(node, "Ready")
    if ready and ready["status"] != "True":
        node["metadata"].setdefault("annotations", {})["sim.gpu.internal/kubelet"] = "stopped"
    node.setdefault("spec", {})


def _missing_owners(objects: list[Json]) -> list[Json]:
    known = {each["metadata"].get("uid") for each in objects}
    families: dict[str, tuple[Json, list[Json]]] = {}
    for pod in (each for each in objects if each["kind"] == "Pod"):
        reference = controller_of(pod)
        if reference and reference["kind"] in _MADE_UP and reference["uid"] not in known:
            families.setdefault(reference["uid"], (reference, []))[1].append(pod)
    return [_make_owner(reference, family) for reference, family in families.values()]


def _make_owner(reference: Json, pods: list[Json]) -> Json:
    first = pods[0]
    labels = dict(labels_of(first))
    for pod in pods[1:]:
        labels = {key: value for key, value in labels.items() if labels_of(pod).get(key) == value}
    labels = labels or {"app": reference["name"]}
    spec = {key: value for key, value in deepcopy(first["spec"]).items() if key not in _BOUND_FIELDS}
    annotations = dict(first["metadata"].get("annotations") or {})
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}
    body: Json = {"selector": {"matchLabels": labels}, "template": template}
    alive = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    if reference["kind"] == "Job":
        body |= {"parallelism": len(alive), "completions": len(pods), "backoffLimit": 6}
    elif reference["kind"] != "DaemonSet":
        body |= {"replicas": len(alive)}
    if reference["kind"] == "StatefulSet":
        body |= {"serviceName": reference["name"], "podManagementPolicy": "Parallel"}
    meta = {
        "name": reference["name"],
        "namespace": first["metadata"].get("namespace", "default"),
        "uid": reference["uid"],
        "creationTimestamp": first["metadata"].get("creationTimestamp"),
        "generation": 1,
    }
    return {
        "apiVersion": _MADE_UP[reference["kind"]],
        "kind": reference["kind"],
        "metadata": {key: value for key, value in meta.items() if value},
        "spec": body,
    }
