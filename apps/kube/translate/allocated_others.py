"""Which devices a pod was given: the forms of Koordinator, run:ai, gpushare and Alibaba's simulator.

HAMi's and Volcano's form is read by `allocated`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from apps.kube.translate.values import Warn, brief, child, clean, entries, quantities, whole, whole_or_none
from apps.planner.inventory import HeldDevice, Source

KOORDINATOR = "scheduling.koordinator.sh/device-allocated"
KOORDINATOR_RESOURCES = {"gpu": "nvidia.com/gpu", "xpu": "koordinator.sh/xpu", "npu": "koordinator.sh/npu"}
RUNAI_MIG = "runai-mig-device"
RESERVED = "run.ai/reserve_for_gpu_index"
GPUSHARE = "ALIYUN_COM_GPU_MEM_"
GPUSHARE_BY_CONTAINER = "scheduler.framework.gpushare.allocation"
VOLCANO_INDEX = "volcano.sh/gpu-index"
ALIBABA_INDEX = "alibabacloud.com/gpu-index"
ALIBABA_MILLI = "alibabacloud.com/gpu-milli"
SMALLEST_IN_MIB = 1024
"""gpushare counts GiB or MiB, as it was installed. A whole device of that many units counts MiB."""
LONGEST = 64 * 1024


def read_other_devices(annotations: Mapping[str, str], warn: Warn) -> Iterator[HeldDevice]:
    if KOORDINATOR in annotations:
        yield from _koordinator(annotations[KOORDINATOR], warn)
    if RUNAI_MIG in annotations:
        yield from _runai_mig(annotations[RUNAI_MIG], warn)
    if RESERVED in annotations:
        yield from _reserved(annotations[RESERVED])
    if GPUSHARE + "IDX" in annotations or GPUSHARE_BY_CONTAINER in annotations:
        yield from _gpushare(annotations, warn)
    if VOLCANO_INDEX in annotations:
        yield from _by_index(annotations[VOLCANO_INDEX], ",", None, "volcano.sh/gpu-memory")
    if ALIBABA_INDEX in annotations:
        milli = whole_or_none(annotations.get(ALIBABA_MILLI))
        share = milli if milli is not None and 0 < milli <= 1000 else None
        yield from _by_index(annotations[ALIBABA_INDEX], "-", share, "nvidia.com/gpu")


def _document(name: str, value: str, warn: Warn) -> Mapping[str, Any]:
    try:
        document = json.loads(value) if len(value) <= LONGEST else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        warn(f"the annotation {name} is no JSON object: it is not used")
        return {}
    return document


def _koordinator(value: str, warn: Warn) -> Iterator[HeldDevice]:
    document = _document(KOORDINATOR, value, warn)
    for kind, resource in KOORDINATOR_RESOURCES.items():
        for entry in entries(document, kind):
            minor = whole_or_none(entry.get("minor"))
            uuid = clean(entry.get("id"), 100)
            if not uuid and (minor is None or minor < 0):
                warn(f"the annotation {KOORDINATOR} names a device neither by minor nor by id")
                continue
            told = quantities(child(entry, "resources"), warn, KOORDINATOR)
            amounts = {name.partition("/")[2]: amount for name, amount in told.items()}  # two domains
            percents = [amounts.get(name, 0) for name in ("gpu", "gpu-core", "gpu-memory-ratio")]
            memory = amounts.get("gpu-memory", 0) >> 20
            yield HeldDevice(
                source=Source.SCHEDULER,
                uuid=uuid,
                index=minor,
                milli=min(max(percents) * 10, 1000) or None,
                memory_mib=memory or None,
                resource=resource,
            )


def _runai_mig(value: str, warn: Warn) -> Iterator[HeldDevice]:
    """The key of the instance's UUID changed between releases, and so did the form of the index."""
    document = _document(RUNAI_MIG, value, warn)
    name = clean(document.get("name"), 100)
    uuid = clean(document.get("deviceUUID") or document.get("instanceid"), 100)
    if not name.startswith("nvidia.com/mig-"):
        if document:
            warn(f"the annotation {RUNAI_MIG} names no MIG profile: {brief(name)!r}")
        return
    index = whole_or_none(document.get("gpuindex"))
    start = whole_or_none(document.get("position"))
    yield HeldDevice(
        source=Source.SCHEDULER,
        uuid=uuid,
        index=index if index is not None and index >= 0 else None,
        resource=name,
        profile=name.removeprefix("nvidia.com/mig-"),
        start_slice=start if start is not None and 0 <= start < 64 else None,
    )


def _reserved(value: str) -> Iterator[HeldDevice]:
    """The device that a placeholder keeps, by its UUID or by its place on the node."""
    index = whole_or_none(value)
    if index is not None and index >= 0:
        yield HeldDevice(source=Source.SCHEDULER, index=index, resource="nvidia.com/gpu")
    elif value.strip():
        yield HeldDevice(source=Source.SCHEDULER, uuid=clean(value.strip(), 100), resource="nvidia.com/gpu")


def _gpushare(annotations: Mapping[str, str], warn: Warn) -> Iterator[HeldDevice]:
    device, wanted = (whole(annotations.get(GPUSHARE + key), 0) for key in ("DEV", "POD"))
    by_device = _gpushare_by_container(annotations, warn)
    if not by_device:
        index = whole(annotations.get(GPUSHARE + "IDX"), -1)
        if index < 0 or wanted <= 0:
            return  # -1 stands for a pod whose device could not be chosen
        by_device = {(index, ""): wanted}
    for (index, container), units in by_device.items():
        yield HeldDevice(
            source=Source.SCHEDULER,
            index=index,
            milli=min(max(round(1000 * units / device), 1), 1000) if device > 0 else None,
            memory_mib=(units if device >= SMALLEST_IN_MIB else units * 1024) if device > 0 else None,
            container=container,
            resource="aliyun.com/gpu-mem",
        )


def _gpushare_by_container(annotations: Mapping[str, str], warn: Warn) -> dict[tuple[int, str], int]:
    """Newer releases: {"0": {"1": 8}}: container 0 has 8 units of device 1."""
    value = annotations.get(GPUSHARE_BY_CONTAINER)
    if value is None:
        return {}
    found: dict[tuple[int, str], int] = {}
    for devices in _document(GPUSHARE_BY_CONTAINER, value, warn).values():
        for index, units in devices.items() if isinstance(devices, dict) else ():
            at, amount = whole(index, -1), whole(units, 0)
            if at >= 0 and amount > 0:
                found[(at, "")] = found.get((at, ""), 0) + amount
    return found


def _by_index(value: str, between: str, milli: int | None, resource: str) -> Iterator[HeldDevice]:
    for part in value.split(between):
        index = whole(part, -1)
        if 0 <= index < 1024:
            yield HeldDevice(source=Source.SCHEDULER, index=index, milli=milli, resource=resource)
