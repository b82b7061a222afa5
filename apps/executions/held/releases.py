"""Orders to release everything of ours in a cluster: rehearsed first, then ordered by name, done by a worker.

Both are rows, so a worker that dies is followed by another one; taking away is level-triggered and may be
repeated (`releasing`). Every effect has its own audit entry there, in the name of whoever ordered it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.errors import Denied
from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters.errors import ConnectionFailed
from apps.clusters.models import Cluster
from apps.clusters.notices import publish, publish_on_commit
from apps.executions.errors import WrongState
from apps.executions.held.looking import TOPIC, look_now
from apps.executions.models import ClusterRelease
from apps.executions.releasing import Wish, open_executions_on, release_everything
from apps.kube.errors import KubeError
from apps.plans.waking import wake_worker

REHEARSED_SECONDS = 900
"""How long a rehearsal may be the ground of an order: what it showed is not what is there for ever."""
LEASE_SECONDS = 900.0
"""Longer than the task's own limit: whoever began is dead by then."""
TRIES = 3
WORK = "apps.executions.tasks.work_on_release"


def newest_release(cluster: Cluster, *, is_rehearsal: bool) -> ClusterRelease | None:
    return ClusterRelease.objects.filter(cluster=cluster, is_rehearsal=is_rehearsal).first()


@denials_recorded()
def rehearse_release(*, actor: Any, cluster: Cluster, wish: Wish) -> ClusterRelease:
    """A worker finds out what would be released. Raises Denied, and WrongState while another is under way."""
    with transaction.atomic(durable=True):
        authorize(actor, Action.ADMINISTER, cluster, subject=cluster)
        flags = _flags(wish)
        return _order(actor, cluster, "cluster.release_rehearsed", flags | {"is_rehearsal": True})


@denials_recorded()
def order_release(*, actor: Any, cluster: Cluster, rehearsal_id: int, typed_name: str) -> ClusterRelease:
    """A worker releases everything, with the wishes of that rehearsal.

    Raises Denied, and WrongState unless the rehearsal is the newest one, ended well and is not old, the
    cluster's name was typed, and no execution is open there (those that stopped apart, where so wished)."""
    with transaction.atomic(durable=True):
        authorize(actor, Action.ADMINISTER, cluster, subject=cluster)
        if typed_name.strip() != cluster.name:
            raise WrongState(f"type the cluster's name, {cluster.name}, to release everything of ours there")
        shown = _shown_rehearsal(cluster, rehearsal_id)
        opened = open_executions_on(cluster, of_stopped=shown.of_stopped)
        if opened:
            numbers = ", ".join(str(row.pk) for row in opened)
            raise WrongState(f"executions are open on {cluster.name}: {numbers}. Cancel them first")
        flags = {name: getattr(shown, name) for name in ("of_others", "even_mid_mig", "of_stopped")}
        return _order(actor, cluster, "cluster.release_ordered", flags)


def _shown_rehearsal(cluster: Cluster, rehearsal_id: int) -> ClusterRelease:
    recent = ClusterRelease.objects.filter(
        cluster=cluster,
        is_rehearsal=True,
        error="",
        ended_at__gte=Now() - timedelta(seconds=REHEARSED_SECONDS),
    )
    newest = newest_release(cluster, is_rehearsal=True)
    if newest is None or newest.pk != rehearsal_id or not recent.filter(pk=newest.pk).exists():
        minutes = REHEARSED_SECONDS // 60
        raise WrongState(
            f"what would be released was not shown in the last {minutes} min, or has been asked for again: "
            "ask for it once more"
        )
    return newest


def _flags(wish: Wish) -> dict[str, bool]:
    return {"of_others": wish.of_others, "even_mid_mig": wish.even_mid_mig, "of_stopped": wish.of_stopped}


def _order(actor: Any, cluster: Cluster, action: str, flags: dict[str, bool]) -> ClusterRelease:
    try:
        with transaction.atomic():
            row = ClusterRelease.objects.create(cluster=cluster, asked_by=actor, asked_at=Now(), **flags)
    except IntegrityError as error:
        raise WrongState(f"a worker is at it on {cluster.name} already: wait for its answer") from error
    audit.record(actor=actor, action=action, subject=cluster, cluster=cluster.name, detail={**flags})
    release_id = row.pk
    transaction.on_commit(lambda: wake_worker(WORK, release_id), robust=True)
    publish_on_commit(cluster.name, TOPIC, {})
    return row


def due_releases() -> list[int]:
    return list(ClusterRelease.objects.filter(_is_due()).order_by("pk").values_list("pk", flat=True))


def _is_due() -> Q:
    is_free = Q(begun_at=None) | Q(begun_at__lt=Now() - timedelta(seconds=LEASE_SECONDS))
    return Q(ended_at=None) & is_free


def work_on_release(release_id: int) -> bool:
    """One worker's turn. False if another one is at it, or it has ended."""
    due = ClusterRelease.objects.filter(_is_due(), pk=release_id)
    if not due.update(begun_at=Now(), tries=F("tries") + 1):
        return False
    row = ClusterRelease.objects.select_related("cluster", "asked_by").get(pk=release_id)
    _end(row, **_carry_out(row))
    if not row.is_rehearsal:
        look_now(row.cluster_id)
    publish(row.cluster.name, TOPIC, {})
    return True


def _carry_out(row: ClusterRelease) -> dict[str, Any]:
    if row.tries > TRIES:
        told = f"it was begun {TRIES} times and never ended: use manage.py release_everything at the server"
        return {"error": told}
    wish = Wish(row.even_mid_mig, row.of_others, row.is_rehearsal, row.of_stopped)
    try:
        outcome = release_everything(actor=row.asked_by, cluster=row.cluster, wish=wish)
    except (Denied, WrongState, ConnectionFailed, KubeError) as error:
        return {"error": str(error)}
    left = [{"what": what, "why": why} for what, why in outcome.left.items()]
    return {"released": outcome.released, "left": left}


def _end(row: ClusterRelease, **facts: Any) -> None:
    ClusterRelease.objects.filter(pk=row.pk, ended_at=None).update(ended_at=Now(), **facts)
