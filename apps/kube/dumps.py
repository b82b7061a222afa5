"""Reads what `kubectl get … -o json` or `-o yaml` printed: Lists, single objects, several documents.

Gives API objects by kind, like a watch does; translating them is `translate`'s part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from apps.kube.gateway import (
    BUDGETS,
    CLAIM_TEMPLATES,
    CLAIMS,
    DAEMONSETS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    JOBS,
    KAI_POD_GROUPS,
    KOORDINATOR_DEVICES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICASETS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STATEFULSETS,
    VOLCANO_POD_GROUPS,
    VOLUMES,
    Json,
    Kind,
)
from apps.kube.trimming import trim_object
from apps.kube.yaml_text import BadYaml, load_yaml

KINDS = {
    "Node": NODES,
    "Pod": PODS,
    "Namespace": NAMESPACES,
    "ReplicaSet": REPLICASETS,
    "Deployment": DEPLOYMENTS,
    "StatefulSet": STATEFULSETS,
    "DaemonSet": DAEMONSETS,
    "Job": JOBS,
    "PodDisruptionBudget": BUDGETS,
    "PriorityClass": PRIORITY_CLASSES,
    "PodGroup": POD_GROUPS,
    "PersistentVolume": VOLUMES,
    "PersistentVolumeClaim": CLAIMS,
    "ResourceSlice": RESOURCE_SLICES,
    "ResourceClaim": RESOURCE_CLAIMS,
    "ResourceClaimTemplate": CLAIM_TEMPLATES,
    "DeviceClass": DEVICE_CLASSES,
    "Device": KOORDINATOR_DEVICES,
}
NAMESAKES = {"PodGroup": (VOLCANO_POD_GROUPS, KAI_POD_GROUPS)}
"""Other API groups' kinds of the same name."""
DEEPEST_LIST = 4


class BadDump(Exception):
    """The text is no dump; the message says why."""


def read_dump(texts: Iterable[tuple[str, str]]) -> dict[Kind, list[Json]]:
    """Objects by kind out of (name of the source, text) pairs. Raises BadDump.

    Kinds that nothing here reads are passed over; a text without any Kubernetes object is an error.
    """
    found: dict[Kind, list[Json]] = {}
    for source, text in texts:
        seen = 0
        for raw in _objects(source, text):
            seen += 1
            kind = _kind_of(raw)
            if kind is not None:
                found.setdefault(kind, []).append(trim_object(kind, raw))
        if not seen:
            raise BadDump(f"{source}: there is no Kubernetes object in it.")
    if NODES not in found:
        raise BadDump("There is no Node in it. Dump at least: kubectl get nodes,pods -A -o json")
    return found


def _kind_of(raw: Mapping[str, Any]) -> Kind | None:
    name, group = str(raw.get("kind")), str(raw.get("apiVersion", "")).partition("/")[0]
    known = (KINDS.get(name), *NAMESAKES.get(name, ()))
    return next((kind for kind in known if kind and group in (kind.group, kind.version)), None)


def _objects(source: str, text: str) -> Iterator[Json]:
    try:
        documents = load_yaml(text, allow_aliases=True)
    except BadYaml as error:
        raise BadDump(f"{source}: neither JSON nor YAML: {error}.") from error
    if not documents:
        raise BadDump(f"{source}: it is empty.")
    for document in documents:
        yield from _flatten(source, document, DEEPEST_LIST)


def _flatten(source: str, document: object, depth: int) -> Iterator[Json]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise BadDump(f"{source}: a document in it is no Kubernetes object (it has no kind).")
    items = document.get("items")
    if not document["kind"].endswith("List") or not isinstance(items, list):
        yield document
        return
    if depth == 0:
        raise BadDump(f"{source}: its lists are nested too deeply.")
    inner_kind = document["kind"].removesuffix("List")
    for member in items:
        if isinstance(member, dict) and inner_kind and "kind" not in member:
            # A raw LIST answer names kind and version once, on the list.
            member = {"apiVersion": document.get("apiVersion"), "kind": inner_kind, **member}
        yield from _flatten(source, member, depth - 1)
