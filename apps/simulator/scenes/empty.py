"""A cluster without any node: what a page shows when there is nothing."""

from __future__ import annotations

from typing import Any

from apps.simulator.scenes.builder import SceneBuilder


def build() -> list[dict[str, Any]]:
    scene = SceneBuilder(seed=1)
    scene.add_namespace("research")
    return scene.build()
