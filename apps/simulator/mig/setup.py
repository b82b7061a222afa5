"""What is true of one simulated node's GPUs, read from its annotations `sim.gpu.internal/…`.

A real cluster shows none of this: it shows what device plugin, feature discovery and node agent say.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from apps.simulator.hardware import Hardware, hardware_of, indexes_of, unhealthy_indexes
from apps.simulator.mig.layout import Layout, read_layout

Json = dict[str, Any]
log = logging.getLogger(__name__)

STRATEGY_ANNOTATION = "sim.gpu.internal/mig-strategy"
SHARING_ANNOTATION = "sim.gpu.internal/sharing"
AGENT_ANNOTATION = "sim.gpu.internal/node-agent"
LOST_ANNOTATION = "sim.gpu.internal/lost"
STRATEGY_LABEL = "nvidia.com/mig.strategy"
WHOLE_GPU = "nvidia.com/gpu"
_MOST_REPLICAS = 128


@dataclass(frozen=True, slots=True)
class Sharing:
    """How the device plugin replicates whole GPUs. renamed: offered as nvidia.com/gpu.shared."""

    strategy: str = "none"
    replicas: int = 1
    renamed: bool = False

    @property
    def is_on(self) -> bool:
        return self.replicas > 1


@dataclass(frozen=True)
class Setup:
    """unhealthy: GPUs that the device plugin will not hand out. lost: those that the driver no longer
    finds. has_agent: whether a node agent writes the matrix and the holders."""

    hardware: Hardware
    layout: Layout = field(default_factory=dict)
    strategy: str = "mixed"
    sharing: Sharing = Sharing()
    unhealthy: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    has_agent: bool = True

    @property
    def broken(self) -> frozenset[int]:
        return self.unhealthy | self.lost


def setup_of(node: Json) -> Setup | None:
    """None for a node without accelerators, or whose shared devices a dump does not explain."""
    hardware = hardware_of(node)
    if hardware is None:
        return None
    annotations = node["metadata"].get("annotations") or {}
    labels = node["metadata"].get("labels") or {}
    return Setup(
        hardware=hardware,
        layout=_layout(node, hardware),
        strategy=annotations.get(STRATEGY_ANNOTATION) or labels.get(STRATEGY_LABEL) or "mixed",
        sharing=_read_sharing(annotations.get(SHARING_ANNOTATION, "")),
        unhealthy=unhealthy_indexes(node),
        lost=indexes_of(annotations.get(LOST_ANNOTATION, "")),
        has_agent=annotations.get(AGENT_ANNOTATION) != "absent",
    )


def _layout(node: Json, hardware: Hardware) -> Layout:
    """Anybody may write an annotation: one that cannot be read counts as no MIG at all."""
    try:
        return read_layout(node, hardware)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        log.warning("the MIG layout of node %s is not simulated: %r", node["metadata"]["name"], error)
        return {}


def _read_sharing(text: str) -> Sharing:
    """ "time-slicing:4", or "time-slicing:4:renamed"."""
    strategy, _, rest = text.partition(":")
    replicas, _, renamed = rest.partition(":")
    if not replicas.isdecimal() or not 0 < int(replicas) <= _MOST_REPLICAS:
        return Sharing()
    return Sharing(strategy, int(replicas), renamed == "renamed")
