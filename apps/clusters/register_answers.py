"""What `read_dump` answers about the registers and handshakes of sharing schedulers on a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.clusters.node_sources import when
from apps.kube.translate.cards import CardFacts
from apps.kube.translate.gpus import Inventory
from apps.kube.translate.handshakes import Handshake, Spoken
from apps.kube.translate.registers import Record, Register


def answer_handshakes(inventory: Inventory, taken_at: float) -> dict[str, Any]:
    handshakes = inventory.handshakes
    alive_of = {one.register.family: one.alive for one in inventory.cards if one.register is not None}
    main = next(iter(alive_of), None) or next(iter(handshakes))
    deleted = [name for name, one in handshakes.items() if one.state is Spoken.DELETED]
    return {
        "handshake": handshakes[main].text if main in handshakes else None,
        "handshakes": {name: _answer_handshake(one, taken_at) for name, one in handshakes.items()},
        "families_alive": [name for name in handshakes if name not in deleted and alive_of.get(name)],
        "families_deleted": deleted,
        "families_silent": [name for name in alive_of if alive_of[name] is False and name not in deleted],
    }


def _answer_handshake(one: Handshake, taken_at: float) -> dict[str, Any]:
    age = max(int(taken_at - one.at), 0) if one.at is not None else None
    return {
        "state": one.state.value if one.state else None,
        "at": when(one.at),
        "age_seconds": age,
        "text": one.text,
    }


def answer_register(register: Register, cards: Sequence[CardFacts]) -> dict[str, Any]:
    """Of the main register: what its devices have in common stands by itself."""
    found: dict[str, Any] = {
        "scheduler": register.scheduler,
        "truncated": register.is_cut,
        "registered": [answer_record(record) for record in register.records],
        "devices_order": [record.index for record in register.records],
    }
    whole = register.whole
    facts = facts_of(register, cards)
    memory = {record.memory for record in whole}
    if len(memory) == 1:
        is_in_blocks = facts is not None and facts.dealt.factor != 1
        found["devmem_blocks" if is_in_blocks else "devmem_mib"] = memory.pop()
    cores, modes = {record.cores for record in whole}, {record.mode for record in whole if record.mode}
    if len(cores) == 1 and None not in cores:
        found["cu" if register.cards.vendor == "amd" else "devcore"] = cores.pop()
    if len(modes) == 1:
        found["mode"] = modes.pop()
    if facts is not None and facts.dealt.scaling != 1:
        found["memory_scaling"] = facts.dealt.scaling
        found["physical_mem_mib_about"] = facts.dealt.mib
    return found


def facts_of(register: Register, cards: Sequence[CardFacts]) -> CardFacts | None:
    return next((one for one in cards if one.register is register), None)


def answer_record(record: Record) -> dict[str, Any]:
    """A record that is cut tells its id at most."""
    if not record.is_whole:
        return {"id": record.uuid or None, "complete": False, "healthy": False}
    told = {
        "id": record.uuid,
        "index": record.index,
        "split": record.units,
        "devmem": record.memory,
        "devcore": record.cores,
        "type": record.model,
        "numa": record.numa,
        "mode": record.mode or None,
        "healthy": record.healthy,
        "complete": True,
    }
    return {key: value for key, value in told.items() if value is not None}


def describe_plugins(register: Register, cards: Sequence[CardFacts]) -> dict[str, Any]:
    facts = facts_of(register, cards)
    whole = register.whole
    return {
        "vendor": register.cards.vendor,
        "annotation": register.key,
        "alive": facts.alive if facts is not None else None,
        "records": len(register.records),
        "complete_records": len(whole),
        "healthy": sum(record.healthy for record in whole),
        "devmem": max((record.memory or 0 for record in whole), default=0) or None,
    }
