"""One device's account: what its takers have, what is left, what does not add up. Not in here: the node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from apps.planner.devices import Gpu, Source
from apps.planner.ledger_rows import DeviceLedger, Flag, InstanceLedger, Standing, Taker
from apps.planner.mig.catalogue import resource_profile
from apps.planner.mig.models import MigModel
from apps.planner.mig.use import GpuUse, InstanceUse, Use
from apps.planner.shares import WHOLE

STANDINGS = {Use.HELD: Standing.HELD, Use.FREE: Standing.FREE, Use.UNKNOWN: Standing.UNKNOWN}
Claims = Mapping[str, Collection[str]]
"""Pod uid -> the keys of its claims."""


def account_for(
    gpu: Gpu, takers: Sequence[Taker], claims: Claims, *, slots: int = 1, whole: int = WHOLE
) -> DeviceLedger:
    """A device that is not cut. slots: into how many turns it is dealt, 1 where it is not shared in time.
    whole: milli-GPU that it has to give out, more than 1000 where its cores are sold more than once."""
    if slots > 1:
        return _in_turns(gpu, takers, slots)
    if not takers:
        return _untouched(gpu, whole)
    grants = _grants(takers, claims)
    milli = sum(_milli_of(grant, whole) for grant in grants)
    memory = gpu.memory_mib
    parts = [_memory_of(grant, memory) for grant in grants]
    told = memory is not None and all(part is not None for part in parts)
    taken_memory = sum(part or 0 for part in parts) if told else None
    share = Fraction(milli)
    if taken_memory and memory:
        share = max(share, whole * min(Fraction(taken_memory, memory), Fraction(1)))
    flags = []
    if sum(_milli_of(grant, whole) >= whole for grant in grants) > 1:
        flags.append(Flag.HELD_TWICE)
    elif milli > whole or (memory is not None and taken_memory is not None and taken_memory > memory):
        flags.append(Flag.OVERSUBSCRIBED)
    return DeviceLedger(
        gpu=gpu,
        standing=_standing(bool(takers), share >= whole, gpu.healthy),
        takers=tuple(takers),
        whole_milli=whole,
        share=share,
        taken_milli=milli,
        left_milli=max(0, whole - milli),
        over_milli=max(0, milli - whole),
        taken_memory_mib=taken_memory,
        left_memory_mib=_less(memory, taken_memory),
        over_memory_mib=max(0, (taken_memory or 0) - memory) if memory is not None else 0,
        units=gpu.units,
        units_used=len(takers) if gpu.units is not None else None,
        flags=tuple(flags),
    )


def _untouched(gpu: Gpu, whole: int) -> DeviceLedger:
    memory = gpu.memory_mib
    return DeviceLedger(
        gpu=gpu,
        standing=Standing.FREE if gpu.healthy else Standing.UNHEALTHY,
        whole_milli=whole,
        left_milli=whole,
        taken_memory_mib=None if memory is None else 0,
        left_memory_mib=memory,
        units=gpu.units,
        units_used=None if gpu.units is None else 0,
    )


def _in_turns(gpu: Gpu, takers: Sequence[Taker], slots: int) -> DeviceLedger:
    """Turns divide neither memory nor cores; a slot counts as its part of the device."""
    used = min(len(takers), slots)
    over = len(takers) - used
    share = Fraction(WHOLE * len(takers), slots)
    taken = round(share)
    return DeviceLedger(
        gpu=gpu,
        standing=_standing(bool(takers), used == slots, gpu.healthy),
        takers=tuple(replace(taker, milli=None) for taker in takers),
        share=share,
        taken_milli=taken,
        left_milli=max(0, WHOLE - taken),
        over_milli=max(0, taken - WHOLE),
        units=slots,
        units_used=len(takers),
        flags=(Flag.OVERSUBSCRIBED,) if over else (),
    )


def account_for_cut(
    gpu: Gpu,
    use: GpuUse,
    model: MigModel | None,
    whole_takers: Sequence[Taker],
    on_instance: Mapping[str, Sequence[Taker]],
    claims: Claims,
    unit_mib: int | None = None,
) -> DeviceLedger:
    """A GPU that MIG has cut: its instances are held or free, and nothing of it is to be had whole."""
    rows = tuple(_instance(one, gpu, model, on_instance, unit_mib) for one in use.instances)
    held = [row for row in rows if row.standing is Standing.HELD]
    slices = _compute_slices(model)
    cut = sum(compute_slices(row.profile, model) for row in held)
    share = Fraction(WHOLE) if whole_takers else Fraction(WHOLE * cut, slices)
    taken = round(share)
    flags = [Flag.WHOLE_AND_CUT] if whole_takers else []
    if any(len(_grants(row.takers, claims)) > 1 for row in rows):
        flags.append(Flag.HELD_TWICE)
    memory = gpu.memory_mib
    parts = [row.memory_mib for row in held]
    taken_memory = None if None in parts else sum(part or 0 for part in parts)
    taken_memory = memory if whole_takers else taken_memory
    if taken > WHOLE:
        flags.append(Flag.OVERSUBSCRIBED)
    return DeviceLedger(
        gpu=gpu,
        standing=Standing.CUT if gpu.healthy else Standing.UNHEALTHY,
        takers=tuple(whole_takers),
        instances=rows,
        more=use.more,
        share=share,
        taken_milli=taken,
        left_milli=max(0, WHOLE - taken),
        over_milli=max(0, taken - WHOLE),
        taken_memory_mib=taken_memory if memory is not None else None,
        left_memory_mib=_less(memory, taken_memory),
        flags=tuple(flags),
    )


def compute_slices(profile: str, model: MigModel | None) -> int:
    """As the model's table has it, else as the name says ("3g.40gb": 3)."""
    known = model.by_name.get(resource_profile(profile)) if model else None
    if known:
        return known.compute_slices
    head = profile.partition("g.")[0]
    return int(head) if head.isdecimal() and len(head) == 1 else 1


