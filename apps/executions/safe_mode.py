"""Safe mode: this database is older than the cluster, so nothing is sent there until a person has looked.

Entered where the cluster's Lease or a cordon of ours carries a number that this database has not given yet:
an old backup runs. Asked in `ledger.record_intent` and by all that writes beside the engine
(`queries.in_safe_mode`). Left by an admin who has seen what the cluster carries that our rows do not know;
then our numbers are lifted above what is there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from apps.accounts.queries import may
from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster
from apps.clusters.notices import publish_on_commit
from apps.executions import ledger
from apps.executions.console_standing import own_identity
from apps.executions.errors import WrongState
from apps.executions.holdings import UNKNOWN, Held, join_executions, read_holdings
from apps.executions.lease_body import NAME, read_lease
from apps.executions.models import ClusterSafety, Execution
from apps.executions.outlook import tell_outlook
from apps.executions.states import TERMINAL, ExecutionState
from apps.kube.errors import KubeError
from apps.kube.gateway import LEASES, Gateway
from apps.plans.policies import SAFE_MODE, Ban

LOOK_SECONDS = 60.0
"""How often the timer looks at what a cluster in safe mode carries."""
MOST_TOLD = 200
OLD = "database-old"


@dataclass(frozen=True, slots=True)
class Carried:
    """What the cluster has and our rows do not, in sentences. top: the highest epoch there. fences: of our
    own executions, as the cluster's cordons tell them."""

    told: tuple[str, ...]
    top: int
    fences: dict[int, int]

    @property
    def mark(self) -> str:
        """Tells one such list from another: whoever leaves names the one that he has seen."""
        return mark_of(self.told)


def mark_of(told: tuple[str, ...] | list[str]) -> str:
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:12]


def enter(cluster: Cluster, reason: str) -> None:
    """Once; whoever comes later changes nothing."""
    ClusterSafety.objects.get_or_create(cluster=cluster)
    with transaction.atomic(durable=True):
        row = ClusterSafety.objects.select_for_update(no_key=True).get(cluster=cluster)
        if row.safe_since is None:
            set_safe(row, reason)


def set_safe(row: ClusterSafety, reason: str) -> None:
    """Inside a transaction that has locked the row."""
    row.safe_since, row.safe_reason = ledger.database_time(), reason
    row.safe_found, row.safe_looked_at, row.lease_until = [], None, None
    row.save()
    cluster = row.cluster
    detail = {"reason": reason}
    audit.record(
        actor=None, action="cluster.safe_mode_entered", subject=cluster, cluster=cluster.name, detail=detail
    )
    publish_on_commit(cluster.name, "policy", {})


def row_in_safe_mode(cluster: Cluster) -> ClusterSafety | None:
    return ClusterSafety.objects.filter(cluster=cluster, safe_since__isnull=False).first()


def ban_of_safe_mode(cluster: Cluster) -> Ban | None:
    row = row_in_safe_mode(cluster)
    if row is None or row.safe_since is None:
        return None
    return Ban(
        SAFE_MODE,
        f"{cluster.name} is in safe mode since {row.safe_since:%Y-%m-%d %H:%M} UTC, and nothing at all is "
        f"sent there: {row.safe_reason}",
        f"paused by safe mode: {row.safe_reason}",
    )


def look_around(cluster: Cluster, gateway: Gateway) -> Carried:
    """By fresh LISTs. Raises KubeError."""
    reading = read_holdings(gateway)
    held = join_executions(reading.held, cluster)
    rows = {row.pk: row for row in Execution.objects.filter(plan__cluster=cluster)}
    body = gateway.get_object(LEASES, NAME, namespace=settings.STEERING_NAMESPACE)
    found = read_lease(body, own_identity()) if body is not None else None
    fences = _fences(held)
    told = sorted({*_tell_unknown(held), *_tell_open(rows.values(), held), *_tell_fences(fences, rows)})
    known = {number: fence for number, fence in fences.items() if number in rows}
    return Carried(cut([*reading.unread, *told]), found.top if found else 0, known)


def cut(told: list[str]) -> tuple[str, ...]:
    """No longer than a page shows. What is cut off is counted and has a mark of its own in the last sentence,
    so that the mark of the list changes with it."""
    if len(told) <= MOST_TOLD:
        return tuple(told)
    rest = told[MOST_TOLD:]
    more = f"and {len(rest)} more, which manage.py held_now shows (list {mark_of(rest)})"
    return (*told[:MOST_TOLD], more)


def _tell_unknown(held: list[Held]) -> Iterator[str]:
    for one in held:
        if one.standing == UNKNOWN and one.what != "toleration":
            whose = (
                f"of execution {one.owned}, which this database does not know" if one.owned else "of nobody"
            )
            yield f"{one.what} on {one.where}, {whose}{f' ({one.detail})' if one.detail else ''}"


def _tell_open(rows: Any, held: list[Held]) -> Iterator[str]:
    for row in rows:
        if row.state not in TERMINAL:
            mine = sum(1 for one in held if one.execution == row.pk)
            yield f"execution {row.pk} is {row.state} here; the cluster carries {mine} traces of it"


def _fences(held: list[Held]) -> dict[int, int]:
    """The highest of each execution that this database knows."""
    found: dict[int, int] = {}
    for one in held:
        if one.execution is not None and one.fence:
            found[one.execution] = max(found.get(one.execution, 0), one.fence)
    return found


