"""What was read of devices: one `Device` per physical one, with a `Unit` per MIG instance or for the whole.

`None` is "not measured", which is neither zero nor idle; `missing` says why, per quantity.
Units: MiB, percent (0 to 100), watts, degrees Celsius, seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from apps.prometheus.identity import Workload

NO_SERIES = "no series tells it"
NO_DATA = "no data since its last sample"


@dataclass(frozen=True, slots=True)
class Share:
    """One container's part of a device as seen from inside it: less than the device itself shows."""

    workload: Workload
    used_mib: float | None = None
    limit_mib: float | None = None
    utilisation: float | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """A whole GPU, or one MIG instance (tile, partition) of it.

    total_mib: used + free + reserved, or what is told. total_note: what is not in it. utilisation_metric:
    what the percentage stands on. allocated_mib, core_limit: what a scheduler dealt out, which is not use.
    workloads: who holds it by the exporter's labels, without placeholders; placeholder: "namespace/pod".
    """

    instance: str = ""
    profile: str = ""
    used_mib: float | None = None
    free_mib: float | None = None
    reserved_mib: float | None = None
    total_mib: float | None = None
    total_note: str = ""
    utilisation: float | None = None
    utilisation_metric: str = ""
    sm_activity: float | None = None
    allocated_mib: float | None = None
    limit_mib: float | None = None
    core_allocated: float | None = None
    core_limit: float | None = None
    workloads: tuple[Workload, ...] = ()
    placeholder: str = ""
    shares: tuple[Share, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    at: float | None = None

    @property
    def workload(self) -> Workload | None:
        """The one that holds it, if it is one."""
        return self.workloads[0] if len(self.workloads) == 1 else None

    @property
    def free_mib_most(self) -> float | None:
        """So much is free at the most: the device's own use counts, not a container's view of it."""
        by_use = None
        if self.total_mib is not None and self.used_mib is not None:
            by_use = max(0.0, self.total_mib - self.used_mib - (self.reserved_mib or 0))
        told = [one for one in (self.free_mib, by_use) if one is not None]
        return min(told) if told else None


@dataclass(frozen=True, slots=True)
class Device:
    """One physical device. power_watts, temperature_c: the greatest that a series of it tells, never a sum.

    xid: the last XID since the driver started (0: none). other: metrics that nobody here reads, by name.
    silent_since: its last sample, where others have newer ones: nothing is known of it since.
    """

    host: str
    uuid: str
    index: str
    vendor: str = ""
    model: str = ""
    bus_id: str = ""
    units: tuple[Unit, ...] = ()
    power_watts: float | None = None
    temperature_c: float | None = None
    xid: int | None = None
    other: Mapping[str, float | None] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    at: float | None = None
    silent_since: float | None = None

    @property
    def name(self) -> str:
        return self.uuid or (f"#{self.index}" if self.index else self.bus_id)

    @property
    def is_cut(self) -> bool:
        return any(unit.instance for unit in self.units)


def unit_key(host: str, uuid: str, name: str, instance: str, profile: str) -> str:
    """Names a unit over time. A UUID is enough; where there is none, host and place stand for it. An instance
    goes with its profile: after a change of the layout the same number may be another one."""
    device = uuid or f"{host}|{name}"
    return f"{device}/{instance}/{profile}" if instance else device


def key_of(device: Device, unit: Unit) -> str:
    return unit_key(device.host, device.uuid, device.name, unit.instance, unit.profile)
