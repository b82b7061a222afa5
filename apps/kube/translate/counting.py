"""How many physical cards stand behind what a node offers: labels that count cards, a scheduler's register,
or the amounts themselves. A turn, a share or an instance is never a card.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from apps.kube.translate.products import Product
from apps.kube.translate.values import Warn, brief, whole_or_none
from apps.kube.translate.vendors import NVIDIA, Form, Offer
from apps.planner.mig.catalogue import UnknownModel, find_model, resource_profile
from apps.planner.mig.nodes import MIG_PREFIX

INSTANCES = re.compile(r"^(\d+)g\.")
COMPUTE_SLICES = 7
GPU_COUNT = "nvidia.com/gpu.count"
REPLICAS = "nvidia.com/gpu.replicas"
GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
GKE_COUNT = "cloud.google.com/gke-accelerator-count"
GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
INTEL_DEVICE = re.compile(
    r"^gpu\.intel\.com/device-id\.(?P<id>[0-9a-f]{4}-[0-9a-f]{4})\.count$", re.IGNORECASE
)
INTEL_CARDS = ("gpu.intel.com/cards", "gpu.intel.com/gpu-numbers")
AMD_PARTITION = "amd.com/compute-memory-partition"
AMD_COUNTED = ("beta.amd.com/gpu.vram.", "beta.amd.com/gpu.family.", "beta.amd.com/gpu.cu-count.")
UNITS_PER_CARD = (
    (re.compile(r"^(?:koordinator\.sh|kubernetes\.io)/gpu(?:-core|-memory-ratio|[.-]shared)?$"), 100),
    (re.compile(r"^(?:tke\.cloud\.)?tencent\.com/(?:qgpu|vcuda)-core$"), 100),
    (re.compile(r"^volcano\.sh/vgpu-cores$"), 100),
    (re.compile(r"^hygon\.com/dcucores$"), 100),
    (re.compile(r"^metax-tech\.com/vcore$"), 100),
    (re.compile(r"^iluvatar\.(?:ai|com)/.+\.vcore$", re.IGNORECASE), 100),
    (re.compile(r"^cambricon\.com/.+\.smlu\.vcore$"), 100),
    (re.compile(r"^mthreads\.com/sgpu-core$"), 16),
    (re.compile(r"^alibabacloud\.com/gpu-milli$"), 1000),
    (re.compile(r"^gpu\.intel\.com/millicores$"), 1000),
    (re.compile(r"^amd\.com/spx_nps\d$"), 1),
    (re.compile(r"^amd\.com/dpx_nps\d$"), 2),
    (re.compile(r"^amd\.com/tpx_nps\d$"), 3),
    (re.compile(r"^amd\.com/qpx_nps\d$"), 4),
)
"""How much of it one card gives, where its vendor fixes that."""
XCDS = (("MI3[0125]0X|MI325X|MI355X|MI350X", 8), ("MI300A", 6), ("MI308X", 4))
"""Into how many parts AMD's CPX cuts a card, by model."""


@dataclass(frozen=True, slots=True)
class Count:
    """source: who says so. is_least: there are at least that many, nobody says how many."""

    cards: int
    source: str
    is_least: bool = False


def labelled_count(
    offer: Offer, labels: Mapping[str, str], product: Product, warn: Warn, *, is_alone: bool
) -> Count | None:
    """What the labels say. is_alone: no other kind of the vendor's cards stands on the node."""
    if offer.cards == NVIDIA:
        return _nvidia_count(labels, product, warn)
    if offer.cards.vendor == "amd":
        return _counted(labels, AMD_COUNTED)
    if offer.cards.vendor == "intel" and is_alone:
        found = {
            match["id"]: whole_or_none(labels[key]) for key in labels if (match := INTEL_DEVICE.match(key))
        }
        if found and None not in found.values():
            return Count(sum(one or 0 for one in found.values()), "label gpu.intel.com/device-id.*.count")
        key = next((key for key in INTEL_CARDS if labels.get(key)), "")
        return Count(len(labels[key].split(".")), f"label {key}") if key else None
    return None


