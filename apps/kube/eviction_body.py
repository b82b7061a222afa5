"""The bodies of an eviction and of a binding. Pure."""

from __future__ import annotations

from typing import Any

from apps.kube import errors
from apps.kube.gateway import Json


def eviction(
    namespace: str,
    name: str,
    *,
    uid: str,
    grace_seconds: int | None,
    dry_run: bool,
    version: str = "",
) -> Json:
    """The UID counts in the preconditions only; in the metadata of an Eviction it is ignored. version: the
    pod's resourceVersion, where only the pod as it was seen is meant. Raises Invalid."""
    if not uid:
        raise errors.Invalid(f"eviction of {namespace}/{name}: refused without the pod's UID.")
    if grace_seconds is not None and grace_seconds < 1:
        raise errors.Invalid(f"eviction of {namespace}/{name}: refused with a grace of {grace_seconds} s.")
    options: dict[str, Any] = {"preconditions": {"uid": uid}}
    if version:
        options["preconditions"]["resourceVersion"] = version
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if dry_run:
        options["dryRun"] = ["All"]
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": options,
    }


def binding(namespace: str, name: str, *, uid: str, node: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
