"""A listing of nvidia-smi as the answer of `read_mig`: its layouts, what fits, what can be reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.clusters.mig_listing_checks import (
    count_gpu_instances,
    find_disagreements,
    find_listed_model,
    guess_profile,
    layouts_of,
    overfull_instances,
)
from apps.kube.mig_listings import ListedInstance, ListedProfile, Listing
from apps.planner.mig.catalogue import MODELS, warn_about
from apps.planner.mig.layouts import Cut, uncut_slices, why_illegal
from apps.planner.mig.models import MigModel
from apps.planner.mig.reaching import find_way, what_fits
from apps.planner.mig.use import plain_profiles

Json = dict[str, Any]
CUT = "The text ends within a row: more may stand on the device than is read here."


@dataclass(frozen=True, slots=True)
class Question:
    """model: hold everything against this one. wanted: instances by profile that each listed GPU is to have.
    in_use: ids of GPU instances that must stay; None: those that a program of the listing runs on, and where
    it tells no programs, all."""

    model: MigModel | None = None
    wanted: Mapping[str, int] | None = None
    in_use: frozenset[int] | None = None


def answer_listing(listing: Listing, asked: Question) -> Json:
    found = asked.model or find_listed_model(listing)
    answer: Json = {"kind": "nvidia-smi", "model": found.name if found else None}
    answer |= _answer_devices(listing)
    if listing.profiles:
        answer |= _answer_profiles(listing, found)
    if listing.places:
        answer |= _answer_places(listing)
    if listing.instances is not None:
        answer |= _answer_instances(listing, found, asked)
    if listing.compute_instances is not None:
        answer |= _answer_compute(listing.compute_instances, answer)
    if listing.compute_profiles:
        answer["compute_profiles"] = _answer_compute_profiles(listing)
    if listing.rows:
        answer |= _answer_rows(listing, found)
    if listing.is_cut:
        answer["complete"] = False
    warnings = [
        *overfull_instances(listing.compute_instances or ()),
        *find_disagreements(listing, found),
        *([warn_about(found)] if found else []),
        *([CUT] if listing.is_cut else []),
        *(f"nvidia-smi said: {words}." for words in listing.said),
    ]
    return {**answer, "warnings": list(filter(None, warnings))}


def _answer_devices(listing: Listing) -> Json:
    answer: Json = {}
    if listing.devices:
        answer |= {"gpus": len(listing.devices), "devices": [*listing.devices.values()]}
    if listing.modes:
        answer["mig_mode"] = {str(gpu): mode == "Enabled" for gpu, mode in listing.modes.items()}
    if listing.mig_devices:
        names = [profile for _, profile in listing.mig_devices]
        answer |= {"mig": names, "compute_instances": len(names)}
        answer["gpu_instances"] = count_gpu_instances(names)
    return answer


def _answer_profiles(listing: Listing, model: MigModel | None) -> Json:
    """Of the first GPU at the top; of each one in `gpu_profiles` where several are listed."""
    by_gpu: dict[int, dict[str, ListedProfile]] = {}
    for (gpu, name), row in listing.profiles.items():
        by_gpu.setdefault(gpu, {})[name] = row
    first = min(by_gpu)
    answer: Json = {
        "gpu_index": first,
        "complete": not listing.is_cut and all(_is_whole(rows, model) for rows in by_gpu.values()),
        "profiles": {name: _answer_profile(row) for name, row in by_gpu[first].items()},
    }
    if len(by_gpu) > 1:
        answer["gpu_profiles"] = {
            str(gpu): {name: _answer_profile(row) for name, row in rows.items()}
            for gpu, rows in sorted(by_gpu.items())
        }
    return answer


def _is_whole(rows: Mapping[str, ListedProfile], model: MigModel | None) -> bool:
    """Whether the smallest and the largest profile of some model stand in it: older drivers know fewer in
    between, but a piece of a listing lacks an end."""
    for one in [model] if model else MODELS.values():
        plain = [one.by_name[name] for name in plain_profiles(one)]
        sizes = sorted(plain, key=lambda profile: (profile.memory_slices, profile.compute_slices))
        if set(rows) <= set(one.by_name) and {sizes[0].name, sizes[-1].name} <= set(rows):
            return True
    return False


def _answer_profile(row: ListedProfile) -> Json:
    return {
        "id": row.number,
        "free": row.free,
        "total": row.total,
        "mem_gib": row.memory_gib,
        "sm": row.multiprocessors,
    }


def _answer_places(listing: Listing) -> Json:
    by_gpu: dict[int, Json] = {}
    for (gpu, number), (starts, size) in listing.places.items():
        by_gpu.setdefault(gpu, {})[str(number)] = {"size": size, "starts": list(starts)}
    first = min(by_gpu)
    answer: Json = {
        "placements": by_gpu[first],
        "total_slices": max(max(one["starts"]) + one["size"] for one in by_gpu[first].values()),
    }
    if len(by_gpu) > 1:
        answer["gpu_placements"] = {str(gpu): places for gpu, places in sorted(by_gpu.items())}
    return answer


def _answer_instances(listing: Listing, model: MigModel | None, asked: Question) -> Json:
    listed = listing.instances or []
    answer: Json = {
        "instances": [_answer_instance(one) for one in listed],
        "used": sum(one.size for one in listed),
    }
    if model is None:
        return answer
    layouts = layouts_of(listed) or {gpu: [] for gpu in listing.devices}
    if not any(why_illegal(model, cuts) for cuts in layouts.values()):
        answer["free"] = sum(uncut_slices(model, cuts) for cuts in layouts.values())
        answer["fits"] = {str(gpu): what_fits(model, cuts) for gpu, cuts in sorted(layouts.items())}
    if asked.wanted is not None:
        answer["ways"] = {
            str(gpu): _answer_way(listing, gpu, cuts, model, asked) for gpu, cuts in sorted(layouts.items())
        }
    return answer


def _answer_way(listing: Listing, gpu: int, cuts: list[Cut], model: MigModel, asked: Question) -> Json:
    here = [one for one in listing.instances or () if one.gpu == gpu]
    held = asked.in_use
    if held is None:
        told = listing.in_use(gpu)
        held = told if listing.users else frozenset(one.instance for one in here)
    stays = [Cut(one.start, one.profile) for one in here if one.instance in held]
    way = find_way(model, cuts, stays, asked.wanted or {})
    return {
        "reachable": way.exists,
        "why": way.why,
        "in_use": _answer_cuts(stays),
        "destroyed": _answer_cuts(way.destroyed),
        "created": _answer_cuts(way.created),
        "layout": _answer_cuts(way.layout),
        "by_clearing": way.clears,
    }


def _answer_cuts(cuts: Iterable[Cut]) -> list[Json]:
    return [{"profile": cut.profile, "start": cut.start} for cut in cuts]


def _answer_instance(one: ListedInstance) -> Json:
    facts: Json = {"gpu": one.gpu, "gi": one.instance, "profile": one.profile}
    if one.compute is not None:
        facts["ci"] = one.compute
    return {**facts, "start": one.start, "size": one.size}


def _answer_compute(listed: list[ListedInstance], answer: Json) -> Json:
    counts = {
        "compute_instances": len(listed),
        "gpu_instances": len({(one.gpu, one.instance) for one in listed}),
    }
    told = {name: number for name, number in counts.items() if name not in answer}
    return {**told, "compute_instance_list": [_answer_instance(one) for one in listed]}


def _answer_compute_profiles(listing: Listing) -> list[Json]:
    return [
        {"gpu": gpu, "gi": instance, "profile": name, "free": free, "total": total}
        for (gpu, instance, name), (free, total) in listing.compute_profiles.items()
    ]


def _answer_rows(listing: Listing, model: MigModel | None) -> Json:
    """The MIG rows of the table: one per compute instance, those of one GPU instance share its memory."""
    names = ("gpu", "gi", "ci", "device", "used_mib", "memory_mib", "sm")
    rows: list[Json] = [dict(zip(names, row, strict=True)) for row in listing.rows]
    profiles: dict[str, int] = {}
    shared: dict[tuple[int, int], list[Json]] = {}
    for row in rows:
        shared.setdefault((row["gpu"], row["gi"]), []).append(row)
    for group in shared.values():
        used = sum(row["sm"] for row in group)
        profile = guess_profile(model, group[0]["memory_mib"], used) if model else None
        name = profile.name if profile else None
        for row in group:
            row["profile"] = name
        if name is not None:
            profiles[name] = profiles.get(name, 0) + 1
    answer: Json = {"mig_rows": len(rows), "gpu_util": None, "rows": rows}
    answer |= {"compute_instances": len(rows), "gpu_instances": len(shared), "instance_counts": profiles}
    if listing.users:
        answer["in_use"] = sorted({(gpu, gi) for gpu, gi, _ in listing.users})
    return answer