def _nvidia_count(labels: Mapping[str, str], product: Product, warn: Warn) -> Count | None:
    told = number_label(labels, GPU_COUNT, warn)
    if product.profile == "INVALID":
        return Count(told, f"label {GPU_COUNT}") if told else None  # feature discovery counts 0 then
    if told is not None:
        cards = cards_of_instances(told, product.profile, product.model) if product.profile else told
        return Count(cards, f"label {GPU_COUNT}")
    told = number_label(labels, GKE_COUNT, warn)
    return Count(told, f"label {GKE_COUNT}") if told else None


def _counted(labels: Mapping[str, str], prefixes: tuple[str, ...]) -> Count | None:
    for prefix in prefixes:
        found = [whole_or_none(labels[key]) for key in labels if key.startswith(prefix)]
        if found and None not in found:
            return Count(sum(one or 0 for one in found), f"labels {prefix}*")
    return None


def number_label(labels: Mapping[str, str], key: str, warn: Warn) -> int | None:
    if key not in labels:
        return None
    found = whole_or_none(labels[key])
    if found is None or found < 0:
        warn(f"the label {key} is no number")
        return None
    return found


def counted_by_amounts(offer: Offer, product: Product, claimed: int | None) -> Count:
    """claimed: units per card, as a label says."""
    cores = offer.amount("nvidia.com/gpucores")
    if cores and cores % 100 == 0 and not offer.named(Form.MIG):
        return Count(cores // 100, "resource nvidia.com/gpucores")  # HAMi's units are turns on such cards
    known = max((_by_amount(offer, name, product, claimed) for name in offer.forms), default=0)
    known += sum(_by_partition(offer, name, product) for name in offer.named(Form.PARTITION))
    known += _cards_under_mig(offer, product)
    if known:
        return Count(known, "amounts of the node")
    is_there = any(offer.amount(name) > 0 for name in offer.forms) or product.profile == "INVALID"
    return Count(1, "amounts of the node", is_least=True) if is_there else Count(0, "amounts of the node")


def _by_amount(offer: Offer, name: str, product: Product, claimed: int | None) -> int:
    units, form = offer.amount(name), offer.forms[name]
    per_card = units_per_card(name, product)
    if form in (Form.MIG, Form.PARTITION):
        return 0
    if per_card:
        return -(-units // per_card)
    if form is Form.WHOLE or name == "nvidia.com/gpu.shared":
        units = units // claimed if claimed and claimed > 1 and units % claimed == 0 else units
        if product.profile and product.profile != "INVALID":
            return cards_of_instances(units, product.profile, product.model)
        return units
    return 0


def _by_partition(offer: Offer, name: str, product: Product) -> int:
    per_card = units_per_card(name, product)
    return -(-offer.amount(name) // per_card) if per_card else 0


def units_per_card(name: str, product: Product) -> int:
    """0 where nobody fixes it."""
    if name.startswith("amd.com/cpx_"):
        return next((parts for models, parts in XCDS if re.search(models, product.model)), 0)
    return next((units for pattern, units in UNITS_PER_CARD if pattern.match(name)), 0)


def partitions_per_card(told: str, product: Product, warn: Warn) -> int | None:
    """told: AMD's label of how its cards are cut ("cpx_nps4"), where each piece is offered as a GPU."""
    if not told or told.startswith("spx"):
        return None
    parts = units_per_card(f"amd.com/{told}", product)
    if not parts:
        said = f"the label {AMD_PARTITION} says {brief(told)}"
        warn(f"{said}: into how many pieces that cuts a card of this model is not known")
    return parts or None


def _cards_under_mig(offer: Offer, product: Product) -> int:
    """The fewest cards that could be cut so."""
    slices = 0
    for name in offer.named(Form.MIG):
        found = INSTANCES.match(name.removeprefix(MIG_PREFIX))
        slices += int(found[1]) * offer.amount(name) if found else 0
    return -(-slices // COMPUTE_SLICES)


def cards_of_instances(instances: int, profile: str, model: str) -> int:
    """Under mig.strategy=single the amounts and labels count instances: seven 1g make one card."""
    try:
        known = find_model(model).by_name.get(resource_profile(profile))
    except UnknownModel:
        known = None
    found = INSTANCES.match(profile)
    per_card = (
        known.most if known else max(COMPUTE_SLICES // int(found[1]), 1) if found and int(found[1]) else 1
    )
    return -(-instances // max(per_card, 1))
