"""Makes the annotation `topology.gpu.internal/holders`: which pod holds which device, by UID.

The kubelet names pods by namespace and name; the UID comes from the API's pods of this node. What cannot be
told for certain (a name that is not exactly one pod, an id that is no device, a share of unknown size) is
left out and said: the console then knows that the pod holds something, and not where.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.node_agent.devices import Device, memory_by_uuid
from apps.node_agent.pod_resources import Grant, Grants
from apps.node_agent.seats import Seats

HOLDERS = "topology.gpu.internal/holders"
WHOLE = 1000
FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class NodePod:
    namespace: str
    name: str
    uid: str
    phase: str = ""


@dataclass(slots=True)
class Holders:
    """document: the annotation. problems: sentences for the log."""

    document: dict[str, Any]
    problems: list[str] = field(default_factory=list)


def build_holders(
    grants: Grants, pods: Iterable[NodePod], devices: Sequence[Device], *, observed_at: str
) -> Holders:
    reading = _Reading(grants, pods, devices)
    held = {uuid: reading.held[uuid] for uuid in sorted(reading.held)}
    document = {"version": 1, "observed_at": observed_at, "devices": held}
    return Holders(document, list(dict.fromkeys(reading.problems)))


class _Reading:
    """held: holders by UUID."""

    def __init__(self, grants: Grants, pods: Iterable[NodePod], devices: Sequence[Device]) -> None:
        self.pods: dict[tuple[str, str], list[NodePod]] = defaultdict(list)
        for pod in pods:
            self.pods[pod.namespace, pod.name].append(pod)
        self.seats = Seats(devices)
        self.memory = memory_by_uuid(devices)
        self.shares = self.seats.count_shares(grants.offered or {})
        self.held: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.problems: list[str] = []
        plugged = [grant for grant in grants.given if not grant.claim]
        for grant in {(one.namespace, one.pod, one.device): one for one in reversed(plugged)}.values():
            self._take(grant)
        self._take_claimed([grant for grant in grants.given if grant.claim])
        for holders in self.held.values():
            holders.sort(key=lambda one: (one["namespace"], one["pod"], one["container"]))

    def _take(self, grant: Grant) -> None:
        seat = self.seats.find(grant.device)
        if seat is None:
            self._leave_out(grant, "which is no device of this machine by its id")
            return
        uuid, is_share = seat
        pod = self._pod_of(grant)
        if pod is None:
            return
        if not is_share:
            self._add(uuid, grant, pod, WHOLE, self.memory.get(uuid))
            return
        parts = self._parts_of(uuid)
        if parts is None:
            self._leave_out(
                grant, "a share of a GPU, and the kubelet does not tell into how many it is dealt"
            )
            return
        self._add(uuid, grant, pod, max(1, WHOLE // parts), None)

    def _parts_of(self, uuid: str) -> int | None:
        """A GPU that is ill is no longer offered: it was dealt into as many parts as the others."""
        if uuid in self.shares:
            return self.shares[uuid]
        counts = Counter(self.shares.values()).most_common(1)
        return counts[0][0] if counts else None

    def _take_claimed(self, grants: Sequence[Grant]) -> None:
        """All that hold a device by one claim share it."""
        by_claim: dict[tuple[str, str], dict[str, Grant]] = defaultdict(dict)
        for grant in grants:
            by_claim[grant.claim, grant.device].setdefault(grant.pod, grant)
        for (_, device), sharers in by_claim.items():
            uuid = self.seats.find_claimed(device)
            for grant in sharers.values():
                if uuid is None:
                    self._leave_out(grant, "which is no device of this machine by its claim's name")
                elif (pod := self._pod_of(grant)) is not None:
                    alone = len(sharers) == 1
                    memory = self.memory.get(uuid) if alone else None
                    self._add(uuid, grant, pod, max(1, WHOLE // len(sharers)), memory)

    def _pod_of(self, grant: Grant) -> NodePod | None:
        """None, and said, where the name is not exactly one pod; None for one that has ended."""
        found = self.pods.get((grant.namespace, grant.pod), [])
        if len(found) != 1:
            many = "no pod of that name" if not found else f"{len(found)} pods of that name"
            self._leave_out(grant, f"and the API knows {many} on this node")
            return None
        return None if found[0].phase in FINISHED else found[0]

    def _leave_out(self, grant: Grant, why: str) -> None:
        self.problems.append(
            f"left out of {HOLDERS}: {grant.namespace}/{grant.pod} was given {grant.device!r}, {why}"
        )

    def _add(self, uuid: str, grant: Grant, pod: NodePod, milli: int, memory_mib: int | None) -> None:
        self.held[uuid].append(
            {
                "namespace": grant.namespace,
                "pod": grant.pod,
                "uid": pod.uid,
                "container": grant.container,
                "milli": milli,
                "memory_mib": memory_mib,
            }
        )


def steady_pods(before: Mapping[tuple[str, str], str], after: Iterable[NodePod]) -> list[NodePod]:
    """Those that had the same UID before the kubelet was asked and after it."""
    return [pod for pod in after if before.get((pod.namespace, pod.name), pod.uid) == pod.uid]
