"""The numbers of one GPU or MIG instance, as functions of who holds it and of the time. Pure."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

IDLE_WATTS = 62.0
WATTS = {"H800": 700.0, "A100": 400.0, "L40S": 350.0, "A10": 150.0, "T4": 70.0}
BLANK = 2147483632.0  # what DCGM writes where it has no number
RESERVED_PART = 0.008
XID_OF_A_SICK_GPU = 79.0
_IDLE_HOLDERS = 0.12  # share of holders that hold a device and do nothing with it


def draw(*parts: str) -> float:
    """A number of at least 0 and below 1 that is always the same for the same words."""
    return zlib.crc32("/".join(parts).encode()) / 2**32


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a device is over time: a level with slow waves. holder: "" for a free one."""

    level: float
    period: float
    phase: float

    @classmethod
    def of(cls, uuid: str, holder: str) -> Load:
        lot = draw(holder)
        level = 0.0 if not holder or lot < _IDLE_HOLDERS else 0.3 + 0.62 * draw(holder, "level")
        return cls(level, 240 + 900 * draw(uuid, "period"), math.tau * draw(uuid, "phase"))

    def at(self, moment: float) -> float:
        if not self.level:
            return 0.0
        wave = 0.07 * math.sin(math.tau * moment / self.period + self.phase)
        return round(min(1.0, max(0.0, self.level + wave)), 4)


def used_mib(total: int, held: int, uuid: str, holder: str) -> float:
    """Nearly constant: a workload takes its memory and keeps it. held: what its holders were given."""
    if not held:
        return 4.0
    return float(round(min(total, held) * (0.25 + 0.65 * draw(uuid, holder, "memory"))))


def reserved_mib(total: int) -> float:
    return float(round(total * RESERVED_PART))


def watts(model: str, load: float) -> float:
    most = next((value for word, value in WATTS.items() if word in model), 300.0)
    return round(IDLE_WATTS + (most - IDLE_WATTS) * load, 3)


def degrees(load: float) -> float:
    return float(round(31 + 42 * load))
