"""Which volume claims bind a pod to a node or a zone, and to which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.kube.translate.placement import read_required_terms
from apps.kube.translate.values import child, clean
from apps.planner.inventory import NodeTerm


def bound_volume(volume: Mapping[str, Any]) -> tuple[str, tuple[NodeTerm, ...]] | None:
    """(name, node terms) of a volume that has a node affinity, of any kind; None for any other."""
    required = child(volume, "spec", "nodeAffinity", "required")
    name = clean(child(volume, "metadata").get("name"), 253)
    return (name, read_required_terms(required)) if required and name else None


def claimed_volume(claim: Mapping[str, Any]) -> tuple[str, str]:
    """("namespace/claim", its volume). A claim without a volume yet binds nothing: its volume will be
    made where the pod lands."""
    metadata = child(claim, "metadata")
    key = f"{clean(metadata.get('namespace'), 253)}/{clean(metadata.get('name'), 253)}"
    return key, clean(child(claim, "spec").get("volumeName"))
