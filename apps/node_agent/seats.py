"""Which device an id of the kubelet stands for. Device plugins and claim drivers each have their own ids.

An id that says something else than a device of this machine is nobody's: HAMi, for one, registers made-up ids
beside each UUID and chooses the GPU itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from apps.node_agent.devices import Device, Instance

HEX = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
BY_UUID = re.compile(rf"((?:GPU|MIG)-{HEX}|MIG-GPU-{HEX}/\d+/\d+)(::\d+)?", re.IGNORECASE)
"""NVIDIA's device plugin; a shared GPU (time-slicing, MPS) has "::N" behind it."""
BY_MINOR = re.compile(r"nvidia(\d{1,3})(?:/gi(\d{1,3}))?(/vgpu\d{1,3})?")
"""GKE's device plugin: nvidia0, nvidia0/gi3, and with "/vgpuN" where it is shared."""
CLAIMED = re.compile(r"gpu-(\d{1,3})")
CLAIMED_PART = re.compile(r"gpu-(\d{1,3})-mig-.{1,40}-\d{1,3}-(\d{1,3})")
"""NVIDIA's claim driver: gpu-<minor>, and gpu-<minor>-mig-<profile>-<id of the profile>-<first slice>."""


class Seats:
    def __init__(self, devices: Sequence[Device]) -> None:
        self._by_minor = {device.minor: device for device in devices if device.minor is not None}

    def find(self, device: str) -> tuple[str, bool] | None:
        """(UUID, whether the id is a share) of a plugin's id."""
        if found := BY_UUID.fullmatch(device):
            return found.group(1), found.group(2) is not None
        if not (found := BY_MINOR.fullmatch(device)):
            return None
        minor, number, share = found.groups()
        gpu = self._by_minor.get(int(minor))
        if gpu is None:
            return None
        uuid = (
            gpu.uuid if number is None else _uuid([one for one in gpu.instances if one.number == int(number)])
        )
        return (uuid, share is not None) if uuid else None

    def find_claimed(self, device: str) -> str | None:
        """UUID of what a claim driver calls so."""
        if found := CLAIMED.fullmatch(device):
            gpu = self._by_minor.get(int(found.group(1)))
            return (gpu.uuid or None) if gpu is not None else None
        if found := CLAIMED_PART.fullmatch(device):
            gpu = self._by_minor.get(int(found.group(1)))
            parts = gpu.instances if gpu is not None else ()
            return _uuid([one for one in parts if one.start == int(found.group(2))])
        return None

    def count_shares(self, offered: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """Into how many parts each device is dealt, by UUID."""
        ids = {one for found in offered.values() for one in found}
        seats = [seat for one in ids if (seat := self.find(one)) is not None]
        return dict(Counter(uuid for uuid, is_share in seats if is_share))


def _uuid(found: Sequence[Instance]) -> str | None:
    return (found[0].uuid or None) if len(found) == 1 else None
