"""Makes the annotation `topology.gpu.internal/matrix` of what the driver and the kernel tell."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.kube.topology.plain import read_plain
from apps.node_agent.devices import Cells, Device, Driver
from apps.node_agent.sysfs import numa_of, numa_of_nic, switch_of

MATRIX = "topology.gpu.internal/matrix"
SECONDS = 60
LONGEST_TEXT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Links:
    """numa: by GPU, as the tool says it; () where it does not. problem: why the tool could not be used."""

    cells: Cells
    source: str
    nics: tuple[str, ...] = ()
    nic_cells: Cells = ()
    numa: tuple[int | None, ...] = ()
    problem: str = ""


def read_links(nvidia_smi: Path, driver: Driver) -> Links:
    """`nvidia-smi topo -m`, which knows the NICs too; the driver's own word where that cannot be had."""
    text, problem = _run_topo(nvidia_smi)
    found = read_plain(text)
    size = len(driver.devices)
    names = tuple(f"GPU{index}" for index in range(size))
    if not problem and found.error:
        problem = f"`{nvidia_smi} topo -m` gives no links: {found.error}"
    elif not problem and not (found.complete and found.names == names):
        problem = f"`{nvidia_smi} topo -m` gives no whole table of {size} GPUs"
    if problem or found.links is None:
        told = f"{problem or 'no table'}; links are NVML's, NICs are unknown"
        return Links(driver.links, "nvml", problem=told)
    return Links(found.links, "nvidia-smi", found.nic_names, found.nic_links, found.numa or ())


def _run_topo(nvidia_smi: Path) -> tuple[str, str]:
    """(its text, why there is none)."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    try:
        done = subprocess.run(
            [str(nvidia_smi), "topo", "-m"],
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", **kept},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"`{nvidia_smi} topo -m` does not end within {SECONDS} s"
    except OSError as error:
        return "", f"{nvidia_smi} cannot be run: {error.strerror}"
    return done.stdout[:LONGEST_TEXT].decode(errors="replace"), ""


def build_matrix(devices: Sequence[Device], links: Links, *, sys: Path, observed_at: str) -> dict[str, Any]:
    return {
        "version": 1,
        "observed_at": observed_at,
        "source": links.source,
        "gpus": [_gpu(device, links, sys) for device in devices],
        "links": [list(row) for row in links.cells],
        "nics": [{"name": name, "numa": numa_of_nic(sys, name)} for name in links.nics],
        "nic_links": [list(row) for row in links.nic_cells],
        "mig": {
            device.uuid: [
                {"profile": one.profile, "start": one.start, "uuid": one.uuid} for one in device.instances
            ]
            for device in devices
            if device.uuid and device.instances
        },
    }


def _gpu(device: Device, links: Links, sys: Path) -> dict[str, Any]:
    numa = numa_of(sys, device.bus_id)
    if numa is None and device.index < len(links.numa):
        numa = links.numa[device.index]
    return {
        "index": device.index,
        "uuid": device.uuid,
        "numa": numa,
        "pcie_switch": switch_of(sys, device.bus_id),
        "bus_id": device.bus_id,
        "healthy": device.healthy,
        "memory_mib": device.memory_mib,
    }
