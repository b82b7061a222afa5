"""Answers `read_dump` about resource claims (DRA): what pods ask for by them, and the cards behind slices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from apps.kube.gateway import DEPLOYMENTS, JOBS, REPLICASETS, STATEFULSETS, Kind
from apps.kube.translate.claims import Claim, container_claims, count_devices, phrase_of, pod_claim_names
from apps.kube.translate.device_book import DeviceBook
from apps.kube.translate.pool_cards import MEBIBYTE, Card, cards_of
from apps.kube.translate.slices import Pool, can_be_together, is_of_gpus
from apps.kube.translate.unreadable import Raw, opened
from apps.kube.translate.values import child, clean, whole
from apps.planner.inventory import Pod

WITH_TEMPLATES = {
    DEPLOYMENTS: "Deployment",
    REPLICASETS: "ReplicaSet",
    STATEFULSETS: "StatefulSet",
    JOBS: "Job",
}
MOST_OPTIONS = 64
"""Pieces of one card whose pairs are looked at."""
MOST_POOLS = 32
"""In a dump of more, which pieces go together is left out: there are thousands of pairs."""


def answer_claims(objects: Mapping[Kind, Iterable[Raw]], book: DeviceBook) -> dict[str, Any]:
    return {
        "pools": [_pool(pool, with_pairs=len(book.pools) <= MOST_POOLS) for pool in book.pools.values()],
        "claims": [_claim(claim) for claim in book.claims.values()],
        "claim_templates": [_wanted(template) for template in book.templates.values()],
        "workloads": [
            answer
            for kind, name in WITH_TEMPLATES.items()
            for raw in objects.get(kind, ())
            if (answer := _workload(opened(raw), name, book))
        ],
    }


def claims_of_pod(raw: Mapping[str, Any], pod: Pod, book: DeviceBook) -> dict[str, Any]:
    """What a pod asks for by claims; nothing for a pod without any."""
    if not pod.claims and not child(raw, "spec").get("resourceClaims"):
        return {}
    spec = child(raw, "spec")
    return {
        "claims": list(pod.claims),
        "wants_by_claims": list(pod.claim_wishes),
        **_sum_up(spec, child(raw, "status"), pod.namespace, book),
    }


def _sum_up(
    spec: Mapping[str, Any], status: Mapping[str, Any], namespace: str, book: DeviceBook
) -> dict[str, Any]:
    wanted: list[Claim] = []
    is_known = True
    for _name, claim, template in pod_claim_names(spec, status):
        found = book.claims.get(f"{namespace}/{claim}") or book.templates.get(f"{namespace}/{template}")
        is_known &= found is not None
        wanted += [found] if found is not None else []
    wishes = [wish for claim in wanted for wish in claim.wishes if not wish.admin]
    profiles = [wish.profile for wish in wishes for _ in range(min(wish.count or 1, 64)) if wish.profile]
    sharing = next((claim.sharing for claim in wanted if claim.sharing), "")
    users: dict[str, int] = {}
    for names in container_claims(spec).values():
        for name in set(names):
            users[name] = users.get(name, 0) + 1
    together = sorted({name for claim in wanted for name in claim.together})
    classes = list(dict.fromkeys(wish.device_class for wish in wishes if wish.device_class))
    return {
        "devices_per_pod": count_devices(wishes) if is_known else None,
        "device_classes_asked": classes,
        "profiles": profiles,
        "slices_per_pod": sum(int(profile[0]) for profile in profiles if profile[:1].isdecimal()) or None,
        "constraint": f"same {', '.join(together)}" if together else None,
        "strategy": sharing or None,
        "containers_sharing": max(users.values(), default=0),
    }


def _workload(raw: Mapping[str, Any], kind: str, book: DeviceBook) -> dict[str, Any]:
    """What the pods of a workload will ask for, of a template that uses claims."""
    spec, metadata = child(raw, "spec"), child(raw, "metadata")
    template = child(spec, "template", "spec")
    if not template.get("resourceClaims"):
        return {}
    namespace = clean(metadata.get("namespace"), 253)
    asked = _sum_up(template, {}, namespace, book)
    replicas = max(whole(spec.get("parallelism" if kind == "Job" else "replicas"), 1), 0)
    on_one_gpu = "parentUUID" in (asked["constraint"] or "") or asked["devices_per_pod"] == 1
    is_of_gpus_whole = not asked["profiles"]
    needed = replicas if on_one_gpu else None
    if is_of_gpus_whole and asked["devices_per_pod"] is not None:
        needed = replicas * asked["devices_per_pod"]
    return {
        "kind": kind,
        "namespace": namespace,
        "name": clean(metadata.get("name"), 253),
        "replicas": replicas,
        **asked,
        "physical_gpus_needed": needed,
    }


def _wanted(claim: Claim) -> dict[str, Any]:
    return {
        "key": claim.key.removeprefix("/"),
        "asks": phrase_of(claim),
        "devices": count_devices(claim.wishes),
        "requests": [
            {
                "name": wish.name,
                "device_class": wish.device_class,
                "count": wish.count,
                "profile": wish.profile or None,
                "admin_access": wish.admin,
                "or_else": [
                    {"device_class": one.device_class, "count": one.count} for one in wish.alternatives
                ],
            }
            for wish in claim.wishes
        ],
        "together": list(claim.together),
        "strategy": claim.sharing or None,
    }


def _claim(claim: Claim) -> dict[str, Any]:
    return {
        **_wanted(claim),
        "is_allocated": claim.is_allocated,
        "allocated": [
            {
                "driver": result.driver,
                "pool": result.pool,
                "device": result.device,
                "admin_access": result.admin,
                "memory_mib": result.memory_mib,
            }
            for result in claim.results
        ],
        "holds_devices": len({(one.driver, one.pool, one.device) for one in claim.holding}),
        "reserved_for": list(claim.users),
    }


def _pool(pool: Pool, *, with_pairs: bool) -> dict[str, Any]:
    of_gpus = is_of_gpus(pool.driver, pool.devices)
    cards = cards_of(pool) if of_gpus else ()
    memory = [card.memory_bytes for card in cards]
    return {
        "driver": pool.driver,
        "pool": pool.name,
        "generation": pool.generation,
        "node": pool.node or None,
        "complete": not pool.problem,
        "problem": pool.problem or None,
        "physical_gpus": None if pool.problem else len(cards) if of_gpus else 0,
        "memory_mib": None
        if pool.problem or None in memory or not memory
        else sum(amount or 0 for amount in memory) // MEBIBYTE,
        "counter_sets": sorted(pool.counters),
        "cards": [_card(pool, card, with_pairs) for card in cards],
        "devices": [] if of_gpus else [device.name for device in pool.devices][:MOST_OPTIONS],
        "warnings": list(pool.warnings),
    }


def _card(pool: Pool, card: Card, with_pairs: bool) -> dict[str, Any]:
    parts = card.parts[:MOST_OPTIONS]
    pairs = combinations(parts, 2) if with_pairs and any(part.consumes for part in parts) else ()
    compatible = [[one.name, other.name] for one, other in pairs if can_be_together(pool, (one, other))]
    answer = {
        "counter_set": card.key if card.key in pool.counters else None,
        "index": card.index,
        "uuid": card.uuid or None,
        "memory_mib": card.memory_bytes // MEBIBYTE if card.memory_bytes else None,
        "whole": card.whole.name if card.whole else None,
        "usable": card.is_healthy,
        "taint": card.taint or None,
        "options": [
            {
                "device": part.name,
                "profile": part.profile or None,
                "memory_mib": _memory_mib(part),
                "usable": card.is_usable(part),
            }
            for part in parts
        ],
        "compatible": compatible,
    }
    if card.whole is not None and parts:
        whole_card = card.whole
        answer["exclusive_with_whole"] = not any(can_be_together(pool, (whole_card, part)) for part in parts)
    return answer


def _memory_mib(device: Any) -> int | None:
    taken = [amounts["memory"] for _set, amounts in device.consumes if "memory" in amounts]
    memory = device.capacity.get("memory", taken[0] if taken else None)
    return memory // MEBIBYTE if memory else None
