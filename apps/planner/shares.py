"""What a pod asks of a node's devices: whole ones, turns, shares of cores and memory, MIG instances.

The same for all accounting (ledger, rooms, pages), so that no two of them count a pod differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from apps.planner.inventory import Node, Pod
from apps.planner.mig.nodes import MIG_PREFIX, asked_profiles
from apps.planner.mig.use import single_profile
from apps.planner.resources import counts_devices, is_device_resource

WHOLE = 1000
IN_TIME = frozenset({"time-slicing", "time-sharing", "mps", "shared-dev"})
"""Ways of sharing that deal out turns; every other one deals out cores and memory by device."""


@dataclass(frozen=True, slots=True)
class Asked:
    """devices: of which each gives `milli` (0 where only memory is asked) and `memory_mib` (None: no share
    of it is set). units: of the node's own resource. profiles: MIG instances."""

    devices: int = 0
    milli: int = 0
    memory_mib: int | None = None
    units: int = 0
    profiles: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_share(self) -> bool:
        return bool(self.devices) and (self.milli < WHOLE or self.memory_mib is not None)

    def __bool__(self) -> bool:
        return bool(self.devices or self.profiles)


NOTHING = Asked()


def shares_in_time(node: Node) -> bool:
    """Whether pods take turns on the node's devices: then units are slots, and nothing is divided."""
    return node.shares_per_gpu > 1 and (not node.sharing or node.sharing.lower() in IN_TIME)


def is_load(pod: Pod) -> bool:
    """Paper holds and the placeholders of share schedulers hold nothing by themselves."""
    return not pod.hold and not pod.reservation


def asked_of(node: Node, pod: Pod) -> Asked:
    """Of the node's main devices."""
    if not is_load(pod):
        return NOTHING
    units = _units(node, pod)
    single = single_profile(node)
    if single:
        return Asked(units=units, profiles={single: units} if units else {})
    profiles = asked_profiles(pod)
    if pod.gpu_milli < WHOLE or (pod.gpu_memory_mib is not None and (units or not profiles)):
        if _asks_elsewhere(node, pod, units):
            return Asked(profiles=profiles)
        return Asked(max(units, 1), pod.gpu_milli, pod.gpu_memory_mib, units, profiles)
    if not units and not profiles and (part := _part_asked(node, pod)):
        return Asked(1, 0, _memory_behind(node, part, pod.requests[part]))
    return Asked(units, WHOLE if units else 0, None, units, profiles)


def _part_asked(node: Node, pod: Pod) -> str:
    """A resource that counts parts of one of the main devices ("aliyun.com/gpu-mem"), "" without one."""
    return next(
        (name for name, amount in pod.requests.items() if amount > 0 and _is_part(node, name)),
        "",
    )


def _memory_behind(node: Node, resource: str, amount: int) -> int | None:
    """MiB, from what the node offers of the resource for all its cards; None if that says nothing."""
    offered = node.capacity.get(resource, 0) or node.allocatable.get(resource, 0)
    whole = [gpu.memory_mib for gpu in node.gpus]
    if "mem" not in resource or not offered or not whole or None in whole:
        return None
    return min(amount * sum(one or 0 for one in whole) // offered, max(one or 0 for one in whole))


def units_of(node: Node, asked: Asked) -> int:
    """Of the node's resource as its kubelet counts them: none for a share of a card that is offered whole."""
    return 0 if asked.is_share and node.shares_per_gpu <= 1 else asked.units


def part_of(node: Node, asked: Asked) -> Fraction:
    """Milli-GPU of one of its devices, not rounded: a turn is its part of the card, a share the larger of its
    cores and its memory."""
    turns = node.shares_per_gpu if shares_in_time(node) else 1
    known = [gpu.memory_mib for gpu in node.gpus if gpu.memory_mib]
    memory = Fraction(0)
    if asked.memory_mib and known and len(known) == len(node.gpus):
        memory = min(Fraction(WHOLE * asked.memory_mib, max(known)), Fraction(WHOLE))
    return max(Fraction(asked.milli, turns), memory)


def parts_of(node: Node, pods: Iterable[Pod]) -> dict[str, tuple[int, int]]:
    """(offered, asked) of each resource that counts parts of the main devices ("aliyun.com/gpu-mem")."""
    names = [name for name, amount in node.allocatable.items() if amount > 0 and _is_part(node, name)]
    guests = [pod for pod in pods if is_load(pod)] if names else []
    return {
        name: (node.allocatable[name], sum(pod.requests.get(name, 0) for pod in guests))
        for name in sorted(names)
    }


def _is_part(node: Node, name: str) -> bool:
    is_device = is_device_resource(name) and not name.startswith(MIG_PREFIX)
    return is_device and not counts_devices(name) and not (node.others and _is_beside(node, name))


def asked_of_group(resource: str, pod: Pod) -> int:
    """Units of devices that stand beside the main ones."""
    return pod.requests.get(resource, 0) if is_load(pod) else 0


def _units(node: Node, pod: Pod) -> int:
    """By any name that stands for the same cards ("nvidia.com/gpu", "nvidia.com/gpu.shared"): sold once.

    A pod that runs here was given its devices by some name; what no group beside goes by is the main one's.
    """
    if not node.gpu_resource:
        return 0
    own = pod.requests.get(node.gpu_resource, 0)
    if own:
        return own
    return sum(
        amount
        for name, amount in pod.requests.items()
        if counts_devices(name) and not (node.others and _is_beside(node, name))
    )


def _is_beside(node: Node, resource: str) -> bool:
    """Whether it is of the devices beside the main ones: by their name, or by their vendor's."""
    domain = resource.partition("/")[0]
    if any(group.resource == resource for group in node.others):
        return True
    return domain != node.gpu_resource.partition("/")[0] and any(
        group.resource.partition("/")[0] == domain for group in node.others
    )


def _asks_elsewhere(node: Node, pod: Pod, units: int) -> bool:
    """Whether its share is of another group's devices."""
    return not units and any(pod.requests.get(group.resource) for group in node.others)
