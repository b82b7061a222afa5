"""What is said of a waiting workload that its queue would not admit, in numbers.

Not in here: whether it would (quota).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from apps.planner.claims_on_queues import Claim
from apps.planner.inventory import Pod
from apps.planner.queues import Controller, Queue, QueuedWorkload, Share
from apps.planner.resources import is_device_resource
from apps.planner.snapshot import Snapshot

QUOTA, STOPPED, FLAVOR, BEHIND = "quota", "queue-stopped", "flavor", "behind-others"
MISSING, HELD, NOT_ADMITTED = "queue-missing", "queue-held", "not-admitted"
QUEUE_CODES = frozenset({QUOTA, STOPPED, FLAVOR, BEHIND, MISSING, HELD, NOT_ADMITTED})
"""Reason codes that lie in a queue: room on nodes would not let it start, so no plan is made."""
GIB = 2**30
UNBOUNDED = float("inf")


@dataclass(frozen=True, slots=True)
class Refused:
    """is_for_good: waiting alone changes nothing; somebody has to change the queue or the workload."""

    code: str
    sentence: str
    is_for_good: bool = False


@dataclass(frozen=True, slots=True)
class Shortage:
    """What one part of a queue has and lacks. used, most, left: as `QuotaRoom` counts them."""

    queue: Queue
    share: Share
    asked: float
    used: float
    most: float
    left: float

    @property
    def resource(self) -> str:
        return self.share.resource

    @property
    def is_for_good(self) -> bool:
        return self.asked > self.most


def say_shortage(claim: Claim, short: Shortage, by: str = "") -> Refused:
    """ "Queue team-a uses 112 of 112 GPUs; the gang asks for 24." """
    asks = f"{_who(claim)} asks for {tell_amount(short.asked, short.resource)}"
    what, flavor = unit_of(short.resource), f" of flavor {short.share.flavor}" if short.share.flavor else ""
    if short.is_for_good:
        most = tell_amount(max(short.most, 0.0), short.resource)
        word = f" {what}" if what else ""
        said = f"Queue {short.queue.name} can never give out more than {most}{word}{flavor}; {asks}."
        return Refused(QUOTA, said, is_for_good=True)
    quota = short.share.quota if short.share.quota is not None else short.used + short.left
    used = f"{tell_amount(short.used, short.resource)} of {tell_amount(quota, short.resource)}"
    word = f" {what}" if what else f" of {short.resource}"
    beyond = short.left - max(0.0, quota - short.used)
    borrow = f" and can borrow {tell_amount(beyond, short.resource)} more" if 0 < beyond < UNBOUNDED else ""
    lender = f" in {short.queue.parent.rpartition('/')[2]}" if borrow and short.queue.parent else ""
    held = f" {by}" if by else ""
    said = f"Queue {short.queue.name} uses {used}{word}{flavor}{held}{borrow}{lender}; {asks}."
    return Refused(QUOTA, said)


def say_uncovered(queue: Queue, resource: str) -> Refused:
    said = f"Queue {queue.name} has no quota for {resource}, which it asks for."
    return Refused(FLAVOR, said, is_for_good=True)


def say_flavor(queue: Queue, names: Sequence[str], pod: Pod, snapshot: Snapshot) -> Refused:
    tried = ", ".join(dict.fromkeys(names))
    keys = {key for name in names if name in snapshot.flavors for key in snapshot.flavors[name].labels}
    wishes = ", ".join(f"{key}={value}" for key, value in sorted(pod.node_selector.items()) if key in keys)
    why = f" it wants {wishes}" if wishes else " its node affinity or tolerations rule them out"
    return Refused(FLAVOR, f"No flavor of queue {queue.name} suits it ({tried}):{why}.", is_for_good=True)


def say_behind(queue: Queue, first: Claim) -> Refused:
    said = f"Queue {queue.name} admits in strict order, and {first.key}, which is before it, has to wait."
    return Refused(BEHIND, said)


def say_behind_taken(queue: Queue, last: Claim, why: Refused) -> Refused:
    """Those before it take what it would need."""
    lead = f"{last.key} is before it in queue {queue.name} and takes what is left."
    return Refused(BEHIND, f"{lead} With it: {why.sentence[:1].lower()}{why.sentence[1:]}")


def say_waits_for_checks(queued: QueuedWorkload) -> Refused:
    checks = f" {', '.join(queued.checks)}" if queued.checks else ""
    return Refused(NOT_ADMITTED, f"It has its quota and waits for the admission checks{checks} of its queue.")


def say_waits_for_kueue(queued: QueuedWorkload, now: float) -> Refused:
    """Quota and order would let it in, and Kueue has not: what Kueue says."""
    if queued.tried_again_at is not None and queued.tried_again_at > now:
        when = datetime.fromtimestamp(queued.tried_again_at, UTC)
        lost = f" after it lost its place ({queued.evicted})" if queued.evicted else ""
        return Refused(NOT_ADMITTED, f"Kueue tries it again at {when:%H:%M:%S} UTC{lost}.")
    told = f" Kueue says: {queued.message.rstrip('.')}." if queued.message else ""
    return Refused(NOT_ADMITTED, f"Quota and order would let it in now; Kueue has not admitted it yet.{told}")


def _who(claim: Claim) -> str:
    pods = sum(count for count, _ in claim.sets)
    if claim.gang is not None or (claim.queued is not None and pods > 1):
        return "the gang"
    return "the workload" if claim.controller is Controller.KUEUE else "the pod"


def unit_of(resource: str) -> str:
    """ "GPUs" for whole GPUs, CPUs by their name, "" where the amount says its unit itself."""
    if resource == "cpu":
        return "CPUs"
    if resource == "memory":
        return ""
    return "GPUs" if is_device_resource(resource) and resource.endswith("/gpu") else resource


def tell_amount(amount: float, resource: str) -> str:
    """In the words of people: GPUs counted, CPUs whole, memory in GiB."""
    if resource == "memory":
        return f"{round(amount / GIB, 1):g} GiB"
    found = amount / 1000 if resource == "cpu" else amount
    rounded = round(found, 3)
    return f"{int(rounded)}" if rounded == int(rounded) else f"{rounded:g}"
