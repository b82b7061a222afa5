"""What a move costs the people whose pod it is, and how risky it is.

Not in here: whether it is allowed (movability).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from apps.planner.inventory import Pod
from apps.planner.resources import asks_gpu, demand_of
from apps.planner.snapshot import Snapshot

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class CostPolicy:
    """Every number of the cost formula, in seconds or as a factor.

    recently_moved: uids of pods still in their cool-down.
    """

    most_lost_seconds: float = 24 * HOUR
    gpu_restart_seconds: float = 47.0
    cpu_restart_seconds: float = 6.0
    offline_weight: float = 1.0
    online_weight: float = 3.0
    production_weight: float = 10.0
    gang_member_seconds: float = HOUR
    cool_down_seconds: float = 2 * HOUR
    recently_moved: frozenset[str] = field(default_factory=frozenset)


DEFAULT_COSTS = CostPolicy()


def lost_seconds(snapshot: Snapshot, pod: Pod, policy: CostPolicy = DEFAULT_COSTS) -> float:
    """Running time that is gone: since the last checkpoint, else since the start."""
    since = pod.checkpointed_at if pod.checkpointed_at is not None else pod.started_at
    if since is None:
        since = pod.created_at
    return min(max(0.0, snapshot.taken_at - since), policy.most_lost_seconds)


def disruption_cost(snapshot: Snapshot, pod: Pod, policy: CostPolicy = DEFAULT_COSTS) -> float:
    """Seconds of interrupted work x GPUs x weight, plus what a recent move adds."""
    gpus = demand_of(pod).gpu_milli / 1000
    restart = policy.gpu_restart_seconds if asks_gpu(pod) else policy.cpu_restart_seconds
    cost = (lost_seconds(snapshot, pod, policy) + restart) * gpus * _weight(pod, policy)
    if pod.gang in snapshot.gangs:
        cost += policy.gang_member_seconds
    if pod.uid in policy.recently_moved:
        cost += policy.cool_down_seconds
    return round(cost, 3)


def assess_risk(snapshot: Snapshot, pod: Pod, policy: CostPolicy = DEFAULT_COSTS) -> tuple[str, str]:
    """(level, sentence); the gravest thing that can be said about the move."""
    lost = lost_seconds(snapshot, pod, policy)
    owner = snapshot.workloads.get(pod.workload)
    if pod.environment == "prod":
        return "high", "It serves production."
    if _is_replaceable(pod):
        return _assess_replica(pod, owner.replicas if owner is not None else None)
    if pod.checkpointed_at is None and lost > 4 * HOUR:
        return "high", f"No checkpoint is known: about {lost / HOUR:.0f} h of running time are lost."
    if pod.checkpointed_at is None and lost > HOUR:
        return "medium", f"No checkpoint is known: about {lost / HOUR:.1f} h of running time are lost."
    if owner is not None and owner.backoff_limit is not None:
        return "medium", "The eviction counts as a failed pod of its Job."
    if pod.service == "online":
        return "medium", "It serves requests; it is away until its successor is ready."
    if owner is not None and owner.replicas == 1 and asks_gpu(pod):
        return "low", "It is the only replica: its workload is away for about a minute."
    return "low", "It restarts in about a minute." if asks_gpu(pod) else "It restarts in seconds."


def _is_replaceable(pod: Pod) -> bool:
    """A Deployment's pods are interchangeable and begin anew by design, unless their label says otherwise."""
    return pod.owner_kind in ("Deployment", "ReplicaSet") and pod.service != "offline"


def _assess_replica(pod: Pod, replicas: int | None) -> tuple[str, str]:
    if replicas == 1:
        return "medium", "It is the only replica: its workload is away until the successor is ready."
    if pod.service == "online":
        return "medium", "It serves requests; it is away until its successor is ready."
    return "low", "One of several replicas; it starts anew, and the others stay."


def _weight(pod: Pod, policy: CostPolicy) -> float:
    if pod.environment == "prod":
        return policy.production_weight
    return policy.online_weight if pod.service == "online" else policy.offline_weight
