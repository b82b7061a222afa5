"""A cluster's policy in words: what forbids new effects now, what comes next, when each window holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from apps.clusters.models import Cluster
from apps.dashboard.reading.words import plural
from apps.executions.permission import ban_under
from apps.executions.queries import open_executions
from apps.executions.turns import evictions_in_flight
from apps.plans.freezes import Span, Window, freeze_at, next_span, tell_moment, tell_window, zone_of
from apps.plans.models import ClusterPolicy
from apps.plans.policies import (
    CLUSTER_SWITCH,
    FREEZE,
    KILL_SWITCH,
    OTHER_CONSOLE,
    OUTSIDE,
    SAFE_MODE,
    SWITCH_UNREAD,
    USUAL_MOVES,
    USUAL_SECONDS,
    maintenance_of,
    moves_allowed,
    next_freeze,
    policy_of,
    seconds_allowed,
    windows_of,
)
from apps.plans.request_rules import MOST_MOVES, MOST_SECONDS

EFFECTS = {
    KILL_SWITCH: "stopped",
    CLUSTER_SWITCH: "stopped",
    SWITCH_UNREAD: "stopped",
    OTHER_CONSOLE: "another console's",
    SAFE_MODE: "stopped",
    FREEZE: "frozen",
    OUTSIDE: "outside maintenance",
}
HOW_LIFTED = {
    CLUSTER_SWITCH: "Whoever may delete that ConfigMap lifts it; paused executions wait for an operator.",
    SWITCH_UNREAD: "It goes on by itself once it can be read again.",
    OTHER_CONSOLE: "Executions here wait.",
}
AHEAD = timedelta(hours=2)
"""A freeze that begins so soon is announced on every page of the cluster."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The banner over every page of a cluster."""

    tone: str
    symbol: str
    head: str
    text: str


@dataclass(frozen=True, slots=True)
class WindowRow:
    """number: its place in the policy. tone, state: whether it holds now. when: its present or next span, in
    local time and in UTC."""

    number: int
    window: str
    reason: str
    tone: str
    state: str
    when: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    value: str
    note: str = ""


def tell_standing(cluster: Cluster) -> Standing | None:
    """What everybody who looks at the cluster should know; None on an ordinary day."""
    policy, now = policy_of(cluster), timezone.now()
    ban = ban_under(policy)
    if ban is not None and ban.kind == KILL_SWITCH:
        then = "Nothing new is sent to the cluster; what is in the air is landed. An admin releases it."
        return Standing("bad", "oct", f"{ban.sentence}.", then)
    if ban is not None and ban.kind == SAFE_MODE:
        then = "An admin leaves safe mode on the page Preflight, after seeing what the cluster carries."
        return Standing("bad", "oct", f"{ban.sentence.rstrip('.')}.", then)
    if ban is not None and ban.kind in HOW_LIFTED:
        then = "Nothing new is sent to the cluster; what is in the air is landed."
        return Standing("bad", "oct", f"{ban.sentence.rstrip('.')}.", f"{then} {HOW_LIFTED[ban.kind]}")
    if ban is not None:
        then = "Nothing new is started; executions under way pause and go on by themselves afterwards."
        return Standing("warn", "lock", f"{ban.sentence}.", then)
    coming = next_freeze(policy, now)
    if coming is None or coming[0][0] - now > AHEAD:
        return None
    (begin, _), window = coming
    head = f"A freeze begins at {tell_moment(begin, window.time_zone)}: {window.reason}."
    return Standing("info", "half", head, "Executions that are under way then pause until it ends.")


def tell_facts(policy: ClusterPolicy) -> list[Fact]:
    cluster, now = policy.cluster, timezone.now()
    ban, coming = ban_under(policy), next_freeze(policy, now)
    running = open_executions().filter(plan__cluster=cluster).count()
    flying = evictions_in_flight(cluster).count()
    effects = "allowed" if ban is None else EFFECTS[ban.kind]
    return [
        Fact("New effects", effects, ban.sentence if ban else "executions may begin and go on"),
        Fact("Next freeze", *_tell_coming(coming)),
        *_tell_maintenance(policy, now),
        Fact("Executions under way", *_of_most(running, policy.max_concurrent_executions)),
        Fact("Evictions in flight", *_of_most(flying, policy.max_evictions_in_flight)),
    ]


