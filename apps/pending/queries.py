"""What waits in a snapshot, and why: the planner's answer, remembered as long as the picture stays open.

Nothing is stored: the answer follows from the snapshot alone.
"""

from __future__ import annotations

from apps.clusters.queries import answer_about
from apps.planner.snapshot import Snapshot
from apps.planner.waiting import WaitingWorkload, explain_pending


def waiting_workloads(snapshot: Snapshot) -> tuple[WaitingWorkload, ...]:
    """Everything that waits, in the order of the queue, each with its reason."""
    return answer_about(snapshot, "waiting", lambda: explain_pending(snapshot))


def waiting_workload(snapshot: Snapshot, key: str) -> WaitingWorkload | None:
    """One of them by its key ("namespace/name"), None if it does not wait."""
    return next((waiting for waiting in waiting_workloads(snapshot) if waiting.key == key), None)
