"""Who uses which MIG instance of a node, as far as anybody tells; and what still fits as it is cut.

Three answers, never two: held, free, or not known. Where no source tells holders, the numbers still
tell something: when nobody on the node asks for a profile, all its instances are free.
Not in here: whether a GPU may be relaid (facts), what a change is waiting for (changing).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from apps.planner.inventory import Gpu, MigInstance, Node, Pod
from apps.planner.mig.catalogue import UnknownModel, find_model
from apps.planner.mig.layouts import Cut, Layout, how_many_more, why_illegal
from apps.planner.mig.models import MigModel
from apps.planner.mig.nodes import WHOLE_GPU, asked_profiles, offered_profiles

PRODUCT = "nvidia.com/gpu.product"
MEMORY = "nvidia.com/gpu.memory"
GKE_LABEL = "cloud.google.com/gke-gpu-partition-size"
GKE_PROFILE = re.compile(r"^(\d+g\.\d+gb\S*)$")
SINGLE = re.compile(r"-MIG-(\d+g\.\d+gb\S*?)(?:-SHARED)?$")
DEFAULT_AXIS = 8


class Use(StrEnum):
    HELD = "held"
    FREE = "free"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class InstanceUse:
    """start: memory slice, None if not known. size: memory slices. pod_uid: "" where nobody tells who."""

    profile: str
    start: int | None
    size: int
    use: Use
    pod_uid: str = ""
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU. instances: by start; none for a GPU that is not cut, of which `use` and `pod_uids` tell.

    uncut: runs of memory slices without an instance, (start, length). more: by plain profile, how many
    more fit beside what is cut, each profile alone; None where that cannot be said (`trouble` says why).
    """

    index: int
    uuid: str
    healthy: bool
    axis: int
    instances: tuple[InstanceUse, ...] = ()
    uncut: tuple[tuple[int, int], ...] = ()
    more: Mapping[str, int] | None = None
    use: Use = Use.UNKNOWN
    pod_uids: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def is_cut(self) -> bool:
        return bool(self.instances)


@dataclass(frozen=True, slots=True)
class NodeUse:
    """offered, asked: instances by profile. has_layouts: which GPU has which instances is known (also
    where nothing is cut). has_holders: some source tells who holds which device."""

    node: Node
    model: MigModel | None
    no_model: str = ""
    offered: Mapping[str, int] = field(default_factory=dict)
    asked: Mapping[str, int] = field(default_factory=dict)
    has_layouts: bool = True
    has_holders: bool = True
    gpus: tuple[GpuUse, ...] = ()

    @property
    def idle(self) -> dict[str, int]:
        """What nobody asked for. Where layouts are known, an instance of a failed GPU is never idle, even if
        something still offers it."""
        left = {name: number - self.asked.get(name, 0) for name, number in self.offered.items()}
        if any(gpu.is_cut and not gpu.healthy for gpu in self.gpus):
            sound = Counter(
                one.profile
                for gpu in self.gpus
                for one in gpu.instances
                if gpu.healthy and one.use is not Use.HELD
            )
            left = {name: min(number, sound[name]) for name, number in left.items()}
        return {name: number for name, number in left.items() if number > 0}


def is_capable(node: Node) -> bool:
    """Whether its GPUs can be cut: its label says so, or its model is known to, or it is cut."""
    if not node.gpus:
        return False
    told = node.labels.get("nvidia.com/mig.capable", "")
    if told in ("true", "false"):
        return told == "true" or any(gpu.instances for gpu in node.gpus)
    if any(gpu.instances for gpu in node.gpus) or offered_profiles(node):
        return True
    return node.vendor in ("", "nvidia") and model_of(node)[0] is not None


def model_of(node: Node) -> tuple[MigModel | None, str]:
    """(its placement table, "") or (None, why there is none)."""
    try:
        return find_model(node.model, next((gpu.memory_mib for gpu in node.gpus), None)), ""
    except UnknownModel as error:
        return None, str(error)


def offered_instances(node: Node) -> dict[str, int]:
    """By profile. Under mig.strategy=single they are counted as whole GPUs and named by the product."""
    single = single_profile(node)
    return {single: node.allocatable.get(WHOLE_GPU, 0)} if single else offered_profiles(node)


def single_profile(node: Node) -> str:
    """The one profile of a node under mig.strategy=single, or of GKE's that is cut so; "" elsewhere."""
    found = SINGLE.search(node.labels.get(PRODUCT, "")) or GKE_PROFILE.search(node.labels.get(GKE_LABEL, ""))
    return found.group(1) if found else ""


def instance_memory(node: Node) -> int | None:
    """MiB of each instance under mig.strategy=single, where the label of a GPU's memory says just that."""
    told = node.labels.get(MEMORY, "")
    is_told = bool(single_profile(node)) and told.isascii() and told.isdecimal() and len(told) < 9
    return (int(told) or None) if is_told else None