def _tell_maintenance(policy: ClusterPolicy, now: datetime) -> list[Fact]:
    """When the open maintenance window closes, or the next one opens; nothing where there are none."""
    windows = maintenance_of(policy)
    if not windows:
        return []
    here = freeze_at(windows, now)
    if here is not None:
        return [Fact("Maintenance", "open", f"until {here.until_words}: {here.window.reason}")]
    when, note = _tell_coming(next_span(windows, now))
    return [Fact("Maintenance", "closed", f"opens {when} ({note})")]


def _tell_coming(coming: tuple[Span, Window] | None) -> tuple[str, str]:
    if coming is None:
        return "none", "no window begins later"
    (begin, end), window = coming
    local = begin.astimezone(zone_of(window.time_zone))
    return f"{local:%Y-%m-%d %H:%M} {window.time_zone}", f"{_in_zone((begin, end), 'UTC')}: {window.reason}"


def _in_zone(span: Span, zone: str) -> str:
    begin, end = (moment.astimezone(zone_of(zone)) for moment in span)
    return f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} {zone}"


def _of_most(number: int, most: int | None) -> tuple[str, str]:
    return f"{number}", "no limit" if most is None else f"of at most {most}"


@dataclass(frozen=True, slots=True)
class WindowPanel:
    """field: of the policy. prefix: keeps the names of its forms apart. empty: what it means to have none."""

    field: str
    prefix: str
    title: str
    note: str
    empty: str
    windows: tuple[WindowRow, ...]


def list_panels(policy: ClusterPolicy) -> list[WindowPanel]:
    now = timezone.now()
    frozen = tuple(_row(number, one, now, "warn") for number, one in enumerate(windows_of(policy)))
    opened = tuple(_row(number, one, now, "ok") for number, one in enumerate(maintenance_of(policy)))
    none = "There is none: executions may begin at any time."
    kept = "There is none: executions may begin at any time outside freeze windows."
    return [
        WindowPanel("freeze_windows", "", "Freeze windows", "nothing new is started in one", none, frozen),
        WindowPanel(
            "maintenance_windows",
            "maintenance-",
            "Maintenance windows",
            "where there are any, nothing new is started outside them",
            kept,
            opened,
        ),
    ]


def _row(number: int, window: Window, now: datetime, tone_now: str) -> WindowRow:
    here = next((span for span in window.spans_near(now) if span[0] <= now < span[1]), None)
    coming = min(window.spans_after(now), default=None)
    span = here or coming
    tone, state = (tone_now, "holds now") if here else ("", "comes" if coming else "over")
    when = tuple(_in_zone(span, zone) for zone in dict.fromkeys((window.time_zone, "UTC"))) if span else ()
    return WindowRow(number, tell_window(window), window.reason, tone, state, when)


def most_moves(cluster: Cluster) -> int:
    """As many moves may a plan ask for."""
    return moves_allowed(policy_of(cluster), MOST_MOVES)


def most_seconds(cluster: Cluster) -> int:
    """So long may the planner search for a plan."""
    return int(seconds_allowed(policy_of(cluster), MOST_SECONDS))


def usual_seconds(cluster: Cluster) -> int:
    """What a form offers at first."""
    return int(seconds_allowed(policy_of(cluster), USUAL_SECONDS))


def may_preempt(cluster: Cluster) -> bool:
    """Whether a plan may let pods lose their place."""
    return policy_of(cluster).may_preempt


def usual_moves(cluster: Cluster) -> int:
    """What a form offers at first."""
    return moves_allowed(policy_of(cluster), USUAL_MOVES)


def tell_paused(cluster: Cluster) -> str:
    """For whoever releases the kill switch: what waits for an operator then."""
    paused = open_executions().filter(plan__cluster=cluster, state="paused", is_frozen=False).count()
    return f"{plural(paused, 'paused execution')} will wait for an operator to resume" if paused else ""
