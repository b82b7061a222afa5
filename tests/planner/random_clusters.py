"""Small random clusters, drawn as text."""

from __future__ import annotations

import random
from dataclasses import replace

from apps.planner.inventory import Pod
from apps.planner.snapshot import Snapshot
from tests.drawing import GIB, cluster, running, waiting

LETTERS = "abcdefgh"


def draw_cluster(
    draw: random.Random, *, nodes: int = 4, gpus: int = 4, shares: bool = True, gang=()
) -> Snapshot:
    """Few nodes, some pods protected, CPU short here and there, CPU pods beside."""
    lines, facts, extra = [], {}, []
    for number in range(nodes):
        name = f"n{number}"
        lines.append(f"{name} {draw_node(draw, gpus, shares)}")
        cpu = draw.choice([10_000, 16_000, 24_000])
        facts[name] = {"allocatable": {"cpu": cpu, "memory": 900 * GIB, "pods": 20, "nvidia.com/gpu": gpus}}
        if draw.random() < 0.3:
            extra.append(running(f"web{number}", name, cpu=draw.choice([1000, 3000])))
    snapshot = cluster("\n".join(lines), gang, nodes=facts, extra=extra)
    changed = [_cheaper(pod, draw) for pod in snapshot.pods.values() if pod.node_name]
    return snapshot.with_pods(changed)


def draw_node(draw: random.Random, gpus: int, shares: bool) -> str:
    picture, letters = "", iter(LETTERS)
    while len(picture) < gpus:
        kind = draw.random()
        if kind < 0.4:
            picture += "."
        elif kind < 0.55 and shares:
            picture += draw.choice("357")
        else:
            letter = next(letters)
            letter = letter.upper() if draw.random() < 0.12 else letter
            picture += letter * min(draw.choice([1, 1, 1, 2, 3]), gpus - len(picture))
    return picture


def draw_gang(draw: random.Random, gpus: int = 4) -> tuple[Pod, ...]:
    return waiting("ml/train", gpus=draw.choice([gpus, gpus, gpus // 2]), count=draw.choice([1, 2]), cpu=4000)


def _cheaper(pod: Pod, draw: random.Random) -> Pod:
    if "nvidia.com/gpu" not in pod.requests:
        return pod
    return replace(pod, requests={**pod.requests, "cpu": draw.choice([1000, 2000, 5000])})
