"""Which Workloads have quota: the queues' arithmetic on plain objects. No calls, no clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from apps.simulator.controllers.objects import condition_of, is_true, key_of
from apps.simulator.controllers.quantities import effective_requests, parse_quantity

Json = dict[str, Any]
Part = tuple[str, str]
"""(flavor, resource)"""


@dataclass(slots=True)
class Assigned:
    """flavors: by pod set and resource. usage: by pod set and resource. parts: both summed up."""

    flavors: dict[str, dict[str, str]] = field(default_factory=dict)
    usage: dict[str, dict[str, int]] = field(default_factory=dict)
    parts: dict[Part, int] = field(default_factory=lambda: defaultdict(int))


def is_reserving(workload: Json) -> bool:
    return is_true(workload, "QuotaReserved") and not is_true(workload, "Finished")


def is_waiting(workload: Json) -> bool:
    is_active = workload["spec"].get("active", True)
    return is_active and not is_true(workload, "QuotaReserved") and not is_true(workload, "Finished")


def rank_of(workload: Json) -> tuple[int, str, str]:
    spec, meta = workload["spec"], workload["metadata"]
    return -(spec.get("priority") or 0), meta["creationTimestamp"], key_of(workload)


def held_parts(workload: Json) -> Iterator[tuple[Part, int]]:
    for one in (workload.get("status") or {}).get("admission", {}).get("podSetAssignments", []):
        for resource, flavor in (one.get("flavors") or {}).items():
            amount = (one.get("resourceUsage") or {}).get(resource, 0)
            yield (flavor, resource), parse_quantity(str(amount), resource)


class Books:
    """What every queue has and uses. flavors: names of those that exist."""

    def __init__(self, queues: Iterable[Json], workloads: Iterable[Json], flavors: Iterable[str]) -> None:
        self.queues = {queue["metadata"]["name"]: queue for queue in queues}
        self.flavors = frozenset(flavors)
        self.used: dict[str, dict[Part, int]] = defaultdict(lambda: defaultdict(int))
        for workload in workloads:
            if is_reserving(workload):
                name = (workload.get("status") or {}).get("admission", {}).get("clusterQueue", "")
                for part, amount in held_parts(workload):
                    self.used[name][part] += amount

    def why_inactive(self, name: str) -> tuple[str, str]:
        """(reason, message), ("", "") for a queue that admits."""
        spec = self.queues[name]["spec"]
        if spec.get("stopPolicy", "None") != "None":
            return "Stopped", "Can't admit new workloads: is stopped."
        missing = sorted(
            flavor["name"]
            for group in spec.get("resourceGroups") or []
            for flavor in group["flavors"]
            if flavor["name"] not in self.flavors
        )
        if missing:
            names = ",".join(missing)
            return (
                "FlavorNotFound",
                f"Can't admit new workloads: references missing ResourceFlavor(s): {names}.",
            )
        return "", ""

    def left(self, name: str, part: Part) -> int:
        spec = self.queues[name]["spec"]
        quota, limit = self._quota(name, part)
        used = self.used[name][part]
        if not spec.get("cohort"):
            return quota - used
        members = [
            other for other, queue in self.queues.items() if queue["spec"].get("cohort") == spec["cohort"]
        ]
        pooled = sum(self._quota(other, part)[0] - self.used[other][part] for other in members)
        return pooled if limit is None else min(pooled, quota + limit - used)

    def assign(self, name: str, workload: Json) -> tuple[Assigned | None, str]:
        """A flavor for each resource of each pod set; or why there is none, in Kueue's words."""
        found = Assigned()
        for pod_set in workload["spec"]["podSets"]:
            asked = effective_requests(pod_set["template"]["spec"])
            asked["pods"] = 1
            total = {resource: amount * pod_set["count"] for resource, amount in asked.items()}
            for group in self.queues[name]["spec"].get("resourceGroups") or []:
                why = self._assign_group(name, group, pod_set["name"], total, found)
                if why:
                    return None, f"couldn't assign flavors to pod set {pod_set['name']}: {why}"
        return found, ""

    def _assign_group(
        self, name: str, group: Json, pod_set: str, total: dict[str, int], found: Assigned
    ) -> str:
        wanted = {resource: total[resource] for resource in group["coveredResources"] if total.get(resource)}
        short: list[str] = []
        for flavor in group["flavors"]:
            lacking = {
                resource: amount
                - self.left(name, (flavor["name"], resource))
                + found.parts[flavor["name"], resource]
                for resource, amount in wanted.items()
            }
            over = {resource: amount for resource, amount in lacking.items() if amount > 0}
            if not over:
                for resource, amount in wanted.items():
                    found.flavors.setdefault(pod_set, {})[resource] = flavor["name"]
                    found.usage.setdefault(pod_set, {})[resource] = amount
                    found.parts[flavor["name"], resource] += amount
                return ""
            short += [
                f"insufficient unused quota for {resource} in flavor {flavor['name']}, {amount} more needed"
                for resource, amount in over.items()
            ]
        return ", ".join(short) if wanted else ""

    def take(self, name: str, assigned: Assigned) -> None:
        for part, amount in assigned.parts.items():
            self.used[name][part] += amount

    def _quota(self, name: str, part: Part) -> tuple[int, int | None]:
        """(nominal quota, limit of borrowing)."""
        for group in self.queues[name]["spec"].get("resourceGroups") or []:
            for flavor in group["flavors"]:
                for one in flavor["resources"]:
                    if (flavor["name"], one["name"]) == part:
                        limit = one.get("borrowingLimit")
                        nominal = parse_quantity(str(one["nominalQuota"]), one["name"])
                        return nominal, None if limit is None else parse_quantity(str(limit), one["name"])
        return 0, None


def count_workloads(workloads: Iterable[Json], names: Iterable[str]) -> tuple[int, int, int]:
    """(waiting, reserving, admitted) of those whose LocalQueue is one of these "namespace/name"."""
    known = frozenset(names)
    mine = [
        one for one in workloads if f"{one['metadata']['namespace']}/{one['spec'].get('queueName')}" in known
    ]
    waiting = sum(1 for one in mine if condition_of(one, "Finished") is None and not is_reserving(one))
    reserving = [one for one in mine if is_reserving(one)]
    return waiting, len(reserving), sum(1 for one in reserving if is_true(one, "Admitted"))
