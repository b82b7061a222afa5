"""Reads alerts for people, and the facts that the rules judge. Asks no cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import Q, QuerySet

from apps.accounts.queries import clusters_visible_to, may
from apps.accounts.rights import Action
from apps.alerts.models import Alert
from apps.alerts.rules import ClusterFacts, ExecutionFacts, ExtenderFacts, StepFacts
from apps.clusters.models import Cluster
from apps.clusters.queries import active_clusters
from apps.executions.console_standing import known_of
from apps.executions.models import ClusterPreflight, Execution, Step
from apps.executions.queries import open_executions
from apps.executions.states import StepKind
from apps.executions.steering_forms import Form, form_of
from apps.placing.models import ExtenderBeat
from apps.placing.queries import placement_policy_of
from apps.placing.states import WhenStale

if TYPE_CHECKING:
    from apps.accounts.queries import Person

STEERING_LINE = "Steering"


def alerts_for(user: Person) -> QuerySet[Alert]:
    """Those of the clusters that `user` sees, newest first; of the console itself for its auditors and
    admins."""
    visible = Q(cluster_id__in=clusters_visible_to(user))
    if may(user, Action.AUDIT, None) or may(user, Action.ADMINISTER, None):
        visible |= Q(cluster=None)
    return Alert.objects.filter(visible).select_related("cluster").defer("cluster__credential")


def open_alerts_for(user: Person) -> QuerySet[Alert]:
    return alerts_for(user).filter(cleared_at=None)


def read_facts() -> Iterator[tuple[Cluster, ClusterFacts]]:
    """Of every cluster that is watched or has something under way."""
    by_cluster: dict[int, list[Execution]] = {}
    for one in open_executions().select_related("plan").prefetch_related("steps"):
        by_cluster.setdefault(one.plan.cluster_id, []).append(one)
    watched = set(active_clusters().values_list("pk", flat=True))
    preflights = {row.cluster_id: row for row in ClusterPreflight.objects.all()}
    # One that no scheduler has asked yet keeps nobody waiting.
    beats = {row.cluster_id: row for row in ExtenderBeat.objects.exclude(asked_at=None)}
    found = Cluster.objects.defer("credential").filter(pk__in=watched | set(by_cluster))
    for cluster in found:
        is_watched = cluster.pk in watched
        mine = tuple(_execution(one) for one in by_cluster.get(cluster.pk, ()))
        row = preflights.get(cluster.pk) if is_watched and not cluster.is_shadow else None
        steering = _steering(row) if row else ("", "")
        looked_at = row.looked_at if row else None
        heard = cluster.watched_at or cluster.created_at
        known = known_of(cluster)
        other = known.holder if is_watched else ""
        safe = (known.safe_reason, known.safe_since) if known.safe_since else None
        beat = beats.get(cluster.pk)
        extender = _extender(cluster, beat) if beat else None
        yield cluster, ClusterFacts(is_watched, heard, mine, steering, looked_at, other, safe, extender)


def _extender(cluster: Cluster, beat: ExtenderBeat) -> ExtenderFacts:
    policy, age = placement_policy_of(cluster), beat.picture_age_seconds
    return ExtenderFacts(
        beat_at=beat.beat_at,
        fresh_at=beat.started_at if age is None else beat.beat_at - timedelta(seconds=age),
        stale_after=timedelta(seconds=policy.stale_after_seconds),
        is_ignorable=policy.is_ignorable,
        abstains=policy.when_stale == WhenStale.ABSTAIN,
    )


def _steering(row: ClusterPreflight) -> tuple[str, str]:
    for line in row.lines:
        if line.get("subject") == STEERING_LINE and line.get("standing") != "ok":
            return str(line.get("standing", "")), str(line.get("found", ""))
    return "", ""


def _execution(one: Execution) -> ExecutionFacts:
    steps = tuple(_step(step) for step in one.steps.all())
    return ExecutionFacts(
        one.pk,
        one.state,
        one.cause,
        one.state_reason,
        one.visited_at or one.created_at,
        one.deadline_at,
        _changed_at(one),
        steps,
    )


def _changed_at(one: Execution) -> datetime:
    """When it came into its state, by its own event list."""
    event = one.events.filter(step=None).order_by("-id").first()
    return event.at if event else one.created_at


def _step(step: Step) -> StepFacts:
    return StepFacts(
        step.kind,
        step.state,
        step.move,
        step.target,
        str(step.observed.get("cause", "") or ""),
        step.kind == StepKind.AWAIT_REPLACEMENT and form_of(step.params) != Form.BEST_EFFORT,
        step.observed.get("seen", {}),
        step.observed.get("sent", []),
        step.issued_at,
        step.finished_at,
    )
