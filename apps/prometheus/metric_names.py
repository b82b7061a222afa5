"""What a metric of an exporter measures, in which unit: a table of the known ones, and words of a name.

A name that the table lacks is taken apart (`npu_hbm_used_mib`); what its words do not tell stays unread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

ALIASES = {
    "dcgm_gpu_utilization": "DCGM_FI_DEV_GPU_UTIL",
    "dcgm_mem_copy_utilization": "DCGM_FI_DEV_MEM_COPY_UTIL",
    "dcgm_enc_utilization": "DCGM_FI_DEV_ENC_UTIL",
    "dcgm_dec_utilization": "DCGM_FI_DEV_DEC_UTIL",
    "dcgm_fb_free": "DCGM_FI_DEV_FB_FREE",
    "dcgm_fb_used": "DCGM_FI_DEV_FB_USED",
    "dcgm_fb_total": "DCGM_FI_DEV_FB_TOTAL",
    "dcgm_fb_reserved": "DCGM_FI_DEV_FB_RESERVED",
    "dcgm_power_usage": "DCGM_FI_DEV_POWER_USAGE",
    "dcgm_gpu_temp": "DCGM_FI_DEV_GPU_TEMP",
    "dcgm_memory_temp": "DCGM_FI_DEV_MEMORY_TEMP",
    "dcgm_xid_errors": "DCGM_FI_DEV_XID_ERRORS",
    "dcgm_sm_clock": "DCGM_FI_DEV_SM_CLOCK",
    "dcgm_memory_clock": "DCGM_FI_DEV_MEM_CLOCK",
    "dcgm_total_energy_consumption": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "dcgm_pcie_replay_counter": "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "dcgm_nvlink_bandwidth_total": "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    "dcgm_gr_engine_active": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "dcgm_sm_active": "DCGM_FI_PROF_SM_ACTIVE",
}
"""Names of dcgm-exporter 1.x -> today's."""

GPU_UTIL = "DCGM_FI_DEV_GPU_UTIL"
ENGINE_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


@dataclass(frozen=True, slots=True)
class Meaning:
    """quantity: "used", "free", "reserved", "total" (of memory), "util", "engine", "sm" (activity), "power",
    "temperature", "xid", "allocated", "limit", "core_allocated", "core_limit" (what a scheduler has dealt),
    "share_used", "share_limit", "share_util" (one container's part of a device).
    unit: "mib", "bytes", "memory" (untold: told by its size), "percent", "ratio", "watts", "milliwatts",
    "celsius", "count". rank: of several that tell the same, the lowest counts.
    """

    quantity: str
    unit: str
    rank: int = 0


