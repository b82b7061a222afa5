"""One kind of card on a node: how many, of which model, into how many units each is dealt, and whether the
plugin behind them still speaks. Labels, amounts and registers tell the same story; where they differ, the
one nearest to the hardware counts and the difference becomes a warning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from apps.kube.topology.reading import MOST_GPUS
from apps.kube.translate.counting import (
    AMD_PARTITION,
    GKE_CLIENTS,
    GKE_PARTITION,
    REPLICAS,
    Count,
    counted_by_amounts,
    labelled_count,
    number_label,
    partitions_per_card,
    units_per_card,
)
from apps.kube.translate.dealing import (
    Dealt,
    as_agent_and_register,
    cards_as_registered,
    dealt_memory,
    with_unregistered,
)
from apps.kube.translate.matrix import DeviceFacts
from apps.kube.translate.products import Memory, Product, read_memory, read_product, registered_model
from apps.kube.translate.registers import Register
from apps.kube.translate.sharing import sharing_of
from apps.kube.translate.total_memory import memory_of_all
from apps.kube.translate.values import Warn, brief, whole_or_none
from apps.kube.translate.vendors import NVIDIA, Form, Offer
from apps.planner.inventory import Gpu

ASCEND_SICK = re.compile(r"^huawei\.com/(Ascend\w+)-(?:Network)?Unhealthy$")
ASCEND_NUMBER = re.compile(r"Ascend\w+-(\d{1,3})(?![\d-])")
DEFAULT_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "hygon": "hygon.com/dcunum"}

GPU_FIELDS = tuple(field.name for field in fields(Gpu))


@dataclass(frozen=True, slots=True)
class CardFacts:
    """resource: by which pods ask for them. model: "" if unknown. alive: whether the register's plugin
    lives, None if nothing says so. since: when it last spoke or was last asked."""

    offer: Offer
    resource: str
    count: Count
    product: Product
    model: str
    memory: Memory
    dealt: Dealt
    register: Register | None
    alive: bool | None
    since: float | None
    shares: int
    sharing: str
    gpus: tuple[Gpu, ...]

    @property
    def units(self) -> int:
        return self.offer.amount(self.resource)

    @property
    def offers_anything(self) -> bool:
        return any(self.offer.amount(name) > 0 for name in self.offer.forms)


@dataclass(frozen=True, slots=True)
class Told:
    """What the node says of all its cards. agent: what the node agent sees, of the main cards only."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    agent: DeviceFacts | None
    knows_amounts: bool
    taken_at: float


def read_cards(
    offer: Offer, registers: Sequence[Register], told: Told, warn: Warn, *, is_alone: bool
) -> CardFacts:
    _warn_of_two_names(offer, warn)
    register = _register_of(offer, registers, warn)
    product = _product(offer, told.labels, warn)
    resource = offer.main or DEFAULT_RESOURCES.get(offer.cards.vendor, "")
    claimed = _claimed(offer, told.labels, product, warn)
    count = _count(offer, register, product, claimed, told, warn, is_alone=is_alone)
    model = product.model
    if register is not None and product.label in ("", "accelerator"):  # that label names a family only
        model = registered_model(register.records) or model
    memory = read_memory(offer.cards.vendor, told.labels, product)
    if memory.mib is None and memory.unit_mib is None:
        memory = memory_of_all(offer, count, told.labels) or memory
    dealt = dealt_memory(register, model, memory, warn) if register else Dealt(memory.mib)
    shares = _shares(offer, resource, count, claimed, product, register, told, warn)
    alive, since = _is_alive(offer, register, told, warn)
    return CardFacts(
        offer=offer,
        resource=resource,
        count=count,
        product=product,
        model=model,
        memory=memory,
        dealt=dealt,
        register=register,
        alive=alive,
        since=since,
        shares=shares,
        sharing=sharing_of(offer, resource, told.labels, product, register, shares),
        gpus=_without_sick(_gpus(count, register, dealt, model, told, warn), offer, told, warn),
    )


