"""The most instances of a profile that a node could have, however it is cut. Not in here: layouts."""

from __future__ import annotations

import math

from apps.planner.inventory import Node
from apps.planner.mig.catalogue import UnknownModel, find_model
from apps.planner.mig.nodes import offered_profiles


def count_instances(node: Node, profile: str) -> float:
    """How many such instances it could have at most, however it is cut."""
    seen = sum(one.profile == profile for gpu in node.gpus for one in gpu.instances)
    now = max(offered_profiles(node).get(profile, 0), seen)
    if not node.gpus:
        return now
    try:
        known = find_model(node.model).by_name.get(profile)
    except UnknownModel:
        # Nobody knows how such a model is cut, unless it says that it cannot be.
        is_cut = node.labels.get("nvidia.com/mig.capable", "") == "true" or bool(offered_profiles(node))
        return math.inf if is_cut else now
    if known is None:
        return math.inf if now else 0  # what it offers all the same is another model's: its label errs
    return max(now, known.most * len(node.gpus))
