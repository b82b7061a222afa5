"""What a node and a pod say about MIG, and why a node is better left alone. Not in here: blocks (facts)."""

from __future__ import annotations

from collections import Counter

from apps.planner.inventory import Node, Pod
from apps.planner.mig.catalogue import resource_profile

MIG_PREFIX = "nvidia.com/mig-"
WHOLE_GPU = "nvidia.com/gpu"
STATE = "nvidia.com/mig.config.state"
BUSY_STATES = ("pending", "rebooting", "failed")
PAUSED = "paused-for-mig-change"
MOST_INSTANCES = 8  # on one GPU of any model


def asked_profiles(pod: Pod) -> dict[str, int]:
    """MIG instances that the pod asks for, by profile as the tables write it."""
    return {
        resource_profile(name.removeprefix(MIG_PREFIX)): amount
        for name, amount in pod.requests.items()
        if name.startswith(MIG_PREFIX) and amount > 0
    }


def is_mig_node(node: Node) -> bool:
    if not node.gpus or node.labels.get("nvidia.com/mig.capable") == "false":
        return False
    has_instances = any(gpu.instances for gpu in node.gpus) or any(offered_profiles(node).values())
    return has_instances or node.mig_strategy in ("mixed", "single")


def why_left_alone(node: Node) -> str:
    """Why nothing on this node is planned, not even its idle instances; "" if it is."""
    state = node.labels.get(STATE, "")
    if state in BUSY_STATES or PAUSED in node.labels.values():
        return f"a MIG change is under way or stuck there (state {state or 'paused'})."
    if node.mig_strategy != "mixed":
        return (
            f"mig.strategy is {node.mig_strategy or 'unknown'}, and only mixed offers instances by profile."
        )
    if node.sharing or node.shares_per_gpu > 1:
        return "its GPUs are shared in time."
    seen = Counter(one.profile for gpu in node.gpus for one in gpu.instances)
    healthy = Counter(one.profile for gpu in node.gpus if gpu.healthy for one in gpu.instances)
    offered = Counter(offered_profiles(node))
    if offered.total() > MOST_INSTANCES * len(node.gpus):
        return "it offers more MIG instances than its GPUs can hold."
    if seen and offered not in (seen, healthy) and not is_guessed(node):
        return "the instances seen on its GPUs are not those that the kubelet offers."
    return ""


def is_guessed(node: Node) -> bool:
    """One GPU and no start slice known: its instances were told by the kubelet's numbers only."""
    return len(node.gpus) == 1 and all(one.start_slice is None for one in node.gpus[0].instances)


def offered_profiles(node: Node) -> dict[str, int]:
    return {
        resource_profile(name.removeprefix(MIG_PREFIX)): amount
        for name, amount in node.allocatable.items()
        if name.startswith(MIG_PREFIX) and amount > 0
    }
