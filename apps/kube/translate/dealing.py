"""The cards of a node as its sharing scheduler registered them, and whether that register is still kept.

Memory there is what is dealt out: a scheduler may deal out more than a card has, or count in blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from apps.kube.translate.products import OVERSOLD, Memory, nominal_mib, plain_model
from apps.kube.translate.registers import Record, Register
from apps.kube.translate.values import Warn
from apps.planner.inventory import Gpu

SMALLEST_CARD_MIB = 2048  # no card that anybody shares has less; smaller numbers count blocks


@dataclass(frozen=True, slots=True)
class Dealt:
    """mib: what a card has, None if unknown. scaling: how often it is sold, 1.0 for once. factor: MiB in
    a block that the register counts."""

    mib: int | None = None
    scaling: float = 1.0
    factor: int = 1


def dealt_memory(register: Register, model: str, memory: Memory, warn: Warn) -> Dealt:
    told = [record.memory for record in register.whole if record.memory]
    if not told:
        return Dealt(memory.mib)
    most = max(told)
    base = memory.mib or nominal_mib(model)
    if register.scheduler == "volcano-vgpu":
        return _in_blocks(most, base, memory, register, warn)
    if base and most > base * OVERSOLD:
        ratio = most / base
        scaling = round(ratio, 1) if memory.mib is None else round(ratio, 3)
        source = memory.label or f"the model {model}"
        warn(
            f"the annotation {register.key} deals out {most} MiB per card, {source} says about {base}: "
            f"memory is sold {scaling:g} times"
        )
        return Dealt(memory.mib or int(most / scaling), scaling)
    return Dealt(memory.mib or most)


def _in_blocks(most: int, base: int | None, memory: Memory, register: Register, warn: Warn) -> Dealt:
    """Volcano's plugin divides the memory by a factor that it tells nobody."""
    factor = round(base / most) if base else 1
    if factor > 1:
        return Dealt(memory.mib or most * factor, factor=factor)
    if base or most >= SMALLEST_CARD_MIB:
        return Dealt(memory.mib or most)
    warn(
        f"the annotation {register.key} counts memory in blocks of a size that nobody tells ({most}): unknown"
    )
    return Dealt(factor=0)


def cards_as_registered(register: Register, dealt: Dealt, model: str) -> tuple[Gpu, ...]:
    found = [_gpu(record, dealt, model) for record in register.records]
    return tuple(sorted(found, key=lambda gpu: gpu.index))


def _gpu(record: Record, dealt: Dealt, model: str) -> Gpu:
    own = plain_model(record.model)
    memory = record.memory * dealt.factor if record.memory and dealt.factor else None
    return Gpu(
        index=record.index or 0,
        uuid=record.uuid,
        memory_mib=memory,
        numa=record.numa,
        bus_id=record.bus_id,
        healthy=record.healthy and record.is_whole,
        model="" if own == model else own,
        cores=record.cores,
        units=record.units,
        mode=record.mode,
    )


def with_unregistered(gpus: tuple[Gpu, ...], cards: int) -> tuple[Gpu, ...]:
    """Cards that stand on the node and not in the register: nothing is handed out on them."""
    taken = {gpu.index for gpu in gpus}
    free = [place for place in range(cards + len(gpus)) if place not in taken]
    missing = (Gpu(index=place, healthy=False) for place in free[: max(cards - len(gpus), 0)])
    return tuple(sorted((*gpus, *missing), key=lambda gpu: gpu.index))


def as_agent_and_register(
    seen: tuple[Gpu, ...], registered: tuple[Gpu, ...], register: Register, warn: Warn
) -> tuple[Gpu, ...]:
    """The node agent's cards with what only the register tells of them. Where they differ, both are named,
    and a card that either calls unhealthy is."""
    known = {gpu.uuid: gpu for gpu in registered if gpu.uuid}
    told = {gpu.uuid for gpu in seen if gpu.uuid}
    if told and known and (strangers := sorted(set(known) - told)):
        warn(f"the annotation {register.key} names {strangers[0]}, which the node agent does not see")
    if told and known and (absent := sorted(told - set(known))):
        warn(f"the node agent sees {absent[0]}, which the annotation {register.key} does not name")
    merged = []
    for gpu in seen:
        other = known.get(gpu.uuid)
        if other is not None and other.healthy != gpu.healthy:
            word = "unhealthy" if gpu.healthy else "healthy"
            warn(f"the annotation {register.key} calls {gpu.uuid} {word}, the node agent does not")
        merged.append(_joined(gpu, other) if other is not None else gpu)
    return tuple(merged)


def _joined(gpu: Gpu, other: Gpu) -> Gpu:
    return replace(
        gpu,
        memory_mib=gpu.memory_mib if gpu.memory_mib is not None else other.memory_mib,
        numa=gpu.numa if gpu.numa is not None else other.numa,
        healthy=gpu.healthy and other.healthy,
        model=other.model,
        cores=other.cores,
        units=other.units,
        mode=other.mode,
    )
