"""What `read_dump` answers about one node: how many devices, of what, how handed out, and who says so.

The figures are those of the live path: the node as the snapshot has it, its ledger, and what the reading
found out on the way. None means that nobody tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.clusters.node_sources import answer_place, answer_resources, answer_sources, when
from apps.clusters.register_answers import answer_handshakes, answer_register, describe_plugins
from apps.kube.translate.cards import CardFacts
from apps.kube.translate.gpus import Inventory
from apps.kube.translate.values import whole_or_none
from apps.kube.translate.vendors import Form
from apps.planner.inventory import DeviceGroup, Gpu, Node
from apps.planner.ledger_rows import GroupLedger, NodeLedger
from apps.planner.mig.nodes import MIG_PREFIX

NEVER = "NeverReported"
SLICES_OF_A_GPU = 7


@dataclass(frozen=True, slots=True)
class Seen:
    """annotations: the node's own. heartbeat: when its kubelet last spoke, None if untold."""

    node: Node
    inventory: Inventory
    ledger: NodeLedger
    annotations: Mapping[str, str]
    heartbeat: float | None
    taken_at: float


def node_answer(seen: Seen) -> dict[str, Any]:
    node, cards = seen.node, seen.inventory.cards
    main = cards[0] if cards else None
    is_known = bool(node.capacity or node.allocatable)
    answer: dict[str, Any] = {
        "name": node.name,
        "uid": node.uid,
        "vendor": node.vendor or None,
        "vendors": _vendors(seen),
        **_counts(node, main, is_known=is_known),
        **_product(node, main),
        "sharing": (node.sharing or "none") if main else None,
        "replicas": node.shares_per_gpu if main else None,
        **_mig(node, main),
        "ready": None if node.ready_reason == NEVER else node.ready,
        **_standing(seen),
        "stale_since": when(node.stale_since),
        **_ledger(seen.ledger.main, is_told=node.ready_reason != NEVER),
        "gpus": [answer_gpu(gpu) for gpu in node.gpus],
        "others": [_other(group) for group in node.others],
        **_registers(seen),
        **answer_place(node),
        "accelerator_resources": answer_resources(node),
        "sources": answer_sources(node, main, heartbeat=seen.heartbeat, taken_at=seen.taken_at),
        "warnings": list(node.warnings),
    }
    return answer


def _vendors(seen: Seen) -> list[str]:
    """The main cards' first."""
    named = [one.offer.cards.vendor for one in seen.inventory.cards]
    beside = [group.vendor for group in seen.node.others]
    return list(dict.fromkeys(filter(None, (seen.node.vendor, *named, *beside))))


def _counts(node: Node, main: CardFacts | None, *, is_known: bool) -> dict[str, Any]:
    if main is None or (node.claimable and not main.offers_anything):
        return _counted_by_slices(node)
    offered = node.allocatable.get(node.gpu_resource, 0)
    sick = sum(not gpu.healthy for gpu in node.gpus)
    lost = _lost(node, main, offered) if is_known else 0
    counts: dict[str, Any] = {
        "physical_gpus": len(node.gpus),
        "whole_gpus_allocatable": _whole(node, main) if is_known else None,
        "schedulable_units": offered + _mig_units(node) if is_known else None,
        "gpu_resource": node.gpu_resource,
        "unhealthy_gpus": max(sick, min(lost, len(node.gpus))),
    }
    if main.count.is_least:
        counts["physical_gpus_at_least"] = len(node.gpus)
        if main.register is None:
            counts["physical_gpus"] = None
    return counts


