"""Where a MIG change of a node stands, by what its labels and its kubelet say; and what is wrong with it.

mig-manager tells its progress in labels only. It never says that it gave up: a change that hangs looks
like one that takes long, so time decides, and the caller has the clock.
Not in here: carrying a change out, and what to do about a stuck one in a person's words (the pages).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from apps.planner.inventory import Node
from apps.planner.mig.catalogue import resource_profile
from apps.planner.mig.nodes import MIG_PREFIX, PAUSED, STATE, offered_profiles
from apps.planner.mig.use import offered_instances

CONFIG = "nvidia.com/mig.config"
DEPLOY = "nvidia.com/gpu.deploy."
PRODUCT = "nvidia.com/gpu.product"
COUNT = ".count"
LONG_SECONDS, REBOOT_SECONDS, SETTLE_SECONDS = 600.0, 1800.0, 120.0
"""mig-manager waits up to 5 minutes for an operand, then ends without a word; a reboot takes longer; after a
success the device plugin needs a moment."""
OF_ONE = re.compile(r"all-(\d+g\.\d+gb(?:\.[a-z.]+)?)")
"""Layouts of the default configuration that cut every GPU into one profile."""


class Stage(StrEnum):
    """NONE: no change asked for. ASKED: the label is set, nobody answers. WRONG: said to be done, but
    what is offered is something else, or operands are still paused."""

    NONE = "none"
    ASKED = "asked"
    PENDING = "pending"
    REBOOTING = "rebooting"
    FAILED = "failed"
    INVALID = "invalid"
    WRONG = "wrong"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Change:
    """config: what the label asks for. state: mig-manager's word. paused: operands that wait for it.

    differing: by profile, (instances that the label counts, instances that the kubelet offers).
    unseen: by profile, (instances that stand on the GPUs, instances that the kubelet offers).
    promised: what the layout's name promises ("all-1g.10gb", "all-disabled") and is not offered, "" for
    names that promise nothing or are kept.
    """

    config: str = ""
    state: str = ""
    paused: tuple[str, ...] = ()
    stage: Stage = Stage.NONE
    differing: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unseen: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    promised: str = ""

    @property
    def is_under_way(self) -> bool:
        return self.stage in (Stage.ASKED, Stage.PENDING, Stage.REBOOTING)

    @property
    def is_broken(self) -> bool:
        return self.stage in (Stage.FAILED, Stage.INVALID, Stage.WRONG)


def is_stuck(change: Change, seconds: float | None) -> bool:
    """Whether a person has to act. seconds: how long it is in its stage, None if nobody saw it begin."""
    lasts = seconds or 0.0
    if change.stage in (Stage.PENDING, Stage.ASKED):
        return lasts >= LONG_SECONDS
    if change.stage is Stage.REBOOTING:
        return lasts >= REBOOT_SECONDS
    if change.stage is Stage.WRONG:
        return seconds is None or lasts >= SETTLE_SECONDS
    return change.stage in (Stage.FAILED, Stage.INVALID)


def read_change(node: Node) -> Change:
    config, state = node.labels.get(CONFIG, ""), node.labels.get(STATE, "")
    paused = tuple(sorted(key.removeprefix(DEPLOY) for key, value in node.labels.items() if value == PAUSED))
    differing, unseen, promised = _differing(node), _unseen(node), _promised(node, config)
    stage = _stage(node, config, state, paused, is_wrong=bool(differing or unseen or promised))
    return Change(config, state, paused, stage, differing, unseen, promised)


def _stage(node: Node, config: str, state: str, paused: tuple[str, ...], *, is_wrong: bool) -> Stage:
    if node.labels.get(PRODUCT, "").endswith("-MIG-INVALID"):
        return Stage.INVALID
    if state in ("pending", "rebooting", "failed"):
        return Stage(state)
    if paused:
        return Stage.WRONG if state == "success" else Stage.PENDING
    if config and not state:
        return Stage.ASKED
    if state == "success":
        return Stage.WRONG if is_wrong else Stage.DONE
    return Stage.NONE


def _differing(node: Node) -> dict[str, tuple[int, int]]:
    """Where the labels of GPU Feature Discovery and the kubelet do not count the same."""
    offered = offered_profiles(node)
    counted: dict[str, int] = {}
    for key, value in node.labels.items():
        if key.startswith(MIG_PREFIX) and key.endswith(COUNT) and value.isdecimal():
            counted[resource_profile(key.removeprefix(MIG_PREFIX).removesuffix(COUNT))] = int(value[:6])
    if not counted:
        return {}
    names = sorted({*counted, *offered})
    pairs = {name: (counted.get(name, 0), offered.get(name, 0)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _unseen(node: Node) -> dict[str, tuple[int, int]]:
    """Where the instances on the GPUs (healthy ones) are not those that the kubelet offers."""
    if node.mig_strategy == "single":
        return {}
    seen: dict[str, int] = {}
    for gpu in node.gpus:
        for one in gpu.instances if gpu.healthy else ():
            if one.start_slice is not None:
                seen[one.profile] = seen.get(one.profile, 0) + 1
    if not seen:
        return {}
    offered = offered_profiles(node)
    pairs = {name: (seen.get(name, 0), offered.get(name, 0)) for name in sorted({*seen, *offered})}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _promised(node: Node, config: str) -> str:
    """A success that was there before the label was set, or that did nothing, shows by this."""
    offered = {name for name, number in offered_instances(node).items() if number}
    if config == "all-disabled":
        return "no instances" if offered else ""
    found = OF_ONE.fullmatch(config)
    if found is None:
        return ""
    profile = resource_profile(found.group(1))
    return "" if offered == {profile} else f"{profile} on every GPU"
