"""Would its queue admit a waiting workload now? The codes and sentences of those that it would not.

A queue's waiting workloads are admitted in thought in the queue's own order, so that two that each fit are
not both promised the same quota. Preemption by the queue's controller is not reckoned with: what has to throw
others out is said to lack quota. Not in here: room on nodes (fitting), the order among queues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from apps.planner.claims_on_queues import Claim, Claims, amounts_of
from apps.planner.inventory import Node, Pod
from apps.planner.queues import Admission, Controller, Flavor, Queue, Share
from apps.planner.quota_room import Counted, Part, QuotaRoom
from apps.planner.quota_words import (
    HELD,
    MISSING,
    QUEUE_CODES,
    STOPPED,
    Refused,
    Shortage,
    say_behind,
    say_behind_taken,
    say_flavor,
    say_shortage,
    say_uncovered,
    say_waits_for_checks,
    say_waits_for_kueue,
)
from apps.planner.resources import is_device_resource
from apps.planner.selectors import meets, untolerated_taints
from apps.planner.snapshot import Snapshot

__all__ = ["QUEUE_CODES", "Refused", "judge_queues"]
Grant = dict[Part, float]
INACTIVE = "Its Workload is not active: Kueue does not try it before somebody makes it so."
PODS = "pods"


def judge_queues(snapshot: Snapshot, groups: Iterable[tuple[str, Sequence[Pod]]]) -> Mapping[str, Refused]:
    """Of these waiting workloads (by key, with their pods) those that their queue would not admit now."""
    if not snapshot.queues and not snapshot.queued:
        return {}
    claims = Claims(snapshot)
    found = (claims.claim_of(key, pods) for key, pods in groups)
    return _Judge(snapshot, claims).judge([claim for claim in found if claim is not None])


class _Judge:
    def __init__(self, snapshot: Snapshot, claims: Claims) -> None:
        self.snapshot = snapshot
        self.claims = claims
        self.room = QuotaRoom(snapshot)
        self._count_leaving()

    def judge(self, claims: Iterable[Claim]) -> dict[str, Refused]:
        """Several pods may be one of Kueue's Workloads: it is asked about once, for all of them."""
        refused: dict[str, Refused] = {}
        waiting: dict[str, list[Claim]] = defaultdict(list)
        first: dict[str, str] = {}
        alike: list[tuple[str, str]] = []
        for claim in claims:
            if claim.queued is not None and first.setdefault(claim.queued.key, claim.key) != claim.key:
                alike.append((claim.key, first[claim.queued.key]))
                continue
            why = self._refuse_outright(claim)
            if why is not None:
                refused[claim.key] = why
            elif claim.queue is not None and not _is_settled(claim):
                waiting[claim.queue.key].append(claim)
        for key in sorted(waiting):
            refused |= self._go_through(self.snapshot.queues[key], waiting[key])
        return refused | {key: refused[one] for key, one in alike if one in refused}

    def _count_leaving(self) -> None:
        """Pods that end hold their devices until they are gone, though Kueue has taken their quota back."""
        for pod in self.snapshot.pods.values():
            if not (pod.terminating and pod.is_holding):
                continue
            queued = self.claims.queued_for(pod)
            entrance = self.snapshot.entrances.get(queued.entrance) if queued else None
            queue = self.snapshot.queues.get(entrance.queue) if entrance else None
            if queue is None or queued is None or queued.state in (Admission.ADMITTED, Admission.RESERVED):
                continue
            for name, amount in amounts_of(pod).items():
                if is_device_resource(name):
                    flavor = self._flavor_of(queue, name, self.snapshot.nodes.get(pod.node_name))
                    self.room.take(queue, (flavor, name), amount)

    def _flavor_of(self, queue: Queue, resource: str, node: Node | None) -> str:
        names = [share.flavor for share in queue.shares if share.resource == resource]
        labels = node.labels if node else {}
        fits = (
            name
            for name in names
            if (flavor := self.snapshot.flavors.get(name)) and flavor.labels.items() <= labels.items()
        )
        return next(fits, names[0] if names else "")

    def _refuse_outright(self, claim: Claim) -> Refused | None:
        """What no quota changes."""
        queued = claim.queued
        if queued is not None:
            entrance = self.snapshot.entrances.get(queued.entrance)
            if queued.state is Admission.INACTIVE:
                return Refused(HELD, INACTIVE, is_for_good=True)
            if queued.state is Admission.RESERVED:
                return say_waits_for_checks(queued)
            if (queued.tried_again_at or 0.0) > self.snapshot.taken_at and not _is_settled(claim):
                return say_waits_for_kueue(queued, self.snapshot.taken_at)
            if entrance is not None and entrance.stopped and not _is_settled(claim):
                return Refused(STOPPED, f"Its queue {entrance.key} admits nobody: {entrance.stopped}.")
        if _is_settled(claim):
            return None
        if claim.queue is None:
            return self._refuse_unnamed(claim)
        stopped = next((one for one in self.room.line(claim.queue) if one.stopped), None)
        if stopped is not None:
            return Refused(STOPPED, f"Its queue {stopped.name} admits nobody: {stopped.stopped}.")
        return None

    def _refuse_unnamed(self, claim: Claim) -> Refused | None:
        """No word where the queues could not be read, or where there are none of that kind at all."""
        plural = "clusterqueues" if claim.controller is Controller.KUEUE else "queues"
        is_known = any(one.controller is claim.controller for one in self.snapshot.queues.values())
        if self.snapshot.cannot_read(plural) or self.snapshot.cannot_read("localqueues"):
            return None
        if claim.queued is None and not is_known:
            return None
        said = f"There is no queue {claim.named}, which it names; make it, or name another one."
        return Refused(MISSING, said, is_for_good=True)

    def _go_through(self, queue: Queue, claims: Sequence[Claim]) -> dict[str, Refused]:
        """In the order of the queue; who is admitted in thought takes his part before the next is asked."""
        refused: dict[str, Refused] = {}
        first_held: Claim | None = None
        last_taken: Claim | None = None
        before = self.room.mark() if len(claims) > 1 else None
        for claim in sorted(claims, key=lambda one: (-one.priority, one.created_at, one.key)):
            if first_held is not None and queue.is_strict:
                refused[claim.key] = say_behind(queue, first_held)
                continue
            why, grant = self._ask(queue, claim)
            if why is None:
                for part, amount in grant.items():
                    self.room.take(queue, part, amount)
                last_taken = claim
                if claim.queued is not None:
                    refused[claim.key] = say_waits_for_kueue(claim.queued, self.snapshot.taken_at)
                continue
            if last_taken is not None and before is not None and self._fits_alone(queue, claim, before):
                why = say_behind_taken(queue, last_taken, why)
            refused[claim.key] = why
            first_held = first_held or claim
        return refused

    def _fits_alone(self, queue: Queue, claim: Claim, before: Counted) -> bool:
        """Whether only those before it are in its way. before: as it was when none of them had taken any."""
        counted = self.room.restore(before)
        why, _ = self._ask(queue, claim)
        self.room.restore(counted)
        return why is None

    def _ask(self, queue: Queue, claim: Claim) -> tuple[Refused | None, Grant]:
        if claim.controller is not Controller.KUEUE:
            return self._ask_bounded(queue, claim)
        grant: Grant = {}
        for count, pod in claim.sets:
            asks = {**amounts_of(pod), PODS: 1.0}
            for group in dict.fromkeys(share.group for share in queue.shares):
                why = self._grant_group(queue, claim, group, (count, pod, asks), grant)
                if why is not None:
                    return why, {}
            covered = {share.resource for share in queue.shares}
            open_to_none = [name for name in asks if is_device_resource(name) and name not in covered]
            if open_to_none:
                return say_uncovered(queue, open_to_none[0]), {}
        return None, grant

    def _grant_group(
        self,
        queue: Queue,
        claim: Claim,
        group: int,
        wanted: tuple[int, Pod, Mapping[str, float]],
        grant: Grant,
    ) -> Refused | None:
        """One flavor for all the resources of a group: the first that its nodes' labels and quota allow."""
        count, pod, asks = wanted
        shares = [share for share in queue.shares if share.group == group and asks.get(share.resource)]
        if not shares or not count:
            return None
        shortages: list[Shortage] = []
        keys = _label_keys(queue, group, self.snapshot.flavors)
        for name in dict.fromkeys(share.flavor for share in shares):
            if not _may_take(pod, self.snapshot.flavors.get(name), keys):
                continue
            parts = {(name, one.resource): count * asks[one.resource] for one in shares if one.flavor == name}
            short = [
                self._shortage(queue, part, amount, grant)
                for part, amount in parts.items()
                if amount > self.room.left(queue, part) - grant.get(part, 0.0)
            ]
            if not short:
                for part, amount in parts.items():
                    grant[part] = grant.get(part, 0.0) + amount
                return None
            shortages.append(max(short, key=lambda one: (is_device_resource(one.resource), one.asked)))
        if not shortages:
            return say_flavor(queue, [share.flavor for share in shares], pod, self.snapshot)
        return say_shortage(claim, min(shortages, key=lambda one: (one.is_for_good, -one.left)))

    def _ask_bounded(self, queue: Queue, claim: Claim) -> tuple[Refused | None, Grant]:
        grant: Grant = {}
        for name, amount in claim.asks.items():
            part = ("", name)
            if amount > self.room.left(queue, part):
                return say_shortage(claim, self._shortage(queue, part, amount, {})), {}
            grant[part] = amount
        return self._ask_firm(queue, claim) or None, grant

    def _ask_firm(self, queue: Queue, claim: Claim) -> Refused | None:
        """KAI never gives more than its quota to what may not be preempted."""
        gang = claim.gang
        if claim.controller is not Controller.KAI or gang is None or gang.is_preemptible(claim.priority):
            return None
        for one in self.room.line(queue):
            for share in one.shares:
                asked = claim.asks.get(share.resource, 0.0)
                if asked and share.quota is not None and share.firm + asked > share.quota:
                    found = Shortage(one, share, asked, share.firm, share.quota, share.quota - share.firm)
                    return say_shortage(claim, found, "by what may not be preempted")
        return None

    def _shortage(self, queue: Queue, part: Part, asked: float, grant: Grant) -> Shortage:
        told = self.room.tightest(queue, part)
        share = self.room.share(told, part) or Share(*part, quota=0.0)
        return Shortage(
            queue=told,
            share=share,
            asked=asked,
            used=self.room.used(told, part) + grant.get(part, 0.0),
            most=self.room.most(queue, part),
            left=self.room.left(queue, part) - grant.get(part, 0.0),
        )


