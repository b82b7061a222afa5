"""Where a PCI device sits, as the kernel tells it in /sys. None wherever it does not say."""

from __future__ import annotations

import re
from pathlib import Path

SYS = Path("/sys")
ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def numa_of(root: Path, bus_id: str) -> int | None:
    return _number(root / "bus/pci/devices" / _address(bus_id) / "numa_node") if _address(bus_id) else None


def switch_of(root: Path, bus_id: str) -> str | None:
    """The address of the switch's upper port, the same for all devices of one switch; None without one.

    Root port, upper port, lower port, device: whatever hangs closer to the root has no switch above it.
    """
    if not _address(bus_id):
        return None
    try:
        path = (root / "bus/pci/devices" / _address(bus_id)).resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    way = [part for part in path.parts if ADDRESS.fullmatch(part)]
    return way[-3] if len(way) >= 4 else None


def numa_of_nic(root: Path, name: str) -> int | None:
    if not NAME.fullmatch(name) or name in (".", ".."):
        return None
    return _number(root / "class/infiniband" / name / "device/numa_node")


def _address(bus_id: str) -> str:
    """NVML's 00000000:3B:00.0 is the kernel's 0000:3b:00.0."""
    found = ADDRESS.fullmatch(bus_id)
    if found is None:
        return ""
    domain, bus, device, function = found.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def _number(path: Path) -> int | None:
    """The kernel writes -1 where it does not know."""
    try:
        found = int(path.read_text()[:20])
    except (OSError, ValueError):
        return None
    return found if found >= 0 else None
