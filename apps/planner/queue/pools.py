"""The states of nodes that look alike to all that waits, one after the other in tables.

Not in here: the states themselves (states), what is worth starting in them (search).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.planner.queue.states import Flags, Ints, NodeStates


@dataclass(slots=True)
class Pool:
    """Nodes to which the same wishes may go, and all their states one after the other."""

    wishes: tuple[int, ...]
    arrivals: tuple[int, ...]
    nodes: list[NodeStates]
    first: Ints
    left: Ints
    devices: Ints
    size: Ints
    kinds: Ints
    chosen: Flags
    quiet: Flags


def stack_nodes(
    wishes: tuple[int, ...], arrivals: tuple[int, ...], nodes: list[NodeStates], none: int, quiet: Flags
) -> Pool:
    wide = max(node.devices.shape[1] for node in nodes)
    many = max(len(node.guests) for node in nodes)
    rows = [len(node.left) for node in nodes]
    first = np.cumsum([0, *rows]).astype(np.int64)
    devices = np.zeros((first[-1], wide), dtype=np.int64)
    chosen = np.zeros((first[-1], many), dtype=bool)
    kinds = np.full((first[-1], many), none, dtype=np.int64)
    for node, low, high in zip(nodes, first[:-1], first[1:], strict=True):
        devices[low:high, : node.devices.shape[1]] = node.devices
        chosen[low:high, : len(node.guests)] = node.chosen
        kinds[low:high, : len(node.guests)] = node.kinds
    left = np.vstack([node.left for node in nodes])
    return Pool(wishes, arrivals, nodes, first, left, devices, chosen.sum(axis=1), kinds, chosen, quiet)
