"""After an execution: what the plan promised beside what the cluster shows now.

Shares no helper with the planner, like the checker beside it (verification).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apps.planner.inventory import Pod
from apps.planner.plan import Plan
from apps.planner.snapshot import Snapshot

VENDORS = ("nvidia.com", "amd.com", "huawei.com", "hygon.com", "cambricon.com", "metax-tech.com",
           "iluvatar.ai", "mthreads.com", "gpu.intel.com")  # fmt: skip
WORDS = (
    "gpu",
    "dcu",
    "mlu",
    "cuda",
    "gaudi",
    "neuron",
    "ascend",
    "accel",
    "/tpu",
    "/npu",
    "/vnpu",
    "/xpu",
    "/hpu",
)
NETWORK = ("hostdev", "rdma", "sriov", "roce", "mlnx", "mlx", "nics")


@dataclass(frozen=True, slots=True)
class Outcome:
    """promised, found: sentences by subject (a move, a freed node, a hand-over) that can be compared."""

    promised: tuple[str, ...]
    found: tuple[str, ...]
    matches: bool
    differences: tuple[str, ...] = ()


def _offer(allocatable: Mapping[str, int]) -> dict[str, int]:
    return {
        name: amount
        for name, amount in allocatable.items()
        if name == "nvidia.com/gpu" or name.startswith("nvidia.com/mig-")
    }


def _tell_offer(amounts: Mapping[str, int]) -> str:
    """MIG instances first, then whole GPUs; resources of earlier layouts stay behind with the number 0."""
    words = [
        f"{amount} x {name.removeprefix('nvidia.com/mig-')}"
        for name, amount in sorted(amounts.items())
        if name != "nvidia.com/gpu" and amount
    ]
    whole = amounts.get("nvidia.com/gpu", 0)
    return ", ".join([*words, f"{whole} whole GPU{'' if whole == 1 else 's'}"])


def wants_device(pod: Pod) -> bool:
    """Whether the pod asks for an accelerator in any form, or was given one."""
    if pod.reservation:
        return False
    return (
        pod.gpu_milli < 1000
        or bool(pod.devices)
        or any(amount > 0 and _names_device(name.lower()) for name, amount in pod.requests.items())
    )


def _names_device(resource: str) -> bool:
    vendor, _, word = resource.partition("/")
    if vendor.endswith("kubernetes.io") or "." not in vendor or not word:
        return False
    if "monitoring" in word or any(one in word for one in NETWORK):
        return False
    return vendor in VENDORS or any(one in resource for one in WORDS)


def compare_outcome(
    plan: Plan,
    after: Snapshot,
    replacements: Mapping[str, str],
    offers: Mapping[str, Mapping[str, int]] | None = None,
) -> Outcome:
    """What the plan promised beside what the cluster shows now.

    replacements: uid of a moved pod -> uid of its successor, as the execution recorded them.
    offers: by relaid node, what its kubelet was to offer (nvidia.com/gpu and MIG instances by resource).
    """
    promised: list[str] = []
    found: list[str] = []
    for name, wanted in sorted((offers or {}).items()):
        node = after.nodes.get(name)
        promised.append(f"{name} offers {_tell_offer(wanted)}")
        found.append(f"{name} offers {_tell_offer(_offer(node.allocatable))}" if node else f"{name} is gone")
    for move in plan.moves:
        promised.append(f"{move.pod} runs on {move.target}")
        successor = after.pods.get(replacements.get(move.pod_uid, ""))
        place = successor.node_name if successor is not None and successor.is_holding else ""
        found.append(f"{move.pod} runs on {place}" if place else f"{move.pod} has no running successor")
    given = {one.node for one in plan.hand_overs}
    for name in plan.freed_nodes:
        if name in given:
            continue
        promised.append(f"{name} is free")
        holders = [pod.key for pod in after.pods_on(name) if wants_device(pod) and not pod.hold]
        found.append(f"{name} is free" if not holders else f"{name} holds {', '.join(sorted(holders))}")
    for one in plan.hand_overs:
        promised.append(f"{one.pod} runs on {one.node}")
        pod = after.pods.get(one.pod_uid)
        place = pod.node_name if pod is not None and pod.is_holding else ""
        found.append(f"{one.pod} runs on {place}" if place else f"{one.pod} does not run")
    differences = tuple(
        f"Promised: {want}. Found: {have}."
        for want, have in zip(promised, found, strict=True)
        if want != have
    )
    return Outcome(tuple(promised), tuple(found), not differences, differences)
