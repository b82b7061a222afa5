"""Which accelerators a node has, and how they are handed out: the main ones, and what stands beside them.

Each kind of card is read by itself (`cards`); here the main kind is chosen, MIG instances are laid on it,
and what the node agent sees is held against what the labels promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from apps.kube.translate.cards import CardFacts, Told, read_cards
from apps.kube.translate.counting import GKE_COUNT, GPU_COUNT, number_label
from apps.kube.translate.handshakes import Handshake, read_handshakes
from apps.kube.translate.instances import lay_instances
from apps.kube.translate.matrix import MATRIX, DeviceFacts, read_hami_links, read_matrix
from apps.kube.translate.registers import Register, read_registers
from apps.kube.translate.values import Warn, brief
from apps.kube.translate.vendors import NVIDIA, Cards, Offer, offers_of
from apps.planner.inventory import DeviceGroup, Gpu, Quantities, Topology

STRATEGY = "nvidia.com/mig.strategy"
PRESENT = "nvidia.com/gpu.present"
GKE_MODEL = "cloud.google.com/gke-accelerator"
DEVICE_CORDON = "hami.io/device-cordon"
NO_GPUS = Offer(Cards(""), {}, {}, {})


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """Fields of `inventory.Node` with the same names."""

    vendor: str = ""
    model: str = ""
    gpu_resource: str = ""
    gpus: tuple[Gpu, ...] = ()
    sharing: str = ""
    shares_per_gpu: int = 1
    mig_strategy: str = ""
    topology: Topology | None = None
    others: tuple[DeviceGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Inventory:
    """What else the reading found out. cards: the main kind first; empty on a node without accelerators.
    not_alive_since: set where the main cards' plugin is gone. valid_until: when that will be so."""

    cards: tuple[CardFacts, ...] = ()
    registers: tuple[Register, ...] = ()
    handshakes: Mapping[str, Handshake] = field(default_factory=dict)
    is_main_dead: bool = False
    main_since: float | None = None
    valid_until: float | None = None


def read_gpu_facts(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    capacity: Quantities,
    allocatable: Quantities,
    warn: Warn,
    *,
    taken_at: float = 0.0,
) -> tuple[GpuFacts, Inventory]:
    """Facts of a node without GPUs are the empty ones. capacity: as it stands (`nodes`)."""
    agent = read_matrix(annotations[MATRIX], warn) if MATRIX in annotations else None
    if annotations.get(DEVICE_CORDON):
        warn(f"the annotation {DEVICE_CORDON} keeps new pods off {brief(annotations[DEVICE_CORDON])}")
    handshakes = read_handshakes(annotations)
    offers = offers_of(capacity, allocatable, labels)
    registers = _joined_to_offers(read_registers(annotations, handshakes, warn), offers)
    offers = _with_unoffered(offers, registers, labels, agent, warn)
    if not offers:
        return GpuFacts(), Inventory(registers=tuple(registers), handshakes=handshakes)
    main = max(offers, key=lambda offer: _weight(offer, has_agent=agent is not None))
    told = Told(labels, annotations, agent, bool(capacity or allocatable), taken_at)
    vendors = [offer.cards.vendor for offer in offers]
    cards = []
    for offer in sorted(offers, key=lambda offer: offer is not main):
        if offer is main or _stands(offer, registers, labels):
            seen = told if offer is main else replace(told, agent=None)
            is_alone = vendors.count(offer.cards.vendor) == 1
            cards.append(read_cards(offer, registers, seen, warn, is_alone=is_alone))
    inventory = Inventory(
        tuple(cards),
        tuple(registers),
        handshakes,
        is_main_dead=cards[0].alive is False,
        main_since=cards[0].since,
        valid_until=_valid_until(handshakes, taken_at),
    )
    return _facts(cards, labels, annotations, agent, warn), inventory


