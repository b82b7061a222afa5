"""Kubernetes quantities and a pod's effective requests, as integers.

CPU in millicores, everything else in its base unit. Not here: who has room (scheduler).
"""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from functools import lru_cache
from typing import Any

Json = dict[str, Any]

_SUFFIXES: dict[str, Decimal | int] = {
    "": 1,
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("0.001"),
    "k": 1000,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}


@lru_cache(maxsize=20000)
def parse_quantity(text: str, resource: str) -> int:
    """Rounded up, as the scheduler does. Raises ValueError naming the text."""
    digits = text.rstrip("numkMGTPEi")
    suffix = text[len(digits) :]
    try:
        value = Decimal(digits) * _SUFFIXES[suffix]
    except (ArithmeticError, KeyError):
        raise ValueError(f"not a Kubernetes quantity: {text!r} for {resource}") from None
    return math.ceil(value * 1000 if resource == "cpu" else value)


def parse_quantities(quantities: Json | None) -> Counter[str]:
    return Counter({name: parse_quantity(str(text), name) for name, text in (quantities or {}).items()})


def container_requests(container: Json) -> Counter[str]:
    resources = container.get("resources") or {}
    return parse_quantities({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def effective_requests(spec: Json) -> Counter[str]:
    """max(containers + sidecars, each init container + the sidecars declared before it) + overhead."""
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in spec.get("initContainers") or []:
        wanted = container_requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _add(sidecars, wanted)
            wanted = Counter()
        peak = peak | _add(sidecars, wanted)
    total = sidecars
    for container in spec.get("containers") or []:
        total = _add(total, container_requests(container))
    return _add(total | peak, parse_quantities(spec.get("overhead")))


def _add(one: Counter[str], other: Counter[str]) -> Counter[str]:
    result = Counter(one)
    result.update(other)
    return result
