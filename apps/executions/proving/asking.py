"""Who asks for a proof, which one holds, and what is said of it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters.models import Cluster
from apps.clusters.notices import publish_on_commit
from apps.clusters.queries import latest_snapshot, open_snapshot
from apps.executions import permission
from apps.executions.errors import HeldByPolicy, WrongState
from apps.executions.models import SchedulerProof
from apps.executions.shadow.standing import why_shadow
from apps.executions.states import Obedience
from apps.placing.queries import device_resources, placement_policy_of
from apps.plans.policies import policy_of
from apps.plans.waking import wake_worker

WORK = "apps.executions.tasks.work_on_proof"
TOPIC = "policy"
MOST_RESOURCES = 8
"""Two pods each. A MIG cluster may have more; what was not proved keeps its paper holds."""


@dataclass(frozen=True, slots=True)
class ProofStanding:
    """row: the newest that has ended, None where nobody has tried. is_open: a worker is at one now.
    is_proved: the scheduler obeyed then, at the address of today; whether it is the same scheduler still is
    looked at before each effect that relies on it. sentence: for people."""

    row: SchedulerProof | None
    is_open: bool
    is_proved: bool
    sentence: str


@denials_recorded()
def order_proof(*, actor: Any, cluster: Cluster) -> SchedulerProof:
    """A worker finds out whether the cluster's scheduler obeys the extender, with pods of our own. For admins
    of the cluster, and for whoever is at the server (actor: None). Raises Denied, HeldByPolicy, WrongState
    while another proof is under way or where no accelerator is known to ask for."""
    with transaction.atomic(durable=True):
        if actor is not None:
            authorize(actor, Action.ADMINISTER, cluster, subject=cluster)
        require_may_prove(cluster)
        resources = _resources_of(cluster)
        token = secrets.token_hex(8)
        number = placement_policy_of(cluster).address_number
        try:
            with transaction.atomic():
                row = SchedulerProof.objects.create(
                    cluster=cluster,
                    asked_by=actor,
                    asked_at=Now(),
                    token=token,
                    resources=resources,
                    address_number=number,
                )
        except IntegrityError as error:
            raise WrongState(
                f"a worker is at a proof on {cluster.name} already: wait for its answer"
            ) from error
        detail = {"proof": row.pk, "resources": resources, "address_number": number}
        audit.record(
            actor=actor, action="scheduler.proof_asked", subject=cluster, cluster=cluster.name, detail=detail
        )
        proof_id = row.pk
        transaction.on_commit(lambda: wake_worker(WORK, proof_id), robust=True)
        publish_on_commit(cluster.name, TOPIC, {})
    return row


def require_may_prove(cluster: Cluster) -> None:
    """As for everything new that is sent there. Raises HeldByPolicy."""
    why = why_shadow(cluster)
    if why:
        raise HeldByPolicy(f"nothing may be sent now: {why}")
    permission.require_no_ban(policy_of(cluster))


def _resources_of(cluster: Cluster) -> list[str]:
    row = latest_snapshot(cluster)
    found = device_resources(open_snapshot(row)) if row is not None else []
    if not found:
        raise WrongState(
            f"no accelerator of {cluster.name} is known yet, so nothing can be asked for: wait for its first "
            "snapshot"
        )
    return found[:MOST_RESOURCES]


def open_proof_of(cluster_id: int) -> SchedulerProof | None:
    return SchedulerProof.objects.filter(cluster_id=cluster_id, ended_at=None).first()


def newest_proof(cluster_id: int) -> SchedulerProof | None:
    """Of those that ended by showing something: one that showed nothing leaves the one before as it was."""
    ended = SchedulerProof.objects.filter(cluster_id=cluster_id, ended_at__isnull=False)
    return ended.exclude(result=Obedience.UNPROVEN).first()


def proof_standing(cluster: Cluster) -> ProofStanding:
    is_open = open_proof_of(cluster.pk) is not None
    rows = SchedulerProof.objects.filter(Q(cluster=cluster), ended_at__isnull=False).select_related(
        "asked_by"
    )
    row, shown = rows.first(), newest_proof(cluster.pk)
    number = placement_policy_of(cluster).address_number
    is_same = shown is not None and shown.address_number == number
    is_proved = shown is not None and shown.result == Obedience.OBEYS and is_same
    return ProofStanding(row, is_open, is_proved, _tell(row, is_open, is_same=is_same))


def _tell(row: SchedulerProof | None, is_open: bool, *, is_same: bool) -> str:
    if is_open:
        return "A worker is at it: pods of the console ask the scheduler now"
    if row is None:
        return "Nobody has tried whether the scheduler asks the extender and waits for it"
    void = "" if is_same or row.result == Obedience.UNPROVEN else ". The address was renewed since: void"
    return f"{row.words}{void}"
