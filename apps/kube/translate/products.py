"""Which model a node's cards are of and how much memory one has, as its labels say it. Nothing is guessed:
an instance type is no model, and a card without a label is of an unknown one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from apps.kube.translate.records import Record
from apps.kube.translate.values import whole_or_none
from apps.planner.mig.catalogue import UnknownModel, find_model, resource_profile
from apps.planner.naming import PRODUCT_LABELS

MIG_SUFFIX = re.compile(r"-MIG-.+$")
SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?$", re.IGNORECASE)
NAMED_SIZE = re.compile(r"(?<![\d.])(\d{1,3})\s?GB?\b", re.IGNORECASE)
LABEL_OWNERS = {
    "nvidia.com/gpu.product": "nvidia",
    "gpu.nvidia.com/class": "nvidia",
    "amd.com/gpu.product-name": "amd",
    "accelerator/huawei-npu-type": "ascend",
    "gpu.intel.com/product": "intel",
    "alibabacloud.com/gpu-card-model": "nvidia",
    "cloud.google.com/gke-accelerator": "nvidia",
}
OTHER_LABELS = {
    "node.koordinator.sh/gpu-model": "",
    "aliyun.accelerator/nvidia_name": "nvidia",
    "k8s.amazonaws.com/accelerator": "nvidia",
    "karpenter.k8s.aws/instance-gpu-name": "nvidia",
    "karpenter.k8s.aws/instance-accelerator-name": "aws",
    "beta.amd.com/gpu.product-name": "amd",
    "cloud.google.com/gke-tpu-accelerator": "google",
    "node.kubernetes.io/npu.chip.name": "ascend",
    "hygon.com/dcu.name": "hygon",
    "hygon.com/dcu.product": "hygon",
    "metax-tech.com/gpu.product": "metax",
    "cambricon.com/mlu.product": "cambricon",
}
CHIP_NAME = "node.kubernetes.io/npu.chip.name"
COUNTED_NAMES = {"beta.amd.com/gpu.product-name.": "amd"}
MEMORY_LABELS = {
    "nvidia.com/gpu.memory": ("nvidia", "M"),
    "amd.com/gpu.vram": ("amd", ""),
    "beta.amd.com/gpu.vram": ("amd", ""),
    "aliyun.accelerator/nvidia_mem": ("nvidia", "M"),
    "karpenter.k8s.aws/instance-gpu-memory": ("nvidia", "M"),
    "metax-tech.com/gpu.memory": ("metax", ""),
    "hygon.com/dcu.vram": ("hygon", ""),
}
NOMINAL_GIB = {
    "H20-3E": 141,
    "H200": 141,
    "L40S": 48,
    "L40": 48,
    "L20": 48,
    "L4": 24,
    "L2": 24,
    "A40": 48,
    "A10": 24,
    "TESLA-T4": 16,
    "TESLA-P4": 8,
    "GEFORCE-RTX-4090": 24,
    "GEFORCE-RTX-3090": 24,
    "GEFORCE-GTX-1080-TI": 11,
    "GEFORCE-RTX-2080-TI": 11,
}
"""Cards whose name leaves no choice of memory and does not tell it."""
NO_MODELS = frozenset(
    [
        *("nvidia", "gpu", "vgpu", "amd", "dcu", "mlu", "npu", "xpu", "gcu", "biren", "vastai", "metax"),
        *("iluvatar", "mthreads", "ascend", "intel"),
    ]
)
"""Words for a maker or a kind of card, where a model should stand."""
PLUGIN_PREFIXES = ("NVIDIA-", "MLU-", "DCU-", "XPU-")
OVERSOLD = 1.05  # drivers keep memory for themselves, they never add any


@dataclass(frozen=True, slots=True)
class Product:
    """label: the key that said it. profile: of the MIG instances that the label counts, "" for whole GPUs.
    raw: as the label has it."""

    model: str = ""
    label: str = ""
    profile: str = ""
    raw: str = ""

    @property
    def is_shared(self) -> bool:
        return self.raw.endswith("-SHARED")


@dataclass(frozen=True, slots=True)
class Memory:
    """mib: of one whole card, None if unknown. unit_mib: of one MIG instance, where the label says that."""

    mib: int | None = None
    unit_mib: int | None = None
    label: str = ""
    text: str = ""


def read_product(vendor: str, labels: Mapping[str, str]) -> Product:
    for key in (*PRODUCT_LABELS, *OTHER_LABELS):
        owner = LABEL_OWNERS.get(key, OTHER_LABELS.get(key, ""))
        if labels.get(key) and owner in ("", vendor) and labels[key].lower() not in NO_MODELS:
            bare_chip = key == CHIP_NAME and labels[key][:1].isdecimal()
            return _product(f"Ascend{labels[key]}" if bare_chip else labels[key], key)
    for prefix, owner in COUNTED_NAMES.items():
        names = [key.removeprefix(prefix) for key in sorted(labels) if key.startswith(prefix)]
        if owner == vendor and len(names) == 1:
            return _product(names[0], prefix + names[0])
    told = labels.get("accelerator", "")
    if vendor == "ascend" and told.startswith("huawei-"):
        # Huawei's plugin labels its nodes so; others use that key otherwise.
        return _product(told.removeprefix("huawei-"), "accelerator")
    return Product()


def _product(text: str, label: str) -> Product:
    plain = text.removesuffix("-SHARED")
    found = MIG_SUFFIX.search(plain)
    profile = found.group().removeprefix("-MIG-") if found else ""
    return Product(MIG_SUFFIX.sub("", plain)[:100], label, profile, text[:120])


def read_memory(vendor: str, labels: Mapping[str, str], product: Product) -> Memory:
    """A zero means that the driver did not tell."""
    for key, (owner, unit) in MEMORY_LABELS.items():
        if owner == vendor and labels.get(key):
            mib, label, text = size_mib(labels[key], unit), f"label {key}", labels[key][:40]
            if mib is None or mib <= 0:
                return Memory(label=label, text=text)
            if product.profile:
                return with_memory_of_table(Memory(None, mib, label, text), product)
            return Memory(mib, None, label, text)
    sizes = [key.rpartition(".vram.")[2] for key in labels if key.startswith("beta.amd.com/gpu.vram.")]
    if vendor == "amd" and len(sizes) == 1:
        return Memory(size_mib(sizes[0], ""), None, f"label beta.amd.com/gpu.vram.{sizes[0]}", sizes[0])
    return with_memory_of_table(Memory(), product) if product.profile else Memory()


def with_memory_of_table(memory: Memory, product: Product) -> Memory:
    """Where labels tell of MIG instances, the card's own comes from the placement table of the model, if that
    knows both the model and the profile."""
    try:
        model = find_model(product.model)
    except UnknownModel:
        return memory
    if resource_profile(product.profile) not in model.by_name:
        return memory
    return replace(memory, mib=model.memory_gb * 1024, label=f"MIG table of the model {model.name}")


def size_mib(text: str, unit: str) -> int | None:
    """unit: what a bare number counts: "M" for MiB, "" for bytes. "192G" counts in GiB, as AMD's labeller."""
    if (plain := whole_or_none(text)) is not None:
        return plain if unit == "M" else plain // 2**20
    found = SIZE.match(text.strip())
    if found is None:
        return None
    scale = {"": 1 / 2**20, "K": 1 / 2**10, "M": 1, "G": 2**10, "T": 2**20}[found[2].upper()]
    return int(float(found[1]) * scale)


def registered_model(records: tuple[Record, ...]) -> str:
    """The model that most records name, as a product label would write it: plugins put their vendor's name
    in front ("NVIDIA-NVIDIA A100-PCIE-40GB")."""
    told = (plain_model(record.model) for record in records if record.model)
    names = [name for name in told if name.lower() not in NO_MODELS]
    return max(set(names), key=lambda name: (names.count(name), name)) if names else ""


def plain_model(told: str) -> str:
    for prefix in PLUGIN_PREFIXES:
        rest = told.removeprefix(prefix)
        if rest != told and (prefix != "NVIDIA-" or rest.startswith(("NVIDIA", "Tesla", "Quadro", "GRID"))):
            told = rest
            break
    return re.sub(r"\s+", "-", told.strip())


def nominal_mib(model: str) -> int | None:
    """The memory that a model's own name or its MIG table tells, about."""
    if known := NOMINAL_GIB.get(model.upper().removeprefix("NVIDIA-")):
        return known * 1024
    if found := NAMED_SIZE.search(model):
        return int(found[1]) * 1024
    try:
        return find_model(model).memory_gb * 1024
    except UnknownModel:
        return None
