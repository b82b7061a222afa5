"""Other traces of the same kinds, drawn from one: so that a policy is not tuned to the few files at hand.

A kind's name says what is changed: `gpushareX` (X % of the GPU requests come from pods with a part of a GPU),
`multigpuX` (X % from pods with several GPUs), `cpuX` (CPU-only pods times X %), `gpuspecX` (X % of the GPU
pods name the models they allow, drawn from the trace's models by their GPUs). Pods are drawn with replacement
from the given trace, GPU pods up to what it asks for in all. Seeded by the kind's name and the seed.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from apps.planner.replay.asks import Ask
from apps.planner.replay.nodes import EmptyNode

KINDS = (
    *(f"cpu{share}" for share in (50, 200, 250)),
    *(f"gpushare{share}" for share in (0, 20, 60, 80, 100)),
    *(f"multigpu{share}" for share in (20, 30)),
    *(f"gpuspec{share}" for share in (10, 20, 25)),
)


def draw_kind(name: str, asks: Sequence[Ask], nodes: Sequence[EmptyNode], seed: int) -> tuple[Ask, ...]:
    """Raises ValueError where the trace lacks the pods that the kind is made of."""
    matched = re.fullmatch(r"(cpu|gpushare|multigpu|gpuspec)(\d+)", name)
    if matched is None:
        raise ValueError(f"there is no kind {name!r}; there are {', '.join(KINDS)}")
    kind, share = matched.group(1), int(matched.group(2)) / 100
    rng = random.Random(f"{name} {seed}")
    plain = [ask for ask in asks if not ask.gpus]
    gpu = [ask for ask in asks if ask.gpus]
    if kind == "cpu":
        drawn = gpu + _draw_number(rng, plain, round(len(plain) * share))
    elif kind == "gpuspec":
        drawn = plain + _bind(rng, gpu, nodes, share)
    else:
        chosen = [ask for ask in gpu if (ask.is_part if kind == "gpushare" else ask.gpus > 1)]
        others = [ask for ask in gpu if ask not in set(chosen)]
        wanted = sum(ask.gpu_milli for ask in gpu)
        drawn = (
            plain + _draw_milli(rng, chosen, wanted * share) + _draw_milli(rng, others, wanted * (1 - share))
        )
    rng.shuffle(drawn)
    return tuple(drawn)


def _draw_number(rng: random.Random, asks: list[Ask], number: int) -> list[Ask]:
    if number and not asks:
        raise ValueError("the trace has no CPU-only pods to draw from")
    return [rng.choice(asks) for _ in range(number)]


def _draw_milli(rng: random.Random, asks: list[Ask], wanted: float) -> list[Ask]:
    if wanted > 0 and not asks:
        raise ValueError("the trace has no pods of this kind to draw from")
    drawn, got = [], 0
    while got < wanted:
        drawn.append(rng.choice(asks))
        got += drawn[-1].gpu_milli
    return drawn


def _bind(rng: random.Random, asks: list[Ask], nodes: Sequence[EmptyNode], share: float) -> list[Ask]:
    milli = Counter[str]()
    for node in nodes:
        milli[node.model] += node.gpus
    models, weights = list(milli), list(milli.values())
    return [
        replace(ask, models=tuple(sorted({*rng.choices(models, weights), *rng.choices(models, weights)})))
        if rng.random() < share
        else replace(ask, models=())
        for ask in asks
    ]