_KNOWN: dict[str, tuple[str, str, int]] = {
    "DCGM_FI_DEV_FB_USED": ("used", "mib", 0),
    "DCGM_FI_DEV_FB_FREE": ("free", "mib", 0),
    "DCGM_FI_DEV_FB_RESERVED": ("reserved", "mib", 0),
    "DCGM_FI_DEV_FB_TOTAL": ("total", "mib", 0),
    GPU_UTIL: ("util", "percent", 0),
    ENGINE_ACTIVE: ("engine", "ratio", 0),
    "DCGM_FI_PROF_SM_ACTIVE": ("sm", "ratio", 0),
    "DCGM_FI_DEV_POWER_USAGE": ("power", "watts", 0),
    "DCGM_FI_DEV_POWER_USAGE_INSTANT": ("power", "watts", 1),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature", "celsius", 0),
    "DCGM_FI_DEV_XID_ERRORS": ("xid", "count", 0),
    # HAMi: its monitor, then its scheduler
    "HostGPUMemoryUsage": ("used", "bytes", 3),
    "HostCoreUtilization": ("util", "percent", 3),
    "vGPU_device_memory_usage_in_bytes": ("share_used", "bytes", 0),
    "vGPU_device_memory_limit_in_bytes": ("share_limit", "bytes", 0),
    "Device_utilization_desc_of_container": ("share_util", "percent", 0),
    "vGPUPodsDeviceAllocated": ("share_limit", "bytes", 1),
    "vGPUMemoryAllocated": ("share_limit", "bytes", 1),
    "GPUDeviceMemoryAllocated": ("allocated", "bytes", 0),
    "nodeGPUOverview": ("allocated", "bytes", 1),
    "GPUDeviceMemoryLimit": ("limit", "bytes", 0),
    "GPUDeviceCoreAllocated": ("core_allocated", "count", 0),
    "GPUDeviceCoreLimit": ("core_limit", "count", 0),
    "hami_host_gpu_memory_used_bytes": ("used", "bytes", 3),
    "hami_vgpu_memory_used_bytes": ("share_used", "bytes", 0),
    "hami_vgpu_memory_limit_bytes": ("share_limit", "bytes", 0),
    "hami_container_device_utilization_ratio": ("share_util", "percent", 0),
    # Hygon, Cambricon, Ascend
    "dcu_usedmemory_bytes": ("used", "bytes", 0),
    "dcu_memorycap_bytes": ("total", "bytes", 0),
    "dcu_memory_remaining": ("free", "memory", 0),
    "dcu_utilizationrate": ("util", "percent", 0),
    "dcu_power_usage": ("power", "watts", 0),
    "dcu_temp": ("temperature", "celsius", 0),
    "vdcu_usedmemory_bytes": ("share_used", "bytes", 0),
    "vdcu_utilizationrate": ("share_util", "percent", 0),
    "mlu_memory_used": ("used", "memory", 0),
    "mlu_memory_total": ("total", "memory", 0),
    "mlu_utilization": ("util", "percent", 0),
    "mlu_power_usage": ("power", "watts", 0),
    "mlu_temperature": ("temperature", "celsius", 0),
    "npu_chip_info_hbm_used_memory": ("used", "memory", 0),
    "npu_chip_info_hbm_total_memory": ("total", "memory", 0),
    "npu_chip_info_used_memory": ("used", "memory", 1),
    "npu_chip_info_total_memory": ("total", "memory", 1),
    "npu_chip_info_utilization": ("util", "percent", 0),
    "npu_chip_info_power": ("power", "watts", 0),
    "npu_chip_info_temperature": ("temperature", "celsius", 0),
    # AMD, Intel, MetaX, Iluvatar, and exporters of NVIDIA's that are not dcgm-exporter
    "gpu_used_vram": ("used", "memory", 0),
    "gpu_free_vram": ("free", "memory", 0),
    "gpu_total_vram": ("total", "memory", 0),
    "gpu_gfx_activity": ("util", "percent", 0),
    "gpu_package_power": ("power", "watts", 0),
    "gpu_average_package_power": ("power", "watts", 1),
    "gpu_junction_temperature": ("temperature", "celsius", 0),
    "gpu_edge_temperature": ("temperature", "celsius", 1),
    "xpum_memory_used_bytes": ("used", "bytes", 0),
    "xpum_engine_ratio": ("engine", "ratio", 0),
    "xpum_power_watts": ("power", "watts", 0),
    "xpum_temperature_celsius": ("temperature", "celsius", 0),
    "mx_memory_used": ("used", "memory", 0),
    "mx_memory_total": ("total", "memory", 0),
    "mx_gpu_usage": ("util", "percent", 0),
    "ix_gpu_utilization": ("util", "percent", 0),
    "nvidia_gpu_duty_cycle": ("util", "percent", 2),
    "nvidia_smi_utilization_gpu_ratio": ("util", "ratio", 2),
    "nvidia_smi_memory_used_bytes": ("used", "bytes", 2),
    "nvidia_smi_memory_free_bytes": ("free", "bytes", 2),
    "nvidia_smi_memory_reserved_bytes": ("reserved", "bytes", 2),
    "nvidia_smi_memory_total_bytes": ("total", "bytes", 2),
    "nvidia_smi_power_draw_watts": ("power", "watts", 2),
    "nvidia_smi_temperature_gpu": ("temperature", "celsius", 2),
}
KNOWN = {name: Meaning(*meaning) for name, meaning in _KNOWN.items()}

