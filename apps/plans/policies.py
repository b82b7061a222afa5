"""What the policy of a cluster says now: every read of it that more than one caller needs.

Changing it is `services.governing`; what may stand in it `policy_rules`; when a window holds `freezes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.db.models import QuerySet

from apps.accounts.queries import clusters_visible_to
from apps.clusters.models import Cluster
from apps.planner.fallback import USUAL_LIMITS, FallbackLimits
from apps.planner.plan import Plan as PlannerPlan
from apps.planner.protecting import why_protected
from apps.plans.freezes import Span, Window, freeze_at, next_span, tell_moment, window_from_dict
from apps.plans.models import ClusterPolicy

if TYPE_CHECKING:
    from apps.accounts.queries import Person

FREEZE, KILL_SWITCH, OUTSIDE = "freeze", "kill switch", "outside maintenance"
CLUSTER_SWITCH, SWITCH_UNREAD = "kill switch in the cluster", "kill switch unread"
OTHER_CONSOLE, SAFE_MODE = "another console", "safe mode"
"""Kinds of bans that the cluster itself gives rise to; `executions.cluster_switch`, `console_lease`
and `safe_mode` look for them."""
USUAL_MOVES = 50
USUAL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Ban:
    """Why nothing new may be started on a cluster now. kind: FREEZE, OUTSIDE (no maintenance window is open),
    KILL_SWITCH, or one of the cluster's own. until: None where a person ends it. sentence: whole, for people;
    `short` for the reason of a pause."""

    kind: str
    sentence: str
    short: str
    until: datetime | None = None

    @property
    def ends_by_itself(self) -> bool:
        return self.kind not in (KILL_SWITCH, CLUSTER_SWITCH, SAFE_MODE)


def policy_of(cluster: Cluster) -> ClusterPolicy:
    """The cluster's policy; one that limits nothing (and is not stored) where nobody has set any."""
    found = ClusterPolicy.objects.select_related("stopped_by", "changed_by").filter(cluster=cluster).first()
    return found or ClusterPolicy(cluster=cluster)


def visible_clusters_with_policies(user: Person) -> QuerySet[Cluster]:
    """The clusters that `user` sees, each with its policy if it has one."""
    related = ("policy", "policy__stopped_by", "policy__changed_by")
    return (
        Cluster.objects.defer("credential").filter(pk__in=clusters_visible_to(user)).select_related(*related)
    )


def windows_of(policy: ClusterPolicy) -> list[Window]:
    return [window_from_dict(told) for told in policy.freeze_windows]


THE_CONSOLE = "the console itself"
"""Who threw a kill switch that nobody threw: it does after failures in a row."""


def ban_of(policy: ClusterPolicy, now: datetime) -> Ban | None:
    """What forbids new effects on the cluster at `now`: the kill switch first, then a freeze, then that no
    maintenance window is open."""
    name = policy.cluster.name
    if policy.stopped_at is not None:
        since = f"since {policy.stopped_at:%Y-%m-%d %H:%M} UTC"
        who = policy.stopped_by.get_username() if policy.stopped_by is not None else THE_CONSOLE
        return Ban(
            KILL_SWITCH,
            f"The kill switch of {name} is on {since}, by {who}: {policy.stop_reason}",
            f"paused by the kill switch ({who}: {policy.stop_reason})",
        )
    freeze = freeze_at(windows_of(policy), now)
    if freeze is None:
        return _outside_maintenance(policy, now)
    return Ban(
        FREEZE,
        f"A freeze window of {name} holds until {freeze.until_words}: {freeze.window.reason}",
        f"paused by freeze window until {freeze.until_words} ({freeze.window.reason})",
        freeze.until,
    )