def _facts(
    cards: list[CardFacts],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    agent: DeviceFacts | None,
    warn: Warn,
) -> GpuFacts:
    main = cards[0]
    if agent is not None:
        _compare_links(main.model, agent.topology, warn)
    gpus = lay_instances(main.gpus, main.offer, labels, annotations, warn)
    topology = agent.topology if agent else None
    return GpuFacts(
        vendor=main.offer.cards.vendor,
        model=main.model,
        gpu_resource=main.resource,
        gpus=gpus,
        sharing=main.sharing,
        shares_per_gpu=main.shares,
        mig_strategy=labels.get(STRATEGY, "") or ("single" if main.product.profile else ""),
        topology=topology or read_hami_links(annotations, gpus, warn),
        others=tuple(_beside(one) for one in cards[1:]),
    )


def _beside(cards: CardFacts) -> DeviceGroup:
    return DeviceGroup(
        vendor=cards.offer.cards.vendor,
        resource=cards.resource or next(iter(sorted(cards.offer.forms)), ""),
        model=cards.model,
        gpus=cards.gpus,
        sharing=cards.sharing,
        shares_per_gpu=cards.shares,
        alive=cards.alive,
    )


def _joined_to_offers(registers: list[Register], offers: list[Offer]) -> list[Register]:
    """A scheduler may register chips by a name of its own: where the vendor has one kind of cards and one
    register, they are the same."""
    joined = []
    for register in registers:
        vendor = register.cards.vendor
        kinds = [offer.cards for offer in offers if offer.cards.vendor == vendor]
        alike = [one for one in registers if one.cards.vendor == vendor]
        if register.cards not in kinds and len(kinds) == 1 and len(alike) == 1:
            register = replace(register, cards=kinds[0])
        joined.append(register)
    return joined


def _with_unoffered(
    offers: list[Offer],
    registers: list[Register],
    labels: Mapping[str, str],
    agent: DeviceFacts | None,
    warn: Warn,
) -> list[Offer]:
    """Cards that stand on the node although no resource of theirs is offered."""
    found = list(offers)
    for register in registers:
        if all(offer.cards != register.cards for offer in found):
            found.append(Offer(register.cards, {}, {}, {}))
    told = GKE_COUNT if labels.get(GKE_MODEL) and GPU_COUNT not in labels else GPU_COUNT
    is_labelled = bool(number_label(labels, told, warn))
    if (agent is not None and not found) or (is_labelled and all(one.cards != NVIDIA for one in found)):
        found.insert(0, Offer(NVIDIA, {}, {}, {}))
    elif not found and labels.get(PRESENT) == "true":
        warn(f"the label {PRESENT} says that there are GPUs, but no plugin offers any")
    return found


def _stands(offer: Offer, registers: list[Register], labels: Mapping[str, str]) -> bool:
    """A name without any units beside other cards is a leftover, unless something else tells of its cards."""
    return (
        any(offer.amount(name) > 0 for name in offer.forms)
        or any(one.cards == offer.cards for one in registers)
        or (offer.cards == NVIDIA and labels.get(GPU_COUNT, "0") not in ("", "0"))
    )


def _weight(offer: Offer, *, has_agent: bool) -> tuple[bool, bool, bool]:
    """The main cards are those that are handed out, NVIDIA's before others."""
    amount = max((offer.amount(name) for name in offer.forms), default=0)
    is_nvidia = offer.cards == NVIDIA
    return has_agent and is_nvidia, amount > 0, is_nvidia


def _valid_until(handshakes: Mapping[str, Handshake], taken_at: float) -> float | None:
    ends = [end for one in handshakes.values() if (end := one.is_over_at()) is not None and end > taken_at]
    return min(ends, default=None)


def _compare_links(product: str, topology: Topology | None, warn: Warn) -> None:
    """SXM modules sit on a baseboard that joins them by NVLink: a matrix without any tells of other hardware,
    or of links that are down. The matrix counts."""
    codes = [code for row in topology.links for code in row if code != "X"] if topology else []
    if "SXM" in product.upper() and codes and not any(code.upper().startswith("NV") for code in codes):
        seen = ", ".join(sorted(set(codes))[:4])
        warn(f"the label says {product}, whose GPUs are joined by NVLink, the node agent sees only {seen}")
