"""What the rules read from records, and the names of ours that they look for."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.records import Call, EventRow, Records, StepRow

TERMINAL = ("succeeded", "cancelled", "rolled_back", "failed")
FINISHED = ("verified", "superseded", "failed", "compensated")
LONGEST_WATCH_SECONDS = 300
EVICTING = ("evict_pod", "preempt_pod")
BEGINNING = ("cordon", "create_hold", "nominate_hold", "ask", "create_webhook", "evict")
CONFIG = "nvidia.com/mig.config"
CORDON = "defrag.gpu.internal/cordon"
HELD = "defrag.gpu.internal/held"
OWNED = "defrag.gpu.internal/owned"
MIGRATION = "defrag.gpu.internal/migration"
GATE = "defrag.gpu.internal/steer"
HOSTNAME = "kubernetes.io/hostname"
GUARDED = ("nodes", "pods", "mutatingwebhookconfigurations")
Violations = Iterator[str]


def find_writes(records: Records, kind: str = "") -> list[Call]:
    return [call for call in records.calls if call.is_real and kind in ("", call.kind)]


def find_evictions(records: Records) -> list[Call]:
    return [call for call in find_writes(records, "pods") if call.is_eviction]


def approved_pods(records: Records) -> dict[str, str]:
    return {uid: pod for one in records.executions for uid, pod in one.approved_pods.items()}


def pinned_before(records: Records, at: float) -> set[str]:
    """UIDs of the replacements that we had pinned to their targets by then: by a PATCH, or, where the move
    pins in the webhook's answer, as the ledger tells of the pod that was given up."""
    calls = [call for call in find_writes(records, "pods") if call.method == "PATCH" and call.at <= at]
    patched = {call.uid for call in calls if HOSTNAME in (call.spec.get("nodeSelector") or {})}
    answered = [step for step in records.steps if step.params.get("pins_to")]
    return patched | {step.seen["given_up"] for step in answered if step.seen.get("given_up")}


def find_intents(records: Records, step: StepRow) -> list[EventRow]:
    return [event for event in records.events if event.step == step.id and event.state == "intent"]


def find_relabels(records: Records) -> list[Call]:
    return [call for call in find_writes(records, "nodes") if call.sets_label(CONFIG)]
