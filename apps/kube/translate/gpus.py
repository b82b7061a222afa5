"""How many physical GPUs a node has, of which model, and how they are handed out.

Labels, capacity and the node agent's annotation tell the same story in three ways. The annotation
is nearest to the hardware and wins; every disagreement becomes a warning (drift).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from apps.kube.translate.annotations import MATRIX, MOST_GPUS, DeviceFacts, read_matrix
from apps.kube.translate.registers import Register, read_register
from apps.kube.translate.values import Warn, whole_or_none
from apps.planner.inventory import Gpu, MigInstance, Quantities, Topology
from apps.planner.naming import PRODUCT_LABELS
from apps.planner.resources import VENDORS, WHOLE_GPU_RESOURCES, counts_devices

MIG_PREFIX = "nvidia.com/mig-"
MIG_SUFFIX = re.compile(r"-MIG-.+$")
SLICES = re.compile(r"^(\d)g\.")


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """Fields of `inventory.Node` with the same names."""

    vendor: str = ""
    model: str = ""
    gpu_resource: str = ""
    gpus: tuple[Gpu, ...] = ()
    sharing: str = ""
    shares_per_gpu: int = 1
    mig_strategy: str = ""
    topology: Topology | None = None


def read_gpu_facts(
    labels: Mapping[str, str], annotations: Mapping[str, str], capacity: Quantities, warn: Warn
) -> GpuFacts:
    """Facts of a node without GPUs are the empty ones."""
    told = read_matrix(annotations[MATRIX], warn) if MATRIX in annotations else None
    resource = whole_gpu_resource(capacity)
    labelled = _number(labels, "nvidia.com/gpu.count", warn)
    if not resource and (told or labelled):
        resource = "nvidia.com/gpu"
    if not resource:
        return GpuFacts()
    product = next((labels[key] for key in PRODUCT_LABELS if labels.get(key)), "") or _ascend_model(labels)
    strategy = labels.get("nvidia.com/mig.strategy", "")
    if product.endswith("-MIG-INVALID"):
        warn("the MIG layout is invalid for mig.strategy=single (MIG-INVALID): the node offers no instances")
        labelled = labelled or None  # feature discovery counts 0 then, however many GPUs stand there
    register = read_register(resource, annotations, warn)
    if labelled is None and register is not None:
        labelled = register.devices
    physical = _physical(resource, labels, capacity, labelled, product, told, warn)
    shares = _shares(resource, labels, capacity, physical, register, told is not None, warn)
    if told is not None:
        _compare_links(product, told.topology, warn)
    gpus = told.gpus if told else tuple(Gpu(index=index) for index in range(physical))
    return GpuFacts(
        vendor=VENDORS.get(resource.partition("/")[0], resource.partition("/")[0]),
        model=_model(product),
        gpu_resource=resource,
        gpus=_with_layout(_with_memory(gpus, labels, product), capacity),
        sharing=_sharing(labels, product, shares, is_hami=register is not None),
        shares_per_gpu=shares,
        mig_strategy=strategy,
        topology=told.topology if told else None,
    )


def whole_gpu_resource(capacity: Quantities) -> str:
    """The resource by which whole GPUs of this node are asked; "" if it has none."""
    known = sorted(
        name for name in capacity if name in WHOLE_GPU_RESOURCES or name == "nvidia.com/gpu.shared"
    )
    others = sorted(name for name in capacity if name not in known and counts_devices(name))
    for name in [*known, *others]:
        if capacity[name] > 0:
            return name
    if any(name.startswith(MIG_PREFIX) for name in capacity):
        return "nvidia.com/gpu"
    return next(iter([*known, *others]), "")


def _physical(
    resource: str,
    labels: Mapping[str, str],
    capacity: Quantities,
    labelled: int | None,
    product: str,
    told: DeviceFacts | None,
    warn: Warn,
) -> int:
    units = capacity.get(resource, 0)
    if labelled is not None and _is_single_mig(product):
        labelled = _whole_gpus_of(labelled, product)
    if told is not None:
        if labelled is not None and labelled != len(told.gpus):
            warn(f"the label nvidia.com/gpu.count says {labelled} GPUs, the node agent sees {len(told.gpus)}")
        return len(told.gpus)
    found = labelled
    if found is None:
        replicas = _number(labels, "nvidia.com/gpu.replicas", warn) or _gke_clients(labels) or 1
        found = units // replicas if replicas > 1 and units % replicas == 0 else units
    if found > MOST_GPUS:
        warn(f"{found} GPUs on one node are not believable: they are left out")
        return 0
    return found


def _compare_links(product: str, topology: Topology | None, warn: Warn) -> None:
    """SXM modules sit on a baseboard that joins them by NVLink: a matrix without any tells of other hardware,
    or of links that are down. The matrix counts."""
    codes = [code for row in topology.links for code in row if code != "X"] if topology else []
    if "SXM" in product.upper() and codes and not any(code.upper().startswith("NV") for code in codes):
        seen = ", ".join(sorted(set(codes))[:4])
        warn(f"the label says {product}, whose GPUs are joined by NVLink, the node agent sees only {seen}")


def _shares(
    resource: str,
    labels: Mapping[str, str],
    capacity: Quantities,
    physical: int,
    register: Register | None,
    is_told: bool,
    warn: Warn,
) -> int:
    """Units of the resource per GPU: what is claimed, checked against what the kubelet offers."""
    units = capacity.get(resource, 0)
    dealt = register.units // register.devices if register is not None else 1
    claimed = _number(labels, "nvidia.com/gpu.replicas", warn) or _gke_clients(labels) or dealt
    in_mig = any(name.startswith(MIG_PREFIX) and amount for name, amount in capacity.items())
    if not physical or not units or in_mig or _is_single_mig(labels.get("nvidia.com/gpu.product", "")):
        return 1
    if units == physical * claimed:
        return claimed
    if units % physical == 0:
        warn(
            f"{units} units of {resource} on {physical} GPUs do not fit {claimed} per GPU, as the labels say"
        )
        return units // physical
    source = "the node agent sees" if is_told else "the labels say"
    warn(f"{source} {physical} GPUs, the kubelet offers {units} of {resource}")
    return claimed


def _sharing(labels: Mapping[str, str], product: str, shares: int, *, is_hami: bool) -> str:
    told = labels.get("nvidia.com/gpu.sharing-strategy") or labels.get(
        "cloud.google.com/gke-gpu-sharing-strategy"
    )
    if told and told != "none":
        return told[:40]
    if is_hami and shares > 1:
        return "hami"
    return "time-slicing" if shares > 1 or product.endswith("-SHARED") else ""


def _gke_clients(labels: Mapping[str, str]) -> int | None:
    return whole_or_none(labels.get("cloud.google.com/gke-max-shared-clients-per-gpu"))


def _model(product: str) -> str:
    return MIG_SUFFIX.sub("", product.removesuffix("-SHARED"))[:100]


def _ascend_model(labels: Mapping[str, str]) -> str:
    """Huawei's plugin labels its nodes `accelerator: huawei-Ascend910`; others use that key otherwise."""
    told = labels.get("accelerator", "")
    return told.removeprefix("huawei-") if told.startswith("huawei-") else ""


