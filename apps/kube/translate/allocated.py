"""Which devices a pod was given, as its scheduler wrote it on the pod itself.

One form is HAMi's and Volcano's: `UUID,type,MiB,cores:` for each device, `;` after each container. Other
schedulers' forms are in `allocated_others`. Nothing here knows the node: matching these with its devices, and
settling whose word counts, is `holders`' part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apps.kube.translate.allocated_others import read_other_devices
from apps.kube.translate.passing import passing_containers, without_passing
from apps.kube.translate.values import Warn, brief, child, clean, entries, whole_or_none
from apps.planner.inventory import HeldDevice, Source

HAMI = re.compile(r"^(?:hami\.io|4pd\.io)/(?P<family>.+?)-devices-(?P<state>allocated|to-allocate)$")
HAMI_NODE = ("hami.io/vgpu-node", "volcano.sh/vgpu-node", "4pd.io/vgpu-node")
VOLCANO_GIVEN = ("volcano.sh/vgpu-ids-new", "4pd.io/vgpu-ids-new")
VOLCANO_TO_GIVE = ("volcano.sh/devices-to-allocate", "4pd.io/devices-to-allocate")
VOLCANO = "volcano.sh/vgpu-number"
FAMILIES = {
    "vgpu": "nvidia.com/gpu",
    "dcu": "hygon.com/dcunum",
    "mlu": "cambricon.com/vmlu",
    "metax": "metax-tech.com/gpu",
    "metax-gpu": "metax-tech.com/gpu",
    "metax-sgpu": "metax-tech.com/sgpu",
    "mthreads": "mthreads.com/vgpu",
    "mthreads-vgpu": "mthreads.com/vgpu",
    "iluvatar": "iluvatar.ai/vgpu",
    "iluvatar-vgpu": "iluvatar.ai/vgpu",
    "kunlun": "kunlunxin.com/xpu",
    "enflame": "enflame.com/vgcu",
    "enflame-gcu": "enflame.com/gcu",
    "amd": "amd.com/gpu",
    "amdgpu": "amd.com/gpu",
}
"""The word in HAMi's annotation -> the resource its devices are asked by."""
CORES_ARE_PERCENT = ("nvidia.com/", "volcano.sh/", "hygon.com/", "metax-tech.com/")
"""Elsewhere the field counts compute units, of which each model has its own number."""
PART = re.compile(r"^(?P<uuid>.*)\[(?P<part>\d+-\d+)\]$")
FEWEST_FIELDS = 4
MOST_DEVICES = 1024
LONGEST_TEMPLATE = 4096


def read_devices(
    spec: Mapping[str, Any], annotations: Mapping[str, str], warn: Warn
) -> tuple[HeldDevice, ...]:
    """What it holds of each device. Empty where no scheduler wrote anything, or of another node."""
    if not annotations:
        return ()
    return without_passing(read_records(spec, annotations, warn), passing_containers(spec))


def read_records(
    spec: Mapping[str, Any], annotations: Mapping[str, str], warn: Warn
) -> tuple[HeldDevice, ...]:
    """Every record as it is written, those of init containers too."""
    found = [*_of_hami(spec, annotations, warn), *read_other_devices(annotations, warn)]
    if not found:
        return ()
    node, written = clean(spec.get("nodeName"), 253), _written_node(annotations)
    if node and written and node != written:
        warn(f"its devices were chosen on the node {brief(written)}, but it is on {node}: they are not used")
        return ()
    if len(found) > MOST_DEVICES:
        warn(f"its annotations name {len(found)} devices, which is not believable: they are not used")
        return ()
    return tuple(found)


def _written_node(annotations: Mapping[str, str]) -> str:
    return next((annotations[key] for key in HAMI_NODE if annotations.get(key)), "")


def _of_hami(spec: Mapping[str, Any], annotations: Mapping[str, str], warn: Warn) -> Iterator[HeldDevice]:
    for key, resource in _annotations_of_hami(annotations):
        templates = _templates(annotations.get(resource, ""))
        for container, text in _by_container(annotations[key], spec, key, warn):
            for record in text.split(":"):
                if not record.strip():
                    continue
                held = _device(record, resource, container, templates)
                if held is None:
                    warn(f"the annotation {brief(key)} has a record that cannot be read: {brief(record)!r}")
                else:
                    yield held


def _annotations_of_hami(annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    """(annotation, resource): what was given, else what is about to be given."""
    chosen: dict[str, tuple[str, str, bool]] = {}
    for key in sorted(annotations):
        if "devices-" not in key and key not in VOLCANO_GIVEN:
            continue
        found = HAMI.match(key)
        if found:
            resource = resource_of(found["family"])
            is_given = found["state"] == "allocated"
        elif key in VOLCANO_GIVEN or key in VOLCANO_TO_GIVE:
            resource, is_given = VOLCANO, key in VOLCANO_GIVEN
        else:
            continue
        known = chosen.get(resource)
        if annotations[key].strip(";: ") and (known is None or (is_given and not known[2])):
            chosen[resource] = (key, resource, is_given)
    return [(key, resource) for key, resource, _is_given in chosen.values()]


def resource_of(family: str) -> str:
    if family.lower() in FAMILIES:
        return FAMILIES[family.lower()]
    return f"huawei.com/{clean(family, 60)}" if family.startswith("Ascend") else clean(family, 60)


def _by_container(value: str, spec: Mapping[str, Any], key: str, warn: Warn) -> Iterator[tuple[str, str]]:
    """(name of the container, its records). Older releases leave out the init containers."""
    segments = value.split(";")
    if segments and not segments[-1].strip():
        segments.pop()
    names = container_names(spec)
    apps = [clean(one.get("name"), 253) for one in entries(spec, "containers")]
    if any(text.strip() for text in segments[len(names) :]):
        warn(f"the annotation {brief(key)} tells of more containers than the pod has")
        yield from (("", text) for text in segments)
        return
    in_order = apps if len(segments) == len(apps) else names
    yield from zip(in_order, segments, strict=False)


def container_names(spec: Mapping[str, Any]) -> list[str]:
    """Init containers first, as HAMi counts them."""
    groups: Sequence[str] = ("initContainers", "containers")
    return [clean(one.get("name"), 253) for group in groups for one in entries(spec, group)]


def _device(record: str, resource: str, container: str, templates: Mapping[str, str]) -> HeldDevice | None:
    fields = [field.strip() for field in record.split(",")]
    if len(fields) < FEWEST_FIELDS or not fields[0]:
        return None
    memory, cores = whole_or_none(fields[2]), whole_or_none(fields[3])
    if memory is None or cores is None or memory < 0 or cores < 0:
        return None
    uuid, part = fields[0], ""
    suffix = PART.match(uuid)
    if suffix:
        uuid, part = suffix["uuid"], suffix["part"]
    is_percent = resource.startswith(CORES_ARE_PERCENT)
    return HeldDevice(
        source=Source.SCHEDULER,
        uuid=clean(uuid, 100),
        milli=min(cores * 10, 1000) if cores and is_percent else None,
        memory_mib=memory or None,
        container=container,
        resource=resource,
        part=part or templates.get(uuid, ""),
    )


def _templates(value: str) -> dict[str, str]:
    """Ascend's hard slices: the annotation named like the resource says by which template each is cut."""
    if not value.startswith("[") or len(value) > LONGEST_TEMPLATE:
        return {}
    try:
        records = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    found = [child({"one": record}, "one") for record in records]
    return {clean(one.get("UUID"), 100): clean(one.get("temp"), 60) for one in found if one.get("UUID")}
