"""6 nodes of 8 GPUs; a gang of 2 x 8 waits; 3 moves (Deployment, StatefulSet, Job) unlock it."""

from __future__ import annotations

from typing import Any

from apps.simulator.hardware import MODELS
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.owners import Owner, make_template

Json = dict[str, Any]

_MODEL = "a100-sxm4-80gb"
# code: (kind, name, GPUs per pod, annotations)
_WORKLOADS: dict[str, tuple[str, str, int, dict[str, str]]] = {
    "T": ("Job", "trainer", 8, {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
    "D": ("Deployment", "web-infer", 2, {}),
    "S": ("StatefulSet", "tuner", 2, {"sim.gpu.internal/checkpoint-seconds": "1"}),
    "J": ("Job", "batch-eval", 1, {}),
    "P": ("StatefulSet", "pinned", 4, {"defrag.gpu.internal/protect": "true"}),
    "N": ("StatefulSet", "notebook", 1, {"defrag.gpu.internal/protect": "true"}),
}
ROWS = ("T", "D . . . . . .", "S . . J . . . .", "P . D .", "P . . S", "P N . . N")


def build() -> list[Json]:
    scene = SceneBuilder(seed=7)
    product = MODELS[_MODEL].product
    for number in range(len(ROWS)):
        scene.add_node(f"gpu-{number + 1}", _MODEL, pool="train", rack=f"r{number // 2 + 1}", zone="east-1a")
    owners: dict[str, Owner] = {}
    for code, (kind, name, gpus, marks) in _WORKLOADS.items():
        template = make_template(
            name,
            gpus=gpus,
            restart="Never" if kind == "Job" else "Always",
            selector={"nvidia.com/gpu.product": product},
            annotations=marks,
        )
        owners[code] = scene.add_owner(Owner(kind, "work", name, template))
    for number, row in enumerate(ROWS):
        index = 0
        for token in row.split():
            if token == ".":
                index += 1
                continue
            size = _WORKLOADS[token][2]
            scene.put(owners[token], f"gpu-{number + 1}", tuple(range(index, index + size)))
            index += size
    scene.add_budget(owners["D"], maxUnavailable=1)
    exporter = make_template("node-exporter", cpu=1, memory_gib=1)
    scene.put_daemon(scene.add_owner(Owner("DaemonSet", "monitoring", "node-exporter", exporter)))
    _add_waiting_gang(scene, product)
    return scene.build()


def _add_waiting_gang(scene: SceneBuilder, product: str) -> None:
    template = make_template(
        "big-train",
        gpus=8,
        cpu=48,
        memory_gib=448,
        priority="training",
        restart="Never",
        selector={"nvidia.com/gpu.product": product},
        labels={"scheduling.x-k8s.io/pod-group": "big-train"},
        annotations={"defrag.gpu.internal/link": "nvlink"},
    )
    owner = scene.add_owner(Owner("Job", "ml", "big-train", template, age_days=12 / 1440))
    scene.add_pod_group("ml", "big-train", 2, age_minutes=12)
    message = (
        "0/6 nodes are available: 6 Insufficient nvidia.com/gpu. "
        "preemption: not eligible due to preemptionPolicy=Never."
    )
    for _ in range(2):
        scene.put_pending(owner, 12, message)
