"""What pods wish of the GPUs themselves, by a GPURequest that their label names: memory of each, and model.

A request that cannot be honoured is told and otherwise left out of account: kube-scheduler knows none of
them. Not in here: how many GPUs a pod asks for (resources), room on them (rooms).
"""

from __future__ import annotations

from collections.abc import Mapping

from apps.planner.inventory import Node, Pod, Tie
from apps.planner.naming import family_of, shown_model
from apps.planner.queues import GpuRequest
from apps.planner.resources import asks_gpu
from apps.planner.snapshot import Snapshot

REQUEST_LABEL = "defrag.gpu.internal/request"
BAD_REQUEST = "gpu-request"
"""Reason code of what waits with a GPURequest that cannot be honoured."""
MOST_NAMED = 4


def is_model(node: Node, model: str) -> bool:
    """Whether the node's GPUs are of that model or family; "" is any."""
    asked = model.lower()
    return not asked or asked in (
        node.model.lower(),
        shown_model(node.model).lower(),
        family_of(node.model).lower(),
    )


def has_memory(node: Node, memory_mib: int) -> bool:
    """Whether every GPU of the node is known to have that much; 0 asks nothing."""
    known = [gpu.memory_mib for gpu in node.gpus if gpu.memory_mib is not None]
    return not memory_mib or (bool(known) and min(known) >= memory_mib)


def is_memory_known(node: Node) -> bool:
    return any(gpu.memory_mib is not None for gpu in node.gpus)


def saved_on(snapshot: Snapshot, pod: Pod) -> str | None:
    """The model of the GPUs that a running pod's saved work is of; None where it is bound to none."""
    node = snapshot.nodes.get(pod.node_name)
    return node.model if node is not None and Tie.SAVED_WORK in pod.ties and asks_gpu(pod) else None


def request_of(snapshot: Snapshot, pod: Pod) -> GpuRequest | None:
    """The pod's GPURequest; None where it names none, or one that is not there or cannot be honoured."""
    return request_among(snapshot.gpu_requests, pod)


def request_among(requests: Mapping[str, GpuRequest], pod: Pod) -> GpuRequest | None:
    """The same among requests by their keys."""
    name = pod.labels.get(REQUEST_LABEL) if requests else None
    found = requests.get(f"{pod.namespace}/{name}") if name else None
    return found if found is not None and not found.problem else None


def tell_request(found: GpuRequest | None) -> str:
    """ "20,000 MiB of A100", "" without a request."""
    if found is None:
        return ""
    memory = f"{found.memory_mib:,} MiB" if found.memory_mib else ""
    return f"{memory} of {found.model}" if memory and found.model else memory or found.model


def why_not_honoured(snapshot: Snapshot, pod: Pod) -> str:
    """A sentence where the pod names a GPURequest that nobody can go by; "" where all is well."""
    name = pod.labels.get(REQUEST_LABEL, "")
    if not name or snapshot.cannot_read("gpurequests"):
        return ""
    key = f"{pod.namespace}/{name}"
    found = snapshot.gpu_requests.get(key)
    if found is None:
        return f"There is no GPURequest {key}, which its label names: make it, or take the label away."
    if found.problem:
        return f"Its GPURequest {key} cannot be honoured: {found.problem}."
    known = sorted({shown_model(node.model) for node in snapshot.nodes.values() if node.model and node.gpus})
    if found.model and known and not any(is_model(node, found.model) for node in snapshot.nodes.values()):
        there = ", ".join(known[:MOST_NAMED])
        wanted = f"No node has GPUs of the type {found.model}, which its GPURequest {key} wants"
        return f"{wanted}; there are {there}."
    return ""
