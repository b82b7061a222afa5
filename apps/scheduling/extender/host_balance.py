"""What a placement does to the balance of the host: GPUs are of no use where CPU, memory or RDMA run out.

Pure. Up to 10 points are taken off: the share of the node's GPUs left free beyond the share left of its
scarcest other resource, once the pod runs.
"""

from __future__ import annotations

from apps.planner.resources import Demand, is_device_resource
from apps.planner.room import WHOLE, Room
from apps.planner.whatif_scores import ScorePart

MOST = 10.0
WORDS = {"cpu": "CPU", "memory": "memory"}


def host_part(room: Room, demand: Demand) -> ScorePart:
    asked = dict(demand.resources)
    free = _gpus_left(room, demand)
    scarcest, share = "", 1.0
    for name in ("cpu", "memory", *(one for one in asked if "/" in one and not is_device_resource(one))):
        offered = room.node.allocatable.get(name, 0)
        if offered:
            left = max(room.left.get(name, 0) - asked.get(name, 0), 0) / offered
            if left < share:
                scarcest, share = name, left
    cost = MOST * max(free - share, 0.0)
    if not cost:
        return ScorePart("host", 0.0, "for a host in balance")
    return ScorePart("host", -cost, f"for GPUs left free with too little {WORDS.get(scarcest, scarcest)}")


def _gpus_left(room: Room, demand: Demand) -> float:
    """The share of the node's GPUs that stays free."""
    have = WHOLE * len(room.usable)
    return max(room.idle_milli - demand.gpu_milli, 0) / have if have else 0.0
