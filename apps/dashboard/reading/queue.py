"""One waiting workload as the queue page shows it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from django.utils import timezone

from apps.dashboard.reading.alike import as_one
from apps.dashboard.reading.callout import shape_of
from apps.dashboard.reading.times import duration, rough_duration, seconds_since
from apps.pending.unblocking import can_help
from apps.planner.expected_start import ExpectedStart
from apps.planner.naming import shown_model
from apps.planner.plan import Goal
from apps.planner.queue_order import Place
from apps.planner.waiting import WaitingWorkload

REASONS_SHOWN = 4
REASONS: Mapping[str, tuple[str, str]] = {
    "gpus-scattered": ("Fragmented", "warn"),
    "not-enough-gpus": ("Too few GPUs", "bad"),
    "too-large": ("Larger than a node", "bad"),
    "link": ("Link class", "warn"),
    "link-unknown": ("Links unknown", "warn"),
    "cpu": ("CPU short", "warn"),
    "memory": ("Memory short", "warn"),
    "storage": ("Storage short", "warn"),
    "pods": ("Pod count", "warn"),
    "port": ("Port taken", "warn"),
    "volume": ("Volume", "warn"),
    "node-selector": ("Node selector", "warn"),
    "no-such-gpu": ("No such GPU", "bad"),
    "taint": ("Taint", "warn"),
    "cordoned": ("Cordoned", "warn"),
    "not-ready": ("Nodes not ready", "bad"),
    "pod-affinity": ("Pod affinity", "warn"),
    "spread": ("Spread", "warn"),
    "gang-incomplete": ("Gang incomplete", "info"),
    "gang-room": ("Gang room", "warn"),
    "gated": ("Gated", "info"),
    "quota": ("Quota", "info"),
    "gpu-request": ("GPURequest", "bad"),
    "behind-others": ("Behind others", "info"),
    "queue-stopped": ("Queue stopped", "warn"),
    "queue-missing": ("No such queue", "bad"),
    "queue-held": ("Held", "info"),
    "flavor": ("No flavor suits", "bad"),
    "not-admitted": ("Not admitted yet", "info"),
    "fits": ("In turn", ""),
    "mig": ("No MIG instance", "warn"),
    "gpu-memory": ("GPU memory short", "warn"),
    "gpu-memory-unknown": ("GPU memory unknown", "warn"),
    "not-registered": ("Not registered", "bad"),
    "other-resource": ("Other resource", "warn"),
    "no-nodes": ("No nodes", "bad"),
    "other-scheduler": ("Other scheduler", "info"),
    "resource-claims": ("Resource claims", "info"),
}
NEVER: Mapping[str, str] = {
    "too-large": "Too large",
    "gang-too-large": "Gang too large",
    "no-such-model": "No such model",
    "no-such-profile": "No such MIG profile",
    "link": "No such link",
    "gpu-memory": "GPU memory",
    "cpu": "CPU",
    "memory": "Memory",
    "taint": "Taint on all",
    "volume": "Volume out of reach",
}


@dataclass(frozen=True, slots=True)
class QueueLine:
    """waiting: those that are alike as one, with the pods of all; first: the first of them as it is,
    which a plan or a simulation is about. keys: of each.
    place: in the queue. start: None where it came since starts were looked for.
    rejections: how many nodes say no for which reason; a node may have several."""

    place: Place
    waiting: WaitingWorkload
    shape: str
    seconds: float
    wait: str
    reason: str
    tone: str
    rejections: tuple[tuple[int, str], ...]
    more_reasons: int
    first: WaitingWorkload
    keys: tuple[str, ...]
    start: ExpectedStart | None

    @property
    def alike(self) -> int:
        """How many pods of one owner this line tells of that each wait by themselves."""
        return len(self.keys)

    @property
    def position(self) -> int | None:
        return self.place.position

    @property
    def anchor(self) -> str:
        """An id for its part of the page that stays open while the page is fetched anew."""
        return f"more-{hashlib.sha256(self.waiting.key.encode()).hexdigest()[:12]}"

    @property
    def start_words(self) -> str:
        """ "in 12 min", "in 2 h at the latest", "now", or "not known"."""
        if self.start is None or self.start.ready_at is None:
            return "never" if self.waiting.never else "not known"
        ahead = self.start.ready_at - timezone.now().timestamp()
        latest = " at the latest" if self.start.is_latest else ""
        return f"in {rough_duration(ahead)}{latest}" if ahead >= 60 else "within a minute"

    @property
    def model(self) -> str:
        return shown_model(self.waiting.model)

    @property
    def can_plan(self) -> bool:
        return can_help(self.waiting)

    @property
    def goal(self) -> str:
        """What a plan for it would aim at."""
        is_mig = self.waiting.profiles and not self.waiting.gpus_per_pod
        return Goal.MIG if is_mig and can_help(self.waiting) else Goal.UNLOCK


def describe_waiting(
    members: tuple[WaitingWorkload, ...], place: Place, start: ExpectedStart | None
) -> QueueLine:
    """members: as `gather_alike` puts them together."""
    waiting = as_one(members)
    # 0: a trace or a bare dump does not say since when.
    seconds = (seconds_since(waiting.since) or 0.0) if waiting.since > 0 else 0.0
    unknown = (waiting.reason_code.replace("-", " ").capitalize(), "warn")
    word, tone = REASONS.get(waiting.reason_code, unknown)
    if waiting.never:
        word, tone = f"Never: {NEVER.get(waiting.reason_code, word).lower()}", "bad"
    counts = tuple((count, reason) for reason, count in waiting.node_counts.items())
    return QueueLine(
        place=place,
        waiting=waiting,
        shape=shape_of(waiting),
        seconds=seconds,
        wait=duration(seconds) if waiting.since > 0 else "not known",
        reason=word,
        tone=tone,
        rejections=counts[:REASONS_SHOWN],
        more_reasons=max(0, len(counts) - REASONS_SHOWN),
        first=members[0],
        keys=tuple(one.key for one in members),
        start=start,
    )
