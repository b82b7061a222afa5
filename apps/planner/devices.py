"""The devices of a node: GPUs, how they are linked, cut and shared, and who holds them.

Part of the planner's facts; import them from `inventory`, which says the units.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LinkClass(StrEnum):
    """How closely two GPUs of one node are tied, best first. UNKNOWN is never "no link"."""

    NVLINK = "nvlink"
    PCIE_SWITCH = "pcie-switch"
    NUMA = "numa"
    NODE = "node"
    UNKNOWN = "unknown"


class Source(StrEnum):
    """Who tells which pod holds which device, most trusted first. A number keeps its source and age."""

    DRA = "dra"
    SCHEDULER = "scheduler"
    AGENT = "agent"
    EXPORTER = "exporter"


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A run of memory slices on one GPU, cut to a profile such as ``3g.40gb``.

    start_slice: first memory slice it occupies, 0-based (NVML's placement ``start``); None if unknown.
    """

    profile: str
    start_slice: int | None = None
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical device.

    index: position on the node as the driver numbers it. uuid: "" where nobody tells it.
    memory_mib: framebuffer in MiB, as it may be handed out. numa: CPU NUMA node. pcie_switch: opaque name of
    its switch. model: "" where it is the node's. cores: what the register calls its cores (percent of a card,
    or compute units; each vendor counts its own). units: into how many units of the resource it is dealt,
    None if nobody says. mode: how it is divided, in its own words ("hami-core", "mig", "mps"), "" if untold.
    """

    index: int
    uuid: str = ""
    memory_mib: int | None = None
    numa: int | None = None
    pcie_switch: str | None = None
    bus_id: str = ""
    healthy: bool = True
    instances: tuple[MigInstance, ...] = ()
    model: str = ""
    cores: int | None = None
    units: int | None = None
    mode: str = ""

    @property
    def key(self) -> str:
        """What holdings name it by: its UUID, or its place on the node where no UUID is known."""
        return self.uuid or f"#{self.index}"


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Devices beside a node's main ones: of another vendor, or of a kind that nobody here knows.

    resource: what they are asked by. alive: whether their plugin still speaks (None if nothing says so).
    sharing, shares_per_gpu, claimable: as on `Node`.
    """

    vendor: str
    resource: str
    model: str = ""
    gpus: tuple[Gpu, ...] = ()
    sharing: str = ""
    shares_per_gpu: int = 1
    alive: bool | None = None
    claimable: bool = False


@dataclass(frozen=True, slots=True)
class Topology:
    """The link matrix of one node.

    links: n x n raw codes in the order of the node's GPUs ("X" on the diagonal; "NV18", "PIX",
    "PXB", "PHB", "NODE", "SYS", other vendors' words as they come). nics: (name, NUMA node).
    source: who said so ("nvml", "text", ...). observed_at: when, or None. A code that nobody told is "".
    complete: False for a cut or damaged table, whose readable part is kept.
    """

    links: tuple[tuple[str, ...], ...]
    nics: tuple[tuple[str, int | None], ...] = ()
    nic_links: tuple[tuple[str, ...], ...] = ()
    source: str = ""
    observed_at: float | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Holding:
    """One pod's share of one device, as some source tells it.

    device: `Gpu.key`, or the uuid of a MIG instance. milli: 1000 for a whole device, 0 where no share of its
    cores is set (it is held by its memory alone). source: who tells it.
    observed_at: when it was seen, None for what stands in the pod itself. kept_by: key of the claim that
    keeps the device although no pod uses it; then pod_uid is "".
    """

    pod_uid: str
    device: str
    milli: int = 1000
    memory_mib: int | None = None
    container: str = ""
    source: Source = Source.AGENT
    observed_at: float | None = None
    kept_by: str = ""


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """What a pod's own annotations or claims say that it was given, before a node is known to match it.

    uuid: of a GPU or a MIG instance; index: where only the place on the node is told. milli: share of the
    device, None where none is set (it may use the whole). memory_mib: None where none is set.
    resource: what the device is asked by, "" if untold. profile: of a MIG instance, "" for a GPU.
    start_slice: of a MIG instance. part: the scheduler's own word for a part of the device ("2-0" of a MIG
    geometry, "vir05_1c_8g"), "" for none. claim: key "namespace/name" of the ResourceClaim that gave it; pods
    (and containers) with the same claim share the device, which counts once.
    """

    source: Source
    uuid: str = ""
    index: int | None = None
    milli: int | None = None
    memory_mib: int | None = None
    container: str = ""
    resource: str = ""
    profile: str = ""
    start_slice: int | None = None
    part: str = ""
    claim: str = ""
