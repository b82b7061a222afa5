"""The labels that GPU Feature Discovery writes for a node, and which of them are its own to remove."""

from __future__ import annotations

import re

from apps.simulator.hardware import GpuModel
from apps.simulator.mig.offers import mig_model, resource_of, why_uneven
from apps.simulator.mig.setup import STRATEGY_LABEL, WHOLE_GPU, Setup

Labels = dict[str, str]

OWNED = re.compile(
    r"nvidia\.com/(mig-.+|mps\.capable|mig\.(capable|strategy)|gpu\.(product|count|memory|replicas|"
    r"sharing-strategy|family|mode|multiprocessors|compute\..+|slices\..+|engines\..+))$"
)
_COMPUTE = {"ampere": ("8", "0"), "ada-lovelace": ("8", "9"), "hopper": ("9", "0")}


def discover_features(setup: Setup) -> Labels:
    """Empty for other vendors' devices and where the driver finds no GPU at all."""
    model = setup.hardware.model
    present = [device.index for device in setup.hardware.devices if device.index not in setup.lost]
    if not model.is_nvidia or not present:
        return {}
    labels = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/mig.capable": str(mig_model(model) is not None).lower(),
        "nvidia.com/mps.capable": "false",
        "nvidia.com/gpu.mode": "compute",
        **_whole_gpu_labels(setup, present),
    }
    if setup.strategy != "none":
        labels[STRATEGY_LABEL] = setup.strategy
    if setup.strategy == "single":
        labels |= _single_labels(setup)
    elif setup.strategy == "mixed":
        labels |= _mixed_labels(setup)
    return labels


def _whole_gpu_labels(setup: Setup, present: list[int]) -> Labels:
    model, sharing = setup.hardware.model, setup.sharing
    has_whole = any(index not in setup.layout for index in present)
    shown = sharing.is_on and has_whole
    suffix = "-SHARED" if shown and not sharing.renamed else ""
    labels = {
        "product": model.product + suffix,
        "count": str(len(present)),
        "memory": str(model.memory_mib),
        "replicas": str(sharing.replicas) if has_whole else "0",
        "sharing-strategy": sharing.strategy if shown else "none",
    }
    if model.family:
        labels["family"] = model.family
    if model.family in _COMPUTE:
        labels["compute.major"], labels["compute.minor"] = _COMPUTE[model.family]
    return {f"{WHOLE_GPU}.{name}": value for name, value in labels.items()}


def _single_labels(setup: Setup) -> Labels:
    model = setup.hardware.model
    if why_uneven(setup):
        invalid = {"product": f"{model.product}-MIG-INVALID", "count": "0", "replicas": "0", "memory": "0"}
        return {f"{WHOLE_GPU}.{name}": value for name, value in invalid.items()} | {
            f"{WHOLE_GPU}.sharing-strategy": ""
        }
    return _instance_labels(model, _profiles(setup), {profile: WHOLE_GPU for profile in _profiles(setup)})


def _mixed_labels(setup: Setup) -> Labels:
    counts = _profiles(setup)
    return _instance_labels(setup.hardware.model, counts, {each: resource_of(each) for each in counts})


def _profiles(setup: Setup) -> dict[str, int]:
    counts: dict[str, int] = {}
    for index, cuts in setup.layout.items():
        for one in cuts if index not in setup.lost else ():
            counts[one.profile] = counts.get(one.profile, 0) + 1
    return counts


def _instance_labels(model: GpuModel, counts: dict[str, int], resources: dict[str, str]) -> Labels:
    table = mig_model(model)
    labels: Labels = {}
    for profile, count in counts.items():
        told: dict[str, object] = {
            "product": f"{model.product}-MIG-{profile.replace('+', '.')}",
            "count": count,
            "replicas": 1,
            "sharing-strategy": "none",
        }
        known = table.by_name.get(profile) if table else None
        if known is not None:
            told |= {
                "memory": round((known.memory_gib or known.memory_gb) * 1024),
                "multiprocessors": known.multiprocessors or 0,
                "slices.gi": known.compute_slices,
                "slices.ci": known.compute_slices,
                "engines.copy": known.engines.copy or 0,
                "engines.decoder": known.engines.decoders or 0,
                "engines.encoder": known.engines.encoders or 0,
                "engines.jpeg": known.engines.jpeg or 0,
                "engines.ofa": known.engines.optical_flow or 0,
            }
        labels |= {f"{resources[profile]}.{name}": str(value) for name, value in told.items()}
    return labels