def _is_single_mig(product: str) -> bool:
    found = MIG_SUFFIX.search(product)
    return found is not None and found.group() != "-MIG-INVALID"


def _whole_gpus_of(instances: int, product: str) -> int:
    """Under mig.strategy=single the labels count instances: seven slices make one GPU."""
    profile = product.removesuffix("-SHARED").rpartition("-MIG-")[2]
    slices = SLICES.match(profile)
    per_gpu = max(7 // int(slices.group(1)), 1) if slices and int(slices.group(1)) else 1
    return -(-instances // per_gpu)


def _with_memory(gpus: tuple[Gpu, ...], labels: Mapping[str, str], product: str) -> tuple[Gpu, ...]:
    memory = whole_or_none(labels.get("nvidia.com/gpu.memory"))
    if memory is None or memory <= 0 or MIG_SUFFIX.search(product):
        return gpus
    return tuple(gpu if gpu.memory_mib is not None else replace(gpu, memory_mib=memory) for gpu in gpus)


def _with_layout(gpus: tuple[Gpu, ...], capacity: Quantities) -> tuple[Gpu, ...]:
    """A node with one GPU has all advertised MIG instances on it; their starts stay unknown."""
    if len(gpus) != 1 or gpus[0].instances:
        return gpus
    instances = [
        MigInstance(name.removeprefix(MIG_PREFIX))
        for name in sorted(capacity)
        if name.startswith(MIG_PREFIX)
        for _ in range(min(capacity[name], 7))
    ]
    return (replace(gpus[0], instances=tuple(instances)),) if instances else gpus


def _number(labels: Mapping[str, str], key: str, warn: Warn) -> int | None:
    if key not in labels:
        return None
    found = whole_or_none(labels[key])
    if found is None or not 0 <= found < 100_000:
        warn(f"the label {key} is no number")
        return None
    return found
