"""Where a node stands, what it offers by name, and who says each of its numbers, for `read_dump`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from apps.kube.translate.cards import CardFacts
from apps.kube.translate.values import whole_or_none
from apps.kube.translate.vendors import Form, meaning_of
from apps.planner.inventory import Node

CLOUDS = (
    ("eks.amazonaws.com/", "eks"),
    ("k8s.amazonaws.com/", "eks"),
    ("cloud.google.com/gke-", "gke"),
    ("kubernetes.azure.com/", "aks"),
    ("alibabacloud.com/nodepool", "ack"),
    ("ack.aliyun.com", "ack"),
)
INSTANCE_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


def answer_place(node: Node) -> dict[str, Any]:
    cloud = next((name for start, name in CLOUDS if any(key.startswith(start) for key in node.labels)), None)
    kind = next((node.labels[key] for key in INSTANCE_TYPES if node.labels.get(key)), None)
    found = {"cloud": cloud, "instance_type": kind, "pool": node.pool or None, "rack": node.rack or None}
    return {key: value for key, value in found.items() if value} | _odd(node)


def _odd(node: Node) -> dict[str, Any]:
    prefix = "gpu.intel.com/device-id."
    ids = sorted(
        {key.removeprefix(prefix).partition(".")[0] for key in node.labels if key.startswith(prefix)}
    )
    beside = sum(amount for name, amount in node.allocatable.items() if name.endswith("monitoring"))
    milli = node.allocatable.get("alibabacloud.com/gpu-milli")
    found: dict[str, Any] = {"device_id": ids[0] if len(ids) == 1 else ids} if ids else {}
    found |= {"monitoring_resource": beside} if beside else {}
    return found | ({"gpu_milli": milli} if milli is not None else {})


def answer_resources(node: Node) -> dict[str, dict[str, Any]]:
    """Every resource that stands for devices in any form, by name, unknown vendors' too."""
    found: dict[str, dict[str, Any]] = {}
    for name in sorted({*node.capacity, *node.allocatable}):
        meaning = meaning_of(name)
        if meaning is not None:
            found[name] = {
                "form": "part of cards" if meaning.form is Form.PART else str(meaning.form),
                "capacity": node.capacity.get(name),
                "allocatable": node.allocatable.get(name),
            }
        elif "/" in name and not name.partition("/")[0].endswith("kubernetes.io"):
            found[name] = {
                "form": "not known to be a device",
                "capacity": node.capacity.get(name),
                "allocatable": node.allocatable.get(name),
            }
    return found


def answer_sources(
    node: Node, main: CardFacts | None, *, heartbeat: float | None, taken_at: float
) -> dict[str, dict[str, Any]]:
    """Who says each number, and how old that is where it tells its time."""
    if main is None:
        return {}
    times = {"amounts": heartbeat, "resource": heartbeat, "label": heartbeat, "annotation": main.since}
    stamp = whole_or_none(node.labels.get("nvidia.com/gfd.timestamp"))
    times["label nvidia.com"] = float(stamp) if stamp else None
    times["node agent"] = node.topology.observed_at if node.topology else None
    said = {"physical_gpus": main.count.source, "schedulable_units": "amounts of the node"}
    if main.product.label:
        said["product"] = f"label {main.product.label}"
    elif node.model and main.register:
        said["product"] = f"annotation {main.register.key}"
    if main.memory.mib is not None:
        said["memory_mib"] = main.memory.label
    elif main.dealt.mib is not None and main.register is not None:
        said["memory_mib"] = f"annotation {main.register.key}"
    return {key: _source(text, _age_of(text, times), taken_at) for key, text in said.items() if text}


def _age_of(text: str, times: Mapping[str, float | None]) -> float | None:
    starts: Iterable[str] = sorted(times, key=len, reverse=True)
    return next((times[start] for start in starts if text.startswith(start)), None)


def _source(text: str, at: float | None, taken_at: float) -> dict[str, Any]:
    age = max(int(taken_at - at), 0) if at is not None and taken_at else None
    return {"source": text, "observed_at": when(at), "age_seconds": age}


def when(at: float | None) -> str | None:
    """None also for a moment that no calendar has."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else None
    except (ValueError, OverflowError, OSError):
        return None
