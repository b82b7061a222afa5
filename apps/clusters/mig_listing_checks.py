"""Which GPU model a listing of nvidia-smi speaks of, and where it says something else than our table."""

from __future__ import annotations

import re
from collections.abc import Iterable

from apps.kube.mig_listings import ListedInstance, Listing
from apps.planner.mig.catalogue import MODELS, UnknownModel, find_model, models_named_like
from apps.planner.mig.layouts import Cut, why_illegal
from apps.planner.mig.models import MigModel, Profile
from apps.planner.mig.placing import why_unplaceable

COMPUTE_PREFIX = re.compile(r"(\d+)c\.(.+)")
CUT_OFF = "..."
EMPTY = (
    "MIG is on and the GPU has no instance: no pod can use it, and the device plugin or the operator's "
    "validator may fail on it."
)
NO_TABLE = "No placement table is known for this GPU: nothing is checked."


def find_listed_model(listing: Listing) -> MigModel | None:
    """By its product name, else by the profiles or start slices if only one model has these."""
    for index, product in listing.devices.items():
        memory = listing.memory_mib.get(index)
        try:
            return find_model(product, memory)
        except UnknownModel:
            able = models_named_like(product.removesuffix(CUT_OFF), memory) if CUT_OFF in product else ()
            return able[0] if len(able) == 1 else None
    names = {name for _, name in listing.profiles} | {one.profile for one in listing.instances or ()}
    names |= {COMPUTE_PREFIX.sub(r"\2", one.profile) for one in listing.compute_instances or ()}
    is_told = bool(names or listing.places)
    able = tuple(one for one in MODELS.values() if is_told and names <= set(one.by_name))
    if len(able) > 1 and listing.profiles:
        able = tuple(
            one
            for one in able
            if all(_looks_like(one, row.name, row.multiprocessors) for row in listing.profiles.values())
        )
    if len(able) > 1 and listing.places:
        able = tuple(one for one in able if _has_places(one, listing))
    return able[0] if len(able) == 1 else None


def _looks_like(model: MigModel, profile: str, multiprocessors: int | None) -> bool:
    known = model.by_name[profile].multiprocessors
    return None in (known, multiprocessors) or known == multiprocessors


def _has_places(model: MigModel, listing: Listing) -> bool:
    numbers = {one.number: (one.starts, one.memory_slices) for one in model.profiles}
    return all(numbers.get(number) == told for (_, number), told in listing.places.items())


def find_disagreements(listing: Listing, model: MigModel | None) -> list[str]:
    """Where the device says something else than our table: the device is right."""
    empty = [
        f"GPU {gpu}: {EMPTY}"
        for gpu, mode in listing.modes.items()
        if mode == "Enabled" and not any(row[0] == gpu for row in listing.rows)
    ]
    if model is None:
        return [NO_TABLE, *_overlaps(listing.instances or ()), *empty]
    said = [
        f"GPU {gpu}: {why}"
        for gpu, cuts in sorted(layouts_of(listing.instances or ()).items())
        if (why := why_illegal(model, cuts))
    ]
    return [
        *said,
        *_of_places(listing, model),
        *_of_profiles(listing, model),
        *_of_names(listing, model),
        *empty,
    ]


def _of_places(listing: Listing, model: MigModel) -> list[str]:
    said = []
    numbers = {one.number: one for one in model.profiles if one.number is not None}
    for (_, number), (starts, size) in listing.places.items():
        row = numbers.get(number)
        if row is None and numbers:
            said.append(f"The table of {model.name} has no profile with the id {number}.")
        elif row is not None and (row.starts, row.memory_slices) != (starts, size):
            said.append(f"{row.name}: the device lists other start slices than the table of {model.name}.")
    return list(dict.fromkeys(said))


