"""Random clusters for the free-nodes benchmark: uniform ones of 8 GPUs a node, and mixed ones.

Everything is drawn from a seed. Not in here: plans, times, other solvers.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.planner.inventory import (
    DisruptionBudget,
    Gpu,
    Holding,
    LabelSelector,
    Node,
    Pod,
    PodTerm,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
    Workload,
)
from apps.planner.snapshot import Snapshot

GPU = "nvidia.com/gpu"
GIB = 2**30
DAY = 86_400.0
PINNED = "Its owner protects it."
MIXES: Mapping[str, Mapping[int, int]] = {
    "small": {1: 70, 2: 15, 4: 10, 8: 5},
    "even": {1: 40, 2: 30, 4: 20, 8: 10},
    "large": {1: 30, 2: 20, 4: 25, 8: 25},
    "odd": {1: 25, 2: 20, 3: 20, 4: 15, 5: 12, 6: 8},
}
"""Weights of the pod sizes, in whole GPUs."""
MODELS: Sequence[tuple[str, int, int, int, int]] = (
    ("A100", 8, 128_000, 1024, 50),
    ("V100", 8, 96_000, 512, 20),
    ("A10", 4, 64_000, 256, 15),
    ("T4", 2, 48_000, 192, 15),
)
"""(model, GPUs, millicores, GiB, share of the nodes in percent)"""


@dataclass(slots=True)
class Drawn:
    """A cluster that is being filled: what is left of every node, and who came where."""

    draw: random.Random
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    left: dict[str, dict[str, int]] = field(default_factory=dict)
    devices: dict[str, list[int]] = field(default_factory=dict)
    holdings: dict[str, list[Holding]] = field(default_factory=dict)
    allowed: dict[tuple[object, ...], list[str]] = field(default_factory=dict)

    def add_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.left[node.name] = {name: node.allocatable[name] for name in ("cpu", "memory", "pods")}
        self.devices[node.name] = [1000] * len(node.gpus)
        self.holdings[node.name] = []

    def place(self, pod: Pod, names: Sequence[str], tries: int = 40) -> bool:
        """On the first of some random nodes that has room."""
        for _ in range(tries):
            name = self.draw.choice(names)
            seats = self._seats(pod, name)
            if seats is None:
                continue
            for at in seats:
                self.devices[name][at] -= pod.gpu_milli
                self.holdings[name].append(Holding(pod.uid, f"GPU-{name}-{at}", pod.gpu_milli))
            for resource in self.left[name]:
                self.left[name][resource] -= 1 if resource == "pods" else pod.requests[resource]
            facts: Any = {"node_name": name, "phase": "Running", "ready": True}
            self.pods[pod.uid] = _changed(pod, **facts)
            return True
        return False

    def _seats(self, pod: Pod, name: str) -> list[int] | None:
        left, wanted = self.left[name], pod.requests.get(GPU, 0)
        if left["pods"] < 1 or any(left[one] < pod.requests[one] for one in ("cpu", "memory")):
            return None
        fitting = [at for at, milli in enumerate(self.devices[name]) if milli >= pod.gpu_milli]
        if len(fitting) < wanted:
            return None
        if pod.gpu_milli < 1000:  # schedulers pack shares: the fullest device first
            fitting.sort(key=lambda at: self.devices[name][at])
            return fitting[:wanted]
        return sorted(self.draw.sample(fitting, wanted))

    def snapshot(self, budgets: Sequence[DisruptionBudget] = ()) -> Snapshot:
        nodes = {
            name: _changed(node, holdings=tuple(self.holdings[name])) for name, node in self.nodes.items()
        }
        owners = {
            pod.workload: Workload(pod.workload, "ReplicaSet", pod.namespace, pod.workload, replicas=1)
            for pod in self.pods.values()
        }
        return Snapshot(
            "drawn",
            2 * DAY,
            nodes=nodes,
            pods=self.pods,
            workloads=owners,
            budgets={budget.uid: budget for budget in budgets},
        )


def draw_uniform(nodes: int, load: float, mix: str, seed: int) -> Snapshot:
    """Nodes of 8 GPUs; whole-GPU pods put on random nodes until the load is reached."""
    drawn = Drawn(random.Random(seed))
    for number in range(nodes):
        drawn.add_node(make_node(f"n{number:05}", "A100", 8, 128_000, 1024))
    names, sizes = list(drawn.nodes), MIXES[mix]
    wanted, placed, number = load * 8 * nodes, 0, 0
    while placed < wanted:
        gpus = drawn.draw.choices(list(sizes), list(sizes.values()))[0]
        number += 1
        pod = make_pod(f"p{number:06}", gpus, 4000 * gpus, 32 * gpus, started_at=_long_ago(drawn.draw))
        if drawn.place(pod, names) or _place_anywhere(drawn, pod, names):
            placed += gpus
    return drawn.snapshot()


def _place_anywhere(drawn: Drawn, pod: Pod, names: list[str]) -> bool:
    """In a full cluster random nodes rarely have room: ask all, in a random order."""
    shuffled = drawn.draw.sample(names, len(names))
    return any(drawn.place(pod, [name], tries=1) for name in shuffled)


def draw_mixed(nodes: int, pods: int, seed: int, *, rules: bool = False, pinned: float = 0.15) -> Snapshot:
    """Four models, 2, 4 or 8 GPUs, CPU and memory binding, selectors, taints, budgets, shares.

    rules: some workloads also have rules between pods (one a node, spread over zones).
    """
    drawn = Drawn(random.Random(seed))
    draw = drawn.draw
    for number in range(nodes):
        model, gpus, cpu, memory, _ = draw.choices(MODELS, [one[4] for one in MODELS])[0]
        zone = f"zone-{number % 3}"
        taints = (Taint("team", "research"),) if draw.random() < 0.2 else ()
        labels = {"zone": zone, "disk": draw.choice(["ssd", "hdd"])}
        drawn.add_node(make_node(f"n{number:05}", model, gpus, cpu, memory, labels=labels, taints=taints))
    for number in range(pods):
        pod = _draw_pod(draw, number, rules, pinned)
        drawn.place(pod, _allowed(drawn, pod))
    budgets = [
        DisruptionBudget(
            "team",
            f"budget-{app}",
            f"budget-{app}",
            LabelSelector((Requirement("app", "In", (f"app-{app}",)),)),
            disruptions_allowed=draw.choice([0, 1, 2, 5]),
        )
        for app in range(0, 40, 4)
    ]
    return drawn.snapshot(budgets)


def _draw_pod(draw: random.Random, number: int, rules: bool, pinned: float) -> Pod:
    app = f"app-{draw.randrange(40)}"
    kind, facts = draw.random(), {}
    gpus, milli = draw.choices([1, 2, 4, 8], [50, 25, 15, 10])[0], 1000
    if kind < 0.2:
        gpus, milli = 1, draw.choice([200, 250, 500])
    elif kind < 0.25:
        gpus = 0
    cpu = draw.choice([2000, 4000, 8000, 12_000]) * max(1, gpus)
    memory = draw.choice([8, 16, 32, 64]) * max(1, gpus)
    if draw.random() < 0.3:
        model = draw.choice(MODELS)[0]
        facts["node_selector"] = {"model": model}
    elif draw.random() < 0.1:
        facts["node_selector"] = {"disk": "ssd"}
    if draw.random() < 0.35:
        facts["tolerations"] = (Toleration("team", value="research"),)
    if draw.random() < pinned:
        facts["protections"] = (PINNED,)
    if rules and draw.random() < 0.25:
        own = LabelSelector((Requirement("app", "In", (app,)),))
        if draw.random() < 0.6:
            facts["pod_anti_affinity"] = (PodTerm("kubernetes.io/hostname", own),)
        else:
            facts["spread"] = (SpreadConstraint("zone", 2, own),)
    facts |= {"labels": {"app": app}, "started_at": _long_ago(draw)}
    return make_pod(f"p{number:06}", gpus, cpu, memory, milli=milli, **facts)


def _allowed(drawn: Drawn, pod: Pod) -> list[str]:
    """Remembered per wish: a benchmark draws 60,000 pods for 10,000 nodes."""
    key = (tuple(pod.node_selector.items()), bool(pod.tolerations))
    if key not in drawn.allowed:
        drawn.allowed[key] = [
            name
            for name, node in drawn.nodes.items()
            if all(node.labels.get(label) == value for label, value in pod.node_selector.items())
            and (not node.taints or pod.tolerations)
        ]
    return drawn.allowed[key]


def make_node(name: str, model: str, gpus: int, cpu: int, memory: int, **facts: Any) -> Node:
    """memory: GiB."""
    allocatable = {"cpu": cpu, "memory": memory * GIB, "pods": 110, GPU: gpus}
    labels = {"kubernetes.io/hostname": name, "model": model, **facts.pop("labels", {})}
    return Node(
        name=name,
        uid=f"node-{name}",
        hostname=name,
        labels=labels,
        capacity=allocatable,
        allocatable=allocatable,
        vendor="nvidia",
        model=model,
        gpu_resource=GPU,
        gpus=tuple(Gpu(index=at, uuid=f"GPU-{name}-{at}") for at in range(gpus)),
        **facts,
    )


def make_pod(name: str, gpus: int, cpu: int, memory: int, *, milli: int = 1000, **facts: Any) -> Pod:
    """memory: GiB."""
    requests = {"cpu": cpu, "memory": memory * GIB, **({GPU: gpus} if gpus else {})}
    return Pod(
        uid=f"pod-{name}",
        namespace="team",
        name=name,
        requests=requests,
        gpu_milli=milli,
        workload=f"owner-{name}",
        owner_kind="ReplicaSet",
        **facts,
    )


def _long_ago(draw: random.Random) -> float:
    """Started within the last two days; some on the hour, so that costs repeat."""
    return float(draw.choice([draw.randrange(int(2 * DAY)), 3600 * draw.randrange(48)]))


def _changed(one: Any, **facts: Any) -> Any:
    """As dataclasses.replace, but quick: a benchmark draws 60,000 of them."""
    twin = object.__new__(type(one))
    for name in one.__dataclass_fields__:
        object.__setattr__(twin, name, facts[name] if name in facts else getattr(one, name))
    return twin
