"""The part of each GPU's memory that is never given out in shares. Pure."""

from __future__ import annotations

from dataclasses import replace

from apps.planner.inventory import Node


def with_reserve(node: Node, reserved_mib: int) -> Node:
    """The node as if each of its GPUs had that much memory less."""
    if not reserved_mib:
        return node
    gpus = tuple(
        gpu if gpu.memory_mib is None else replace(gpu, memory_mib=max(gpu.memory_mib - reserved_mib, 0))
        for gpu in node.gpus
    )
    return replace(node, gpus=gpus)
