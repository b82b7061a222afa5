"""Answers `read_dump` about pods: what each really asks for, what it was given, and whether it holds it.

Numbers of devices are as the pod's own spec has them (`effective`); what annotations, claims and webhooks add
stands beside them under names of its own. Claims, slices and pod groups are in `claim_answers` and
`group_answers`. Nothing here touches the database or a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from apps.clusters.claim_answers import answer_claims, claims_of_pod
from apps.clusters.group_answers import answer_groups
from apps.kube.gateway import DEVICE_CLASSES, PODS, Kind
from apps.kube.translate.allocated import read_records
from apps.kube.translate.book_keeping import BookKeeper
from apps.kube.translate.demand import (
    FRACTION,
    after_webhook,
    is_reservation,
    mig_by_annotation,
    read_fraction,
    read_requests,
)
from apps.kube.translate.device_book import DeviceBook
from apps.kube.translate.unreadable import UNREADABLE, Raw, opened, place_of
from apps.kube.translate.values import child, clean, texts, whole
from apps.kube.translate.wishes import OF_NO_NODE, ContainerWish, is_part, read_wishes, silent
from apps.planner.inventory import HeldDevice, Pod, Source
from apps.planner.resources import counts_devices, effective_requests, is_device_resource
from apps.planner.snapshot import Snapshot

MIG = re.compile(r"^nvidia\.com/mig-(\d)g\.")
ASCEND_TEMPLATE = re.compile(r"^vir(?P<cores>\d+)(?:_(?P<cpus>\d+)c)?(?:_(?P<gib>\d+)g)?")
COUNTED_AS_DEVICES = ("koordinator.sh/gpu.shared", "koordinator.sh/gpu-shared", "aws.amazon.com/neuroncore")
IMPLICIT_CLASS = "deviceclass.resource.kubernetes.io/"


def answer_pods(objects: Mapping[Kind, Iterable[Raw]], snapshot: Snapshot) -> dict[str, Any]:
    """The members of a dump's answer that are about pods and what they refer to; empty ones are left out."""
    book = BookKeeper().keep(objects, lambda kind, raw, read, said: _read_safely(raw, read), [])
    extended = _extended_resources(objects.get(DEVICE_CLASSES, ()))
    by_place = {(pod.namespace, pod.name): pod for pod in snapshot.pods.values()}
    answers = []
    for raw in objects.get(PODS, ()):
        pod = by_place.get(place_of(raw))
        if pod is not None:
            answers.append(pod_answer(opened(raw), pod, book, extended))
    found = {"pods": answers, **answer_claims(objects, book), **answer_groups(objects, snapshot)}
    return {name: value for name, value in found.items() if value or name == "pods"}


def _read_safely(raw: Raw, read: Any) -> Any:
    try:
        return read(opened(raw))
    except UNREADABLE:
        return None  # the snapshot's problems name it


def _extended_resources(raws: Iterable[Raw]) -> dict[str, str]:
    """Resource -> the device class behind it."""
    found = {}
    for raw in raws:
        device_class = opened(raw)
        resource = clean(child(device_class, "spec").get("extendedResourceName"), 253)
        if resource:
            found[resource] = clean(child(device_class, "metadata").get("name"), 253)
    return found


