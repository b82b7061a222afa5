"""Whether a target node can take a pod right now, from its own object and the pods bound to it. Pure.

A last check before an eviction; what is fitting in all other respects was verified at preflight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from apps.executions.sightings import is_finished, uid, unschedulable
from apps.planner.resources import add_quantities, effective_requests, parse_quantity

Json = dict[str, Any]


def why_no_room(
    node: Json | None,
    pods: Iterable[Json],
    wanted: Mapping[str, int],
    *,
    node_uid: str,
    pods_wanted: int = 1,
    promised: Iterable[Mapping[str, int]] = (),
) -> str:
    """A sentence, or "" if the node can take pods that together ask for `wanted` (planner's units). promised:
    what others will ask for there whose pods do not exist yet."""
    if node is None or uid(node) != node_uid:
        return "the target node is gone or was made anew"
    where = f"target {node['metadata']['name']}"
    conditions = (node.get("status") or {}).get("conditions") or []
    if not any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return f"{where} is not Ready"
    if unschedulable(node):
        return f"{where} is cordoned"
    there = [pod for pod in pods if not is_finished(pod)]
    used = add_quantities([*(requests_of(pod) for pod in there), *map(dict, promised)])
    offered = _amounts((node.get("status") or {}).get("allocatable") or {})
    if "pods" in offered and len(there) + pods_wanted > offered["pods"]:
        return f"{where} takes no further pod"
    for name, amount in sorted(wanted.items()):
        left = offered.get(name, 0) - used.get(name, 0)
        if amount > left:
            return f"{where} has only {max(left, 0)} of {name} left, {amount} are needed"
    return ""


def requests_of(pod: Json) -> dict[str, int]:
    spec = pod.get("spec") or {}
    containers = [_requests(container) for container in spec.get("containers") or []]
    inits = [
        (_requests(container), container.get("restartPolicy") == "Always")
        for container in spec.get("initContainers") or []
    ]
    return effective_requests(containers, inits, _amounts(spec.get("overhead") or {}))


def _requests(container: Json) -> dict[str, int]:
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(texts: Json) -> dict[str, int]:
    return {name: parse_quantity(text, name) for name, text in texts.items()}
