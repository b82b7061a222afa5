"""Whose turn it is to evict on a cluster: evictions of all executions, and pods away for other reasons.

Asked right before each eviction. Who is away is read from the cluster before the transaction; our own
evictions are counted inside the one that writes the intent, under a lock that ends with it, so of two runners
the second counts what the first has written, and a connection that dies leaves nothing behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from apps.clusters.models import Cluster
from apps.executions import ledger
from apps.executions.context import Context
from apps.executions.models import Step
from apps.executions.pictures import read_pods
from apps.executions.sightings import label, name
from apps.executions.states import FINISHED, TERMINAL, StepKind, StepState
from apps.kube.gateway import JOBS, NODES, PODS, REPLICASETS, Json, Kind
from apps.kube.translate.nodes import POOL_LABELS
from apps.planner.inventory import Pod
from apps.plans.disruption import UNAVAILABLE, DisruptionLimit, limits_from
from apps.plans.models import ClusterPolicy

TURNS_LOCK = 7_340_211
"""Class of the advisory locks under which evictions on one cluster are counted."""
QUEUED_KINDS = ("Job", "")
"""Pods of these owners that have no node yet wait in the queue; those of others are missed."""


class NotYet(Exception):
    """The eviction has to wait for its turn; the words say for what."""


@dataclass(frozen=True)
class Away:
    """pods: that are unavailable for other reasons than ours, by the limit over them."""

    pods: Mapping[DisruptionLimit, int] = field(default_factory=dict)


def limits_over(policy: ClusterPolicy, step: Step) -> list[DisruptionLimit]:
    """The budgets of the policy that speak of this step's pod."""
    limits = limits_from(policy.disruption_budgets)
    return [one for one in limits if one.speaks_of(place_of(one.scope, step.params, policy.cluster.name))]


def place_of(scope: str, params: Mapping[str, Any], cluster: str) -> str:
    """Which place of a scope an eviction counts for. Steps of an older console lack some."""
    return str(
        {
            "cluster": cluster,
            "pool": params.get("pool", ""),
            "namespace": params.get("namespace", ""),
            "workload": params.get("workload") or str(params.get("owner", "")).partition(" ")[2],
            "node": params.get("source", ""),
        }[scope]
    )


def count_away(context: Context, step: Step, policy: ClusterPolicy) -> Away:
    """Reads the cluster for the limits that take in other reasons. Raises KubeError: what cannot be read
    forbids."""
    limits = [one for one in limits_over(policy, step) if one.counts == UNAVAILABLE]
    if not limits:
        return Away()
    ours = _uids_of_ours(policy.cluster)
    found: Counter[DisruptionLimit] = Counter()
    for limit in limits:
        pods = _pods_of(context, limit, step)
        found[limit] = sum(1 for pod in pods if pod.uid not in ours and is_away(pod))
    return Away(found)


def is_away(pod: Pod) -> bool:
    """Missed by somebody: bound and not Ready, about to go, or not bound although its owner runs others."""
    is_over = pod.phase in ("Succeeded", "Failed")
    if is_over or pod.hold or pod.is_being_moved or pod.owner_kind == "DaemonSet":
        return False
    if pod.node_name:
        return pod.terminating or not pod.ready
    return pod.owner_kind not in QUEUED_KINDS and not pod.gang


def _uids_of_ours(cluster: Cluster) -> set[str]:
    """Pods that are away because of us: evicted ones and what comes for them. They count as in flight."""
    flying = evictions_in_flight(cluster)
    old = {str(params["uid"]) for params in flying.values_list("params", flat=True)}
    landing = Step.objects.filter(
        kind=StepKind.AWAIT_REPLACEMENT, execution__in=flying.values("execution")
    ).exclude(state__in=FINISHED)
    new = {seen.get("seen", {}).get("replacement", "") for seen in landing.values_list("observed", flat=True)}
    return old | new


def _pods_of(context: Context, limit: DisruptionLimit, step: Step) -> list[Pod]:
    params, gateway = step.params, context.gateway
    if limit.scope == "node":
        raw = gateway.list_objects(PODS, field_selector=f"spec.nodeName={params['source']}")
        return list(read_pods({PODS: raw}).values())
    if limit.scope in ("namespace", "workload"):
        raw = gateway.list_objects(PODS, namespace=params["namespace"])
        objects: dict[Kind, Any] = {PODS: raw}
        pods = list(read_pods(objects).values())
        if limit.scope == "namespace":
            return pods
        sets = _sets_of(context, params) | {str(params["workload_uid"])}
        return [pod for pod in pods if pod.workload in sets]
    pods = list(read_pods({PODS: gateway.list_objects(PODS), JOBS: ()}).values())
    if limit.scope == "cluster":
        return pods
    nodes = {name(node) for node in gateway.list_objects(NODES) if _pool(node) == params.get("pool")}
    return [pod for pod in pods if pod.node_name in nodes]


