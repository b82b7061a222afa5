"""How many pods may be out of service at once on a cluster, by pool, namespace, workload or node. Pure.

A budget speaks of each place of its scope that its pattern names by itself: `namespace prod-*: 2` lets two
pods of prod-eu and two of prod-us be away. Who is away now is the executions' to count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

SCOPES = ("cluster", "pool", "namespace", "workload", "node")
UNAVAILABLE, IN_FLIGHT = "unavailable", "in_flight"
COUNTS = (UNAVAILABLE, IN_FLIGHT)


@dataclass(frozen=True, slots=True)
class DisruptionLimit:
    """name: a name or glob; a workload is "namespace/name". counts: UNAVAILABLE takes in pods that are away
    for other reasons than ours, IN_FLIGHT our own evictions alone."""

    scope: str
    name: str
    at_most: int
    counts: str = UNAVAILABLE

    def speaks_of(self, place: str) -> bool:
        return bool(place) and fnmatchcase(place, self.name)

    @property
    def words(self) -> str:
        what = "pods unavailable" if self.counts == UNAVAILABLE else "evictions in flight"
        where = "the cluster" if self.scope == "cluster" else f"{self.scope} {self.name}"
        return f"at most {self.at_most} {what} in {where}"


def limits_from(told: Iterable[Mapping[str, Any]]) -> list[DisruptionLimit]:
    """As a policy stores them."""
    return [DisruptionLimit(one["scope"], one["name"], one["at_most"], one["counts"]) for one in told]
