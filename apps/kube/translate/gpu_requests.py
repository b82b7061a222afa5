"""Our own kind GPURequest becomes the planner's fact, with a clause where it cannot be honoured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.kube.translate.values import brief, child, clean
from apps.kube.translate.wishes import LARGEST_CARD_MIB
from apps.planner.queues import GpuRequest

LONGEST_MODEL = 120


def read_gpu_request(raw: Mapping[str, Any]) -> GpuRequest:
    metadata, spec = child(raw, "metadata"), child(raw, "spec")
    memory, model, preemptible = spec.get("gpuMem"), spec.get("gpuType"), spec.get("preemptible")
    problems = [*_judge_memory(memory)]
    if model is not None and not isinstance(model, str):
        problems.append(f"its gpuType {brief(model)} is no text")
    if preemptible is not None and not isinstance(preemptible, bool):
        problems.append(f"its preemptible {brief(preemptible)} is neither true nor false")
    return GpuRequest(
        key=f"{clean(metadata.get('namespace'), 253)}/{clean(metadata.get('name'), 253)}",
        memory_mib=memory if isinstance(memory, int) and not problems else None,
        model=clean(model, LONGEST_MODEL).strip(),
        preemptible=preemptible if isinstance(preemptible, bool) else None,
        problem="; ".join(problems),
        uid=clean(metadata.get("uid"), 100),
    )


def _judge_memory(memory: object) -> list[str]:
    if memory is None:
        return []
    if isinstance(memory, bool) or not isinstance(memory, int):
        return [f"its gpuMem {brief(memory)} is no whole number of MiB"]
    if not 1 <= memory <= LARGEST_CARD_MIB:
        return [f"its gpuMem is {memory} MiB, and takes 1 to {LARGEST_CARD_MIB}"]
    return []
