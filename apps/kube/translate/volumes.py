"""Which volume claims bind a pod to a node or a zone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.kube.translate.values import child, clean


def bound_volume(volume: Mapping[str, Any]) -> str:
    """The name of a volume that has a node affinity, of any kind; "" for any other."""
    if not child(volume, "spec", "nodeAffinity", "required"):
        return ""
    return clean(child(volume, "metadata").get("name"), 253)


def claimed_volume(claim: Mapping[str, Any]) -> tuple[str, str]:
    """("namespace/claim", its volume). A claim without a volume yet binds nothing: its volume will be
    made where the pod lands."""
    metadata = child(claim, "metadata")
    key = f"{clean(metadata.get('namespace'), 253)}/{clean(metadata.get('name'), 253)}"
    return key, clean(child(claim, "spec").get("volumeName"))
