"""What stands in for an object that cannot be translated at all: nobody plans on it, nobody moves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.kube.object_store import KeptObject
from apps.kube.translate.values import brief, child, clean
from apps.planner.inventory import Node, Pod

Raw = Mapping[str, Any] | KeptObject
"""An object as the API gives it, or as the watch keeps it."""
UNREADABLE = (AttributeError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError)


def opened(raw: Raw) -> Mapping[str, Any]:
    return raw.open() if isinstance(raw, KeptObject) else raw


def stamp_of(raw: Raw) -> tuple[str, str]:
    """(uid, resourceVersion), "" where they are missing."""
    if isinstance(raw, KeptObject):
        return clean(raw.uid, 100), clean(raw.revision, 40)
    metadata = child(raw, "metadata")
    return clean(metadata.get("uid"), 100), clean(metadata.get("resourceVersion"), 40)


def place_of(raw: Raw) -> tuple[str, str]:
    """(namespace, name)."""
    if isinstance(raw, KeptObject):
        return clean(raw.namespace, 253), clean(raw.name, 253)
    metadata = child(raw, "metadata")
    return clean(metadata.get("namespace"), 253), clean(metadata.get("name"), 253)


def name_of(raw: Mapping[str, Any]) -> str:
    """How a sentence names the object."""
    metadata = child(raw, "metadata")
    return brief("/".join(filter(None, (clean(metadata.get("namespace")), clean(metadata.get("name"))))))


def unreadable_node(raw: Mapping[str, Any], taken_at: float) -> Node:
    return Node(
        name=clean(child(raw, "metadata").get("name"), 253),
        uid=stamp_of(raw)[0],
        ready=False,
        ready_reason="Unreadable",
        stale_since=taken_at,
        warnings=("this node cannot be read at all: nothing is planned on it",),
    )


def unreadable_pod(raw: Mapping[str, Any]) -> Pod:
    metadata = child(raw, "metadata")
    return Pod(
        uid=stamp_of(raw)[0] or name_of(raw),
        namespace=clean(metadata.get("namespace"), 253),
        name=clean(metadata.get("name"), 253),
        node_name=clean(child(raw, "spec").get("nodeName"), 253),
        phase="Unknown",
        protections=("it cannot be read",),
        warnings=("this pod cannot be read: what it holds is not known",),
    )