def _tell_fences(fences: dict[int, int], rows: dict[int, Execution]) -> Iterator[str]:
    for number, fence in fences.items():
        if number in rows and fence > rows[number].fence:
            known = rows[number].fence
            yield f"execution {number} was carried on to fence {fence}; this database knows {known}"


def look_and_keep(cluster: Cluster, *, is_due: bool = True) -> ClusterSafety | None:
    """For the page; None where the cluster is not in safe mode. is_due: only where the last look is older
    than LOOK_SECONDS. Raises ConnectionFailed and KubeError."""
    row = row_in_safe_mode(cluster)
    if row is None:
        return None
    late = ledger.database_time() - timedelta(seconds=LOOK_SECONDS)
    if is_due and row.safe_looked_at is not None and row.safe_looked_at > late:
        return row
    gateway = open_gateway(cluster)
    try:
        return _keep(row, look_around(cluster, gateway))
    finally:
        gateway.close()


def _keep(row: ClusterSafety, carried: Carried) -> ClusterSafety:
    row.safe_found, row.safe_looked_at = list(carried.told), ledger.database_time()
    row.save(update_fields=["safe_found", "safe_looked_at"])
    return row


@denials_recorded()
@transaction.atomic(durable=True)
def ask_for_look(*, actor: Any, cluster: Cluster) -> None:
    """A worker looks again soon at what a cluster in safe mode carries. For operators and admins. Raises
    Denied."""
    action = Action.OPERATE if may(actor, Action.OPERATE, cluster) else Action.ADMINISTER
    authorize(actor, action, cluster, subject=cluster)
    ClusterSafety.objects.filter(cluster=cluster, safe_since__isnull=False).update(safe_looked_at=None)
    audit.record(actor=actor, action="cluster.safe_mode_look_asked", subject=cluster, cluster=cluster.name)


@denials_recorded()
def leave(*, actor: Any, cluster: Cluster, seen: str, reason: str = "") -> None:
    """actor: an admin of the cluster, or None for somebody at the server's command line. seen: the mark of
    the list that he looked at.

    Raises Denied, WrongState (it is in no safe mode; the cluster carries something else by now),
    ConnectionFailed and KubeError."""
    if actor is not None:
        authorize(actor, Action.ADMINISTER, cluster, subject=cluster)
    row = row_in_safe_mode(cluster)
    if row is None or row.safe_since is None:
        raise WrongState(f"{cluster.name} is not in safe mode: there is nothing to leave")
    gateway = open_gateway(cluster)
    try:
        carried = look_around(cluster, gateway)
    except KubeError as error:
        raise WrongState(f"{cluster.name} cannot be looked at now: {error}") from error
    finally:
        gateway.close()
    if carried.mark != seen:
        _keep(row, carried)
        raise WrongState(
            f"what {cluster.name} carries has changed since you looked: look at the new list, then leave"
        )
    _lift(actor, cluster, carried, reason, since=row.safe_since)


def _lift(actor: Any, cluster: Cluster, carried: Carried, reason: str, *, since: datetime) -> None:
    """From here on our numbers are above all that is in the cluster, and nothing goes on by itself that this
    database saw under way: what became of it since is not known here."""
    with transaction.atomic(durable=True):
        mine = Execution.objects.filter(plan__cluster=cluster)
        wanted = mine.exclude(state__in=TERMINAL) | mine.filter(pk__in=carried.fences)
        rows = wanted.select_related("plan__cluster").order_by("pk")
        for one in rows.select_for_update(no_key=True, of=("self",)):
            if one.pk in carried.fences:
                one.fence = max(one.fence, carried.fences[one.pk]) + 1
                one.save(update_fields=["fence"])
            _halt(one, actor)
        row = ClusterSafety.objects.select_for_update(no_key=True).get(cluster=cluster)
        if row.safe_since != since:
            raise WrongState(f"safe mode of {cluster.name} was left or entered anew meanwhile: look again")
        row.epoch = max(row.epoch, carried.top) + 1
        was = row.safe_reason
        row.safe_since, row.safe_reason, row.safe_found, row.safe_looked_at = None, "", [], None
        row.save()
        detail = {"reason": reason, "was": was, "epoch": row.epoch, "seen": list(carried.told)}
        audit.record(
            actor=actor, action="cluster.safe_mode_left", subject=cluster, cluster=cluster.name, detail=detail
        )
        publish_on_commit(cluster.name, "policy", {})


def _halt(execution: Execution, actor: Any) -> None:
    """What is given back already is given back; what ran or was to run waits for an operator."""
    now, why = ledger.database_time(), "Safe mode was left, and what became of it since is not known here"
    if execution.state in (ExecutionState.QUEUED, ExecutionState.PREFLIGHT):
        words = f"Nothing was touched, as far as this database knows. {why}. "
        words += tell_outlook(execution, is_touched=False)
        ledger.change_state(execution, ExecutionState.FAILED, words, actor=actor, now=now, cause=OLD)
    elif execution.state == ExecutionState.RUNNING or execution.is_frozen or _is_paused_for_it(execution):
        words = f"{why}: look at it, then resume or cancel."
        facts = {"cause": OLD, "is_frozen": False}
        ledger.change_state(execution, ExecutionState.PAUSED, words, actor=actor, now=now, **facts)


def _is_paused_for_it(execution: Execution) -> bool:
    return execution.state == ExecutionState.PAUSED and execution.cause == OLD