def _sets_of(context: Context, params: Mapping[str, Any]) -> set[str]:
    """UIDs of all ReplicaSets of the same Deployment."""
    _, _, display = place_of("workload", params, "").partition("/")
    return {
        str(one["metadata"].get("uid", ""))
        for one in context.gateway.list_objects(REPLICASETS, namespace=params["namespace"])
        if any(
            owner.get("controller") and owner.get("kind") == "Deployment" and owner.get("name") == display
            for owner in one["metadata"].get("ownerReferences") or []
        )
    }


def _pool(node: Json) -> str:
    return next((label(node, key) for key in POOL_LABELS if label(node, key)), "")


def admission(step: Step, policy: ClusterPolicy, away: Away) -> Callable[[], None]:
    """What is asked inside the transaction that writes the intent: raises NotYet where it is not its turn."""

    def admit() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [TURNS_LOCK, policy.cluster.pk])
        why = why_not_its_turn(step, policy, away, ledger.database_time())
        if why:
            raise NotYet(why)

    return admit


def why_not_its_turn(step: Step, policy: ClusterPolicy, away: Away, now: datetime) -> str:
    """The budget that is used up and by what, "" if there is room for one more."""
    others = list(evictions_in_flight(policy.cluster).exclude(pk=step.pk).values_list("params", flat=True))
    most = policy.max_evictions_in_flight
    if most is not None and len(others) >= most:
        return (
            f"{len(others)} of at most {most} evictions are in flight on the cluster "
            "(max_evictions_in_flight)"
        )
    for limit in limits_over(policy, step):
        place = place_of(limit.scope, step.params, policy.cluster.name)
        flying = sum(1 for params in others if place_of(limit.scope, params, policy.cluster.name) == place)
        elsewhere = away.pods.get(limit, 0)
        if flying + elsewhere >= limit.at_most:
            return f"{tell_used(limit, place, flying, elsewhere)} (disruption_budgets)"
    return _why_too_many_this_hour(step, policy, now)


def tell_used(limit: DisruptionLimit, place: str, flying: int, elsewhere: int) -> str:
    where = "the cluster" if limit.scope == "cluster" else f"{limit.scope} {place}"
    if limit.counts != UNAVAILABLE:
        return f"{flying} of at most {limit.at_most} evictions of {where} are in flight"
    more = f", {elsewhere} for other reasons" if elsewhere else ""
    return f"{flying + elsewhere} of at most {limit.at_most} pods of {where} are unavailable{more}"


def _why_too_many_this_hour(step: Step, policy: ClusterPolicy, now: datetime) -> str:
    most = policy.max_evictions_per_hour
    if most is None:
        return ""
    sent = Step.objects.filter(
        kind__in=(StepKind.EVICT_POD, StepKind.PREEMPT_POD),
        execution__plan__cluster=policy.cluster,
        observed__sent__contains=["evict"],
        intent_at__gt=now - timedelta(hours=1),
    ).exclude(pk=step.pk)
    times = sorted(at for at in sent.values_list("intent_at", flat=True) if at is not None)
    if len(times) < most:
        return ""
    free = times[len(times) - most] + timedelta(hours=1)
    return (
        f"{len(times)} of at most {most} evictions were sent on the cluster within an hour, the next may go "
        f"at {free:%H:%M} UTC (max_evictions_per_hour)"
    )


def evictions_in_flight(cluster: Cluster) -> QuerySet[Step]:
    """Evictions that went out, or may have, and whose replacement does not stand yet (or, of a preemption,
    whose pod has not gone yet), of all executions."""
    landing = Step.objects.filter(
        execution=OuterRef("execution"), move=OuterRef("move"), kind=StepKind.AWAIT_REPLACEMENT
    )
    dropped = (StepState.SUPERSEDED, StepState.FAILED)
    return (
        Step.objects.filter(
            kind__in=(StepKind.EVICT_POD, StepKind.PREEMPT_POD),
            execution__plan__cluster=cluster,
            observed__sent__contains=["evict"],
        )
        .exclude(execution__state__in=TERMINAL)
        .exclude(state__in=dropped)
        .filter(
            Q(Exists(landing.exclude(state__in=FINISHED)), kind=StepKind.EVICT_POD)
            | Q(~Q(state__in=FINISHED), kind=StepKind.PREEMPT_POD)
        )
    )
