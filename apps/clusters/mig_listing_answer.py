"""A listing of nvidia-smi as the answer of `read_mig`: the layouts it shows, held against the tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from apps.kube.mig_listings import ListedInstance, Listing
from apps.planner.mig.catalogue import MODELS, UnknownModel, find_model, warn_about
from apps.planner.mig.layouts import Cut, uncut_slices, why_illegal
from apps.planner.mig.models import MigModel

COMPUTE_PREFIX = re.compile(r"(\d+)c\.(.+)")


def answer_listing(listing: Listing, model: MigModel | None) -> dict[str, Any]:
    found = model or _find_model(listing)
    answer: dict[str, Any] = {"kind": "nvidia-smi", "model": found.name if found else None}
    if listing.devices:
        answer |= {"gpus": len(listing.devices), "devices": [*listing.devices.values()]}
    if listing.mig_devices:
        answer |= _answer_devices(listing)
    if listing.profiles:
        answer |= _answer_profiles(listing, found)
    if listing.places:
        answer |= _answer_places(listing)
    if listing.instances is not None:
        answer |= _answer_instances(listing.instances, found)
    if listing.compute_instances is not None:
        answer["compute_instance_list"] = [_answer_instance(one) for one in listing.compute_instances]
    if listing.rows:
        answer |= {"mig_rows": len(listing.rows), "gpu_util": None, "rows": _answer_rows(listing)}
    warnings = [*_disagreements(listing, found), *([warn_about(found)] if found else [])]
    return {**answer, "warnings": list(filter(None, warnings))}


def _find_model(listing: Listing) -> MigModel | None:
    """By its product name, else by the profiles or start slices if only one model has these."""
    for product in listing.devices.values():
        try:
            return find_model(product)
        except UnknownModel:
            return None
    names = {name for _, name in listing.profiles} | {one.profile for one in listing.instances or ()}
    able = [one for one in MODELS.values() if names and names <= set(one.by_name)]
    if len(able) > 1 and listing.profiles:
        able = [
            one
            for one in able
            if all(_looks_like(one, row.name, row.multiprocessors) for row in listing.profiles.values())
        ]
    return able[0] if len(able) == 1 else None


def _looks_like(model: MigModel, profile: str, multiprocessors: int | None) -> bool:
    known = model.by_name[profile].multiprocessors
    return None in (known, multiprocessors) or known == multiprocessors


def _answer_devices(listing: Listing) -> dict[str, Any]:
    names = [profile for _, profile in listing.mig_devices]
    return {
        "mig": names,
        "compute_instances": len(names),
        "gpu_instances": _count_gpu_instances(names),
    }


def _count_gpu_instances(names: Iterable[str]) -> int:
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
            left = int(profile.partition("g")[0]) if profile[:1].isdigit() else 0
        left -= slices
    return number


def _answer_profiles(listing: Listing, model: MigModel | None) -> dict[str, Any]:
    first = min(gpu for gpu, _ in listing.profiles)
    rows = {name: row for (gpu, name), row in listing.profiles.items() if gpu == first}
    is_whole = any(set(rows) == set(one.by_name) for one in MODELS.values())
    return {
        "gpu_index": first,
        "complete": is_whole and not listing.is_cut,
        "profiles": {
            name: {
                "id": row.number,
                "free": row.free,
                "total": row.total,
                "mem_gib": row.memory_gib,
                "sm": row.multiprocessors,
            }
            for name, row in rows.items()
        },
    }


def _answer_places(listing: Listing) -> dict[str, Any]:
    first = min(gpu for gpu, _ in listing.places)
    places = {number: told for (gpu, number), told in listing.places.items() if gpu == first}
    return {
        "placements": {
            str(number): {"size": size, "starts": list(starts)} for number, (starts, size) in places.items()
        },
        "total_slices": max(max(starts) + size for starts, size in places.values()),
    }


def _answer_instances(instances: Iterable[ListedInstance], model: MigModel | None) -> dict[str, Any]:
    listed = list(instances)
    answer: dict[str, Any] = {
        "instances": [_answer_instance(one) for one in listed],
        "used": sum(one.size for one in listed),
    }
    if model is not None:
        by_gpu = _layouts(listed)
        if not any(why_illegal(model, cuts) for cuts in by_gpu.values()):
            answer["free"] = sum(uncut_slices(model, cuts) for cuts in by_gpu.values())
    return answer


def _answer_instance(one: ListedInstance) -> dict[str, Any]:
    facts: dict[str, Any] = {"gpu": one.gpu, "gi": one.instance, "profile": one.profile}
    if one.compute is not None:
        facts["ci"] = one.compute
    return {**facts, "start": one.start, "size": one.size}


def _answer_rows(listing: Listing) -> list[dict[str, int]]:
    names = ("gpu", "gi", "ci", "device", "used_mib", "memory_mib", "sm")
    return [dict(zip(names, row, strict=True)) for row in listing.rows]


def _layouts(instances: Iterable[ListedInstance]) -> dict[int, list[Cut]]:
    found: dict[int, list[Cut]] = {}
    for one in instances:
        found.setdefault(one.gpu, []).append(Cut(one.start, one.profile))
    return found


def _disagreements(listing: Listing, model: MigModel | None) -> list[str]:
    """Where the device says something else than our table: the device is right."""
    if model is None:
        return ["No placement table is known for this GPU: nothing is checked."]
    said = [
        f"GPU {gpu}: {why_illegal(model, cuts)}"
        for gpu, cuts in sorted(_layouts(listing.instances or ()).items())
        if why_illegal(model, cuts)
    ]
    numbers = {one.number: one for one in model.profiles if one.number is not None}
    for (_, number), (starts, size) in listing.places.items():
        row = numbers.get(number)
        if row is None:
            said.append(f"The table of {model.name} has no profile with the id {number}.")
        elif (row.starts, row.memory_slices) != (starts, size):
            said.append(f"{row.name}: the device lists other start slices than the table of {model.name}.")
    for (_, name), listed in listing.profiles.items():
        known = model.by_name.get(name)
        if known is None or known.most != listed.total:
            said.append(
                f"{name}: the device lists {listed.total} at most, the table of {model.name} "
                f"{known.most if known else 'does not know it'}."
            )
    return said
