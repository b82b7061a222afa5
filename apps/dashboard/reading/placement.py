"""What the page of a cluster's extender says: its policy in words, its verdicts line by line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apps.clusters.models import Snapshot
from apps.clusters.queries import open_snapshot
from apps.placing.models import PlacementPolicy, Verdict
from apps.placing.serializers import tell_refused
from apps.placing.states import Scoring, WhenStale

NODES_SHOWN, REASONS_SHOWN = 3, 5


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """said: the verdict in one sentence. refused: (nodes, reason), most nodes first. top: as in the row."""

    row: Verdict
    said: str
    tone: str
    refused: list[tuple[int, str]]
    more_reasons: int
    top: list[dict[str, Any]]


def tell_facts(policy: PlacementPolicy) -> list[Fact]:
    return [
        Fact("Scoring", policy.scoring, Scoring(policy.scoring).label),
        Fact("Weight", str(policy.weight), "times our 0 to 10, times 10"),
        Fact(
            "On an old picture",
            policy.when_stale,
            f"past {policy.stale_after_seconds} s: {WhenStale(policy.when_stale).label}",
        ),
        Fact("Binds", "yes" if policy.binds else "no", "we, not the scheduler" if policy.binds else ""),
        Fact("Asked before preemption", "yes" if policy.preempts else "no"),
        Fact(
            "Keeps the room of moved pods",
            "yes" if policy.keeps_rooms else "no",
            "where its scheduler is proved to obey; else paper holds"
            if policy.keeps_rooms
            else "paper holds",
        ),
        Fact("Never given out in shares", f"{policy.reserved_mib} MiB", "of each GPU's memory"),
    ]


def tell_verdicts(verdicts: Iterable[Verdict]) -> list[VerdictLine]:
    return [_line(row) for row in verdicts]


def _line(row: Verdict) -> VerdictLine:
    refused = [(each["nodes"], each["reason"]) for each in tell_refused(row)]
    said, tone = _said(row)
    shown, more = refused[:REASONS_SHOWN], max(len(refused) - REASONS_SHOWN, 0)
    return VerdictLine(row, said, tone, shown, more, row.top[:NODES_SHOWN])


def _said(row: Verdict) -> tuple[str, str]:
    if row.verb == "bind":
        return (f"not bound to {row.node}", "bad") if row.note else (f"bound to {row.node}", "ok")
    nodes = f"{row.fitting} of {row.offered} nodes"
    if row.verb == "preempt":
        return f"victims accepted on {nodes}", "info"
    if row.verb == "prioritize" and row.top:
        return f"best of {row.fitting}: {row.top[0]['node']}", "ok"
    return f"{nodes} pass", "ok" if row.fitting else "warn"


def key_of(snapshot: Snapshot | None, uid: str) -> str:
    """ "namespace/name" of the pod with that uid in the newest picture, "" where it has none."""
    pod = open_snapshot(snapshot).pods.get(uid) if snapshot is not None and uid else None
    return pod.key if pod is not None else ""


def where_now(snapshot: Snapshot | None, pod_key: str) -> str:
    """Where the pod is in the newest picture, for people; "" where no pod is asked about."""
    if not pod_key:
        return ""
    pods = open_snapshot(snapshot).pods.values() if snapshot is not None else ()
    found = next((pod for pod in pods if pod.key == pod_key), None)
    if found is None:
        return "The newest picture has no such pod."
    return f"It is on {found.node_name} now." if found.node_name else "It waits for a node."
