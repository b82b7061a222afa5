"""What is settable of the extender, for one cluster. Plain values: who keeps them is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class WhenStale(StrEnum):
    """What is answered while the picture is too old to judge by.

    REFUSE: the call fails, so the pod waits (or, with `ignorable: true`, the scheduler goes on alone).
    ABSTAIN: every offered node passes, and none is preferred.
    """

    REFUSE = "refuse"
    ABSTAIN = "abstain"


@dataclass(frozen=True, slots=True)
class Options:
    """policy: name of a scoring policy (`policies.POLICIES`). stale_after: seconds of age from which the
    picture is no longer judged by. told_seconds: how long a pod counts on the node that its scheduler was
    told is the best, unless the watch says otherwise. bound_seconds: the same for a pod that we bound.
    gang_seconds: how long room is kept for the rest of a gang once its first member was let through.
    reserved_mib: of each GPU's memory, never given out in shares. spare_drifted: keep GPU pods off nodes that
    show less than they did. binds: whether the bind verb is answered."""

    policy: str = "packing"
    when_stale: WhenStale = WhenStale.REFUSE
    stale_after: float = 30.0
    told_seconds: float = 5.0
    bound_seconds: float = 60.0
    gang_seconds: float = 30.0
    reserved_mib: int = 0
    spare_drifted: bool = True
    binds: bool = False
