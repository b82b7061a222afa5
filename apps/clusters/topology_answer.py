"""The answer of `read_topology`: one reading as plain values, with what the links mean.

Nothing here touches the database or a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.kube.topology.reading import Reading
from apps.planner.bandwidth import bandwidth_of, generation_of, whole_nvlink
from apps.planner.inventory import Gpu, LinkClass, Node, Topology
from apps.planner.link_groups import by_class, by_value, closest_class, connected
from apps.planner.topology import RANK, best_group, link_class

OLD_NAMES = {"SOC": "SYS"}
FABRICS = {
    "SIO": "same package",
    "HCCS_SW": "fabric through a switch",
    "HCCS": "vendor fabric between all pairs",
    "XGMI": "vendor fabric (Infinity Fabric)",
    "HT": "vendor fabric, like NVLink with unknown lane count",
    "MX": "vendor fabric, like NVLink with unknown lane count",
    "MLK": "vendor fabric (MLU-Link)",
}


def answer_topology(reading: Reading, model: str = "") -> dict[str, Any]:
    """model: the GPUs' product, for bandwidths. A cell that nobody told is None."""
    answer: dict[str, Any] = {
        "vendor": reading.vendor or None,
        "gpus": reading.gpus,
        "links": None if reading.links is None else [[cell or None for cell in row] for row in reading.links],
        "numa": _listed(reading.numa),
        "nics": reading.nics,
        "complete": reading.complete,
        "cpu_affinity": _listed(reading.cpu_affinity),
        "warnings": list(reading.warnings),
    }
    if reading.error:
        return {**answer, "error": reading.error}
    return {**answer, **_beside(reading), **_meaning(reading), **_speeds(reading, model)}


def _listed(values: tuple[Any, ...] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _beside(reading: Reading) -> dict[str, Any]:
    numbers = [name for name in reading.names if name[-1:].isdecimal() and ":" not in name]
    ids = [int("".join(filter(str.isdigit, name[-5:]))) for name in numbers]
    return {
        "source": reading.source,
        "observed_at": reading.observed_at,
        "names": list(reading.names),
        "device_ids": ids if len(ids) == len(reading.names) else None,
        "cpu_affinity_raw": _listed(reading.cpu_affinity_raw),
        "numa_raw": _listed(reading.numa_raw),
        "gpu_numa_id": _listed(reading.gpu_numa_id),
        "nic_names": list(reading.nic_names),
        "nic_links": [[cell or None for cell in row] for row in reading.nic_links],
        "nic_gpu": _by_nic(reading),
        "nearest_nic": _nearest_nics(reading),
        "uuids": list(reading.uuids),
        "bus_ids": list(reading.bus_ids),
        "hops": None if reading.hops is None else [list(row) for row in reading.hops],
        "weights": None if reading.weights is None else [list(row) for row in reading.weights],
    }


def _nic_keys(reading: Reading) -> list[str]:
    """NIC0, NIC1, … as the tables name them, whatever the devices are called."""
    return [f"NIC{at}" for at in range(len(reading.nic_names))]


def _by_nic(reading: Reading) -> dict[str, list[str | None]]:
    return {key: [row[at] or None for row in reading.nic_links] for at, key in enumerate(_nic_keys(reading))}


def _nearest_nics(reading: Reading) -> dict[str, str | None]:
    """GPU -> the NIC that is nearest, None where two are as near or nothing is told."""
    keys, order = _nic_keys(reading), ("PIX", "PXB", "PHB", "NODE", "SYS", "SOC")
    nearest: dict[str, str | None] = {}
    for name, row in zip(reading.names, reading.nic_links, strict=False):
        steps = [order.index(code) if code in order else len(order) for code in row]
        best = min(steps, default=len(order))
        alone = best < order.index("SYS") and steps.count(best) == 1
        nearest[name] = keys[steps.index(best)] if alone else None
    return nearest


def _meaning(reading: Reading) -> dict[str, Any]:
    links = reading.links
    told = sorted({cell for row in links or () for cell in row} - {"", "X"})
    closest = closest_class(links) if links else LinkClass.UNKNOWN
    tied = links is not None and closest is not LinkClass.UNKNOWN
    return {
        "link_class": {code: link_class(code).value for code in told},
        "link_words": {code: FABRICS[code] for code in told if code in FABRICS},
        "equivalence": {code: OLD_NAMES[code] for code in told if code in OLD_NAMES},
        "closest_link": closest.value,
        "groups": [list(group) for group in connected(links, closest)] if links and tied else None,
        "link_groups": {kind.value: _groups(found) for kind, found in by_class(links or ()).items()},
        "numa_groups": _groups(by_value(reading.numa)) if reading.numa else None,
        "groups_by_cpu": _groups(by_value(reading.cpu_affinity)) if reading.cpu_affinity else None,
        "switch_groups": _groups(by_value(reading.pcie_switches)) if any(reading.pcie_switches) else None,
    }


def _groups(groups: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    return [list(group) for group in groups]


def _speeds(reading: Reading, model: str) -> dict[str, Any]:
    """Per code: GB/s one way and both ways; None where none is known. Nothing without a model."""
    generation = generation_of(model) if model else None
    if not model:
        return {"model": None, "bandwidth": None}
    told = sorted({cell for row in reading.links or () for cell in row} - {"", "X"})
    speeds: dict[str, Mapping[str, Any] | None] = {}
    for code in told:
        rate = bandwidth_of(code, model)
        speeds[code] = None
        if rate is not None:
            speeds[code] = {
                "gb_per_s_one_way": rate.one_way,
                "gb_per_s_both_ways": rate.both_ways,
                "stated": rate.stated,
            }
    whole = whole_nvlink(model)
    return {
        "model": model,
        "generation": generation.name if generation else None,
        "bandwidth": speeds,
        "nvlink_of_a_gpu": whole.stated if whole else None,
    }


def find_group(reading: Reading, count: int, wanted: LinkClass | None) -> dict[str, Any]:
    """The best `count` GPUs of the reading, for --group; why there is none, if there is none."""
    size = reading.gpus or 0
    links = reading.links or ()
    gpus = tuple(
        Gpu(index=at, numa=reading.numa[at] if reading.numa and at < len(reading.numa) else None)
        for at in range(size)
    )
    topology = Topology(links=links, complete=reading.complete) if links else None
    group = best_group(Node("file", gpus=gpus, topology=topology), range(size), count, wanted)
    codes = sorted({links[a][b] for a in group or () for b in group or () if a != b}) if links else []
    worst = min((link_class(code) for code in codes), key=RANK.__getitem__, default=None)
    return {
        "count": count,
        "wanted": wanted.value if wanted else None,
        "gpus": list(group) if group is not None else None,
        "links": [code or None for code in codes],
        "class": worst.value if worst is not None else None,
        "why": "" if group is not None else _why_none(reading, count, wanted),
    }


def _why_none(reading: Reading, count: int, wanted: LinkClass | None) -> str:
    size = reading.gpus or 0
    if count > size:
        return f"there are {size} GPUs"
    word = wanted.value if wanted else "any link"
    if reading.links is None:
        return f"no GPU topology metadata: whether {word} ties {count} GPUs is unknown"
    if any(not cell for row in reading.links for cell in row):
        return f"no group of {count} is known to be tied by {word}; some links are unknown"
    return f"no group of {count} GPUs is tied by {word}"
