"""Who has which device by resource claims, and which devices a node has by resource slices: one book of both.

Made anew only when a slice, a claim or a template has changed. Adding it to what the node itself tells is
`sliced_nodes`' part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apps.kube.translate.claims import Claim, Result, phrase_of
from apps.kube.translate.pool_cards import Card, cards_of, gpus_of, resource_of
from apps.kube.translate.slices import Pool, Slice, SlicedDevice, gather_pools, is_of_gpus
from apps.planner.inventory import Gpu, HeldDevice, Source

Named = tuple[str, str, str]
"""(driver, pool, device): a device's whole name."""


@dataclass(frozen=True, slots=True)
class SlicedNode:
    """What slices tell of one node. by_driver: (driver, GPUs), the most GPUs first.

    drivers: of all its pools of GPUs, also of those whose devices are unknown. warnings: one sentence each.
    kept: by claims that no pod uses.
    """

    by_driver: tuple[tuple[str, tuple[Gpu, ...]], ...] = ()
    drivers: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    kept: tuple[HeldDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceBook:
    """nodes by name. held: pod uid -> its devices. used: pod uid -> keys of claims. made_for: (pod uid, name
    in the pod) -> key of the claim made out of a template."""

    pools: Mapping[tuple[str, str], Pool] = field(default_factory=dict)
    nodes: Mapping[str, SlicedNode] = field(default_factory=dict)
    claims: Mapping[str, Claim] = field(default_factory=dict)
    templates: Mapping[str, Claim] = field(default_factory=dict)
    held: Mapping[str, tuple[HeldDevice, ...]] = field(default_factory=dict)
    used: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    made_for: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def claims_of(
        self, namespace: str, uid: str, names: Sequence[tuple[str, str, str]]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(keys of the claims that a pod uses, what it asks for by them). names: of `pod_claim_names`."""
        keys, wishes = [], []
        for name, claim, template in names:
            key = f"{namespace}/{claim}" if claim else self.made_for.get((uid, name), "")
            wanted = self.claims.get(key) or self.templates.get(f"{namespace}/{template}")
            if key:
                keys.append(key)
            if wanted is not None and wanted.wishes:
                wishes.append(phrase_of(wanted))
            elif wanted is None:
                wishes.append(f"devices of the claim {claim or template}, which is not known")
        return tuple(dict.fromkeys((*keys, *self.used.get(uid, ())))), tuple(wishes)


NOTHING = DeviceBook()


def make_book(
    slices: Iterable[Slice], claims: Iterable[Claim], templates: Iterable[Claim] = ()
) -> DeviceBook:
    pools = gather_pools(slices)
    by_key = {claim.key: claim for claim in sorted(claims, key=lambda claim: claim.key)}
    taken: dict[tuple[str, str], set[str]] = defaultdict(set)
    for claim in by_key.values():
        for result in claim.holding:
            taken[result.driver, result.pool].add(result.device)
    cards = _numbered(
        {key: cards_of(pool) for key, pool in pools.items() if is_of_gpus(key[0], pool.devices)}, pools
    )
    places = {
        (*key, device.name): (card, device)
        for key, found in cards.items()
        for card in found
        for device in (*((card.whole,) if card.whole else ()), *card.parts)
    }
    return DeviceBook(
        pools=pools,
        nodes=_nodes(pools, cards, taken, _idle_claims(by_key.values(), places, pools)),
        claims=by_key,
        templates={template.key: template for template in templates},
        held=_held(by_key.values(), places, pools),
        used=_used(by_key.values()),
        made_for={(claim.pod_uid, claim.pod_claim): claim.key for claim in by_key.values() if claim.pod_uid},
    )


def _numbered(
    cards: Mapping[tuple[str, str], tuple[Card, ...]], pools: Mapping[tuple[str, str], Pool]
) -> dict[tuple[str, str], tuple[Card, ...]]:
    """A node's cards may come in several pools (one for each card), each numbered from 0: they are numbered
    through then, in the order of their pools."""
    indices: dict[tuple[str, str], list[int]] = defaultdict(list)
    for key, found in cards.items():
        indices[key[0], pools[key].node].extend(card.index for card in found)
    next_index: dict[tuple[str, str], int] = defaultdict(int)
    numbered = {}
    for key, found in cards.items():
        place = (key[0], pools[key].node)
        told = indices[place]
        if place[1] and len(set(told)) != len(told):
            first = next_index[place]
            found = tuple(replace(card, index=first + at) for at, card in enumerate(found))
            next_index[place] += len(found)
        numbered[key] = found
    return numbered


def _used(claims: Iterable[Claim]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    for claim in claims:
        for uid in claim.users:
            found[uid].append(claim.key)
    return {uid: tuple(keys) for uid, keys in found.items()}


def _held(
    claims: Iterable[Claim],
    places: Mapping[Named, tuple[Card, SlicedDevice]],
    pools: Mapping[tuple[str, str], Pool],
) -> dict[str, tuple[HeldDevice, ...]]:
    found: dict[str, list[HeldDevice]] = defaultdict(list)
    for claim in claims:
        if not claim.users:
            continue
        devices = [
            _held_device(claim, result, places.get((result.driver, result.pool, result.device)))
            for result in claim.holding
            if _is_of_gpus(result, pools)
        ]
        for uid in claim.users:
            found[uid].extend(devices)
    return {uid: tuple(devices) for uid, devices in found.items() if devices}


def _is_of_gpus(result: Result, pools: Mapping[tuple[str, str], Pool]) -> bool:
    pool = pools.get((result.driver, result.pool))
    return is_of_gpus(result.driver, pool.devices if pool else ())


def _held_device(claim: Claim, result: Result, place: tuple[Card, SlicedDevice] | None) -> HeldDevice:
    """Of a piece that has no UUID of its own, its card and its place on it."""
    resource = resource_of(result.driver)
    if place is None:
        # The allocation stands, though nobody says which device its name means.
        named = SlicedDevice(result.device)
        return HeldDevice(
            Source.DRA,
            resource=resource,
            profile=named.profile,
            start_slice=named.start_slice,
            part=f"{result.pool}/{result.device}",
            claim=claim.key,
        )
    card, device = place
    memory = result.memory_mib
    if memory is None and device.is_part and device.capacity.get("memory"):
        memory = device.capacity["memory"] >> 20
    is_whole = not device.is_part and result.memory_mib is None
    return HeldDevice(
        source=Source.DRA,
        uuid=device.text("uuid") or card.uuid,
        index=card.index,
        milli=1000 if is_whole else None,
        memory_mib=memory,
        resource=resource,
        profile=device.profile if device.is_part else "",
        start_slice=device.start_slice if device.is_part else None,
        part=device.name if device.is_part else "",
        claim=claim.key,
    )


def _idle_claims(
    claims: Iterable[Claim],
    places: Mapping[Named, tuple[Card, SlicedDevice]],
    pools: Mapping[tuple[str, str], Pool],
) -> dict[str, list[tuple[str, HeldDevice]]]:
    """Node -> each device that a claim keeps there although no pod uses it, with a sentence of it."""
    found: dict[str, list[tuple[str, HeldDevice]]] = defaultdict(list)
    for claim in claims:
        for result in claim.holding if not claim.users else ():
            pool = pools.get((result.driver, result.pool))
            place = places.get((result.driver, result.pool, result.device))
            if pool is not None and place is not None:
                node = place[1].node or pool.node
                sentence = f"the claim {claim.key} keeps {result.device}, but no pod uses it"
                found[node].append((sentence, _held_device(claim, result, place)))
    return found


def _nodes(
    pools: Mapping[tuple[str, str], Pool],
    cards: Mapping[tuple[str, str], tuple[Card, ...]],
    taken: Mapping[tuple[str, str], set[str]],
    idle: Mapping[str, list[tuple[str, HeldDevice]]],
) -> dict[str, SlicedNode]:
    gpus: dict[str, dict[str, list[Gpu]]] = defaultdict(lambda: defaultdict(list))
    drivers: dict[str, list[str]] = defaultdict(list)
    told: dict[str, list[str]] = defaultdict(list)
    for key, found in cards.items():
        pool = pools[key]
        if pool.problem:
            drivers[pool.node].append(pool.driver)
            told[pool.node].append(pool.problem)
            continue
        for card, gpu in zip(found, gpus_of(found, taken.get(key, ())), strict=True):
            device = card.whole or card.parts[0]
            node = device.node or pool.node
            gpus[node][pool.driver].append(gpu)
            drivers[node].append(pool.driver)
            if card.taint:
                told[node].append(
                    f"GPU {gpu.index} has the device taint {card.taint}: nothing new starts on it"
                )
        told[pool.node] += pool.warnings
    names = {name for name in (*gpus, *drivers, *told) if name}
    return {
        name: SlicedNode(
            by_driver=tuple(
                (driver, tuple(sorted(found, key=lambda gpu: gpu.index)))
                for driver, found in sorted(gpus[name].items(), key=lambda pair: (-len(pair[1]), pair[0]))
            ),
            drivers=tuple(dict.fromkeys(drivers[name])),
            warnings=tuple(dict.fromkeys((*told[name], *(said for said, _ in idle.get(name, ()))))),
            kept=tuple(held for _, held in idle.get(name, ())),
        )
        for name in sorted(names)
    }
