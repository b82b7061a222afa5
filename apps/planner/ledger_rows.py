"""The rows of the ledger: what one device, one group of devices and one node have given out and have left.

Types only; `ledger` fills them. Amounts of a device in milli-GPU (1000 is one whole device) and MiB;
`None` means "not known", never zero. For each device: taken + left - over = whole, and nothing is negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from apps.planner.devices import Gpu, Source

UNKNOWN_HERE = "unknown on this node"
"""What is said of a pod's device, and of a device's holder, where no source tells; never a guess instead."""


SOURCE_WORDS = {
    Source.DRA: "the claim's allocation",
    Source.SCHEDULER: "the scheduler",
    Source.AGENT: "the node agent",
    Source.EXPORTER: "the exporter",
}


class Standing(StrEnum):
    """How one device stands. UNKNOWN: pods of the node hold some of its devices, nobody tells which."""

    FREE = "free"
    PART = "part"
    HELD = "held"
    CUT = "cut"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class Flag(StrEnum):
    """What a person should look at, in words."""

    OVERSUBSCRIBED = "more is given out than it has"
    HELD_TWICE = "two pods hold it whole"
    WHOLE_AND_CUT = "held whole although it is cut"
    UNKNOWN_HOLDER = "held by a pod that is not here"


class Waste(StrEnum):
    """Why what is left of a device can be used by nobody."""

    UNHEALTHY = "unhealthy"
    NOT_OFFERED = "not offered by the kubelet"
    NO_CPU = "no CPU left on the node"
    NO_HOST_MEMORY = "no memory left on the node"
    NO_PODS = "the node takes no further pod"
    NO_UNITS = "no unit of its resource left"
    NO_CORES = "GPU memory without cores"
    NO_MEMORY = "cores without GPU memory"
    NO_PROFILE = "no MIG profile fits the remainder"


@dataclass(frozen=True, slots=True)
class Taker:
    """One container's hold on a device. pod: "namespace/name". milli: None where no share of the cores is
    set. memory_mib: as the source tells it, None where it tells none. instance: uuid of the MIG instance,
    "" for the device itself. observed_at: None for what stands in the pod itself."""

    pod_uid: str
    pod: str
    container: str = ""
    milli: int | None = 1000
    memory_mib: int | None = None
    instance: str = ""
    source: Source = Source.AGENT
    observed_at: float | None = None


@dataclass(frozen=True, slots=True)
class InstanceLedger:
    """A MIG instance. start: memory slice, None if unknown. milli: its compute slices as a part of the GPU.
    standing: FREE, HELD (also where the node's numbers leave no other answer), UNKNOWN, or UNHEALTHY: its
    GPU is, and nobody holds it."""

    profile: str
    start: int | None
    slices: int
    milli: int
    memory_mib: int | None
    standing: Standing
    uuid: str = ""
    takers: tuple[Taker, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceLedger:
    """One physical device. whole_milli: 1000, more where its cores are sold more than once on purpose.

    taken_milli, taken_memory_mib: of the takers that are known; with pods whose device is unknown the node
    has less left than its devices show. over_*: given out beyond the whole. units, units_used: of the
    resource it is dealt into, None where it is not dealt. waste: why the left part is stranded, None if it
    is not. instances: how it is cut, () if it is whole; more: by profile, how many fit beside them, None
    where that cannot be said. share: what is allocated of the device, not rounded: the larger of what is
    taken of its cores and of its memory.
    """

    gpu: Gpu
    standing: Standing
    takers: tuple[Taker, ...] = ()
    instances: tuple[InstanceLedger, ...] = ()
    more: Mapping[str, int] | None = None
    whole_milli: int = 1000
    share: Fraction = Fraction(0)
    taken_milli: int = 0
    left_milli: int = 1000
    over_milli: int = 0
    taken_memory_mib: int | None = None
    left_memory_mib: int | None = None
    over_memory_mib: int = 0
    units: int | None = None
    units_used: int | None = None
    stranded_milli: int = 0
    stranded_memory_mib: int = 0
    waste: Waste | None = None
    flags: tuple[Flag, ...] = ()

    @property
    def index(self) -> int:
        return self.gpu.index

    @property
    def key(self) -> str:
        return self.gpu.key

    @property
    def allocated_milli(self) -> int:
        return round(self.share)

    @property
    def all_takers(self) -> tuple[Taker, ...]:
        """Of the device and of its instances."""
        return (*self.takers, *(taker for one in self.instances for taker in one.takers))


@dataclass(frozen=True, slots=True)
class Unlocated:
    """A pod that holds devices of the node, nobody tells which. milli, memory_mib: all of them together.
    profiles: MIG instances by profile."""

    pod_uid: str
    pod: str
    devices: int = 0
    milli: int = 0
    memory_mib: int | None = None
    units: int = 0
    profiles: Mapping[str, int] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        return f"Which device {self.pod} holds is {UNKNOWN_HERE}."


@dataclass(frozen=True, slots=True)
class GroupLedger:
    """Devices of one kind on a node.

    physical: they stand in the node. schedulable: of those, what may be given out (node open, plugin alive,
    healthy and offered). allocated_milli: held, located or not. free: wholly free and to be had whole.
    left_milli: idle in all, also on devices in part; stranded_milli: of that, what nobody can use.
    units_*: of the resource, which are other numbers than GPUs where one GPU is dealt into several; None
    where the node offers none by that name. overcommitted: units asked beyond those offered. parts: (offered,
    asked) of each resource that counts parts of the devices. allocated: as `allocated_milli`, not rounded.
    """

    vendor: str
    resource: str
    model: str
    devices: tuple[DeviceLedger, ...] = ()
    physical: int = 0
    schedulable: int = 0
    unhealthy: int = 0
    withheld: int = 0
    allocated: Fraction = Fraction(0)
    free: int = 0
    left_milli: int = 0
    stranded_milli: int = 0
    stranded_by: Mapping[Waste, int] = field(default_factory=dict)
    units_offered: int | None = None
    units_used: int = 0
    overcommitted: int = 0
    sharing: str = ""
    shares_per_gpu: int = 1
    alive: bool | None = None
    unlocated: tuple[Unlocated, ...] = ()
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def allocated_milli(self) -> int:
        return round(self.allocated)

    @property
    def units_free(self) -> int | None:
        return None if self.units_offered is None else max(0, self.units_offered - self.units_used)


@dataclass(frozen=True, slots=True)
class NodeLedger:
    """closed: why nothing of it is schedulable, "" for an open node. is_told: some source tells who holds
    which device. strays: holdings of devices that the node does not have. others: devices beside `main`."""

    name: str
    uid: str
    main: GroupLedger
    others: tuple[GroupLedger, ...] = ()
    closed: str = ""
    is_told: bool = False
    strays: tuple[Taker, ...] = ()

    @property
    def devices(self) -> tuple[DeviceLedger, ...]:
        return self.main.devices

    @property
    def physical(self) -> int:
        return self.main.physical

    @property
    def schedulable(self) -> int:
        return self.main.schedulable

    @property
    def allocated_milli(self) -> int:
        return self.main.allocated_milli

    @property
    def free(self) -> int:
        return self.main.free

    @property
    def stranded_milli(self) -> int:
        return self.main.stranded_milli

    @property
    def overcommitted(self) -> int:
        return self.main.overcommitted

    @property
    def unlocated(self) -> tuple[Unlocated, ...]:
        return self.main.unlocated

    def device(self, key: str) -> DeviceLedger | None:
        """By `Gpu.key`, among all groups."""
        groups = (self.main, *self.others)
        return next((one for group in groups for one in group.devices if one.key == key), None)