_VENDORS = (
    ("nvidia", ("dcgm_", "nvidia_", "nvml_")),
    ("hygon", ("dcu_", "vdcu_")),
    ("cambricon", ("mlu_",)),
    ("ascend", ("npu_", "ascend_", "vnpu_")),
    ("amd", ("amd_", "rocm_", "gpu_gfx", "gpu_total_vram", "gpu_used_vram", "gpu_free_vram", "gpu_package")),
    ("intel", ("xpum_", "intel_gpu")),
    ("habana", ("habanalabs_",)),
    ("metax", ("mx_", "metax_")),
    ("iluvatar", ("ix_",)),
    ("mthreads", ("musa_", "mtgpu_", "mthreads_")),
)
_ACCELERATOR = re.compile(
    r"(^|[_:])(v?gpus?|v?npu|v?dcu|v?mlu|xpum?|gcu|tpu|nvidia|rocm|amd|ascend|musa|mtgpu|mx|ix|accelerator|"
    r"habanalabs|neuron|kunlun|enflame|biren|cuda|nvml)(_|:|$)"
)
_MEMORY = {"mem", "memory", "vram", "hbm", "fb", "framebuffer", "usedmemory", "memorycap"}
_NOT_MEMORY = {
    *(
        "temp",
        "temperature",
        "clock",
        "bandwidth",
        "bw",
        "util",
        "utilization",
        "utilisation",
        "percent",
        "ratio",
    ),
    *(
        "errors",
        "error",
        "ecc",
        "remapped",
        "frequency",
        "visible",
        "gtt",
        "copy",
        "cache",
        "process",
        "shared",
    ),
    *("activity", "read", "write", "host", "voltage", "power", "active", "max", "min", "limit", "threshold"),
}
_PARTS = (
    ("used", {"used", "usage", "usedmemory", "inuse"}),
    ("free", {"free", "remaining", "available"}),
    ("reserved", {"reserved"}),
    ("total", {"total", "cap", "capacity", "size", "memorycap"}),
)
_BUSY = {"util", "utilization", "utilisation", "utilizationrate", "duty", "busy"}
_NOT_BUSY = {
    *_MEMORY, "enc", "dec", "encoder", "decoder", "jpeg", "ofa", "media", "copy", "process", "vcpu", "cpu",
    "bandwidth", "limit", "network", "link", "container",
}  # fmt: skip
_BOUNDS = {
    "limit",
    "max",
    "min",
    "cap",
    "threshold",
    "default",
    "enforced",
    "slowdown",
    "shutdown",
    "critical",
}


def today(name: str) -> str:
    """The name that the same metric has today, without the prefix that some write before AMD's."""
    if name.startswith("amd_gpu_"):
        return name.removeprefix("amd_")
    return ALIASES.get(name) or (name.upper() if name.startswith("dcgm_fi_") else name)


@lru_cache(maxsize=20_000)
def meaning_of(name: str, told: str = "") -> Meaning | None:
    """told: the exporter's own words on it (HELP). None where neither table nor words tell."""
    known = KNOWN.get(today(name))
    if known is not None or name.startswith("DCGM_FI_") or not is_accelerators(name):
        return known
    words = set(re.split(r"[_:.]+", name.lower()))
    if words & _MEMORY and not words & _NOT_MEMORY:
        for quantity, spellings in _PARTS:
            if words & spellings:
                return Meaning(quantity, _memory_unit(words, told), 8)
    if words & _BUSY and not words & _NOT_BUSY:
        return Meaning("util", "ratio" if "ratio" in words else "percent", 8)
    if "power" in words and not words & _BOUNDS:
        return Meaning("power", "milliwatts" if words & {"milliwatts", "mw"} else "watts", 8)
    if words & {"temp", "temperature"} and not words & (_BOUNDS | _MEMORY):
        return Meaning("temperature", "celsius", 8)
    return None


def _memory_unit(words: set[str], told: str) -> str:
    told = told.lower()
    if "bytes" in words or "byte" in words or "in bytes" in told:
        return "bytes"
    if words & {"mib", "mb", "megabytes"} or "mib" in told or "in mb" in told:
        return "mib"
    return "memory"


@lru_cache(maxsize=20_000)
def is_accelerators(name: str) -> bool:
    """Whether the name alone says that it speaks of accelerators."""
    return today(name) in KNOWN or name.startswith("DCGM_") or bool(_ACCELERATOR.search(name.lower()))


@lru_cache(maxsize=20_000)
def vendor_of(name: str) -> str:
    """ "" where the name does not tell."""
    lower = name.lower()
    return next((vendor for vendor, starts in _VENDORS if lower.startswith(starts)), "")
