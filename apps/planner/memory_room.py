"""GPU memory that is left, and how many shares of each wanted size it still holds.

A measure of its own, never mixed with FGD, which counts cores. CPU and the nodes that a pod may run on are
not asked here: only what the devices hold. Devices cut by MIG are measured by their instances
(mig.measuring), devices shared in time divide nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from apps.planner.inventory import Pod
from apps.planner.resources import Demand, demand_of
from apps.planner.room import WHOLE, Room, memory_of_share

MOST_SHARES = 8


@dataclass(frozen=True, slots=True)
class WantedShare:
    """One size of share, and how many pods ask for it. milli: of the cores; memory_mib None: as much of the
    memory as of the cores."""

    gpu_resource: str
    gpus: int
    milli: int
    memory_mib: int | None
    pods: int

    @property
    def demand(self) -> Demand:
        return Demand(
            gpu_resource=self.gpu_resource, gpus=self.gpus, milli=self.milli, memory_mib=self.memory_mib
        )


def list_wanted_shares(pods: Iterable[Pod], gpu_names: frozenset[str]) -> tuple[WantedShare, ...]:
    """The sizes that most pods ask for, at most MOST_SHARES. gpu_names: what the nodes offer GPUs by."""
    counts: Counter[tuple[str, int, int, int | None]] = Counter()
    for pod in pods:
        if pod.gpu_milli >= WHOLE and pod.gpu_memory_mib is None:
            continue
        demand = demand_of(pod, gpu_names)
        if demand.gpus and (demand.milli < WHOLE or demand.memory_mib is not None):
            counts[demand.gpu_resource, demand.gpus, demand.milli, demand.memory_mib] += 1
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], str(entry[0])))
    return tuple(WantedShare(*size, pods=number) for size, number in ordered[:MOST_SHARES])


def measure_memory(room: Room, shares: tuple[WantedShare, ...]) -> tuple[int, ...]:
    """MiB left on wholly free devices; on partly taken ones; of the latter what is less than any wanted
    share; devices whose memory nobody tells. Then, per wanted share, how many fit, were no others to come."""
    whole = shared = crumbs = unknown = 0
    for at in room.usable:
        left = room.memory_left[at]
        if left is None:
            unknown += 1
        elif room.gpu_left[at] == WHOLE:
            whole += left
        elif left > 0:
            gpu = room.node.gpus[at]
            shared += left
            least = min((memory_of_share(gpu, one.milli, one.memory_mib) for one in shares), default=0)
            crumbs += left if left < least else 0
    fitting = (_count_fitting(room, share) if room.idle_milli > 0 else 0 for share in shares)
    return (whole, shared, crumbs, unknown, *fitting)


def _count_fitting(room: Room, share: WantedShare) -> int:
    if not room.by_device or room.node.gpu_resource != share.gpu_resource:
        return 0
    count = room.count_shares(share.demand, room.gpu_left, room.memory_left)
    if room.counts_units:
        count = min(count, max(room.left.get(share.gpu_resource, 0), 0) // share.gpus)
    return count