def part_of_profile(profile: str, model: MigModel | None) -> Fraction:
    """In milli-GPU, not rounded."""
    return min(Fraction(WHOLE), Fraction(WHOLE * compute_slices(profile, model), _compute_slices(model)))


def _compute_slices(model: MigModel | None) -> int:
    return model.compute_slices if model else 7


def _instance(
    one: InstanceUse,
    gpu: Gpu,
    model: MigModel | None,
    on_instance: Mapping[str, Sequence[Taker]],
    unit_mib: int | None,
) -> InstanceLedger:
    """unit_mib: what each instance has, where the node itself says it."""
    known = model.by_name.get(one.profile) if model else None
    memory = unit_mib
    if memory is None and known is not None and model is not None and gpu.memory_mib is not None:
        memory = gpu.memory_mib * known.memory_slices // model.axis
    takers = tuple(on_instance.get(one.uuid, ())) if one.uuid else ()
    return InstanceLedger(
        profile=one.profile,
        start=one.start,
        slices=one.size,
        milli=round(part_of_profile(one.profile, model)),
        memory_mib=memory,
        standing=_instance_standing(one, gpu, is_taken=bool(takers)),
        uuid=one.uuid,
        takers=takers,
    )


def _instance_standing(one: InstanceUse, gpu: Gpu, *, is_taken: bool) -> Standing:
    """An instance is as healthy as its GPU, whatever still advertises it."""
    if is_taken or one.use is Use.HELD:
        return Standing.HELD
    return STANDINGS[one.use] if gpu.healthy else Standing.UNHEALTHY


def _grants(takers: Sequence[Taker], claims: Claims) -> list[list[Taker]]:
    """Takers that hold the device together: containers of one pod, and pods that share one claim."""
    groups: list[tuple[set[str], set[str], list[Taker]]] = []
    for taker in takers:
        mine = set(claims.get(taker.pod_uid, ())) if taker.source is Source.DRA else set()
        for pods, keys, members in groups:
            if taker.pod_uid in pods or (mine and mine & keys):
                pods.add(taker.pod_uid)
                keys |= mine
                members.append(taker)
                break
        else:
            groups.append(({taker.pod_uid}, mine, [taker]))
    return [members for _, _, members in groups]


def _milli_of(grant: Sequence[Taker], whole: int) -> int:
    """Shares of one pod's containers add up; who has the whole, and who shares a claim, has it once."""
    parts = [taker.milli or 0 for taker in grant]
    if any(part >= WHOLE for part in parts):
        return whole
    if len({taker.pod_uid for taker in grant}) > 1:
        return max(parts)
    return sum(parts)


def _memory_of(grant: Sequence[Taker], memory: int | None) -> int | None:
    """None where it cannot be said. A share of the cores without a word of memory takes as much of it."""
    parts = []
    for taker in grant:
        if taker.memory_mib is not None:
            parts.append(taker.memory_mib)
        elif memory is None or taker.milli is None:
            return None
        else:
            parts.append(memory * min(taker.milli, WHOLE) // WHOLE)
    is_shared = len({taker.pod_uid for taker in grant}) > 1
    if memory is not None and any(
        (taker.milli or 0) >= WHOLE and taker.memory_mib is None for taker in grant
    ):
        return memory
    return max(parts) if is_shared else sum(parts)


def _standing(is_taken: bool, is_full: bool, healthy: bool) -> Standing:
    if not healthy:
        return Standing.UNHEALTHY
    if not is_taken:
        return Standing.FREE
    return Standing.HELD if is_full else Standing.PART


def _less(whole: int | None, taken: int | None) -> int | None:
    return None if whole is None or taken is None else max(0, whole - taken)
