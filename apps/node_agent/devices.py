"""What the driver tells of a machine's GPUs. Plain facts; nothing here asks anybody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

Cells = tuple[tuple[str, ...], ...]


class DriverUnreachable(Exception):
    """needs_restart: the driver was changed under this container; only a new one gets its new libraries."""

    def __init__(self, sentence: str, *, needs_restart: bool = False) -> None:
        super().__init__(sentence)
        self.needs_restart = needs_restart


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG device. number: of its GPU instance. start: its first memory slice; None if untold."""

    uuid: str
    profile: str
    number: int | None = None
    start: int | None = None
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """index: as the driver counts. minor: N of /dev/nvidiaN. bus_id: as NVML writes it (00000000:3B:00.0)."""

    index: int
    uuid: str = ""
    bus_id: str = ""
    minor: int | None = None
    memory_mib: int | None = None
    healthy: bool = True
    instances: tuple[Instance, ...] = ()


@dataclass(frozen=True, slots=True)
class Driver:
    """links: raw codes, "" where unknown. problems: sentences for the log."""

    devices: tuple[Device, ...]
    links: Cells = ()
    problems: tuple[str, ...] = ()


def recall(devices: Sequence[Device], known: Sequence[Device]) -> tuple[Device, ...]:
    """A GPU that is lost tells nothing, not even its name: it keeps what it told before."""
    if len(devices) != len(known):
        return tuple(devices)
    return tuple(
        now if now.uuid or now.healthy else replace(before, healthy=False)
        for now, before in zip(devices, known, strict=True)
    )


def memory_by_uuid(devices: Sequence[Device]) -> dict[str, int | None]:
    return dict(_memories(devices))


def _memories(devices: Sequence[Device]) -> Iterator[tuple[str, int | None]]:
    for device in devices:
        yield device.uuid, device.memory_mib
        for one in device.instances:
            yield one.uuid, one.memory_mib
