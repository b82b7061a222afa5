"""ResourceClaims and their templates: what they ask for, what they were given, and which pods use it.

Pure functions of the API's JSON, of resource.k8s.io/v1 as of its betas (where a request's facts stand beside
its name, not under `exactly`). Which device a name means is told by `slices`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from apps.kube.translate.values import child, clean, entries, quantities, text_list, whole

PROFILE = re.compile(r"""\.profile\s*==\s*["']([^"']{1,40})["']""")
MOST_COUNT = 1024
MOST_TOLD = 16


@dataclass(frozen=True, slots=True)
class ClaimWish:
    """One request of a claim. count: None for all that match. alternatives: taken instead, best first.

    profile: the MIG profile that its selector names, "" if it names none. admin: it only looks on.
    """

    name: str
    device_class: str
    count: int | None = 1
    profile: str = ""
    admin: bool = False
    alternatives: tuple[ClaimWish, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """One device that was given to one request."""

    driver: str
    pool: str
    device: str
    request: str = ""
    admin: bool = False
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """key: "namespace/name". pod_uid: of the pod that it was made for out of a template, "" for none.

    together: attributes that all its devices must agree in ("parentUUID": of one GPU). sharing: how its
    devices are shared between containers ("TimeSlicing", "MPS"), "" if unsaid. users: UIDs of pods.
    """

    key: str
    uid: str = ""
    wishes: tuple[ClaimWish, ...] = ()
    together: tuple[str, ...] = ()
    sharing: str = ""
    results: tuple[Result, ...] = ()
    is_allocated: bool = False
    users: tuple[str, ...] = ()
    pod_uid: str = ""
    pod_claim: str = ""

    @property
    def holding(self) -> tuple[Result, ...]:
        """Admin access looks on at devices that others hold."""
        return tuple(result for result in self.results if not result.admin)


def read_claim(raw: Mapping[str, Any]) -> Claim:
    metadata, status = child(raw, "metadata"), child(raw, "status")
    wanted = _read_wanted(key_of(metadata), child(raw, "spec"))
    owner = next((one for one in entries(metadata, "ownerReferences") if one.get("kind") == "Pod"), {})
    allocation = child(status, "allocation")
    return replace(
        wanted,
        uid=clean(metadata.get("uid"), 100),
        results=tuple(_result(one) for one in entries(child(allocation, "devices"), "results")),
        is_allocated=bool(allocation),
        users=tuple(
            clean(one.get("uid"), 100)
            for one in entries(status, "reservedFor")
            if one.get("resource", "pods") == "pods" and one.get("uid")
        ),
        pod_uid=clean(owner.get("uid"), 100),
        pod_claim=clean(child(metadata, "annotations").get("resource.kubernetes.io/pod-claim-name"), 253),
    )


def read_claim_template(raw: Mapping[str, Any]) -> Claim:
    """A claim that nobody has made yet."""
    return _read_wanted(key_of(child(raw, "metadata")), child(raw, "spec", "spec"))


def key_of(metadata: Mapping[str, Any]) -> str:
    return f"{clean(metadata.get('namespace'), 253)}/{clean(metadata.get('name'), 253)}"


def _read_wanted(key: str, spec: Mapping[str, Any]) -> Claim:
    devices = child(spec, "devices")
    constraints = (clean(one.get("matchAttribute"), 253) for one in entries(devices, "constraints"))
    configs = (child(one, "opaque", "parameters") for one in entries(devices, "config"))
    strategies = (clean(child(one, "sharing").get("strategy"), 60) for one in configs)
    return Claim(
        key=key,
        wishes=tuple(_wish(one) for one in entries(devices, "requests")),
        together=tuple(name.rpartition("/")[2] for name in constraints if name),
        sharing=next(filter(None, strategies), ""),
    )


def _wish(raw: Mapping[str, Any]) -> ClaimWish:
    name = clean(raw.get("name"), 253)
    facts = child(raw, "exactly") or raw
    choices = tuple(_wish(one) for one in entries(raw, "firstAvailable"))
    if choices:
        return replace(choices[0], name=name, alternatives=choices[1:])
    count = None if facts.get("allocationMode") == "All" else whole(facts.get("count"), 1)
    expressions = [clean(child(one, "cel").get("expression")) for one in entries(facts, "selectors")]
    profile = next((found[1] for found in map(PROFILE.search, expressions) if found), "")
    return ClaimWish(
        name=name,
        device_class=clean(facts.get("deviceClassName"), 253),
        count=count if count is None else max(min(count, MOST_COUNT), 0),
        profile=profile,
        admin=facts.get("adminAccess") is True,
    )


def _result(raw: Mapping[str, Any]) -> Result:
    used = quantities(_plain(child(raw, "consumedCapacity")), _silent, "")
    return Result(
        driver=clean(raw.get("driver"), 253),
        pool=clean(raw.get("pool"), 253),
        device=clean(raw.get("device"), 253),
        request=clean(raw.get("request"), 253),
        admin=raw.get("adminAccess") is True,
        memory_mib=used["memory"] >> 20 if used.get("memory") else None,
    )


def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
    return {clean(name).rpartition("/")[2]: amount for name, amount in found.items()}


def _silent(_sentence: str) -> None:
    """What is consumed is told by the allocation; an amount that cannot be read is unknown."""


def count_devices(wishes: Iterable[ClaimWish]) -> int | None:
    """How many devices the claim takes, None where that depends on what there is."""
    counts = [wish.count for wish in wishes if not wish.admin]
    return None if None in counts else sum(count or 0 for count in counts)


def phrase_of(claim: Claim) -> str:
    """What it asks for: "4 of mig.nvidia.com (1g.5gb, 1g.5gb, 2g.10gb, 3g.20gb) on one GPU"."""
    told: dict[str, list[ClaimWish]] = {}
    for wish in claim.wishes[:MOST_TOLD]:
        told.setdefault(wish.device_class, []).append(wish)
    phrases = []
    for device_class, wishes in told.items():
        count = count_devices(wishes)
        profiles = [wish.profile for wish in wishes for _ in range(min(wish.count or 1, 8)) if wish.profile]
        if wishes and all(wish.admin for wish in wishes):
            sizes = [wish.count for wish in wishes]
            count = None if None in sizes else sum(size or 0 for size in sizes)
            device_class += " by admin access"
        phrase = f"{'all' if count is None else count} of {device_class}"
        phrase += f" ({', '.join(profiles)})" if profiles else ""
        others = [f"{one.count} of {one.device_class}" for wish in wishes for one in wish.alternatives]
        phrases.append(" or else ".join([phrase, *others]))
    one_gpu = " on one GPU" if "parentUUID" in claim.together else ""
    return " and ".join(phrases) + one_gpu


def pod_claim_names(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """(name in the pod, name of the claim or "", name of the template or "") of each claim of a pod.

    The claim of a template has a name of its own, which the pod's status tells once it is made.
    """
    made = {
        clean(one.get("name"), 253): clean(one.get("resourceClaimName"), 253)
        for one in entries(status, "resourceClaimStatuses")
    }
    found = []
    for one in entries(spec, "resourceClaims"):
        name = clean(one.get("name"), 253)
        told = {**child(one, "source"), **one}  # before 1.31, both names stood under `source`
        direct = clean(told.get("resourceClaimName"), 253)
        template = clean(told.get("resourceClaimTemplateName"), 253)
        found.append((name, direct or made.get(name, ""), template))
    extended = clean(child(status, "extendedResourceClaimStatus").get("resourceClaimName"), 253)
    return (*found, ("", extended, "")) if extended else tuple(found)


def container_claims(spec: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Container -> the pod's claims that it uses; a claim that several use is the same device for each."""
    found = {}
    for container in (*entries(spec, "initContainers"), *entries(spec, "containers")):
        claims = entries(child(container, "resources"), "claims")
        names = text_list([one.get("name") for one in claims])
        if names:
            found[clean(container.get("name"), 253)] = names
    return found
