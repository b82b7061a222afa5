"""Every change of a cluster's policy: its limits, windows and protections, and the kill switch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.queries import may
from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters import notices
from apps.clusters.models import Cluster
from apps.plans.errors import InvalidPolicy, WrongState
from apps.plans.models import ClusterPolicy
from apps.plans.policy_rules import checked_policy
from apps.plans.waking import wake_worker

LONGEST_STOP_REASON = 500
PolicyCheck = Callable[[ClusterPolicy], None]
"""Called with the locked row: raises if it is no longer what the caller looked at."""


@denials_recorded()
def change_policy(
    *, actor: User, cluster: Cluster, wishes: Mapping[str, Any], check: PolicyCheck | None = None
) -> ClusterPolicy:
    """Set these values; the others stay. For admins of the cluster. Raises InvalidPolicy, Denied."""
    authorize(actor, Action.ADMINISTER, cluster)
    values = checked_policy(wishes)
    return _change(actor, cluster, values, check)


@transaction.atomic(durable=True)
def _change(
    actor: User, cluster: Cluster, values: dict[str, Any], check: PolicyCheck | None
) -> ClusterPolicy:
    policy = _lock(cluster, check)
    authorize(actor, Action.ADMINISTER, cluster, subject=policy)
    changed = {name: value for name, value in values.items() if getattr(policy, name) != value}
    if not changed:
        return policy
    before = {name: getattr(policy, name) for name in changed}
    _write(policy, actor, changed, action="policy.changed", detail={"before": before, "after": changed})
    transaction.on_commit(lambda: wake_worker("apps.plans.tasks.mark_stale_plans"), robust=True)
    return policy


@denials_recorded()
@transaction.atomic(durable=True)
def stop_cluster(
    *, actor: User, cluster: Cluster, reason: str, check: PolicyCheck | None = None
) -> ClusterPolicy:
    """The kill switch: no new effect on the cluster until an admin releases it. For whoever may operate or
    administer it. Raises InvalidPolicy (no reason), WrongState (it is on already), Denied."""
    if not may(actor, Action.ADMINISTER, cluster):
        authorize(actor, Action.OPERATE, cluster)
    words = " ".join(reason.split())[:LONGEST_STOP_REASON]
    if not words or not words.isprintable():
        raise InvalidPolicy("reason", "say in one line why everything is to stop")
    policy = _lock(cluster, check)
    if policy.stopped_at is not None:
        raise WrongState(f"the kill switch of {cluster.name} is on already: {policy.stop_reason}")
    values = {"stopped_at": Now(), "stopped_by": actor, "stop_reason": words}
    _write(policy, actor, values, action="policy.stopped", detail={"reason": words})
    return policy


def stop_cluster_by_itself(*, cluster: Cluster, reason: str) -> bool:
    """The kill switch thrown by the console, inside the caller's transaction. False if it is on already."""
    policy = _lock(cluster, None)
    if policy.stopped_at is not None:
        return False
    words = reason[:LONGEST_STOP_REASON]
    values = {"stopped_at": Now(), "stopped_by": None, "stop_reason": words}
    _write(policy, None, values, action="policy.stopped", detail={"reason": words})
    return True


@denials_recorded()
@transaction.atomic(durable=True)
def release_cluster(
    *, actor: User, cluster: Cluster, reason: str, check: PolicyCheck | None = None
) -> ClusterPolicy:
    """Switch the kill switch off again; executions that it paused wait for an operator to resume them. For
    admins of the cluster. Raises InvalidPolicy, WrongState, Denied."""
    authorize(actor, Action.ADMINISTER, cluster)
    words = " ".join(reason.split())[:LONGEST_STOP_REASON]
    if not words or not words.isprintable():
        raise InvalidPolicy("reason", "say in one line why it is safe again")
    policy = _lock(cluster, check)
    if policy.stopped_at is None:
        raise WrongState(f"the kill switch of {cluster.name} is not on")
    stopped_at = policy.stopped_at.isoformat()
    detail = {"stopped_for": policy.stop_reason, "stopped_at": stopped_at, "reason": words}
    values = {"stopped_at": None, "stopped_by": None, "stop_reason": ""}
    _write(policy, actor, values, action="policy.released", detail=detail)
    return policy


def lock_policy(cluster: Cluster) -> ClusterPolicy | None:
    """The row, locked until the end of the transaction, so that limits are counted one after the other; None
    where nothing was ever limited."""
    rows = ClusterPolicy.objects.select_for_update(no_key=True, of=("self",))
    return rows.select_related("cluster", "stopped_by").filter(cluster=cluster).first()


def _lock(cluster: Cluster, check: PolicyCheck | None) -> ClusterPolicy:
    policy = lock_policy(cluster)
    if policy is None:
        ClusterPolicy.objects.get_or_create(cluster=cluster)
        policy = lock_policy(cluster)
        assert policy is not None
    if check is not None:
        check(policy)
    return policy


def _write(
    policy: ClusterPolicy,
    actor: User | None,
    values: Mapping[str, Any],
    *,
    action: str,
    detail: dict[str, Any],
) -> None:
    for name, value in {**values, "changed_at": Now(), "changed_by": actor}.items():
        setattr(policy, name, value)
    policy.version += 1
    policy.save()
    policy.refresh_from_db()
    cluster = policy.cluster
    told = {"version": policy.version, **detail}
    audit.record(actor=actor, action=action, subject=policy, cluster=cluster.name, detail=told)
    notices.publish_on_commit(cluster.name, "policy", {"version": policy.version})
