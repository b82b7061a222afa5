"""Namespaces whose pods nobody may move, by the policy of their cluster: names or globs ("prod-*").

A protected pod carries the reason among its protections, so that every rule and every page finds it there.
Not in here: what a pod or its namespace says by its own annotations (that comes with the snapshot).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from apps.planner.snapshot import Snapshot


def why_protected(namespace: str, patterns: Sequence[str]) -> str:
    """The reason as a clause, "" if no pattern speaks of the namespace."""
    for pattern in patterns:
        if fnmatchcase(namespace, pattern):
            how = "" if pattern == namespace else f" ({pattern})"
            return f"its namespace {namespace} is protected by the cluster's policy{how}"
    return ""


def guard_namespaces(snapshot: Snapshot, patterns: Sequence[str]) -> Snapshot:
    """The same cluster with the pods of those namespaces protected; the very same one if there are none."""
    if not patterns:
        return snapshot
    reasons = {
        namespace: why_protected(namespace, patterns)
        for namespace in {pod.namespace for pod in snapshot.pods.values()}
    }
    guarded = [
        replace(pod, protections=(*pod.protections, reasons[pod.namespace]))
        for pod in snapshot.pods.values()
        if reasons[pod.namespace]
    ]
    return snapshot.with_pods(guarded) if guarded else snapshot
