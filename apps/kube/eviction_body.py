"""The bodies of an eviction and of a binding. Pure."""

from __future__ import annotations

from typing import Any

from apps.kube.gateway import Json


def eviction(namespace: str, name: str, *, uid: str, grace_seconds: int | None, dry_run: bool) -> Json:
    """The UID counts in the preconditions only; in the metadata of an Eviction it is ignored."""
    options: dict[str, Any] = {"preconditions": {"uid": uid}}
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
