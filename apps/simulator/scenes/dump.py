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

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LARGEST_BYTES = 1024 * 1024 * 1024
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
    text = _read_text(path)
    objects: list[Json] = []
    for document in _documents(text, path):
        items = document.get("items") if isinstance(document, dict) else None
        objects += items if isinstance(items, list) else [document]
    for position, each in enumerate(objects):
        if not _is_object(each):
            raise ValueError(
                f"{path}: object {position + 1} has no kind, no metadata.name, or parts of "
                "another form: give the output of kubectl get -o json or -o yaml"
            )
    return objects


def _read_text(path: str) -> str:
    if path == "-":
        if sys.stdin is None:
            raise ValueError("standard input is closed: name a file instead")
        data = sys.stdin.buffer.read(LARGEST_BYTES + 1)
    else:
        if not Path(path).is_file():
            raise ValueError(f"{path} is no file that can be read")
        with Path(path).open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise ValueError(f"{path} is larger than {LARGEST_BYTES >> 20} MiB: dump fewer objects")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no UTF-8 text: give the output of kubectl get -o json") from None


def _is_object(each: object) -> bool:
    if not isinstance(each, dict) or not isinstance(each.get("kind"), str) or not each["kind"]:
        return False
    metadata = each.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return False
    return all(isinstance(metadata.get(key) or {}, dict) for key in ("labels", "annotations")) and all(
        isinstance(each.get(part) or {}, dict) for part in ("spec", "status")
    )


def _documents(text: str, path: str) -> list[Any]:
    try:
        if text.lstrip().startswith("{"):
            return [json.loads(text)]
        return [each for each in yaml.load_all(text, Loader=LOADER) if each]
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply to be a dump") from None
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
