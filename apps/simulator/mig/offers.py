"""What the NVIDIA device plugin offers the kubelet for a node's layout, by resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from apps.planner.mig.catalogue import UnknownModel, find_model
from apps.planner.mig.models import MigModel
from apps.simulator.hardware import GpuModel
from apps.simulator.mig.layout import Instance
from apps.simulator.mig.setup import WHOLE_GPU, Setup

MIG_PREFIX = "nvidia.com/mig-"


class Unit(NamedTuple):
    """One device of the plugin: a whole GPU or a MIG instance."""

    uuid: str
    gpu: int
    memory_mib: int


Offers = Mapping[str, tuple[Unit, ...]]


def list_offers(setup: Setup) -> Offers:
    """Nothing where the plugin ends with an error: strategy single and GPUs that are not cut alike."""
    model = setup.hardware.model
    whole = tuple(
        Unit(device.uuid, device.index, model.memory_mib)
        for device in setup.hardware.devices
        if device.index not in setup.lost and (device.index not in setup.layout or setup.strategy == "none")
    )
    if not model.is_nvidia:
        return {model.resource: whole}
    if setup.strategy == "none" or not setup.layout:
        return {WHOLE_GPU: whole} if whole else {}
    instances = [one for cuts in setup.layout.values() for one in cuts if one.gpu not in setup.lost]
    if setup.strategy == "single":
        if why_uneven(setup):
            return {}
        return {WHOLE_GPU: tuple(_unit(model, one) for one in sorted(instances))}
    offers: dict[str, tuple[Unit, ...]] = {WHOLE_GPU: whole} if whole else {}
    for one in sorted(instances):
        resource = resource_of(one.profile)
        offers[resource] = (*offers.get(resource, ()), _unit(model, one))
    return offers


def resource_of(profile: str) -> str:
    return f"{MIG_PREFIX}{profile.replace('+', '.')}"


def why_uneven(setup: Setup) -> str:
    """Why strategy single refuses this layout; "" if it takes it."""
    present = [device.index for device in setup.hardware.devices if device.index not in setup.lost]
    cut = [setup.layout[index] for index in present if index in setup.layout]
    if not cut:
        return ""
    if not all(cut):
        return "at least one MIG device is enabled but empty"
    if len(cut) < len(present):
        return "devices with MIG enabled and disable detected"
    if len({one.profile for cuts in cut for one in cuts}) > 1:
        return "more than one MIG device type present on node"
    return ""


def mig_model(model: GpuModel) -> MigModel | None:
    """Its placement table; None for a model that MIG cannot cut."""
    try:
        return find_model(model.product)
    except UnknownModel:
        return None


def instance_memory_mib(model: GpuModel, profile: str) -> int:
    table = mig_model(model)
    known = table.by_name.get(profile) if table else None
    if known is None:
        return model.memory_mib
    return round((known.memory_gib or known.memory_gb) * 1024)


def _unit(model: GpuModel, one: Instance) -> Unit:
    return Unit(one.uuid, one.gpu, instance_memory_mib(model, one.profile))
