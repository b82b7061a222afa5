"""What pending pods ask of MIG, by profile, beside what is idle and what would fit uncut.

Not in here: layouts that would serve it (planning), who waits for what else (waiting).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.nodes import asked_profiles
from apps.planner.mig.use import NodeUse, single_profile
from apps.planner.rooms import is_open_node
from apps.planner.snapshot import Snapshot
from apps.planner.waiting import group_pending


@dataclass(frozen=True, slots=True)
class ProfileDemand:
    """waiting: keys of the pending workloads that ask for it, in the order of the queue. wanted:
    instances they ask for; kept_out: those of them that no node takes now, whatever is idle. offered,
    in_use, idle, more: of open nodes; more: instances that would fit in memory slices that are uncut,
    this profile alone. oldest: when the first was created, 0 unknown."""

    profile: str
    waiting: tuple[str, ...] = ()
    pods: int = 0
    wanted: int = 0
    kept_out: int = 0
    offered: int = 0
    in_use: int = 0
    idle: int = 0
    more: int = 0
    oldest: float = 0.0

    @property
    def missing(self) -> int:
        return self.kept_out + max(0, self.wanted - self.kept_out - self.idle)


def list_demand(
    snapshot: Snapshot, nodes: Sequence[NodeUse], kept_out: Collection[str] = ()
) -> tuple[ProfileDemand, ...]:
    """Every profile that is offered or asked for: what is missing most first, then the largest.

    kept_out: keys of workloads that no node takes now; what is idle is not for them. Instances under
    mig.strategy=single are asked for as whole GPUs, so they count for nobody here.
    """
    opened = [use for use in nodes if is_open_node(use.node) and not single_profile(use.node)]
    offered, in_use, idle, more = _supply(opened)
    wanted, pods, refused = Counter[str](), Counter[str](), Counter[str]()
    waiting: dict[str, list[str]] = {}
    oldest: dict[str, float] = {}
    for key, group in group_pending(snapshot):
        for pod in group:
            for profile, number in asked_profiles(pod).items():
                wanted[profile] += number
                refused[profile] += number if key in kept_out else 0
                pods[profile] += 1
                oldest[profile] = min(oldest.get(profile, pod.created_at), pod.created_at)
                if key not in waiting.setdefault(profile, []):
                    waiting[profile].append(key)
    found = [
        ProfileDemand(
            profile=profile,
            waiting=tuple(waiting.get(profile, ())),
            pods=pods[profile],
            wanted=wanted[profile],
            kept_out=refused[profile],
            offered=offered[profile],
            in_use=in_use[profile],
            idle=idle[profile],
            more=more[profile],
            oldest=oldest.get(profile, 0.0),
        )
        for profile in {*offered, *in_use, *wanted}
    ]
    return tuple(sorted(found, key=lambda one: (-one.missing, -one.wanted, -_size(one.profile), one.profile)))


def _supply(opened: Iterable[NodeUse]) -> tuple[Counter[str], Counter[str], Counter[str], Counter[str]]:
    offered, in_use, idle, more = (Counter[str]() for _ in range(4))
    for use in opened:
        offered.update({name: number for name, number in use.offered.items() if number})
        in_use.update(use.asked)
        idle.update(use.idle)
        for gpu in use.gpus:
            more.update(gpu.more or {})
    return offered, in_use, idle, more


def _size(profile: str) -> int:
    """Memory of the profile in GB, by whichever model has it."""
    known = (model.by_name.get(profile) for model in MODELS.values())
    return next((one.memory_gb for one in known if one is not None), 0)
