"""Which alerts are due, from facts alone. No rows are read, no clock is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from apps.alerts.states import Kind
from apps.executions.causes import cause_of
from apps.executions.states import FINISHED, StepKind, StepState

SWITCHES = {"kill-switch", "kill-switch-cluster", "kill-switch-unreadable", "failures-in-row"}
LOST = {"hold-taken", "no-room"}
STEERED_BY_NOBODY = {"warning", "planned-only"}
EXECUTION_CAUSES = "See the execution's page: it says what was seen and offers the safe ways on."


@dataclass(frozen=True, slots=True)
class StepFacts:
    """seen, sent: as the ledger's `observed` has them. gates: whether its pods are gated at all."""

    kind: str
    state: str
    move: int
    target: str
    cause: str = ""
    gates: bool = False
    seen: Mapping[str, Any] = field(default_factory=dict)
    sent: Sequence[str] = ()
    issued_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ExecutionFacts:
    """Of an open one. visited_at: its creation where nobody has looked at it yet."""

    number: int
    state: str
    cause: str
    reason: str
    visited_at: datetime
    deadline_at: datetime | None
    changed_at: datetime
    steps: Sequence[StepFacts] = ()


@dataclass(frozen=True, slots=True)
class ExtenderFacts:
    """Of a scheduler extender that a scheduler has asked. fresh_at: as of when it knew the cluster at its
    last sign of life, or when it started where it had read nothing yet. stale_after: age from which it does
    not judge by that. is_ignorable: the scheduler goes on alone where a call fails. abstains: every node
    passes by an old picture."""

    beat_at: datetime
    fresh_at: datetime
    stale_after: timedelta
    is_ignorable: bool
    abstains: bool


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """is_watched: there is an API server that the watcher should hear from. steering: standing and words of
    the preflight's line about steering; looked_at: when it was found. other_console: which one has the
    cluster instead of this one, "" for none. safe_mode: why it is in it, and since when."""

    is_watched: bool
    watched_at: datetime | None
    executions: Sequence[ExecutionFacts] = ()
    steering: tuple[str, str] = ("", "")
    looked_at: datetime | None = None
    other_console: str = ""
    safe_mode: tuple[str, datetime] | None = None
    extender: ExtenderFacts | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each may last before somebody is told."""

    gated: timedelta = timedelta(seconds=60)
    replacement: timedelta = timedelta(minutes=5)
    mig: timedelta = timedelta(minutes=10)
    watch: timedelta = timedelta(seconds=120)
    visit: timedelta = timedelta(seconds=60)
    extender: timedelta = timedelta(seconds=60)
    extender_given_up: timedelta = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Due:
    """subject: tells it from others of its kind on the cluster. what, action: sentences; names that a cluster
    gave stand in them. runbook: part of the runbooks that helps, "" for none."""

    kind: Kind
    subject: str
    what: str
    action: str
    since: datetime
    runbook: str = ""


def due_on_cluster(facts: ClusterFacts, now: datetime, limits: Limits) -> Iterator[Due]:
    if facts.is_watched and facts.watched_at and now - facts.watched_at > limits.watch:
        yield Due(
            Kind.WATCH_OLD, "watch", "The watcher has not heard from the cluster: what is shown is old.",
            "Look at the cluster's page for the error, at its API server and at the watcher's log.",
            facts.watched_at,
        )  # fmt: skip
    standing, words = facts.steering
    if standing in STEERED_BY_NOBODY:
        yield Due(
            Kind.STEERING_AWAY, "steering", words,
            "See the cluster's preflight: it says what to install or mend.", facts.looked_at or now,
        )  # fmt: skip
    if facts.is_watched and facts.extender:
        yield from _due_of_extender(facts.extender, now, limits)
    if facts.safe_mode:
        words, since = facts.safe_mode
        yield Due(
            Kind.SAFE_MODE, "cluster", f"Nothing is sent to the cluster: {words}.",
            "Restore the newest database, or look at what the cluster carries (page Preflight) and leave "
            "safe mode.", since, "database-old",
        )  # fmt: skip
    if facts.other_console:
        yield Due(
            Kind.OTHER_CONSOLE, "console", f"Another console has the cluster: {facts.other_console}.",
            "Go on there, or stop that console: this one takes over a minute later.", now, "another-console",
        )  # fmt: skip
    for execution in facts.executions:
        yield from _due_of_execution(execution, now, limits)


def _due_of_extender(one: ExtenderFacts, now: datetime, limits: Limits) -> Iterator[Due]:
    """What has been silent for days was taken away."""
    silent, old = now - one.beat_at, one.beat_at - one.fresh_at
    alone = "The scheduler places pods with accelerators without it."
    told = alone if one.is_ignorable else "Pods with accelerators wait meanwhile, since it is not ignorable."
    if limits.extender < silent <= limits.extender_given_up:
        yield Due(
            Kind.EXTENDER_AWAY, "extender", f"The scheduler extender has fallen silent. {told}",
            "Is `manage.py serve_extender` running for this cluster? See its log; or take it out of the "
            "scheduler's configuration.", one.beat_at,
        )  # fmt: skip
    elif silent <= limits.extender and old > one.stale_after + limits.extender:
        told = "It lets every node pass meanwhile." if one.abstains else told
        yield Due(
            Kind.EXTENDER_AWAY, "extender", f"The scheduler extender sees the cluster no more. {told}",
            "Its /healthz says why; look at its log and at the cluster's API server.", one.fresh_at,
        )  # fmt: skip


def _due_of_execution(one: ExecutionFacts, now: datetime, limits: Limits) -> Iterator[Due]:
    where = f"execution {one.number}"
    if one.state == "needs_human":
        what = f"Execution {one.number} stands still: {one.reason or 'no reason was told'}"
        yield Due(Kind.NEEDS_PERSON, where, what, EXECUTION_CAUSES, one.changed_at, one.cause)
    if one.cause in SWITCHES:
        what = f"Execution {one.number} is stopped: {one.reason or one.cause}"
        action = cause_of(one.cause).runbook
        yield Due(Kind.PAUSED_BY_SWITCH, where, what, action, one.changed_at, one.cause)
    if now - one.visited_at > limits.visit:
        what = f"No runner has looked at execution {one.number} for over {limits.visit.seconds} s."
        action = "Are the workers and the beat running? See their logs; one worker alone carries it on."
        yield Due(Kind.NOT_VISITED, where, what, action, one.visited_at)
    evicted = {step.move: step.finished_at for step in one.steps if step.kind == StepKind.EVICT_POD}
    for step in one.steps:
        yield from _due_of_step(one, step, evicted.get(step.move), now, limits)


def _due_of_step(
    one: ExecutionFacts, step: StepFacts, evicted_at: datetime | None, now: datetime, limits: Limits
) -> Iterator[Due]:
    where = f"execution {one.number}, {step.target}"
    yield from _due_of_cause(where, one, step)
    if step.kind == StepKind.CORDON_NODE:
        yield from _due_of_cordon(where, one, step, now)
    if step.kind == StepKind.AWAIT_REPLACEMENT and step.state not in FINISHED and evicted_at:
        yield from _due_of_landing(where, step, evicted_at, now, limits)
    if step.kind == StepKind.RECONFIGURE_MIG and step.state == StepState.ISSUED:
        yield from _due_of_mig(where, step, now, limits)


def _due_of_cause(where: str, one: ExecutionFacts, step: StepFacts) -> Iterator[Due]:
    if step.cause == "database-old":
        action = "An old backup seems to run: restore the newest database before anything is resumed."
        what = f"{step.target} was changed by a newer life of execution {one.number}."
        yield Due(Kind.SAFE_MODE, where, what, action, one.changed_at, step.cause)
    if step.cause in LOST:
        what = f"The room that execution {one.number} kept ({step.target}) is not kept any more."
        yield Due(Kind.HOLD_LOST, where, what, EXECUTION_CAUSES, one.changed_at, step.cause)


def _due_of_cordon(where: str, one: ExecutionFacts, step: StepFacts, now: datetime) -> Iterator[Due]:
    if one.deadline_at is None or now <= one.deadline_at or not _is_cordoned(step, one.steps):
        return
    what = f"{step.target} is cordoned by execution {one.number} past its deadline."
    action = "Resume or cancel the execution: cancelling gives the node back."
    yield Due(Kind.CORDON_OVERDUE, where, what, action, one.deadline_at, "execution-deadline")


def _due_of_mig(where: str, step: StepFacts, now: datetime, limits: Limits) -> Iterator[Due]:
    if step.issued_at is None or now - step.issued_at <= limits.mig:
        return
    what = f"The MIG change of {step.target} has been asked for and is not done."
    action = "Look at mig-manager's log on that node; the node stays cordoned."
    yield Due(Kind.MIG_PENDING, where, what, action, step.issued_at, "mig-late")


def _due_of_landing(
    where: str, step: StepFacts, evicted_at: datetime, now: datetime, limits: Limits
) -> Iterator[Due]:
    if not step.seen.get("replacement") or step.seen.get("landed_on"):
        return
    name = step.seen.get("replacement_name") or "the replacement"
    is_gated = step.gates and not {"pin", "free_pod"} & set(step.sent)
    if is_gated and now - evicted_at > limits.gated:
        what = f"{name} is kept by our gate: it was made after the eviction at that time and is not let go."
        yield Due(Kind.GATED_LONG, where, what, EXECUTION_CAUSES, evicted_at, "replacement-pending")
    elif now - evicted_at > limits.replacement:
        what = f"{name} has not started: its pod was evicted at that time."
        yield Due(Kind.REPLACEMENT_PENDING, where, what, EXECUTION_CAUSES, evicted_at, "replacement-pending")


def _is_cordoned(step: StepFacts, steps: Iterable[StepFacts]) -> bool:
    opening = (StepKind.HAND_OVER, StepKind.RELEASE)
    opened = {one.target for one in steps if one.kind in opening and one.state == StepState.VERIFIED}
    is_set = step.state in (StepState.VERIFIED, StepState.COMPENSATING) and bool(step.seen.get("cordoned"))
    return is_set and step.target not in opened