def _register_of(offer: Offer, registers: Sequence[Register], warn: Warn) -> Register | None:
    """The one of the scheduler whose resource is offered, where two schedulers registered the same cards."""
    found = [one for one in registers if one.cards == offer.cards]
    if len(found) > 1:
        warn(f"{' and '.join(one.key for one in found)} register the same cards: they are counted once")
    is_volcano = offer.main.startswith("volcano.sh/")
    found.sort(key=lambda one: (one.scheduler == "volcano-vgpu") != is_volcano)
    return found[0] if found else None


def _warn_of_two_names(offer: Offer, warn: Warn) -> None:
    names = [name for name in ("nvidia.com/gpu", "nvidia.com/gpu.shared") if offer.offered.get(name, 0) > 0]
    if len(names) > 1:
        warn(f"{' and '.join(names)} are offered over the same GPUs: they are counted once")


def _product(offer: Offer, labels: Mapping[str, str], warn: Warn) -> Product:
    product = read_product(offer.cards.vendor, labels)
    if offer.cards == NVIDIA and product.profile == "INVALID":
        warn("the MIG layout is invalid for mig.strategy=single (MIG-INVALID): the node offers no instances")
    if offer.cards == NVIDIA and not product.profile and labels.get(GKE_PARTITION):
        return replace(product, profile=labels[GKE_PARTITION][:40])
    return product if offer.cards.kind == "" or offer.cards.vendor != "nvidia" else Product()


def _claimed(offer: Offer, labels: Mapping[str, str], product: Product, warn: Warn) -> int | None:
    """Units per card, as a label of NVIDIA's, GKE's or AMD's says."""
    if offer.cards.vendor == "amd":
        return partitions_per_card(labels.get(AMD_PARTITION, ""), product, warn)
    renamed = offer.cards.vendor == "nvidia" and offer.cards.kind.startswith("gpu.")
    if offer.cards != NVIDIA and not renamed:
        return None
    return number_label(labels, REPLICAS, warn) or whole_or_none(labels.get(GKE_CLIENTS))


def _count(
    offer: Offer,
    register: Register | None,
    product: Product,
    claimed: int | None,
    told: Told,
    warn: Warn,
    *,
    is_alone: bool,
) -> Count:
    labelled = labelled_count(offer, told.labels, product, warn, is_alone=is_alone)
    if told.agent is not None:
        seen = len(told.agent.gpus)
        if labelled is not None and labelled.cards != seen:
            warn(f"the {labelled.source} says {labelled.cards} GPUs, the node agent sees {seen}")
        return Count(seen, "node agent")
    if register is not None:
        return _as_registered(register, labelled, warn)
    count = labelled or counted_by_amounts(offer, product, claimed)
    if count.is_least:
        warn(f"nobody tells how many cards stand behind {offer.main or 'what is offered'}: at least one")
    if count.cards > MOST_GPUS:
        warn(f"{count.cards} GPUs on one node are not believable: they are left out")
        return Count(0, count.source)
    return count


def _as_registered(register: Register, labelled: Count | None, warn: Warn) -> Count:
    registered = len(register.records)
    source = f"annotation {register.key}"
    if labelled is not None and labelled.cards != registered and not register.is_cut:
        warn(f"the {labelled.source} says {labelled.cards} GPUs, the {source} lists {registered}")
    if labelled is not None and registered < labelled.cards <= MOST_GPUS:
        return labelled
    return Count(registered, source, is_least=register.is_cut)


