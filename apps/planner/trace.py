"""A snapshot from the rows of a trace: nodes and placed pods in the columns of public GPU traces.

Rows come already read (mappings of text); opening files is the caller's. Every pod is treated
as one that a controller recreates, since a trace tells nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from apps.planner.inventory import Gpu, Holding, Node, NodeTerm, Pod, Requirement, Workload
from apps.planner.snapshot import Snapshot

Row = Mapping[str, str]
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
NAMESPACE = "default"
MOST_PODS_A_NODE = 1001
LARGEST_AMOUNT = 2**30
"""A million cores in millicores, a PiB in MiB."""


def snapshot_from_rows(
    node_rows: Iterable[Row], pod_rows: Iterable[Row], name: str = "trace", taken_at: float = 0.0
) -> Snapshot:
    """Nodes: sn, cpu_milli, memory_mib, gpu, model. Pods: name, cpu_milli, memory_mib, num_gpu,
    gpu_milli, gpu_spec, node (empty = waiting), gpus ("0;3"). Raises ValueError naming the row."""
    shapes = {node.name: node for node in _read_nodes(node_rows)}
    pods: dict[str, Pod] = {}
    holdings: dict[str, list[Holding]] = {node: [] for node in shapes}
    for number, row in enumerate(pod_rows, start=2):
        pod, devices = _read_pod(row, number, shapes)
        if pod.uid in pods:
            raise ValueError(f"pods, line {number}: {pod.name!r} appears twice")
        pods[pod.uid] = pod
        holdings.setdefault(pod.node_name, []).extend(devices)
    nodes = {node.name: replace(node, holdings=tuple(holdings[node.name])) for node in shapes.values()}
    workloads = {
        pod.workload: Workload(pod.workload, "ReplicaSet", NAMESPACE, pod.name, replicas=1)
        for pod in pods.values()
    }
    return Snapshot(name, taken_at, nodes=nodes, pods=pods, workloads=workloads)


def workload_from_rows(pod_rows: Iterable[Row]) -> tuple[Pod, ...]:
    """Pods of a target workload (their placement, if any, is not looked at)."""
    return tuple(
        _read_pod({**row, "node": "", "gpus": ""}, number, {})[0]
        for number, row in enumerate(pod_rows, start=2)
    )


def _read_nodes(rows: Iterable[Row]) -> Iterable[Node]:
    seen: set[str] = set()
    for number, row in enumerate(rows, start=2):
        name = read_text(row, "sn", "nodes", number)
        if name in seen:
            raise ValueError(f"nodes, line {number}: {name!r} appears twice")
        seen.add(name)
        gpus = read_amount(row, "gpu", "nodes", number)
        if gpus > 128:
            raise ValueError(f"nodes, line {number}: {gpus} GPUs on one node are too many")
        model = (row.get("model") or "").strip()
        allocatable = {
            "cpu": read_amount(row, "cpu_milli", "nodes", number),
            "memory": read_amount(row, "memory_mib", "nodes", number) * 2**20,
            "pods": MOST_PODS_A_NODE,
            **({GPU: gpus} if gpus else {}),
        }
        yield Node(
            name=name,
            uid=f"node-{name}",
            hostname=name,
            labels={"kubernetes.io/hostname": name, **({PRODUCT: model} if model else {})},
            capacity=allocatable,
            allocatable=allocatable,
            vendor="nvidia" if gpus else "",
            model=model,
            gpu_resource=GPU if gpus else "",
            gpus=tuple(Gpu(index=at, uuid=f"GPU-{name}-{at}") for at in range(gpus)),
            pool=model,
        )


def _read_pod(row: Row, number: int, nodes: Mapping[str, Node]) -> tuple[Pod, list[Holding]]:
    name = read_text(row, "name", "pods", number)
    gpus, milli = read_share(row, number)
    models = read_models(row)
    node_name = (row.get("node") or "").strip()
    requests = {
        "cpu": read_amount(row, "cpu_milli", "pods", number),
        "memory": read_amount(row, "memory_mib", "pods", number) * 2**20,
        **({GPU: gpus} if gpus else {}),
    }
    pod = Pod(
        uid=f"pod-{name}",
        namespace=NAMESPACE,
        name=name,
        node_name=node_name,
        phase="Running" if node_name else "Pending",
        ready=bool(node_name),
        requests=requests,
        gpu_milli=milli or 1000,
        node_terms=(NodeTerm(labels=(Requirement(PRODUCT, "In", models),)),) if models else (),
        workload=f"owner-{name}",
        owner_kind="ReplicaSet",
        created_at=float(number),
    )
    return pod, _read_devices(row, number, pod, nodes) if node_name else []


def _read_devices(row: Row, number: int, pod: Pod, nodes: Mapping[str, Node]) -> list[Holding]:
    node = nodes.get(pod.node_name)
    if node is None:
        raise ValueError(f"pods, line {number}: there is no node {pod.node_name!r}")
    wanted = pod.requests.get(GPU, 0)
    text = (row.get("gpus") or "").strip()
    if not text and not wanted:
        return []
    try:
        indexes = [int(part) for part in re.split(r"[|;, ]+", text)] if text else []
    except ValueError:
        raise ValueError(f"pods, line {number}: gpus must be indexes such as 0;3, not {text!r}") from None
    if indexes and (len(indexes) != wanted or any(a >= b for a, b in pairwise(sorted(indexes)))):
        raise ValueError(f"pods, line {number}: {wanted} different GPUs are asked for, {text!r} are held")
    if any(not 0 <= index < len(node.gpus) for index in indexes):
        raise ValueError(f"pods, line {number}: {node.name} has GPUs 0 to {len(node.gpus) - 1}, not {text!r}")
    return [Holding(pod.uid, f"GPU-{node.name}-{index}", pod.gpu_milli) for index in indexes]


def read_share(row: Row, number: int) -> tuple[int, int]:
    """(number of GPUs, milli of each; 0 of none) that a pod's row asks for."""
    gpus = read_amount(row, "num_gpu", "pods", number)
    milli = read_amount(row, "gpu_milli", "pods", number)
    if gpus and not 0 < milli <= 1000:
        raise ValueError(f"pods, line {number}: gpu_milli must be 1 to 1000, not {milli}")
    return gpus, milli if gpus else 0


def read_models(row: Row) -> tuple[str, ...]:
    """The GPU models that a pod's row allows; none named allows every model."""
    return tuple(part for part in (row.get("gpu_spec") or "").strip().split("|") if part)


def read_text(row: Row, column: str, table: str, number: int) -> str:
    """A cell that may not be empty. Raises ValueError naming table, line and column, as all readers here."""
    value = (row.get(column) or "").strip()
    if not value:
        raise ValueError(f"{table}, line {number}: column {column!r} is missing or empty")
    return value


def read_amount(row: Row, column: str, table: str, number: int) -> int:
    """A cell with a whole number from 0 to LARGEST_AMOUNT; an empty cell counts as 0."""
    text = (row.get(column) or "").strip() or ("0" if column in row else "")
    try:
        exact = float(text)
        value = int(exact)
    except (ValueError, OverflowError):
        raise ValueError(f"{table}, line {number}: {column} must be a number, not {text[:40]!r}") from None
    if value != exact:
        raise ValueError(f"{table}, line {number}: {column} must be a whole number, not {text[:40]!r}")
    if value < 0:
        raise ValueError(f"{table}, line {number}: {column} must not be negative")
    if value > LARGEST_AMOUNT:
        raise ValueError(f"{table}, line {number}: {column} is too large: {text[:40]}")
    return value
