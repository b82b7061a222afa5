"""The measures beside FGD, each under its own name: linked groups, GPU memory, MIG memory slices.

Counted per node and summed up for any part of the cluster; never mixed into one score, nor into FGD's. Of
open nodes only: nothing may start on the others. Not in here: how each is counted (group_packing,
memory_room, mig.measuring).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from apps.planner.fragmentation_sheets import Ints
from apps.planner.group_packing import GROUP_SIZES, LINK_CLASSES, are_links_told, count_link_groups
from apps.planner.inventory import Pod
from apps.planner.memory_room import WantedShare, list_wanted_shares, measure_memory
from apps.planner.mig.measuring import GpuRoom, MigReport, MigRoom, mig_room_to_dict, sum_up
from apps.planner.rooms import Room, is_open_node

GROUPS = len(LINK_CLASSES) * len(GROUP_SIZES)
UNTOLD, MEMORY, SHARES = GROUPS, GROUPS + 1, GROUPS + 5


@dataclass(frozen=True, slots=True)
class Beside:
    """Of some nodes. link_groups: class -> N -> how many groups of N free GPUs fit at once, each pair tied by
    that class or better. untold_nodes: with free GPUs whose links are not known. whole_mib, shared_mib: GPU
    memory left on wholly free and on partly taken devices; crumbs_mib: of the latter what is less than any
    wanted share; untold_gpus: devices whose memory nobody tells. fitting: per wanted share, how many fit."""

    link_groups: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    untold_nodes: int = 0
    whole_mib: int = 0
    shared_mib: int = 0
    crumbs_mib: int = 0
    untold_gpus: int = 0
    fitting: tuple[tuple[WantedShare, int], ...] = ()
    mig: MigRoom = field(default_factory=MigRoom)


class BesideTable:
    """A row per room, in their order. pods: whose shares are wanted."""

    def __init__(self, rooms: Sequence[Room], pods: Iterable[Pod], mig: MigReport) -> None:
        self._rooms = rooms
        names = frozenset(room.node.gpu_resource for room in rooms if room.node.gpu_resource)
        self.shares = list_wanted_shares(pods, names)
        counts = [self._measure(room) for room in rooms]
        self._counts: Ints = np.array(counts, dtype=np.int64).reshape(len(rooms), SHARES + len(self.shares))
        self._mig: dict[str, list[GpuRoom]] = defaultdict(list)
        for gpu in mig.gpus:
            self._mig[gpu.node].append(gpu)

    def sum_of(self, rows: Sequence[int]) -> Beside:
        counts = self._counts[list(rows)].sum(axis=0).tolist()
        groups = iter(counts)
        return Beside(
            {str(link): {size: next(groups) for size in GROUP_SIZES} for link in LINK_CLASSES},
            counts[UNTOLD],
            counts[MEMORY],
            counts[MEMORY + 1],
            counts[MEMORY + 2],
            counts[MEMORY + 3],
            fitting=tuple(zip(self.shares, counts[SHARES:], strict=True)),
            mig=sum_up(gpu for row in rows for gpu in self._mig_of(row)),
        )

    def _mig_of(self, row: int) -> Sequence[GpuRoom]:
        return self._mig.get(self._rooms[row].node.name, ()) if self._mig else ()

    def _measure(self, room: Room) -> tuple[int, ...]:
        if not is_open_node(room.node):
            return (0,) * (SHARES + len(self.shares))
        free = room.free_positions()
        is_untold = len(free) > 1 and not are_links_told(room, free)
        return (*count_link_groups(room), int(is_untold), *measure_memory(room, self.shares))


def beside_to_dict(found: Beside, *, brief: bool = False) -> dict[str, object]:
    """As part of a report, and of each node and part in it; "mig" only where a GPU is cut. brief: of the
    shares only how many fit, in the order of the whole report's."""
    shares = [count if brief else _share_to_dict(share, count) for share, count in found.fitting]
    return {
        "link_groups": {
            link: {str(size): count for size, count in sizes.items()}
            for link, sizes in found.link_groups.items()
        },
        "links_unknown_nodes": found.untold_nodes,
        "gpu_memory": {
            "whole_mib": found.whole_mib,
            "shared_mib": found.shared_mib,
            "crumbs_mib": found.crumbs_mib,
            "unknown_gpus": found.untold_gpus,
            "shares_fit" if brief else "shares": shares,
        },
        **({"mig": mig_room_to_dict(found.mig)} if found.mig.memory_slices else {}),
    }


def _share_to_dict(share: WantedShare, count: int) -> dict[str, object]:
    return {
        "resource": share.gpu_resource,
        "gpus": share.gpus,
        "milli": share.milli,
        "memory_mib": share.memory_mib,
        "wanted": share.pods,
        "fit": count,
    }
