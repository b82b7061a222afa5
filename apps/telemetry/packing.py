"""Readings and minutes as compressed bytes, and back. Only this program's own bytes are opened."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import msgspec

from apps.prometheus.readings import Device

Minutes = dict[str, tuple[float, int]]
"""Unit -> (sum of percentages, how many)."""


@dataclass(frozen=True, slots=True)
class Packed:
    """since: for each device (by its key), when its layout of today was first seen without a gap."""

    devices: tuple[Device, ...]
    since: dict[str, float] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()


def pack(packed: Packed) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(packed), 1)


def unpack(body: bytes | memoryview) -> Packed:
    return msgspec.msgpack.decode(zlib.decompress(body), type=Packed)


def pack_minutes(minutes: Minutes) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(minutes), 1)


def unpack_minutes(body: bytes | memoryview) -> Minutes:
    return msgspec.msgpack.decode(zlib.decompress(body), type=Minutes)
