"""What of the console's traces nobody is there for any more. Pure: objects and the time in, requests out.

Whatever is not surely the console's and surely over is left alone: an annotation that is no JSON, a deadline
that is no time, a cordon of somebody else. A node that is, or may be, between two MIG layouts stays cordoned
whatever its deadline: pods that came in then would break the change; a person decides there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.gate_watchdog.api_server import MERGE, STRATEGIC

Json = dict[str, Any]
PREFIX = "defrag.gpu.internal/"
GATE, OWNED, HOLD, DEADLINE = f"{PREFIX}steer", f"{PREFIX}owned", f"{PREFIX}hold", f"{PREFIX}deadline"
CORDON, HELD, HELD_BY = f"{PREFIX}cordon", f"{PREFIX}held", f"{PREFIX}held-by"
MIG_STATE = "nvidia.com/mig.config.state"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@dataclass(frozen=True, slots=True)
class Request:
    """why: for the log."""

    why: str
    method: str
    path: str
    body: Json
    content: str = MERGE


def is_gated(pod: Json) -> bool:
    return any(gate.get("name") == GATE for gate in (pod.get("spec") or {}).get("schedulingGates") or [])


def ungate(pod: Json) -> Request:
    """Drops our gate alone; nothing pins the pod."""
    about = pod["metadata"]
    spec = {"schedulingGates": [{"$patch": "delete", "name": GATE}]}
    path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
    why = f"pod {about['namespace']}/{about['name']} waited behind our gate: freed, unpinned"
    return Request(why, "PATCH", path, {"metadata": _guard(pod), "spec": spec}, STRATEGIC)


def delete_steerings(found: Iterable[Json], where: str, over: datetime) -> Iterator[Request]:
    """Steering objects and webhook configurations with our label whose deadline lies before `over`."""
    for one in found:
        about = one["metadata"]
        if OWNED in (about.get("labels") or {}) and _is_over(about, over):
            yield _delete(
                f"steering {about['name']} is over its deadline: deleted", f"{where}/{about['name']}", one
            )


def delete_holds(pods: Iterable[Json], over: datetime) -> Iterator[Request]:
    """Paper holds, which are on no node."""
    for pod in pods:
        about = pod["metadata"]
        is_hold = {OWNED, HOLD} <= set(about.get("labels") or {}) and not (pod.get("spec") or {}).get(
            "nodeName"
        )
        if is_hold and _is_over(about, over):
            path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
            yield _delete(f"hold {about['name']} is over its deadline: deleted", path, pod)


def release_nodes(nodes: Iterable[Json], over: datetime) -> Iterator[Request]:
    for node in nodes:
        request = _release(node, over)
        if request is not None:
            yield request


def _release(node: Json, over: datetime) -> Request | None:
    """One patch: our cordon and our taints, as far as they are over."""
    about, spec = node["metadata"], node.get("spec") or {}
    annotations: Json = {}
    change: Json = {}
    if spec.get("unschedulable") and _may_uncordon(node, over):
        annotations[CORDON], change["unschedulable"] = None, None
    held = _read(node, HELD_BY)
    values = {str(held["value"])} if "value" in held and _is_before(held.get("deadline"), over) else set()
    kept = [t for t in spec.get("taints") or [] if t.get("key") != HELD or t.get("value") not in values]
    if len(kept) < len(spec.get("taints") or []):
        annotations[HELD_BY], change["taints"] = None, kept or None
    if not change:
        return None
    metadata: Json = {**_guard(node), "annotations": annotations}
    if _is_last(node, annotations, kept):
        metadata["labels"] = {OWNED: None}
    body = {"metadata": metadata, "spec": change}
    why = f"node {about['name']}: our {' and '.join(sorted(change))} over the deadline: released"
    return Request(why, "PATCH", f"/api/v1/nodes/{about['name']}", body)


def _is_last(node: Json, given_up: Json, kept: list[Json]) -> bool:
    """Nothing of ours is left on the node once `given_up` is gone."""
    notes = node["metadata"].get("annotations") or {}
    is_cordoned = CORDON in notes and CORDON not in given_up
    return not is_cordoned and all(taint.get("key") != HELD for taint in kept)


def _may_uncordon(node: Json, over: datetime) -> bool:
    cordon = _read(node, CORDON)
    state = (node["metadata"].get("labels") or {}).get(MIG_STATE, "success")
    is_freed = str(cordon.get("reason", "")).startswith("freed by plan ") and "execution" in cordon
    return is_freed and state == "success" and _is_before(cordon.get("deadline"), over)


def _read(thing: Json, key: str) -> Json:
    try:
        found = json.loads((thing["metadata"].get("annotations") or {}).get(key) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_over(about: Json, over: datetime) -> bool:
    return _is_before((about.get("annotations") or {}).get(DEADLINE), over)


def _is_before(text: object, over: datetime) -> bool:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return False
    return found.tzinfo is not None and found < over


def _delete(why: str, path: str, thing: Json) -> Request:
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": _guard(thing)}
    return Request(why, "DELETE", path, options)


def _guard(thing: Json) -> Json:
    return {"uid": thing["metadata"]["uid"], "resourceVersion": thing["metadata"]["resourceVersion"]}
