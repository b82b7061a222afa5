"""Draw a cluster as text, so that tests read as sentences.

    cluster('''
        a1  aab.....
        a2  cc.D.!5.
    ''', waiting("team/train", gpus=8, count=3))

Each line is a node: its name and one character for each GPU. ``.`` is free, ``!`` is broken, a
lower-case letter is a movable pod holding as many GPUs as the letter appears, an upper-case one a
pod that its owner protects, a digit a pod holding that many tenths of the GPU. The pod drawn as
``b`` on a1 is called ``a1-b``, a share on GPU 6 ``a1-share6``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from apps.planner.inventory import (
    DisruptionBudget,
    Gang,
    Gpu,
    Holding,
    LabelSelector,
    LinkClass,
    Node,
    Pod,
    Requirement,
    Topology,
    Workload,
)
from apps.planner.snapshot import Snapshot

GPU = "nvidia.com/gpu"
GIB = 2**30
PROTECTED = "Its owner protects it."
Facts = Mapping[str, Mapping[str, Any]]


def cluster(
    drawing: str,
    *waiting_pods: Iterable[Pod],
    nodes: Facts | None = None,
    pods: Facts | None = None,
    extra: Iterable[Pod] = (),
    budgets: Iterable[DisruptionBudget] = (),
    taken_at: float = 0.0,
) -> Snapshot:
    """nodes, pods: facts to change, by name. extra: further pods, such as CPU pods. Their gangs are made."""
    made: list[Pod] = [pod for group in waiting_pods for pod in group] + list(extra)
    made_nodes: dict[str, Node] = {}
    for line in drawing.strip().splitlines():
        name, picture = line.split()
        node, guests = _read_line(name, picture)
        made_nodes[name] = replace(node, **(nodes or {}).get(name, {}))
        made += guests
    changed = [replace(pod, **(pods or {}).get(pod.name, {})) for pod in made]
    unknown = (set(nodes or {}) - set(made_nodes)) | (set(pods or {}) - {pod.name for pod in made})
    assert not unknown, f"not drawn: {unknown}"
    return Snapshot(
        "drawn",
        taken_at,
        nodes=made_nodes,
        pods={pod.uid: pod for pod in changed},
        workloads={pod.workload: _owner_of(pod) for pod in changed if pod.workload},
        budgets={budget.uid: budget for budget in budgets},
        gangs=_gangs_of(changed),
    )


def waiting(key: str, *, gpus: int, count: int = 1, **facts: Any) -> tuple[Pod, ...]:
    """Pending pods; more than one are a gang of that name. cpu and memory: per pod, else by GPUs."""
    namespace, _, name = key.partition("/")
    names = [name] if count == 1 else [f"{name}-{number}" for number in range(count)]
    cpu, memory = facts.pop("cpu", 4000 * gpus or 1000), facts.pop("memory", 16 * GIB * max(gpus, 1))
    return tuple(
        Pod(
            uid=f"uid-{one}",
            namespace=namespace,
            name=one,
            requests={"cpu": cpu, "memory": memory, **({GPU: gpus} if gpus else {})},
            gang=key if count > 1 else "",
            workload=f"owner-{name}",
            owner_kind="Job",
            **facts,
        )
        for one in names
    )


def running(name: str, node: str, *, gpus: int = 0, cpu: int = 1000, memory: int = GIB, **facts: Any) -> Pod:
    """A pod beside those of the drawing; without GPUs unless told (then without known devices)."""
    requests = {"cpu": cpu, "memory": memory, **({GPU: gpus} if gpus else {})}
    shape: dict[str, Any] = {
        "namespace": "team",
        "workload": f"owner-{name}",
        "owner_kind": "ReplicaSet",
        "phase": "Running",
        "ready": True,
        "requests": requests,
    }
    return Pod(uid=f"uid-{name}", name=name, node_name=node, **{**shape, **facts})


def budget(name: str, *, allowed: int, **labels: str) -> DisruptionBudget:
    return DisruptionBudget(
        "team", name, f"uid-{name}", selector=select(**labels), disruptions_allowed=allowed
    )


def select(**labels: str) -> LabelSelector:
    return LabelSelector(tuple(Requirement(key, "In", (value,)) for key, value in sorted(labels.items())))


def links(picture: str) -> Topology:
    """``links("aabb")``: GPUs with the same letter share NVLink, all others only the node."""
    return Topology(
        tuple(
            tuple("X" if a == b else "NV12" if one == other else "SYS" for b, other in enumerate(picture))
            for a, one in enumerate(picture)
        ),
        source="drawn",
    )


NVLINK = LinkClass.NVLINK


def _read_line(name: str, picture: str) -> tuple[Node, list[Pod]]:
    gpus = tuple(
        Gpu(index=at, uuid=f"GPU-{name}-{at}", healthy=mark != "!") for at, mark in enumerate(picture)
    )
    held: dict[str, list[int]] = {}
    for at, mark in enumerate(picture):
        if mark not in ".!":
            held.setdefault(f"share{at}" if mark.isdigit() else mark, []).append(at)
    guests: list[Pod] = []
    holdings: list[Holding] = []
    for mark, places in held.items():
        milli = 100 * int(picture[places[0]]) if mark.startswith("share") else 1000
        count = len(places)
        pod = running(f"{name}-{mark}", name, gpus=count, cpu=4000 * count, memory=16 * GIB * count)
        guests.append(replace(pod, gpu_milli=milli, protections=(PROTECTED,) if mark.isupper() else ()))
        holdings += [Holding(pod.uid, gpus[at].uuid, milli) for at in places]
    allocatable = {"cpu": 128_000, "memory": 1024 * GIB, "pods": 110, GPU: sum(gpu.healthy for gpu in gpus)}
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    node = Node(
        name=name,
        uid=f"uid-{name}",
        hostname=name,
        labels=labels,
        capacity=allocatable,
        allocatable=allocatable,
        vendor="nvidia",
        model="A100-SXM4-80GB",
        gpu_resource=GPU if gpus else "",
        gpus=gpus,
        topology=links("a" * len(gpus)),
        holdings=tuple(holdings),
    )
    return node, guests


def _owner_of(pod: Pod) -> Workload:
    return Workload(pod.workload, pod.owner_kind, pod.namespace, pod.gang.partition("/")[2] or pod.name)


def _gangs_of(pods: Iterable[Pod]) -> dict[str, Gang]:
    members: dict[str, int] = {}
    for pod in pods:
        if pod.gang:
            members[pod.gang] = members.get(pod.gang, 0) + 1
    return {key: Gang(key, number) for key, number in members.items()}
