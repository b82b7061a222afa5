"""6 nodes, full or wholly free: nothing waits and nothing is to be mended."""

from __future__ import annotations

from typing import Any

from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.owners import Owner, make_template


def build() -> list[dict[str, Any]]:
    scene = SceneBuilder(seed=3)
    for number in range(1, 7):
        scene.add_node(f"gpu-{number}", "h800", pool="train", rack="r1", zone="east-1a")
    template = make_template("pretrain", gpus=8, priority="high", restart="Never")
    owner = scene.add_owner(Owner("Job", "research", "pretrain", template))
    for number in range(1, 4):
        scene.put(owner, f"gpu-{number}", tuple(range(8)))
    template = make_template("chat-api", gpus=4, priority="prod")
    owner = scene.add_owner(Owner("Deployment", "serving", "chat-api", template))
    for first in (0, 4):
        scene.put(owner, "gpu-4", tuple(range(first, first + 4)))
    scene.add_budget(owner, maxUnavailable=1)
    return scene.build()
