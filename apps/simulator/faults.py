"""Faults with a name, to start a simulated cluster with: `simulate_cluster --fault NAME`.

`NAME@NODE` sets a fault of the machines on one node. Faults of the API hit everybody but the cluster's
own controllers. Not here: how a fault acts (api_server/faults, machine_faults) and the control
endpoint that sets any fault while the cluster runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apps.simulator.client import USER_AGENT
from apps.simulator.machine_faults import MACHINE_FAULTS

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
NAMED_FAULTS = (*_API_FAULTS, *MACHINE_FAULTS)


async def apply_fault(cluster: SimulatedCluster, name: str, node: str = "") -> None:
    """node: where a fault of the machines acts; "" for where it belongs by itself. Raises ValueError
    when there is nothing that the fault could hit."""
    if name in _API_FAULTS:
        if node:
            raise ValueError(f"fault {name!r} is one of the API: it takes no node")
        cluster.server.faults.add({"name": name, **_API_FAULTS[name]})
        return
    assert cluster.machine_faults
    await cluster.machine_faults.set(name, node=node)