def _of_profiles(listing: Listing, model: MigModel) -> list[str]:
    said = []
    for (_, name), listed in listing.profiles.items():
        known = model.by_name.get(name)
        if known is None or known.most != listed.total:
            said.append(
                f"{name}: the device lists {listed.total} at most, the table of {model.name} "
                f"{known.most if known else 'does not know it'}."
            )
    return list(dict.fromkeys(said))


def _of_names(listing: Listing, model: MigModel) -> list[str]:
    """`-L` names no start slices; its numbers alone may be more than fit."""
    said = []
    for gpu in listing.devices:
        names = [name for at, name in listing.mig_devices if at == gpu and not COMPUTE_PREFIX.match(name)]
        why = why_unplaceable(model, {name: names.count(name) for name in names}) if names else ""
        if why:
            said.append(f"GPU {gpu}: {why}")
    return said


def guess_profile(model: MigModel, memory_mib: int, multiprocessors: int) -> Profile | None:
    """The profile of a GPU instance by what the table prints of it: the nearest memory, then the least
    multiprocessors that suffice. Variants that differ in media engines only cannot be told apart."""
    plain = [one for one in model.profiles if "+" not in one.name and "-" not in one.name]
    gib = memory_mib / 1024
    nearest = min(abs(_gib(one) - gib) for one in plain)
    able = [one for one in plain if abs(_gib(one) - gib) == nearest]
    if nearest > 0.15 * gib:
        return None
    enough = [one for one in able if one.multiprocessors is None or one.multiprocessors >= multiprocessors]
    return min(enough, key=lambda one: (one.multiprocessors or 0, one.compute_slices), default=None)


def _gib(profile: Profile) -> float:
    return profile.memory_gib if profile.memory_gib is not None else float(profile.memory_gb)


def layouts_of(instances: Iterable[ListedInstance]) -> dict[int, list[Cut]]:
    found: dict[int, list[Cut]] = {}
    for one in instances:
        found.setdefault(one.gpu, []).append(Cut(one.start, one.profile))
    return found


def _overlaps(instances: Iterable[ListedInstance]) -> list[str]:
    """No GPU has two instances on one memory slice, whatever its model."""
    said = []
    last: dict[int, ListedInstance] = {}
    for one in sorted(instances, key=lambda one: (one.gpu, one.start)):
        before = last.get(one.gpu)
        if before is not None and one.start < before.start + before.size:
            said.append(
                f"GPU {one.gpu}: {one.profile} at {one.start} overlaps {before.profile} at {before.start}."
            )
        if before is None or one.start + one.size > before.start + before.size:
            last[one.gpu] = one
    return said


def overfull_instances(instances: Iterable[ListedInstance]) -> list[str]:
    """GPU instances whose compute instances take more compute slices than they have."""
    taken: dict[tuple[int, int, str], int] = {}
    for one in instances:
        match = COMPUTE_PREFIX.fullmatch(one.profile)
        profile = match.group(2) if match else one.profile
        key = (one.gpu, one.instance, profile)
        taken[key] = taken.get(key, 0) + (int(match.group(1)) if match else _compute_slices(profile))
    return [
        f"GPU {gpu}, instance {instance}: its compute instances take {number} compute slices of {profile}."
        for (gpu, instance, profile), number in taken.items()
        if number > _compute_slices(profile)
    ]


def _compute_slices(profile: str) -> int:
    head = profile.partition("g.")[0]
    return int(head) if head.isdecimal() and len(head) < 3 else 1


def count_gpu_instances(names: Iterable[str]) -> int:
    """`-L` shows compute instances; "1c.3g" and "2c.3g" in a row share one GPU instance."""
    number, left, shared = 0, 0, ""
    for name in names:
        match = COMPUTE_PREFIX.fullmatch(name)
        if match is None:
            number, left = number + 1, 0
            continue
        slices, profile = int(match.group(1)), match.group(2)
        if left < slices or profile != shared:
            number, shared = number + 1, profile
            left = _compute_slices(profile)
        left -= slices
    return number
