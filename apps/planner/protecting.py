"""Namespaces whose pods nobody may move, by the policy of their cluster: names or globs ("prod-*").

A protected pod carries the reason among its protections, so that every rule and every page finds it there.
Not in here: what a pod or its namespace says by its own annotations (that comes with the snapshot).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from apps.planner.inventory import Pod, Tie
from apps.planner.snapshot import Snapshot

ONLY_OFFERED = "!only-offered"
"""Stands among the patterns where only pods move whose owners say so. No namespace has such a name."""


def why_not_offered(pod: Pod) -> str:
    """The reason as a clause, "" for a pod whose owners offer it."""
    if Tie.OFFERED in pod.ties:
        return ""
    return f"neither it nor its namespace {pod.namespace} says defrag.gpu.internal/movable: true (opt-in)"


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
    needs_offer = ONLY_OFFERED in patterns
    guarded = []
    for pod in snapshot.pods.values():
        reason = reasons[pod.namespace] or (why_not_offered(pod) if needs_offer and pod.is_holding else "")
        if reason:
            guarded.append(replace(pod, protections=(*pod.protections, reason)))
    return snapshot.with_pods(guarded) if guarded else snapshot
