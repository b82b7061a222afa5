"""What a MIG placement table says about one GPU model. Types only; the rows are in `tables_*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class Certainty(StrEnum):
    """How well something is known: RECORDED is documented or was listed by a real device's driver."""

    RECORDED = "recorded"
    PARTLY = "partly documented"
    INFERRED = "inferred"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class Engines:
    """Media and copy engines of one instance; None where no source tells."""

    decoders: int | None
    encoders: int | None
    jpeg: int | None
    optical_flow: int | None
    copy: int | None


@dataclass(frozen=True, slots=True)
class Profile:
    """One MIG profile of one model.

    number: the driver's profile id, None if nobody recorded it. memory_slices: length on the
    model's axis. starts: legal start slices. most: instances of it on one GPU. memory_gb: as in
    the name; memory_gib: as the driver prints it. media: a "+me" variant, of which a GPU has one.
    """

    name: str
    number: int | None
    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    most: int
    memory_gb: int
    memory_gib: float | None
    multiprocessors: int | None
    engines: Engines
    media: bool = False


@dataclass(frozen=True)
class MigModel:
    """A GPU model that MIG can cut.

    axis: memory slices that start slices count on (not always what the profile names suggest).
    names, placements: how well profile names and start slices are known. shares_engines: media
    engines are a pool that the instances of a GPU divide. sources: keys of SOURCES.
    """

    name: str
    architecture: str
    memory_gb: int
    axis: int
    compute_slices: int
    aliases: tuple[str, ...]
    names: Certainty
    placements: Certainty
    sources: tuple[str, ...]
    profiles: tuple[Profile, ...]
    note: str = ""
    shares_engines: bool = False

    @cached_property
    def by_name(self) -> Mapping[str, Profile]:
        return {profile.name: profile for profile in self.profiles}

    @property
    def is_certain(self) -> bool:
        """Whether a layout may be relied on without asking the device itself."""
        return self.names is Certainty.RECORDED and self.placements is Certainty.RECORDED

    def __hash__(self) -> int:
        return hash(self.name)


SOURCES: Mapping[str, str] = {
    "UG": "NVIDIA MIG User Guide, supported profiles: names, fractions, engines, instance counts",
    "UGP": "NVIDIA MIG User Guide, placements listed by the driver of an A100-SXM4-40GB",
    "MP": "A100 device of the mock NVML that mig-parted is tested with (placements)",
    "GN30": "A30 device of the mock NVML of go-nvml (placements, memory, multiprocessors)",
    "A30P": "placements listed by the driver of an A30, public record",
    "H100P": "placements listed by the drivers of an H100 80GB and an H100 NVL, public records",
    "H100L": "profiles listed by the driver of an H100 80GB, public records",
    "GH": "profiles listed by the driver of a GH200 96GB, public record",
    "NVL": "profiles listed by the driver of an H100 NVL, public record",
    "RTX": "profiles and placements listed by the driver of an RTX PRO 6000 Blackwell, public record",
    "MPC": "default configuration of mig-parted for Hopper and Blackwell (names and greatest counts)",
    "INF": "inferred: no driver listing of placements was found; same fractions as a recorded product",
}
