"""Who else has a node in hands: a driver upgrade, kured, Karpenter, the cluster-autoscaler. Never fought.

Told by labels and taints of theirs, and by what the translation found in the node's annotations. A cordon
alone says nothing: anybody may have set it.
"""

from __future__ import annotations

from apps.planner.inventory import Node

UPGRADE_LABEL = "nvidia.com/gpu-driver-upgrade-state"
QUIET_UPGRADES = ("", "upgrade-done", "unknown")
TAINTS = {
    "karpenter.sh/disrupted": "Karpenter takes it away",
    "karpenter.sh/disruption": "Karpenter takes it away",
    "ToBeDeletedByClusterAutoscaler": "the cluster-autoscaler takes it away",
    "node.kubernetes.io/out-of-service": "it was declared out of service",
    "medik8s.io/drain": "the node maintenance operator drains it",
}


def why_maintained(node: Node) -> str:
    """A clause, "" for a node that nobody else is at."""
    state = node.labels.get(UPGRADE_LABEL, "")
    if state not in QUIET_UPGRADES:
        return f"its GPU driver is being upgraded ({UPGRADE_LABEL}={state[:60]})"
    for taint in node.taints:
        if taint.key in TAINTS:
            return f"{TAINTS[taint.key]} (taint {taint.key})"
    return node.reboot
