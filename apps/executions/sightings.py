"""Reads the few facts that steps need out of API objects. Pure; any field may be missing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from apps.executions.names import CORDON, GATE, MIGRATION

Json = dict[str, Any]
HIGHEST_FENCE = 2**53
"""Nobody claims so often; a row keeps a little more, so that it can be raised above any that is believed."""


def uid(thing: Json | None) -> str:
    return str(_metadata(thing).get("uid", ""))


def name(thing: Json) -> str:
    return str(_metadata(thing).get("name", ""))


def namespace(thing: Json) -> str:
    return str(_metadata(thing).get("namespace", ""))


def version(thing: Json) -> str:
    return str(_metadata(thing).get("resourceVersion", ""))


def created(thing: Json) -> str:
    """RFC 3339 in UTC with whole seconds, so it sorts as text."""
    return str(_metadata(thing).get("creationTimestamp", ""))


def label(thing: Json, key: str) -> str:
    return str((_metadata(thing).get("labels") or {}).get(key, ""))


def annotation(thing: Json, key: str) -> str:
    return str((_metadata(thing).get("annotations") or {}).get(key, ""))


def is_leaving(thing: Json) -> bool:
    return bool(_metadata(thing).get("deletionTimestamp"))


def is_finished(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def has_failed(pod: Json) -> bool:
    """Its owner makes another one (a kubelet that refused it, an eviction by the node, a crash of a Job)."""
    return (pod.get("status") or {}).get("phase") == "Failed"


def is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def node_of(pod: Json) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def nominated(pod: Json) -> str:
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


def is_gated(pod: Json) -> bool:
    """Carries our own gate (whatever else gates it)."""
    return any(gate.get("name") == GATE for gate in (pod.get("spec") or {}).get("schedulingGates") or [])


def migration(pod: Json) -> str:
    return annotation(pod, MIGRATION)


def owner_uid(pod: Json) -> str:
    """UID of the controller that recreates it, "" for a bare pod."""
    owners = _metadata(pod).get("ownerReferences") or []
    return next((str(owner.get("uid", "")) for owner in owners if owner.get("controller")), "")


def unschedulable(node: Json) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def taints(node: Json) -> list[Json]:
    return list((node.get("spec") or {}).get("taints") or [])


def tolerations(pod: Json) -> list[Json]:
    return list((pod.get("spec") or {}).get("tolerations") or [])


def cordon(node: Json) -> Json:
    """Our cordon annotation, {} where there is none or it is not JSON."""
    try:
        found = json.loads(annotation(node, CORDON) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def read_fence(told: Any) -> int:
    """As a cordon's note tells it; 0 for what no claim of ours was ever numbered with."""
    return told if isinstance(told, int) and 0 < told < HIGHEST_FENCE else 0


def is_cordoned_by(node: Json, execution_id: int, mark: str) -> bool:
    """Our annotation is on it and names exactly this execution of this console."""
    found = cordon(node)
    return found.get("execution") == execution_id and str(found.get("mark", "")) == mark


def devices(pod: Json, resource: str) -> int:
    """How many of an extended resource the pod asks for. Such a request is a whole number."""
    spec = pod.get("spec") or {}
    steps = [_count(container, resource) for container in spec.get("initContainers") or []]
    return max([sum(_count(container, resource) for container in spec.get("containers") or []), *steps])


def moment(text: str) -> datetime | None:
    """A time of RFC 3339; None for anything else, and for a time without a zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None


def oldest(pods: Iterable[Json]) -> Json | None:
    return min(pods, key=lambda pod: (created(pod), uid(pod)), default=None)


def _count(container: Json, resource: str) -> int:
    resources = container.get("resources") or {}
    amount = (resources.get("limits") or {}).get(resource) or (resources.get("requests") or {}).get(resource)
    text = str(amount)
    return int(text) if text.isdigit() else 0


def _metadata(thing: Json | None) -> Json:
    return (thing or {}).get("metadata") or {}