def read_use(node: Node, pods: Iterable[Pod]) -> NodeUse:
    """pods: those that hold resources on the node."""
    guests = [pod for pod in pods if not pod.hold]
    model, no_model = model_of(node)
    offered, single = offered_instances(node), single_profile(node)
    asked: Counter[str] = Counter()
    for pod in guests:
        asked.update({single: pod.requests.get(WHOLE_GPU, 0)} if single else asked_profiles(pod))
    asked = +asked
    reading = _Reading(node, model, guests, offered, asked)
    is_cut = any(gpu.instances for gpu in node.gpus)
    return NodeUse(
        node=node,
        model=model,
        no_model=no_model,
        offered=offered,
        asked=dict(asked),
        has_layouts=is_cut or not any(offered.values()),
        has_holders=node.holdings is not None,
        gpus=tuple(reading.read(gpu) for gpu in node.gpus),
    )


def holders_of(node: Node) -> frozenset[str]:
    return frozenset(holding.pod_uid for holding in node.holdings or ())


class _Reading:
    """One node's devices with what the sources tell of them."""

    def __init__(
        self,
        node: Node,
        model: MigModel | None,
        guests: list[Pod],
        offered: Mapping[str, int],
        asked: Mapping[str, int],
    ) -> None:
        self.model, self.offered, self.asked = model, offered, asked
        known = {pod.uid for pod in guests}
        # While nobody places a pod that is here, no device of the kind it asks for is known to be free.
        is_told, placed = node.holdings is not None, holders_of(node)
        unplaced = [pod for pod in guests if pod.uid not in placed]
        self.tells_whole = is_told and not any(pod.requests.get(WHOLE_GPU) for pod in unplaced)
        self.tells_cut = is_told and not any(asked_profiles(pod) for pod in unplaced)
        self.held: dict[str, list[str]] = {}
        for holding in node.holdings or ():
            if holding.pod_uid in known or holding.kept_by:
                self.held.setdefault(holding.device, []).append(holding.pod_uid)
        self.asks_whole = any(pod.requests.get(WHOLE_GPU, 0) for pod in guests)

    def read(self, gpu: Gpu) -> GpuUse:
        axis = self.model.axis if self.model else DEFAULT_AXIS
        if not gpu.instances:
            holders = tuple(self.held.get(gpu.uuid, ())) if gpu.uuid else ()
            use = Use.HELD if holders else self._use_of_whole(gpu)
            return GpuUse(gpu.index, gpu.uuid, gpu.healthy, axis, use=use, pod_uids=holders)
        ordered = sorted(gpu.instances, key=lambda one: (one.start_slice is None, one.start_slice or 0))
        instances = tuple(self._instance(one, gpu) for one in ordered)
        more, trouble = self._more(gpu)
        return GpuUse(
            index=gpu.index,
            uuid=gpu.uuid,
            healthy=gpu.healthy,
            axis=axis,
            instances=instances,
            uncut=_uncut(instances, axis),
            more=more,
            trouble=trouble,
        )

    def _use_of_whole(self, gpu: Gpu) -> Use:
        if self.tells_whole and gpu.uuid:
            return Use.FREE
        return Use.UNKNOWN if self.asks_whole else Use.FREE

    def _instance(self, one: MigInstance, gpu: Gpu) -> InstanceUse:
        size = self._size(one.profile, gpu)
        holders = self.held.get(one.uuid, []) if one.uuid else []
        if holders:
            return InstanceUse(one.profile, one.start_slice, size, Use.HELD, holders[0], one.uuid)
        return InstanceUse(one.profile, one.start_slice, size, self._use_by_numbers(one), uuid=one.uuid)

    def _use_by_numbers(self, one: MigInstance) -> Use:
        """Of an instance that no source names a holder of."""
        if self.tells_cut and one.uuid:
            return Use.FREE
        asked = self.asked.get(one.profile, 0)
        if not asked:
            return Use.FREE
        return Use.HELD if asked >= self.offered.get(one.profile, 0) else Use.UNKNOWN

    def _size(self, profile: str, gpu: Gpu) -> int:
        known = self.model.by_name.get(profile) if self.model else None
        return known.memory_slices if known else 1

    def _more(self, gpu: Gpu) -> tuple[Mapping[str, int] | None, str]:
        if not gpu.healthy:
            return None, "unhealthy"
        if self.model is None:
            return None, "no placement table for this model"
        if any(one.start_slice is None for one in gpu.instances):
            return None, "the start slices are not known"
        cuts = tuple(sorted(Cut(one.start_slice or 0, one.profile) for one in gpu.instances))
        return _more_beside(self.model, cuts)


@lru_cache(maxsize=4096)
def _more_beside(model: MigModel, layout: Layout) -> tuple[Mapping[str, int] | None, str]:
    """(how many more of each plain profile fit, "") or (None, why the layout is illegal)."""
    why = why_illegal(model, layout)
    if why:
        return None, why
    return {name: how_many_more(model, layout, name) for name in plain_profiles(model)}, ""


@lru_cache(maxsize=64)
def plain_profiles(model: MigModel) -> tuple[str, ...]:
    """Without the variants that differ in media engines only."""
    return tuple(name for name in model.by_name if "+" not in name and "-" not in name)


def _uncut(instances: Iterable[InstanceUse], axis: int) -> tuple[tuple[int, int], ...]:
    """Runs of memory slices that no instance covers; none where a start is not known."""
    taken: set[int] = set()
    for one in instances:
        if one.start is None:
            return ()
        taken |= set(range(one.start, one.start + one.size))
    runs: list[tuple[int, int]] = []
    for at in range(axis):
        if at in taken:
            continue
        if runs and sum(runs[-1]) == at:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((at, 1))
    return tuple(runs)
