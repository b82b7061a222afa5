"""Drift: what a node shows now against what it has shown before. Pure: `clusters.expectations` remembers.

What sources disagree about at one moment is found where they are read (`kube.translate`). Here one source is
held against its own past: a GPU that fell off the bus, NVLinks that are gone, a MIG layout lost in a reboot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from apps.planner.inventory import Node
from apps.planner.mig.nodes import MIG_PREFIX
from apps.planner.topology import LinkClass, link_class

MIG_CONFIG = "nvidia.com/mig.config"
MIG_STATE = "nvidia.com/mig.config.state"
PAUSED = "paused-for-mig-change"


@dataclass(frozen=True, slots=True)
class Expected:
    """The most that a node has shown under its UID.

    gpus: healthy ones. nvlinks: pairs of GPUs joined by NVLink or its like; None as long as no source told
    links. config: the MIG configuration that `instances` (by profile) stood under, "" without one.
    """

    gpus: int = 0
    nvlinks: int | None = None
    config: str = ""
    instances: Mapping[str, int] = field(default_factory=dict)


def learn(known: Expected | None, node: Node) -> Expected:
    """What to expect of the node from now on: never less than before, unless a person says so or its MIG
    configuration was changed on purpose."""
    before = known or Expected()
    seen = _nvlinks(node)
    config, instances = _learn_layout(before, node)
    return Expected(
        gpus=max(before.gpus, _healthy(node)),
        nvlinks=before.nvlinks if seen is None else max(before.nvlinks or 0, seen),
        config=config,
        instances=instances,
    )


def find_drift(expected: Expected, node: Node) -> tuple[str, ...]:
    """One sentence for each thing that was there and is not; empty for a node as it was."""
    sentences = []
    healthy = _healthy(node)
    if healthy < expected.gpus:
        sentences.append(f"{expected.gpus} healthy GPUs were seen here, now there are {healthy}")
    seen = _nvlinks(node)
    # Fewer GPUs have fewer links: that is told already.
    if seen is not None and expected.nvlinks and healthy >= expected.gpus and seen < expected.nvlinks:
        sentences.append(f"{expected.nvlinks} pairs of GPUs were joined by NVLink here, now {seen} are")
    if expected.config and _config(node) == expected.config and _is_settled(node):
        offered = _instances(node)
        sentences.extend(
            f"the MIG layout {expected.config} offered {count} of {profile} here, "
            f"now {offered.get(profile, 0)} are offered though its label is the same"
            for profile, count in sorted(expected.instances.items())
            if offered.get(profile, 0) < count
        )
    return tuple(sentences)


def _learn_layout(before: Expected, node: Node) -> tuple[str, Mapping[str, int]]:
    config = _config(node)
    offered = _instances(node)
    if not _is_settled(node) or offered != _counted(node):
        # While a change is under way, and for a moment after its success, the earlier layout still shows.
        return before.config, before.instances
    if config != before.config:
        return config, offered
    names = {*before.instances, *offered}
    most = {name: max(before.instances.get(name, 0), offered.get(name, 0)) for name in names}
    return config, most


def _healthy(node: Node) -> int:
    return sum(gpu.healthy for gpu in node.gpus)


def _nvlinks(node: Node) -> int | None:
    """Pairs; None where nobody tells the links."""
    if node.topology is None or not node.topology.links:
        return None
    links = node.topology.links
    return sum(
        link_class(links[one][other]) == LinkClass.NVLINK
        for one in range(len(links))
        for other in range(one + 1, len(links[one]))
    )


def _config(node: Node) -> str:
    return node.labels.get(MIG_CONFIG, "")


def _is_settled(node: Node) -> bool:
    """mig-manager has answered the label that is there (who sets it clears the state)."""
    return node.labels.get(MIG_STATE) == "success" and node.ready and PAUSED not in node.labels.values()


def _counted(node: Node) -> dict[str, int]:
    """The instances that feature discovery counts, which looks at the GPUs by itself."""
    return {
        name.removeprefix(MIG_PREFIX).removesuffix(".count"): int(value)
        for name, value in node.labels.items()
        if name.startswith(MIG_PREFIX) and name.endswith(".count") and value.isdecimal() and int(value)
    }


def _instances(node: Node) -> dict[str, int]:
    return {
        name.removeprefix(MIG_PREFIX): amount
        for name, amount in node.allocatable.items()
        if name.startswith(MIG_PREFIX) and amount
    }
