"""Ready-made clusters to start from, each a list of API objects that agree with one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.simulator.scenes import empty, fragmented, mig, mixed, queues, small, under_fire, whole

Json = dict[str, Any]

SCENES: dict[str, Callable[[], list[Json]]] = {
    "fragmented": fragmented.build,
    "small": small.build,
    "mig": mig.build,
    "mixed": mixed.build,
    "whole": whole.build,
    "under-fire": under_fire.build,
    "queues": queues.build,
    "empty": empty.build,
}
DEFAULT_SCENE = "fragmented"


def describe_scenes() -> dict[str, str]:
    """Name -> one line about it."""
    modules = {
        "fragmented": fragmented,
        "small": small,
        "mig": mig,
        "mixed": mixed,
        "whole": whole,
        "under-fire": under_fire,
        "queues": queues,
        "empty": empty,
    }
    return {name: (module.__doc__ or "").strip().splitlines()[0] for name, module in modules.items()}
