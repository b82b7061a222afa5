"""A stand-in for NVIDIA's library, below its real Python binding: it fills the same structures."""

import ctypes
from dataclasses import dataclass, field

import pynvml

OK, NOT_SUPPORTED, NOT_FOUND, NO_PERMISSION = 0, 3, 6, 4
GPU_HANDLES, MIG_HANDLES, INSTANCE_HANDLES = 0x1000, 0x10000, 0x20000


@dataclass
class Part:
    """A MIG device in a GPU instance."""

    uuid: str
    profile: str
    number: int
    start: int
    memory_mib: int


@dataclass
class Card:
    """bonds: where each NVLink leads, the address of a GPU or "switch". fails: call -> error code."""

    uuid: str
    bus_id: str
    minor: int
    memory_mib: int = 81559
    parts: list[Part] = field(default_factory=list)
    bonds: list[str] = field(default_factory=list)
    fails: dict[str, int] = field(default_factory=dict)
    rows_failed: bool = False


class Library:
    """open: whether somebody is its client now. levels: common ancestor by pair of indexes."""

    def __init__(self, cards, levels=None, refuses=OK):
        self.cards, self.levels, self.refuses = cards, levels or {}, refuses
        self.open, self.opened = 0, 0

    def nvmlInitWithFlags(self, flags):
        if self.refuses == OK:
            self.open, self.opened = self.open + 1, self.opened + 1
        return self.refuses

    def nvmlShutdown(self):
        self.open -= 1
        return OK

    def nvmlDeviceGetCount_v2(self, count):
        count._obj.value = len(self.cards)
        return OK

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):
        point(handle, GPU_HANDLES + index.value)
        return self.cards[index.value].fails.get("nvmlDeviceGetHandleByIndex", OK)

    def nvmlDeviceGetUUID(self, handle, text, length):
        text.value = self.find(handle).uuid.encode()
        return self.fails(handle, "nvmlDeviceGetUUID")

    def nvmlDeviceGetName(self, handle, text, length):
        found = self.find(handle)
        name = "NVIDIA A100-SXM4-80GB" + (f" MIG {found.profile}" if isinstance(found, Part) else "")
        text.value = name.encode()
        return OK

    def nvmlDeviceGetPciInfo_v3(self, handle, info):
        info._obj.busId = self.find(handle).bus_id.encode()
        return OK

    def nvmlDeviceGetMinorNumber(self, handle, minor):
        minor._obj.value = self.find(handle).minor
        return OK

    def nvmlDeviceGetMemoryInfo(self, handle, memory):
        memory._obj.total = self.find(handle).memory_mib * 1024 * 1024
        return OK

    def nvmlDeviceGetRemappedRows(self, handle, corrected, uncorrected, pending, failed):
        failed._obj.value = int(self.find(handle).rows_failed)
        return self.fails(handle, "nvmlDeviceGetRemappedRows")

    def nvmlDeviceGetMigMode(self, handle, current, planned):
        current._obj.value = planned._obj.value = int(bool(self.find(handle).parts))
        return OK

    def nvmlDeviceGetMaxMigDeviceCount(self, handle, count):
        count._obj.value = 7
        return OK

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index, part):
        if index.value >= len(self.find(handle).parts):
            return NOT_FOUND
        point(part, MIG_HANDLES + (number_of(handle) - GPU_HANDLES) * 16 + index.value)
        return OK

    def nvmlDeviceGetGpuInstanceId(self, handle, number):
        number._obj.value = self.find(handle).number
        return OK

    def nvmlDeviceGetGpuInstanceById(self, handle, number, instance):
        point(instance, INSTANCE_HANDLES + (number_of(handle) - GPU_HANDLES) * 16 + number)
        return self.fails(handle, "nvmlDeviceGetGpuInstanceById")

    def nvmlGpuInstanceGetInfo(self, instance, info):
        gpu, number = divmod(number_of(instance) - INSTANCE_HANDLES, 16)
        part = next(one for one in self.cards[gpu].parts if one.number == number)
        info._obj.id, info._obj.placement.start = number, part.start
        return OK

    def nvmlDeviceGetNvLinkState(self, handle, link, active):
        if link >= len(self.find(handle).bonds):
            return NOT_SUPPORTED
        active._obj.value = 1
        return OK

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle, link, kind):
        leads_to = self.find(handle).bonds[link]
        switch, gpu = pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH, pynvml.NVML_NVLINK_DEVICE_TYPE_GPU
        kind._obj.value = switch if leads_to == "switch" else gpu
        return OK

    def nvmlDeviceGetNvLinkRemotePciInfo_v2(self, handle, link, info):
        info._obj.busId = self.find(handle).bonds[link].encode()
        return OK

    def nvmlDeviceGetTopologyCommonAncestor(self, one, other, level):
        pair = tuple(sorted(number_of(handle) - GPU_HANDLES for handle in (one, other)))
        level._obj.value = self.levels.get(pair, pynvml.NVML_TOPOLOGY_SYSTEM)
        return OK

    def find(self, handle):
        number = number_of(handle)
        if number < MIG_HANDLES:
            return self.cards[number - GPU_HANDLES]
        gpu, place = divmod(number - MIG_HANDLES, 16)
        return self.cards[gpu].parts[place]

    def fails(self, handle, call):
        found = self.find(handle)
        return found.fails.get(call, OK) if isinstance(found, Card) else OK


def point(reference, number):
    ctypes.c_void_p.from_address(ctypes.addressof(reference._obj)).value = number


def number_of(handle):
    return ctypes.cast(handle, ctypes.c_void_p).value
