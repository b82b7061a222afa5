"""Why nobody may move a pod without a waiver: one sentence for each reason.

Reasons that lie in the pod itself and in what it belongs to. Whether a move is wise is the
planner's question, not this file's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.kube.translate.values import child, clean, entries
from apps.planner.inventory import Tie

PROTECT = "defrag.gpu.internal/protect"
MOVABLE = "defrag.gpu.internal/movable"
CHECKPOINT = "defrag.gpu.internal/checkpoint"
CHECKPOINTED = "defrag.gpu.internal/checkpoint-done"
LEADER_WORKER_SET = "leaderworkerset.sigs.k8s.io/name"
VIRTUAL_MACHINE = "VirtualMachineInstance"
MIRROR = "kubernetes.io/config.mirror"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_LOCAL_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
SYSTEM_PRIORITY = 2_000_000_000
DO_NOT_DISRUPT = {
    "karpenter.sh/do-not-disrupt": "true",
    "karpenter.sh/do-not-evict": "true",
    SAFE_TO_EVICT: "false",
}


def read_protections(
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    spec: Mapping[str, Any],
    owner: tuple[str, str],
    priority: int,
    inherited: tuple[str, ...],
) -> tuple[str, ...]:
    """owner: (kind, name) of the controller, ("", "") without. inherited: of namespace and workload."""
    found = [
        *_of_owner(owner, annotations),
        *_of_annotations(annotations),
        *_of_purpose(labels, annotations, priority),
        *_of_terminals(spec),
        *_of_company(labels),
        *_of_volumes(spec, annotations),
        *_of_claims(spec),
        *inherited,
    ]
    return tuple(dict.fromkeys(found))


def read_ties(
    *, annotations: Mapping[str, str], spec: Mapping[str, Any], owner: tuple[str, str]
) -> tuple[Tie, ...]:
    """Which of these reasons are of a kind that rules ask about, and what else binds it to a kind of node."""
    ties = []
    if not owner[0] and MIRROR not in annotations:
        ties.append(Tie.NO_OWNER)
    if entries(spec, "resourceClaims"):
        # Devices by resource claim stand in no request.
        ties.append(Tie.CLAIMS)
    if annotations.get(CHECKPOINT) == "true" or CHECKPOINTED in annotations:
        ties.append(Tie.SAVED_WORK)
    return tuple(ties)


def is_protected(annotations: Mapping[str, str]) -> bool:
    """Our own opt-out on a pod, a workload or a namespace."""
    return annotations.get(PROTECT) == "true"


def _of_owner(owner: tuple[str, str], annotations: Mapping[str, str]) -> list[str]:
    kind, name = owner
    if MIRROR in annotations or kind == "Node":
        return ["it is a static pod of its node"]
    if kind == "DaemonSet":
        return [f"it belongs to the DaemonSet {name}, which runs it on this node only"]
    if kind == VIRTUAL_MACHINE:
        return [f"it runs the virtual machine {name}, which KubeVirt itself moves by live migration"]
    if not kind:
        return ["no controller owns it, so nothing would recreate it"]
    return []


def _of_annotations(annotations: Mapping[str, str]) -> list[str]:
    found = [
        f"its annotation {key} is {value}"
        for key, value in DO_NOT_DISRUPT.items()
        if annotations.get(key) == value
    ]
    if is_protected(annotations):
        found.append(f"its annotation {PROTECT} is true")
    if any(key.startswith("kueue.x-k8s.io/podset-") and key.endswith("-topology") for key in annotations):
        found.append(
            "Kueue's topology-aware scheduling placed it: it moves only with its whole Kueue workload"
        )
    return found


def _of_purpose(labels: Mapping[str, str], annotations: Mapping[str, str], priority: int) -> list[str]:
    found = []
    if labels.get("app.kubernetes.io/component") == "notebook" or "notebook-name" in labels:
        found.append("it is an interactive notebook")
    if priority >= SYSTEM_PRIORITY:
        found.append("its priority marks it as critical to the system")
    return found


def _of_terminals(spec: Mapping[str, Any]) -> list[str]:
    """A shell that somebody left open looks like this; a program that runs by itself asks for neither."""
    if any(one.get("stdin") is True and one.get("tty") is True for one in entries(spec, "containers")):
        return ["it keeps a terminal open (stdin and tty): a person may work in it"]
    return []


def _of_company(labels: Mapping[str, str]) -> list[str]:
    """Workloads whose controller answers the loss of one pod with the restart of many."""
    if labels.get("ray.io/node-type") == "head":
        cluster = clean(labels.get("ray.io/cluster"), 100)
        return [f"it is the head of the Ray cluster {cluster}: moving it ends the whole cluster"]
    if LEADER_WORKER_SET in labels:
        group = clean(labels[LEADER_WORKER_SET], 100)
        return [f"it belongs to the LeaderWorkerSet {group}, which restarts its whole group for one lost pod"]
    if "jobset.sigs.k8s.io/jobset-name" in labels:
        jobset = clean(labels["jobset.sigs.k8s.io/jobset-name"], 100)
        return [f"it belongs to the JobSet {jobset}, which restarts or fails as a whole for one lost pod"]
    return []


def _of_volumes(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> list[str]:
    if annotations.get(SAFE_TO_EVICT) == "true":
        return []
    safe = {name.strip() for name in annotations.get(SAFE_LOCAL_VOLUMES, "").split(",")}
    found = []
    for volume in entries(spec, "volumes"):
        name = clean(volume.get("name"), 100)
        if name in safe:
            continue
        if "emptyDir" in volume and child(volume, "emptyDir").get("medium") != "Memory":
            found.append(f"its local volume {name} (emptyDir) would be lost")
        elif "hostPath" in volume:
            found.append(f"its volume {name} lies on the node (hostPath)")
    return found


def _of_claims(spec: Mapping[str, Any]) -> list[str]:
    """Devices by resource claim stand in no request: whether another node has them is not known here."""
    if not entries(spec, "resourceClaims"):
        return []
    return ["its devices come by resource claims (DRA), which bind its place"]
