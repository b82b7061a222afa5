"""A scene from trace CSVs: nodes, and pods placed in file order up to a share of the GPUs.

The simulated scheduler's own rules choose the node of each pod; then one gang of 8-GPU pods waits.
A part of a GPU appears as KAI shows it: annotation `gpu-fraction`, and a reservation pod that asks
for the whole device.
"""

from __future__ import annotations

import csv
import math
import random
from dataclasses import dataclass
from pathlib import Path

from apps.simulator.controllers.scheduler.cache import NodeFacts, PodFacts, SchedulerCache
from apps.simulator.controllers.scheduler.filters import Decision, check_node
from apps.simulator.controllers.scheduler.scores import score_nodes
from apps.simulator.hardware import MOST_DEVICES, GpuModel, build_hardware
from apps.simulator.scenes.builder import Json, SceneBuilder
from apps.simulator.scenes.owners import Owner, make_template

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_MEMORY_MIB = {"P100": 16280, "T4": 15360, "V100M16": 16160, "V100M32": 32510, "A10": 23028, "G2": 23028}
_SAMPLE = 100
_NAMESPACE = "trace"


@dataclass(frozen=True)
class TracePod:
    """gpu_milli: per GPU, 1000 is a whole one. models: allowed ones, () for any."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...]

    @property
    def is_fraction(self) -> bool:
        return self.gpus == 1 and self.gpu_milli < 1000


def read_trace(nodes_path: str, pods_path: str | None, *, load: float) -> list[Json]:
    """load: share of all GPUs to fill, above 0 and at most 1. Raises ValueError naming file and line."""
    if not 0 < load <= 1:
        raise ValueError(f"--load is {load}: it must be above 0 and at most 1")
    scene = SceneBuilder(seed=17)
    total = _add_nodes(scene, nodes_path)
    if pods_path:
        Filling(scene, total * 1000 * load).place_all(_read_pods(pods_path))
    _add_gang(scene)
    return scene.build()


def _add_nodes(scene: SceneBuilder, path: str) -> int:
    total = 0
    for line, row in _rows(path, _NODE_COLUMNS):
        count = _whole(path, line, row, "gpu")
        if count > MOST_DEVICES:
            raise ValueError(f"{path} line {line}: gpu is {count}, a node has at most {MOST_DEVICES}")
        room = {
            "cpu": f"{_whole(path, line, row, 'cpu_milli')}m",
            "memory": f"{_whole(path, line, row, 'memory_mib')}Mi",
            "pods": "250",
        }
        # The trace says nothing of links: the weakest are taken, so that nothing is promised.
        model = GpuModel(row["model"] or "", _MEMORY_MIB.get(row["model"] or "", 0), "", "PHB", "PHB", "SYS")
        hardware = build_hardware(row["sn"], model, count) if count else None
        labels = {"defrag.gpu.internal/pool": (row["model"] or "cpu").lower()}
        scene.add_machine(row["sn"], hardware, room, room, labels)
        total += count
    if not total:
        raise ValueError(f"{path} has no node with a GPU: check the column gpu")
    return total


def _read_pods(path: str) -> list[TracePod]:
    pods = []
    for line, row in _rows(path, _POD_COLUMNS):
        pods.append(
            TracePod(
                row["name"],
                _whole(path, line, row, "cpu_milli"),
                _whole(path, line, row, "memory_mib"),
                _whole(path, line, row, "num_gpu"),
                _whole(path, line, row, "gpu_milli") or 1000,
                tuple(part for part in (row.get("gpu_spec") or "").split("|") if part),
            )
        )
    return pods


class Filling:
    """Places pods one by one until so many milli-GPUs are taken."""

    def __init__(self, scene: SceneBuilder, milli: float) -> None:
        self._scene = scene
        self._left = milli
        self._rng = random.Random(17)
        self._cache = SchedulerCache()
        self._start = 0
        self._shared: dict[str, dict[int, int]] = {}
        for node in scene.nodes():
            self._cache.set_node(node)

    def place_all(self, pods: list[TracePod]) -> None:
        for pod in pods:
            need = pod.gpus * pod.gpu_milli
            if need and need > self._left:
                break
            if self._place(pod):
                self._left -= need

    def _place(self, pod: TracePod) -> bool:
        owner = Owner("Job", _NAMESPACE, pod.name, _template_of(pod), age_days=2)
        meta = {"uid": pod.name, "namespace": _NAMESPACE, "name": pod.name}
        draft = PodFacts({"metadata": meta, "spec": owner.template["spec"]})
        if pod.is_fraction and self._share(pod, owner, draft):
            return True
        node = self._choose(draft, extra_gpu=pod.is_fraction)
        if node is None:
            return False
        count = 1 if pod.is_fraction else pod.gpus
        devices = self._scene.free_devices(node, count) if count else ()
        if pod.is_fraction:
            self._reserve(node)
            self._shared.setdefault(node, {})[devices[0]] = 1000
            self._put_share(pod, owner, node, devices[0])
        else:
            self._take(self._scene.put(self._scene.add_owner(owner), node, devices), node)
        return True

    def _share(self, pod: TracePod, owner: Owner, draft: PodFacts) -> bool:
        """Onto a device that is already shared and has room: the fullest that fits."""
        best: tuple[int, str, int] | None = None
        for node, devices in self._shared.items():
            for device, room in devices.items():
                fits = (
                    room >= pod.gpu_milli and check_node(self._decision(draft), self._cache.nodes[node]).fits
                )
                if fits and (best is None or room < best[0]):
                    best = (room, node, device)
        if best is None:
            return False
        self._put_share(pod, owner, best[1], best[2])
        return True

    def _put_share(self, pod: TracePod, owner: Owner, node: str, device: int) -> None:
        self._shared[node][device] -= pod.gpu_milli
        placed = self._scene.put(self._scene.add_owner(owner), node)
        self._scene.hold_share(placed, node, device, pod.gpu_milli)
        self._take(placed, node)

    def _reserve(self, node: str) -> None:
        name = f"gpu-reservation-{node}-{len(self._shared.get(node, {}))}"
        template = make_template(name, gpus=1, cpu=1, memory_gib=1)
        owner = Owner("Deployment", "kai-resource-reservation", name, template, age_days=2)
        self._take(self._scene.put(self._scene.add_owner(owner), node), node)

    def _choose(self, draft: PodFacts, *, extra_gpu: bool) -> str | None:
        """Like the scheduler: a sample of fitting nodes from where the last search ended."""
        names = self._cache.order
        fitting: list[NodeFacts] = []
        step = 0
        for step in range(len(names)):
            node = self._cache.nodes[names[(self._start + step) % len(names)]]
            room = node.allocatable["nvidia.com/gpu"] - node.used["nvidia.com/gpu"]
            if (room >= 1 or not extra_gpu) and check_node(self._decision(draft), node).fits:
                fitting.append(node)
                if len(fitting) >= _SAMPLE:
                    break
        self._start = (self._start + step + 1) % len(names)
        if not fitting:
            return None
        scores = score_nodes(draft, fitting)
        best = max(scores.values())
        return self._rng.choice([name for name, score in scores.items() if score == best])

    def _decision(self, draft: PodFacts) -> Decision:
        return Decision(draft, self._cache, None)

    def _take(self, pod: Json, node: str) -> None:
        self._cache.put(PodFacts(pod), node)


def _template_of(pod: TracePod) -> Json:
    template = make_template(
        pod.name,
        image="registry.example/trace:1",
        gpus=0 if pod.is_fraction else pod.gpus,
        restart="Never",
        annotations={"gpu-fraction": f"{pod.gpu_milli / 1000:g}"} if pod.is_fraction else None,
    )
    resources = template["spec"]["containers"][0]["resources"]
    resources["requests"] |= {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    resources["limits"]["memory"] = f"{pod.memory_mib}Mi"
    if pod.models:
        allowed = {"key": "nvidia.com/gpu.product", "operator": "In", "values": list(pod.models)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [allowed]}]}
        template["spec"]["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        }
    if pod.is_fraction:
        template["spec"]["schedulerName"] = "kai-scheduler"
    return template


def _add_gang(scene: SceneBuilder, members: int = 2) -> None:
    template = make_template(
        "waiting-gang",
        gpus=8,
        cpu=32,
        memory_gib=128,
        priority="training",
        restart="Never",
        labels={"scheduling.x-k8s.io/pod-group": "waiting-gang"},
    )
    owner = scene.add_owner(Owner("Job", _NAMESPACE, "waiting-gang", template, age_days=0.03))
    scene.add_pod_group(_NAMESPACE, "waiting-gang", members, age_minutes=43)
    for _ in range(members):
        scene.put_pending(owner, 43, "not tried yet")


def _rows(path: str, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    with Path(path).open(newline="") as file:
        reader = csv.DictReader(file)
        missing = [name for name in columns if name not in (reader.fieldnames or [])]
        if missing:
            raise ValueError(f"{path} lacks the column {missing[0]}: it needs {', '.join(columns)}")
        return [(number + 2, row) for number, row in enumerate(reader)]


def _whole(path: str, line: int, row: dict[str, str], column: str) -> int:
    text = row[column] or "0"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0 or math.isinf(value):
        raise ValueError(f"{path} line {line}: {column} is {text!r}, it must be a number of at least 0")
    return int(value)
