"""16 nodes of 8 A100s, 25 GPUs free, at most 5 on one node; a gang of 3 x 8 waits; 7 moves unlock it.

Everybody has the same priority, so only what is kept on purpose is kept.
"""

from __future__ import annotations

from typing import Any

from apps.simulator.hardware import MODELS
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.owners import Owner, make_template

Json = dict[str, Any]

_MODEL = "a100-sxm4-80gb"
_KEEP = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
_PROTECT = {"defrag.gpu.internal/protect": "true"}
# code: (kind, name, annotations)
_WORKLOADS: dict[str, tuple[str, str, dict[str, str]]] = {
    "P": ("Job", "pretrain", _KEEP),
    "S": ("StatefulSet", "sft", _PROTECT),
    "E": ("Deployment", "embed", {}),
    "N": ("Job", "eval", {}),
    "L": ("StatefulSet", "lora", {}),
    "A": ("Deployment", "asr", {}),
}
ROWS = (
    *("P8", "P8", "P8", "P8", "P8", "P8", "S4 S4"),
    *("E . . N2 . . .", "L . E . . L . .", "A2 . . A2 . ."),
    *("S4 . S . S", "S4 S . S .", "S4 S2 . S", "S2 S . S4", "S4 . . S2", "S4 S . . ."),
)


def build() -> list[Json]:
    scene = SceneBuilder(seed=16)
    for number in range(len(ROWS)):
        rack = f"r{number // 4 + 1}"
        scene.add_node(f"gpu-{number + 1:02d}", _MODEL, pool="train", rack=rack, zone="east-1a")
    owners: dict[str, Owner] = {}
    for number, row in enumerate(ROWS):
        index = 0
        for token in row.split():
            if token == ".":
                index += 1
                continue
            size = int(token[1:] or 1)
            owner = _owner_for(scene, owners, token[0], size)
            scene.put(owner, f"gpu-{number + 1:02d}", tuple(range(index, index + size)))
            index += size
    scene.add_budget(owners["E1"], maxUnavailable=1)
    _add_waiting_gang(scene)
    return scene.build()


def _owner_for(scene: SceneBuilder, owners: dict[str, Owner], code: str, size: int) -> Owner:
    """One owner per workload and size."""
    key = f"{code}{size}"
    if key not in owners:
        kind, name, marks = _WORKLOADS[code]
        restart = "Never" if kind == "Job" else "Always"
        selector = {"nvidia.com/gpu.product": MODELS[_MODEL].product}
        about = make_template(
            f"{name}-{size}g", gpus=size, restart=restart, selector=selector, annotations=marks, grace=10
        )
        owners[key] = scene.add_owner(Owner(kind, "work", f"{name}-{size}g", about))
    return owners[key]


def _add_waiting_gang(scene: SceneBuilder) -> None:
    template = make_template(
        "big-train",
        gpus=8,
        cpu=48,
        memory_gib=448,
        priority="training",
        restart="Never",
        selector={"nvidia.com/gpu.product": MODELS[_MODEL].product},
        labels={"scheduling.x-k8s.io/pod-group": "big-train"},
        annotations={"defrag.gpu.internal/link": "nvlink"},
    )
    owner = scene.add_owner(Owner("Job", "ml", "big-train", template, age_days=12 / 1440))
    scene.add_pod_group("ml", "big-train", 3, age_minutes=12)
    message = (
        "0/16 nodes are available: 16 Insufficient nvidia.com/gpu. "
        "preemption: not eligible due to preemptionPolicy=Never."
    )
    for _ in range(3):
        scene.put_pending(owner, 12, message)
