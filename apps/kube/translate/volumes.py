"""Which volume claims bind a pod to a node or a zone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from apps.kube.translate.values import child, clean


def pinned_claims(
    claims: Iterable[Mapping[str, Any]], volumes: Iterable[Mapping[str, Any]]
) -> frozenset[str]:
    """Keys "namespace/claim" of the claims whose volume has a node affinity, of any kind.

    A claim without a volume yet binds nothing: its volume will be made where the pod lands.
    """
    bound = {
        clean(child(volume, "metadata").get("name"), 253)
        for volume in volumes
        if child(volume, "spec", "nodeAffinity", "required")
    }
    return frozenset(
        _key(claim) for claim in claims if clean(child(claim, "spec").get("volumeName")) in bound
    )


def _key(claim: Mapping[str, Any]) -> str:
    metadata = child(claim, "metadata")
    return f"{clean(metadata.get('namespace'), 253)}/{clean(metadata.get('name'), 253)}"
