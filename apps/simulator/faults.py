"""Faults with a name, to start a simulated cluster with: `simulate_cluster --fault NAME`.

Faults of the API hit everybody but the cluster's own controllers. Not here: how a fault acts
(api_server/faults) and the control endpoint that sets any fault while the cluster runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apps.simulator.client import NODES, USER_AGENT
from apps.simulator.hardware import UNHEALTHY_ANNOTATION, hardware_of

if TYPE_CHECKING:
    from apps.simulator.runner import SimulatedCluster

Json = dict[str, Any]

_OTHERS = f"^(?!{USER_AGENT})"
_API_FAULTS: dict[str, Json] = {
    "slow-api": {"action": "delay", "seconds": 2, "match": {"user_agent_regex": _OTHERS}},
    "lost-eviction-answer": {
        "action": "act-then-reset",
        "times": 1,
        "match": {"method": "POST", "path_regex": "/eviction$", "user_agent_regex": _OTHERS},
    },
    "busy-api": {
        "action": "status",
        "code": 429,
        "reason": "TooManyRequests",
        "message": "The server is currently unable to handle the request, please try again later.",
        "retry_after": 1,
        "times": 5,
        "match": {"user_agent_regex": _OTHERS},
    },
    "failing-api": {"action": "status", "code": 500, "times": 5, "match": {"user_agent_regex": _OTHERS}},
    "broken-watches": {
        "action": "truncate-watch",
        "after_events": 20,
        "times": 5,
        "match": {"user_agent_regex": _OTHERS},
    },
    "silent-watches": {
        "action": "silence-watches",
        "match": {"method": "GET", "user_agent_regex": _OTHERS},
    },
}
# Annotations on the first node that has accelerators and is well.
_NODE_FAULTS = {
    "dead-kubelet": {"sim.gpu.internal/kubelet": "stopped"},
    "sick-gpu": {UNHEALTHY_ANNOTATION: "0"},
}
NAMED_FAULTS = (*_API_FAULTS, *_NODE_FAULTS)


async def apply_fault(cluster: SimulatedCluster, name: str) -> None:
    """Raises ValueError when the scene has nothing that the fault could hit."""
    if name in _API_FAULTS:
        cluster.server.faults.add({"name": name, **_API_FAULTS[name]})
        return
    assert cluster.control_plane
    assert cluster.control_plane.context
    context = cluster.control_plane.context
    for node in context.informers.store(NODES).objects.values():
        if hardware_of(node) and not node["spec"].get("taints"):
            body = {"metadata": {"annotations": _NODE_FAULTS[name]}}
            await context.client.patch(NODES, "", node["metadata"]["name"], body)
            return
    raise ValueError(f"fault {name!r} needs a healthy node with accelerators: choose another scene")