def _lost(node: Node, main: CardFacts, offered: int) -> int:
    """Cards that stand there and are not offered: unhealthy, fallen off the bus, or their plugin is gone."""
    shares = max(node.shares_per_gpu, 1)
    by_other_names = any(main.offer.amount(name) for name in main.offer.named(Form.PARTITION)) or any(
        group.vendor == node.vendor for group in node.others
    )
    by_units = main.register is not None or main.product.profile or mig_amounts(node) or by_other_names
    if by_units or main.count.is_least:
        return max(node.capacity.get(node.gpu_resource, 0) - offered, 0) // shares
    return max(len(node.gpus) - offered // shares, 0)


def _counted_by_slices(node: Node) -> dict[str, Any]:
    """Devices that only resource slices tell of are given out by claims, not by a resource of the node. Where
    the slices are not whole yet, there are devices, and nobody tells how many."""
    untold = None if node.gpu_resource else 0
    return {
        "physical_gpus": len(node.gpus) or untold,
        "whole_gpus_allocatable": untold,
        "schedulable_units": untold,
        "unhealthy_gpus": sum(not gpu.healthy for gpu in node.gpus),
    }


def _whole(node: Node, main: CardFacts) -> int:
    """GPUs that one pod can have all to itself. A turn on a card is never that."""
    offered = node.allocatable.get(node.gpu_resource, 0)
    if main.product.profile or main.alive is False:
        return 0
    if main.register is not None:
        return min(sum(gpu.healthy for gpu in node.gpus), offered // max(node.shares_per_gpu, 1))
    if node.sharing and node.shares_per_gpu > 1:
        return offered // node.shares_per_gpu if node.sharing == "koordinator" else 0
    return offered


def _product(node: Node, main: CardFacts | None) -> dict[str, Any]:
    memory = {gpu.memory_mib for gpu in node.gpus}
    mib = memory.pop() if len(memory) == 1 else None
    if main is None:
        return {"product": node.model or None, "memory_mib": mib, "memory_mib_per_gpu": mib}
    mib = main.dealt.mib if main.dealt.mib is not None else mib
    found: dict[str, Any] = {
        "product": node.model or None,
        "memory_mib": mib,
        "memory_mib_per_gpu": mib,
        "total_memory_mib": mib * len(node.gpus) if mib is not None else None,
    }
    if main.memory.text:
        found["memory_text"] = main.memory.text
    if main.memory.unit_mib is not None:
        found["memory_mib_per_unit"] = main.memory.unit_mib
    return found


def _mig(node: Node, main: CardFacts | None) -> dict[str, Any]:
    told = node.labels.get("nvidia.com/mig.capable")
    found: dict[str, Any] = {"mig_strategy": node.mig_strategy or None, "mig": mig_amounts(node)}
    if told in ("true", "false"):
        found["mig_capable"] = told == "true"
    profile = main.product.profile if main else ""
    if main and profile and profile != "INVALID":
        found["mig_profile"] = profile
        units, turns = node.allocatable.get(node.gpu_resource, 0), _turns(node, "gpu")
        found["mig"] = {profile: units // turns}
        found |= {"replicas": turns} if turns > 1 else {}
    if found["mig"]:
        found["mig_slices_total"] = SLICES_OF_A_GPU * len(node.gpus)
        found["mig_slices_used"] = sum(
            (whole_or_none(name.partition("g.")[0]) or 0) * amount for name, amount in found["mig"].items()
        )
    amounts = {**node.allocatable, **node.capacity}
    zero = [name for name in sorted(amounts) if name.startswith(MIG_PREFIX) and not amounts[name]]
    left = {
        name: amount
        for name, amount in node.capacity.items()
        if name.startswith(MIG_PREFIX) and amount and not node.allocatable.get(name)
    }
    return (
        found | ({"stale_zero_resources": zero} if zero else {}) | ({"stale_capacity": left} if left else {})
    )


def mig_amounts(node: Node) -> dict[str, int]:
    """Instances that the kubelet hands out, by profile as its resource writes it. A turn on one is none."""
    found: dict[str, int] = {}
    for name, amount in sorted(node.allocatable.items()):
        if name.startswith(MIG_PREFIX) and amount > 0:
            profile = name.removeprefix(MIG_PREFIX).removesuffix(".shared")
            found[profile] = found.get(profile, 0) + max(amount // _turns(node, f"mig-{profile}"), 1)
    return found


def _mig_units(node: Node) -> int:
    return sum(amount for name, amount in node.allocatable.items() if name.startswith(MIG_PREFIX))


def _turns(node: Node, what: str) -> int:
    """Into how many turns one of them is dealt, as its label says."""
    told = whole_or_none(node.labels.get(f"nvidia.com/{what}.replicas"))
    return told if told and told > 1 else 1


def _standing(seen: Seen) -> dict[str, Any]:
    """Whether its GPUs may be had at all; None where nobody says that the node is Ready or not."""
    node, main = seen.node, seen.inventory.cards[:1]
    is_told = node.ready_reason != NEVER
    why: str | None = None
    if node.gpus and main and main[0].alive is False and (node.ready or not is_told):
        why = "GPU present, not schedulable: its device plugin is not alive"
    elif node.unschedulable and not is_told:
        why = "cordoned"
    elif is_told:
        why = seen.ledger.closed or None
    return {"schedulable": False if why else True if is_told else None, "why_not_schedulable": why}


def _ledger(group: GroupLedger, *, is_told: bool) -> dict[str, Any]:
    """is_told: whether anybody says that the node is Ready or not."""
    return {
        "physical": group.physical,
        "schedulable_gpus": group.schedulable if is_told else None,
        "allocated": group.allocated_milli / 1000,
        "free_gpus": group.free if is_told else None,
        "stranded": group.stranded_milli / 1000,
        "units_used": group.units_used,
        "shares_in": {
            name: {"offered": offered, "used": asked} for name, (offered, asked) in group.parts.items()
        },
        "overcommitted": group.overcommitted,
    }


def answer_gpu(gpu: Gpu) -> dict[str, Any]:
    """What nobody tells is left out, except a memory that is not known."""
    told: dict[str, Any] = {
        "index": gpu.index,
        "uuid": gpu.uuid or None,
        "memory_mib": gpu.memory_mib,
        "healthy": gpu.healthy,
        "model": gpu.model or None,
        "numa": gpu.numa,
        "cores": gpu.cores,
        "units": gpu.units,
        "mode": gpu.mode or None,
        "bus_id": gpu.bus_id or None,
        "pcie_switch": gpu.pcie_switch,
    }
    found = {key: value for key, value in told.items() if value is not None or key == "memory_mib"}
    if gpu.instances:
        found["mig"] = [
            {"profile": one.profile, "start": one.start_slice, "uuid": one.uuid or None}
            for one in gpu.instances
        ]
    return found


def _other(group: DeviceGroup) -> dict[str, Any]:
    return {
        "vendor": group.vendor,
        "resource": group.resource or None,
        "product": group.model or None,
        "physical": len(group.gpus),
        "healthy": sum(gpu.healthy for gpu in group.gpus),
        "sharing": group.sharing or "none",
        "replicas": group.shares_per_gpu,
        "alive": group.alive,
        "gpus": [answer_gpu(gpu) for gpu in group.gpus],
    }


def _registers(seen: Seen) -> dict[str, Any]:
    inventory = seen.inventory
    found: dict[str, Any] = {}
    if inventory.handshakes:
        found |= answer_handshakes(inventory, seen.taken_at)
    mains = [one.register for one in inventory.cards[:1] if one.register is not None]
    for register in (mains or inventory.registers)[:1]:
        found |= answer_register(register, inventory.cards)
    if inventory.registers:
        found["plugins"] = {one.family: describe_plugins(one, inventory.cards) for one in inventory.registers}
    for key in ("hami.io/mutex.lock", "4pd.io/mutex.lock", "volcano.sh/mutex.lock"):
        if seen.annotations.get(key):
            found["node_lock"] = seen.annotations[key][:40]
    if seen.annotations.get("hami.io/device-cordon"):
        found["cordoned_devices"] = seen.annotations["hami.io/device-cordon"].split(",")
    return found
