"""Owners are told by Kubernetes Events on their workload: a pod is going to be moved, was moved, was not.

Best effort, beside the engine and never in its way: a timer reads the ledger, writes down what is due, then
sends it. The name of an event is fixed, so one that is sent again after a crash is refused by the API server
and nobody is told twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog
from django.db import transaction
from django.db.models import Q

from apps.audit import services as audit
from apps.clusters.errors import ConnectionFailed
from apps.clusters.gateways import open_gateway
from apps.clusters.queries import open_snapshot
from apps.executions import ledger, names
from apps.executions.models import Execution, OwnerNotice, Step
from apps.executions.queries import in_safe_mode
from apps.executions.rounds import act_on_each
from apps.executions.states import TERMINAL, ExecutionState, StepKind, StepState
from apps.kube.errors import Conflict, KubeError
from apps.kube.event_body import event_body
from apps.kube.gateway import EVENTS, Gateway

log = structlog.get_logger(__name__)
EVENT = "event"
MOST_ATTEMPTS = 3
TOLD_AFTER_END = timedelta(hours=1)
"""An execution that ended longer ago is not told of any more."""
REASONS = {"announced": "MoveAnnounced", "moved": "PodMoved", "stopped": "MoveStopped"}
API_VERSIONS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
}


@dataclass(frozen=True, slots=True)
class Notice:
    move: int
    word: str
    message: str


def tell_owners() -> None:
    """What is due of every execution under way or just ended."""
    recent = ledger.database_time() - TOLD_AFTER_END
    found = Execution.objects.filter(started_at__isnull=False).filter(
        ~Q(state__in=TERMINAL) | Q(finished_at__gte=recent)
    )
    act_on_each(found.select_related("plan__cluster", "version__snapshot", "started_by"), _tell_owners_of)


def _tell_owners_of(execution: Execution) -> None:
    if in_safe_mode(execution.plan.cluster_id):
        return  # what an old database knows may be long over
    steps = list(execution.steps.all())
    known = set(OwnerNotice.objects.filter(execution=execution, way=EVENT).values_list("move", "word"))
    for notice in due_notices(execution, steps):
        if (notice.move, notice.word) not in known:
            _write_down(execution, notice)
    _send(execution, steps)


def due_notices(execution: Execution, steps: Sequence[Step]) -> Iterator[Notice]:
    """All that the ledger gives reason for by now, told already or not."""
    is_over = execution.state in TERMINAL
    moves: dict[int, dict[str, Step]] = {}
    for step in steps:
        if step.move:
            moves.setdefault(step.move, {})[step.kind] = step
    for number, mine in moves.items():
        evict, landing = mine[StepKind.EVICT_POD], mine[StepKind.AWAIT_REPLACEMENT]
        params, pod = evict.params, f"pod {evict.params['pod']}"
        plan = f"plan {execution.plan_id}, execution {execution.pk}"
        if not is_over or evict.attempts:
            text = f"{pod} is going to be moved from {params['source']} to {params['target']} ({plan})."
            yield Notice(number, "announced", text)
        if landing.state == StepState.VERIFIED:
            seen = landing.observed.get("seen", {})
            node = seen.get("landed_on") or params["target"]
            new = seen.get("replacement_name") or "its replacement"
            yield Notice(number, "moved", f"{pod} was moved: {new} runs on {node} ({plan}).")
        elif is_over and execution.state != ExecutionState.SUCCEEDED:
            is_gone = evict.state == StepState.VERIFIED
            what = "was evicted; its replacement was left to the scheduler" if is_gone else "was not moved"
            yield Notice(number, "stopped", f"{pod} {what}: the execution is {execution.state} ({plan}).")


def _write_down(execution: Execution, notice: Notice) -> None:
    """Once, also where two timers are at it."""
    mark = names.owned_value(execution.pk, execution.created_at)
    with transaction.atomic():
        row, is_new = OwnerNotice.objects.get_or_create(
            execution=execution,
            move=notice.move,
            way=EVENT,
            word=notice.word,
            defaults={
                "name": f"gpu-defrag-{mark}-{notice.move}-{notice.word}",
                "message": notice.message,
                "created_at": ledger.database_time(),
            },
        )
        if is_new:
            audit.record(
                actor=execution.started_by,
                action="owner.told",
                subject=execution,
                cluster=execution.plan.cluster.name,
                detail={"move": row.move, "word": row.word, "event": row.name},
            )


def _send(execution: Execution, steps: Sequence[Step]) -> None:
    rows = OwnerNotice.objects.filter(execution=execution, sent_at=None, attempts__lt=MOST_ATTEMPTS)
    waiting = list(rows.order_by("pk"))
    if not waiting:
        return
    try:
        gateway = open_gateway(execution.plan.cluster)
    except ConnectionFailed as error:
        log.warning("owners are not told", execution=execution.pk, reason=str(error))
        return
    evictions = {step.move: step for step in steps if step.kind == StepKind.EVICT_POD}
    try:
        for row in waiting:
            _send_one(gateway, row, _involved(execution, evictions[row.move]))
    finally:
        gateway.close()


def _send_one(gateway: Gateway, row: OwnerNotice, involved: dict[str, str]) -> None:
    kind = "Warning" if row.word == "stopped" else "Normal"
    body = event_body(involved, reason=REASONS[row.word], message=row.message, name=row.name, kind=kind)
    row.attempts += 1
    try:
        gateway.create_object(EVENTS, body, namespace=involved["namespace"])
    except Conflict:
        row.sent_at = ledger.database_time()  # an earlier try went out
    except KubeError as error:
        row.error = str(error)[:300]
        log.warning("an owner could not be told", execution=row.execution_id, reason=str(error))
    else:
        row.sent_at = ledger.database_time()
    row.save(update_fields=["attempts", "sent_at", "error"])


def _involved(execution: Execution, evict: Step) -> dict[str, str]:
    """The pod's controller where the snapshot of the plan is still kept, else the pod itself."""
    params = evict.params
    snapshot = execution.version.snapshot
    workload = open_snapshot(snapshot).workloads.get(params["workload_uid"]) if snapshot else None
    if workload is not None and workload.kind in API_VERSIONS:
        return {
            "kind": workload.kind,
            "apiVersion": API_VERSIONS[workload.kind],
            "namespace": params["namespace"],
            "name": workload.name,
            "uid": params["workload_uid"],
        }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "namespace": params["namespace"],
        "name": params["name"],
        "uid": params["uid"],
    }
