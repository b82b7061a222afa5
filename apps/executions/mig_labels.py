"""What a node's own object says about a MIG change: labels, states, and what its kubelet offers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.planner.mig.catalogue import profile_resource
from apps.planner.mig.nodes import MIG_PREFIX, PAUSED, STATE, WHOLE_GPU

Json = dict[str, Any]
CONFIG = "nvidia.com/mig.config"
OPERAND = "nvidia.com/gpu.deploy."
COUNT = ".count"
UNDER_WAY = ("pending", "rebooting")


@dataclass(frozen=True)
class MigLabels:
    """config: value of mig.config, None if there is none. offers, counts: by resource, only what is not 0.

    paused: operands that mig-manager has put to sleep, by their short names.
    """

    config: str | None
    state: str
    paused: tuple[str, ...]
    offers: Mapping[str, int]
    counts: Mapping[str, int]

    def as_planned(self, wanted: Mapping[str, int]) -> bool:
        """Exactly the wanted instances and whole GPUs are offered, and the labels count the same."""
        kept = {name: amount for name, amount in wanted.items() if amount}
        instances = {name: amount for name, amount in kept.items() if name != WHOLE_GPU}
        return dict(self.offers) == kept and dict(self.counts) == instances and not self.paused


def read_mig_labels(node: Json) -> MigLabels:
    labels = (node.get("metadata") or {}).get("labels") or {}
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    offers = {
        name: int(amount)
        for name, amount in allocatable.items()
        if (name == WHOLE_GPU or name.startswith(MIG_PREFIX)) and str(amount).isdecimal() and int(amount)
    }
    counts = {
        name.removesuffix(COUNT): int(value)
        for name, value in labels.items()
        if name.startswith(MIG_PREFIX) and name.endswith(COUNT) and str(value).isdecimal() and int(value)
    }
    paused = sorted(name.removeprefix(OPERAND) for name, value in labels.items() if value == PAUSED)
    config = labels.get(CONFIG)
    return MigLabels(
        str(config) if config is not None else None, str(labels.get(STATE, "")), tuple(paused), offers, counts
    )


def as_resources(offers: Mapping[str, int]) -> dict[str, int]:
    """From profiles (and the whole GPUs' resource) to resources."""
    return {name if name == WHOLE_GPU else profile_resource(name): amount for name, amount in offers.items()}


def tell_offers(offers: Mapping[str, int]) -> str:
    """For example "7 x 1g.10gb, 7 whole GPUs"."""
    words = [
        f"{amount} x {name.removeprefix(MIG_PREFIX)}"
        for name, amount in sorted(offers.items())
        if name != WHOLE_GPU and amount
    ]
    whole = offers.get(WHOLE_GPU, 0)
    if whole or not words:
        words.append(f"{whole or 'no'} whole GPU{'' if whole == 1 else 's'}")
    return ", ".join(words)


def tell_observed(found: MigLabels) -> str:
    """What the node shows now, in one sentence's worth of words."""
    words = [f"mig.config is {found.config or 'not set'}", f"state {found.state or 'not told'}"]
    if found.paused:
        words.append(f"paused: {', '.join(found.paused)}")
    return f"{', '.join(words)}, it offers {tell_offers(found.offers)}"