def _is_settled(claim: Claim) -> bool:
    """Its queue has let it in already: what it lacks now is something else."""
    if claim.queued is not None:
        return claim.queued.state in (Admission.ADMITTED, Admission.FINISHED)
    return claim.gang is not None and claim.gang.phase in ("Inqueue", "Running")


def _label_keys(queue: Queue, group: int, flavors: Mapping[str, Flavor]) -> frozenset[str]:
    """Only labels that some flavor of the group has tell flavors apart."""
    names = {share.flavor for share in queue.shares if share.group == group}
    return frozenset(key for name in names if name in flavors for key in flavors[name].labels)


def _may_take(pod: Pod, flavor: Flavor | None, keys: frozenset[str]) -> bool:
    """Whether the pod's own wishes about nodes allow the flavor. One without an object allows all."""
    if flavor is None:
        return True
    given = (*pod.tolerations, *flavor.tolerations)
    if untolerated_taints(replace(pod, tolerations=given), flavor.taints):
        return False
    wanted = {key: value for key, value in pod.node_selector.items() if key in keys}
    if any(flavor.labels.get(key) != value for key, value in wanted.items()):
        return False
    terms = [[part for part in term.labels if part.key in keys] for term in pod.node_terms]
    return not terms or any(all(meets(part, flavor.labels) for part in term) for term in terms)
