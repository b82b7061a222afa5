"""Finds a GPU model by the name a cluster knows it by. An unknown name is refused, never guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from apps.planner.mig import tables_ampere, tables_blackwell, tables_hopper, tables_rtx
from apps.planner.mig.models import Certainty, MigModel

MODELS: Mapping[str, MigModel] = {
    model.name: model
    for model in (
        *tables_ampere.MODELS,
        *tables_hopper.MODELS,
        *tables_blackwell.MODELS,
        *tables_rtx.MODELS,
    )
}
SUFFIX = re.compile(r"-(SHARED|MIG-.*)$")
MEMORY_TOLERANCE = 0.05  # drivers keep up to this much of the nominal memory for themselves


class UnknownModel(Exception):
    """No placement table for it; the message says why."""


def find_model(product: str, memory_mib: int | None = None) -> MigModel:
    """product: as the driver, GPU Feature Discovery or these tables name it ("NVIDIA A100 80GB PCIe").

    memory_mib: framebuffer of one whole GPU; a value that is not the model's is refused.
    Raises UnknownModel.
    """
    model = _BY_NAME.get(_normalise(product))
    if model is None:
        raise UnknownModel(f"No MIG placement table for the GPU {product[:60]!r}.")
    if memory_mib is not None and not _has_memory(model, memory_mib):
        raise UnknownModel(
            f"{product[:60]!r} has {memory_mib} MiB here, {model.name} has {model.memory_gb} GB: "
            "its MIG profiles are not known."
        )
    return model


def models_named_like(beginning: str, memory_mib: int | None) -> tuple[MigModel, ...]:
    """Models with a name that begins so and, where it is known, this memory: tables cut long names off."""
    start = _normalise(beginning)
    named = {model.name: model for name, model in _BY_NAME.items() if start and name.startswith(start)}
    return tuple(model for model in named.values() if memory_mib is None or _has_memory(model, memory_mib))


def _has_memory(model: MigModel, memory_mib: int) -> bool:
    nominal = model.memory_gb * 1024
    return abs(memory_mib - nominal) <= MEMORY_TOLERANCE * nominal


def warn_about(model: MigModel) -> str:
    """One sentence if layouts of this model must be confirmed by a person first; "" if not."""
    if model.is_certain:
        return ""
    parts = [
        f"{what} are {certainty}"
        for what, certainty in (("profile names", model.names), ("start slices", model.placements))
        if certainty is not Certainty.RECORDED
    ]
    return f"{model.name}: {' and '.join(parts)}; confirm the layout on a device before applying it."


def models_with(profiles: Mapping[str, int] | set[str]) -> tuple[MigModel, ...]:
    """Every model that knows all of these profiles."""
    return tuple(model for model in MODELS.values() if all(name in model.by_name for name in profiles))


@lru_cache(maxsize=1024)
def resource_profile(profile: str) -> str:
    """A profile as the tables write it, from the suffix of its Kubernetes resource ("1g.5gb.me")."""
    found = re.fullmatch(r"(\d+g\.\d+gb)\.(me|gfx|me\.all)", profile)
    return f"{found.group(1)}+{found.group(2)}" if found else profile


def profile_resource(profile: str) -> str:
    """The Kubernetes resource of a profile under mig.strategy=mixed."""
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


def _normalise(product: str) -> str:
    name = re.sub(r"[\s_]+", "-", product.strip()).upper()
    return SUFFIX.sub("", name.removeprefix("NVIDIA-"))


_BY_NAME = {_normalise(name): model for model in MODELS.values() for name in (model.name, *model.aliases)}