def pod_answer(
    raw: Mapping[str, Any], pod: Pod, book: DeviceBook, extended: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """raw: the object that `pod` was read from. extended: resource -> device class that stands for it."""
    spec = child(raw, "spec")
    annotations = texts(child(raw, "metadata", "annotations"))
    wishes = read_wishes(spec, silent)
    effective = _devices_only(read_requests(spec, silent))
    answer: dict[str, Any] = {
        "namespace": pod.namespace,
        "name": pod.name,
        "node": pod.node_name or None,
        "phase": pod.phase if child(raw, "status").get("phase") else None,
        "reason": clean(child(raw, "status").get("reason"), 100) or None,
        "terminating": pod.terminating,
        "scheduler": pod.scheduler,
        "is_reservation": is_reservation(pod.namespace, pod.labels),
        "is_holding": pod.is_holding and not pod.reservation,
        "effective": effective,
        **_other_counts(wishes, annotations, effective),
        **_shares(pod, annotations),
        "containers": _containers(wishes, read_records(spec, annotations, silent)),
        **_given(pod.devices, wishes),
        **claims_of_pod(raw, pod, book),
        **_by_device_class(effective, extended or {}),
        "gang": pod.gang or None,
        "protections": list(pod.protections),
        "warnings": list(pod.warnings),
    }
    answer["holds_gpu"] = _held_now(pod, answer)
    return answer


def _devices_only(requests: Mapping[str, int]) -> dict[str, int]:
    """Counts of devices. Where a scheduler gives devices out by their memory or cores alone (gpushare,
    Koordinator), these are all that a pod asks for."""
    asked = {name: amount for name, amount in sorted(requests.items()) if _is_of_devices(name)}
    counts = {name: amount for name, amount in asked.items() if _is_count(name)}
    return counts or {name: amount for name, amount in asked.items() if not OF_NO_NODE.match(name)}


def _is_of_devices(resource: str) -> bool:
    return is_device_resource(resource) or resource.startswith(IMPLICIT_CLASS)


def _is_count(resource: str) -> bool:
    return bool(
        resource in COUNTED_AS_DEVICES
        or resource.startswith(IMPLICIT_CLASS)
        or MIG.match(resource)
        or (counts_devices(resource) and not is_part(resource))
    )


def _other_counts(
    wishes: tuple[ContainerWish, ...], annotations: Mapping[str, str], effective: Mapping[str, int]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "whole_gpus": sum(amount for name, amount in effective.items() if counts_devices(name)),
        "containers_with_gpu": sum(1 for wish in wishes if wish.counts and not wish.is_init),
    }
    later = effective_requests(
        [wish.devices for wish in wishes if not wish.is_init],
        [(wish.devices, True) for wish in wishes if wish.is_sidecar],
    )
    if _devices_only(later) != effective:
        found["after_init"] = _devices_only(later)
    complete = after_webhook(wishes)
    if complete != wishes:
        found["effective_after_webhook"] = _devices_only(_peak(complete))
    by_annotation = mig_by_annotation(annotations)
    if by_annotation:
        found["effective_by_annotation"] = by_annotation
    slices = _mig_slices({**by_annotation, **effective})
    if slices:
        found["slices"] = slices
        found["gpu_equivalent"] = round(found["whole_gpus"] + slices / 7, 6)
    return found


def _peak(wishes: tuple[ContainerWish, ...]) -> dict[str, int]:
    return effective_requests(
        [wish.devices for wish in wishes if not wish.is_init],
        [(wish.devices, wish.is_sidecar) for wish in wishes if wish.is_init],
    )


def _mig_slices(devices: Mapping[str, int]) -> int:
    matched = ((MIG.match(name), amount) for name, amount in devices.items())
    return sum(int(found[1]) * amount for found, amount in matched if found)


def _shares(pod: Pod, annotations: Mapping[str, str]) -> dict[str, Any]:
    fraction = read_fraction(annotations[FRACTION]) if FRACTION in annotations else None
    found: dict[str, Any] = {
        "fraction": fraction,
        "card_share": pod.gpu_milli / 1000 if 0 < pod.gpu_milli < 1000 else None,
        "gpu_memory_mib": pod.gpu_memory_mib,
    }
    named = {
        "fraction_container": "gpu-fraction-container-name",
        "fraction_devices": "gpu-fraction-num-devices",
        "gpu_milli": "alibabacloud.com/gpu-milli",
        "gpu_count": "alibabacloud.com/gpu-count",
        "gpu_group": "runai-gpu-group",
        "reserves": "run.ai/reserve_for_gpu_index",
        "allocated_mig_gpus": "runai-allocated-mig-gpus",
    }
    labelled = {**annotations, **pod.labels}
    for name, key in named.items():
        if key in labelled:
            value = clean(labelled[key], 253)
            found[name] = int(value) if value.isdecimal() and len(value) < 10 else value
    return found


def _containers(wishes: tuple[ContainerWish, ...], devices: tuple[HeldDevice, ...]) -> list[dict[str, Any]]:
    return [
        {
            "name": wish.name,
            "role": "sidecar" if wish.is_sidecar else "init" if wish.is_init else "app",
            "asks": {name: amount for name, amount in sorted(wish.devices.items())},
            "memory_mib": wish.memory_mib,
            "memory_percent": wish.memory_percent,
            "core_percent": wish.core_percent,
            "devices": [held.uuid or held.index for held in devices if held.container == wish.name],
        }
        for wish in wishes
    ]


def _given(devices: tuple[HeldDevice, ...], wishes: tuple[ContainerWish, ...]) -> dict[str, Any]:
    if not devices:
        return {"devices": []}
    cards = {_card(held) for held in devices}
    memory: dict[str, int] = {}
    for held in devices:
        if held.memory_mib is not None:
            memory[_card(held)] = memory.get(_card(held), 0) + held.memory_mib
    cores: dict[str, float | None] = {}
    for held in devices:
        sofar, is_told = cores.get(_card(held), 0), held.milli is not None or held.memory_mib is not None
        # Who deals memory out without cores sets no part of the cores; who names a card alone tells nothing.
        cores[_card(held)] = sofar + (held.milli or 0) / 10 if is_told and sofar is not None else None
    asked = [wish.memory_mib for wish in wishes if wish.memory_mib]
    given = [held.memory_mib for held in devices if held.memory_mib is not None]
    return {
        "devices": [_device(held) for held in devices],
        "physical_gpus_used": len(cards),
        "cards": sorted(cards),
        "mem_mib": memory,
        "core_percent": cores,
        **({"asked_mib": max(asked), "given_mib": max(given)} if asked and given else {}),
    }


def _card(held: HeldDevice) -> str:
    """The best name that anybody tells: its UUID, its number on the node, the driver's own word, which names
    the card that a piece is of."""
    named = held.part.partition("-mig-")[0] if held.profile else held.part
    return held.uuid or (f"#{held.index}" if held.index is not None else named)


def _device(held: HeldDevice) -> dict[str, Any]:
    told = {
        "source": held.source.value,
        "uuid": held.uuid or None,
        "index": held.index,
        "container": held.container or None,
        "resource": held.resource or None,
        "core_percent": held.milli / 10 if held.milli is not None else None,
        "memory_mib": held.memory_mib,
        "profile": held.profile or None,
        "start_slice": held.start_slice,
        "claim": held.claim or None,
    }
    if not held.part:
        return told
    template = ASCEND_TEMPLATE.match(held.part)
    if template:
        amounts = {"aicore": template["cores"], "aicpu": template["cpus"], "template_gib": template["gib"]}
        return {**told, "template": held.part, **{key: int(n) for key, n in amounts.items() if n}}
    return {**told, "part" if held.source is Source.DRA else "mig_instance": held.part}


def _by_device_class(effective: Mapping[str, int], extended: Mapping[str, str]) -> dict[str, Any]:
    """A resource that a device class stands for is offered by no node: slices tell where it fits."""
    classes = {name: extended[name] for name in effective if name in extended}
    classes |= {
        name: name.removeprefix(IMPLICIT_CLASS) for name in effective if name.startswith(IMPLICIT_CLASS)
    }
    return {"via": "DRA extended resource", "device_classes": classes} if classes else {}


def _held_now(pod: Pod, answer: Mapping[str, Any]) -> int | float | None:
    """Devices, or the part of one, that are not free because of this pod. None: a share of memory, of cards
    whose size nobody tells here."""
    if not pod.is_holding or pod.reservation:
        return 0
    counted = sum(
        amount for name, amount in answer["effective"].items() if counts_devices(name) or MIG.match(name)
    )
    if counted:
        return int(counted)
    share = answer["card_share"] or answer["fraction"]
    if share:
        return float(share) * max(whole(answer.get("fraction_devices"), 1), 1)
    if pod.devices and all(held.milli is not None for held in pod.devices if not held.claim):
        by_card = {(_card(held), held.container): held.milli or 1000 for held in pod.devices}
        return sum(by_card.values()) / 1000
    if pod.devices or not (pod.gpu_memory_mib or answer["effective"]):
        return len({_card(held) for held in pod.devices})
    return None