def _shares(
    offer: Offer,
    resource: str,
    count: Count,
    claimed: int | None,
    product: Product,
    register: Register | None,
    told: Told,
    warn: Warn,
) -> int:
    """Units of the resource per card: what is claimed, checked against what the kubelet offers."""
    units, cards = offer.amount(resource), count.cards
    in_mig = any(offer.amount(name) for name in offer.named(Form.MIG))
    if product.profile or in_mig:
        return 1
    fixed = units_per_card(resource, product)
    dealt = register.units_per_card if register is not None else fixed or 1
    expected = claimed if claimed and register is None else dealt
    if not cards or not units:
        return expected if register is not None else 1
    if units == cards * expected or (register is not None and register.is_cut):
        return expected
    if units % cards == 0:
        is_told = claimed or register is not None or offer.cards == NVIDIA
        if is_told and not count.is_least and offer.forms.get(resource) is not Form.SHARE or claimed:
            who = "the labels say" if register is None else f"the annotation {register.key} says"
            warn(f"{units} units of {resource} on {cards} GPUs do not fit {expected} per GPU, as {who}")
        return units // cards
    source = "the node agent sees" if told.agent is not None else f"the {count.source} says"
    warn(f"{source} {cards} GPUs, the kubelet offers {units} of {resource}")
    # Fewer than the cards are no turns on them: the labels may speak of another name's units.
    return 1 if claimed and units < cards else expected


def _is_alive(
    offer: Offer, register: Register | None, told: Told, warn: Warn
) -> tuple[bool | None, float | None]:
    """(whether the plugin lives, when it was last heard of or asked)."""
    if register is None:
        return None, None
    offered = sum(offer.offered.get(name, 0) for name in offer.forms if offer.forms[name] is not Form.PART)
    known = offered if told.knows_amounts else None
    if register.handshake is None:
        if known == 0:
            warn(f"the annotation {register.key} lists cards, the kubelet offers none: the plugin is gone")
            return False, None
        return None, None
    handshake = register.handshake
    alive = handshake.is_alive(offered=known, taken_at=told.taken_at)
    if alive is False:
        still = f", yet {offer.main} is still offered" if known else ""
        said = f"{handshake.key}: {handshake.text}"
        warn(
            f"the device plugin for {register.family} is not alive ({said}){still}: "
            "its cards are there and not schedulable"
        )
    return alive, handshake.at


def _gpus(
    count: Count, register: Register | None, dealt: Dealt, model: str, told: Told, warn: Warn
) -> tuple[Gpu, ...]:
    if register is None:
        if told.agent is None:
            return tuple(Gpu(index=at, memory_mib=dealt.mib) for at in range(count.cards))
        found = told.agent.gpus
    else:
        registered = cards_as_registered(register, dealt, model)
        if told.agent is not None:
            found = as_agent_and_register(told.agent.gpus, registered, register, warn)
        else:
            missing = count.cards - len(registered)
            if missing > 0:
                warn(f"{missing} of {count.cards} GPUs are not in the annotation {register.key}")
            found = with_unregistered(registered, count.cards)
    if dealt.mib is None:
        return found
    return tuple(gpu if gpu.memory_mib is not None else _filled(gpu, dealt, register) for gpu in found)


def _without_sick(gpus: tuple[Gpu, ...], offer: Offer, told: Told, warn: Warn) -> tuple[Gpu, ...]:
    """Huawei's plugin lists the cards that are unhealthy, or whose network is, by their numbers."""
    if offer.cards.vendor != "ascend":
        return gpus
    sick: set[int] = set()
    for key, value in told.annotations.items():
        found = ASCEND_SICK.match(key)
        if found and (offer.cards.kind in ("", found[1].lower())):
            sick |= {int(number) for number in ASCEND_NUMBER.findall(value)}
            if value.strip():
                warn(f"the annotation {key} lists {brief(value)}")
    return tuple(replace(gpu, healthy=False) if gpu.index in sick else gpu for gpu in gpus)


def _filled(gpu: Gpu, dealt: Dealt, register: Register | None) -> Gpu:
    """A card whose record was cut keeps its memory unknown, unless a label tells it for all."""
    if register is not None and not gpu.healthy:
        return gpu
    # A third of what `replace` takes, which tells with tens of thousands of cards.
    return Gpu(**{**{name: getattr(gpu, name) for name in GPU_FIELDS}, "memory_mib": dealt.mib})