def _outside_maintenance(policy: ClusterPolicy, now: datetime) -> Ban | None:
    windows = maintenance_of(policy)
    if not windows or freeze_at(windows, now) is not None:
        return None
    name, coming = policy.cluster.name, next_span(windows, now)
    if coming is None:
        return Ban(
            OUTSIDE,
            f"No maintenance window of {name} is open, and none comes",
            "paused: no maintenance window is open, and none comes",
        )
    (begin, _), window = coming
    at = tell_moment(begin, window.time_zone)
    return Ban(
        OUTSIDE,
        f"No maintenance window of {name} is open before {at}: {window.reason}",
        f"paused until the maintenance window at {at} ({window.reason})",
        begin,
    )


def maintenance_of(policy: ClusterPolicy) -> list[Window]:
    """Where there are any, nothing new begins outside them."""
    return [window_from_dict(told) for told in policy.maintenance_windows]


def next_freeze(policy: ClusterPolicy, now: datetime) -> tuple[Span, Window] | None:
    return next_span(windows_of(policy), now)


def moves_allowed(policy: ClusterPolicy, most: int) -> int:
    """`most`, or what the policy allows if that is less."""
    cap = policy.max_moves_per_plan
    return most if cap is None else min(cap, most)


def seconds_allowed(policy: ClusterPolicy, most: float) -> float:
    """`most` seconds of search, or what the policy allows if that is less."""
    cap = policy.max_seconds_per_plan
    return most if cap is None else min(float(cap), most)


def fallback_limits(policy: ClusterPolicy) -> FallbackLimits:
    """When less GPU memory is offered to what waits; the usual where the policy says nothing."""
    return FallbackLimits(
        policy.fallback_after_seconds or USUAL_LIMITS.after_seconds,
        policy.fallback_above_mib or USUAL_LIMITS.above_mib,
        policy.fallback_step_mib or USUAL_LIMITS.step_mib,
    )


def what_forbids(policy: ClusterPolicy, plan: PlannerPlan) -> list[str]:
    """Why a plan may not be carried out under the policy, whatever the cluster looks like: sentences."""
    return [
        *_over_cap(policy, plan),
        *_protected_moves(policy, plan),
        *_forbidden_preemptions(policy, plan),
        *_forbidden_lowerings(policy, plan),
    ]


def _over_cap(policy: ClusterPolicy, plan: PlannerPlan) -> Iterator[str]:
    cap = policy.max_moves_per_plan
    if cap is not None and len(plan.moves) > cap:
        moves = f"{len(plan.moves)} {'move' if len(plan.moves) == 1 else 'moves'}"
        yield f"it has {moves} and the policy of the cluster allows {cap} (max_moves_per_plan)"


def _protected_moves(policy: ClusterPolicy, plan: PlannerPlan) -> Iterator[str]:
    for move in plan.moves:
        reason = why_protected(move.pod.partition("/")[0], policy.protected_namespaces)
        if reason:
            yield f"{move.pod} must not be moved now: {reason} (move {move.order})"


def _forbidden_preemptions(policy: ClusterPolicy, plan: PlannerPlan) -> Iterator[str]:
    if plan.preemptions and not policy.may_preempt:
        pods = "a pod" if len(plan.preemptions) == 1 else f"{len(plan.preemptions)} pods"
        yield f"it preempts {pods} and the policy of the cluster allows no preemption (may_preempt)"
    for one in plan.preemptions:
        reason = why_protected(one.pod.partition("/")[0], policy.protected_namespaces)
        if reason:
            yield f"{one.pod} must not be preempted now: {reason}"


def _forbidden_lowerings(policy: ClusterPolicy, plan: PlannerPlan) -> Iterator[str]:
    limits = fallback_limits(policy)
    for one in plan.lowerings:
        reason = why_protected(one.owner.partition("/")[0], policy.protected_namespaces)
        if reason:
            yield f"{one.owner} must not be changed now: {reason}"
        if one.before_mib <= limits.above_mib:
            asks = f"{one.owner} asks for {one.before_mib:,} MiB"
            yield f"{asks} and the policy offers less above {limits.above_mib:,} only (fallback_above_mib)"
