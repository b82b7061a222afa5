"""Nodes and rooms that executions keep for somebody, as the cluster's scheduler extender is to honour them.
Reads rows.

Beside the paper holds and taints in the cluster, which hold where no extender is asked: a node to be handed
over is kept from the start of its execution on, also from pods that tolerate its taint or outrank a paper
hold. What a hold in the cluster keeps of a node, its pod says itself. Not here: who asks (apps.scheduling).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from apps.executions.models import KeptRoom, Step
from apps.executions.states import FINISHED, TERMINAL, ExecutionState, StepKind

KEEPING = (
    ExecutionState.RUNNING,
    ExecutionState.PAUSED,
    ExecutionState.NEEDS_HUMAN,
    ExecutionState.VERIFYING,
)
"""One that is being taken back gives its nodes free at once."""
LANDING = (StepKind.HOLD_TARGET, StepKind.AWAIT_REPLACEMENT)


@dataclass(frozen=True, slots=True)
class KeptNode:
    """keys: of the gangs and single pods that may come there, "namespace/name". owners: uids of the workloads
    whose pods move there. until: the execution's deadline. reason: for whom it is kept, and by what."""

    node: str
    execution_id: int
    keys: frozenset[str]
    owners: frozenset[str]
    until: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class RoomToKeep:
    """Room on a node for one pod that a workload is about to make. body: a paper hold's, with our uid and its
    nomination, as it would stand in the cluster. owner: uid of the workload. until: nobody lands it later."""

    room_id: int
    node: str
    owner: str
    body: dict[str, Any]
    until: datetime | None
    reason: str


def rooms_kept_in(cluster_id: int) -> list[RoomToKeep]:
    rows = KeptRoom.objects.filter(execution__plan__cluster_id=cluster_id, closed_at=None)
    found = rows.exclude(execution__state__in=TERMINAL).select_related("execution").order_by("pk")
    return [_room(row) for row in found]


def _room(row: KeptRoom) -> RoomToKeep:
    deadline = row.execution.deadline_at
    more = timedelta(seconds=settings.EXECUTION_REPLACEMENT_SECONDS)
    metadata = {**row.body["metadata"], "uid": f"room-{row.pk}"}
    body = {**row.body, "metadata": metadata, "status": {"nominatedNodeName": row.node}}
    return RoomToKeep(
        row.pk,
        row.node,
        row.owner_uid,
        body,
        deadline + more if deadline else None,
        f"kept for {row.pod} by execution {row.execution_id}",
    )


def nodes_kept_in(cluster_id: int) -> list[KeptNode]:
    rows = Step.objects.filter(
        execution__plan__cluster_id=cluster_id,
        execution__state__in=KEEPING,
        kind__in=[StepKind.HAND_OVER, *LANDING],
    ).select_related("execution")
    steps = list(rows)
    landing: dict[tuple[int, str], set[str]] = defaultdict(set)
    for one in steps:
        if one.kind in LANDING:
            landing[one.execution_id, one.params.get("target_uid", "")].add(one.params["workload_uid"])
    return [
        _kept(step, landing.get((step.execution_id, step.params["node_uid"]), set()))
        for step in steps
        if _keeps(step)
    ]


def _keeps(step: Step) -> bool:
    """A node that was given up at its deadline is open to anybody."""
    is_open = step.kind == StepKind.HAND_OVER and step.state not in FINISHED
    return is_open and "untaint" not in step.observed.get("sent", [])


def _kept(step: Step, landing: set[str]) -> KeptNode:
    params, execution = step.params, step.execution
    return KeptNode(
        params["node"],
        execution.pk,
        frozenset(params["keys"]),
        frozenset(landing - {""}),
        execution.deadline_at,
        f"kept for {params['display']} by execution {execution.pk}",
    )
