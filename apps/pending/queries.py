"""What waits in a snapshot, why, and in which order: the planner's answers, remembered as long as the picture
stays open.

Nothing is stored: the answers follow from the snapshot alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings

from apps.clusters.models import Cluster
from apps.clusters.queries import answer_about
from apps.pending.asking import MAX_MOVES
from apps.planner.queue_order import OrderPolicy, Place, order_queue
from apps.planner.queue_states import QueueState, list_queue_states
from apps.planner.quota import Refused, judge_queues
from apps.planner.snapshot import Snapshot
from apps.planner.waiting import WaitingWorkload, explain_pending, list_waiting


def waiting_workloads(snapshot: Snapshot) -> tuple[WaitingWorkload, ...]:
    """What waits, as the cluster's scheduler takes it (priority, then age), each with its reason."""
    return answer_about(snapshot, "waiting", lambda: explain_pending(snapshot))


def places(snapshot: Snapshot) -> Mapping[str, Place]:
    """The place of each workload that waits by its key, in the fair order."""
    found = waiting_workloads(snapshot)
    return answer_about(snapshot, "places", lambda: order_queue(snapshot, found, order_policy()))


def queue_in_order(snapshot: Snapshot) -> tuple[WaitingWorkload, ...]:
    """Everything that waits in the fair order; what can never run comes last."""
    by_key = {waiting.key: waiting for waiting in waiting_workloads(snapshot)}
    return tuple(by_key[key] for key in places(snapshot))


def waiting_workload(snapshot: Snapshot, key: str) -> WaitingWorkload | None:
    """One of them by its key ("namespace/name"), None if it does not wait."""
    return next((waiting for waiting in waiting_workloads(snapshot) if waiting.key == key), None)


def moves_allowed(cluster: Cluster) -> int:
    """How many moves a plan made from the queue has at most. Policies are a later stage's, so this goes by
    the cluster."""
    cap = Cluster.objects.filter(pk=cluster.pk).values_list("policy__max_moves_per_plan", flat=True).first()
    return MAX_MOVES if cap is None else min(cap, MAX_MOVES)


def order_policy() -> OrderPolicy:
    return OrderPolicy(
        ageing_seconds=settings.QUEUE_AGEING_SECONDS, place_seconds=settings.QUEUE_PLACE_SECONDS
    )


def queue_states(snapshot: Snapshot) -> tuple[QueueState, ...]:
    """Every queue with quota, as it stands."""
    return answer_about(snapshot, "queue states", lambda: list_queue_states(snapshot))


def refused_by_queue(snapshot: Snapshot, key: str) -> Refused | None:
    """Why its queue would not admit what waits under this key; None if it would, or none has a say."""

    def judge() -> Mapping[str, Refused]:
        return judge_queues(snapshot, list_waiting(snapshot)[0].items())

    return answer_about(snapshot, "refused by queues", judge).get(key)
