"""What an execution may do now, by its cluster's policy and state: asked at start, each turn, each effect.

Nothing new is sent while a freeze window or the kill switch holds; what is in the air is landed, and whatever
gives something back (cancelling, rolling back) goes on. What a policy may say is `plans.policies`'.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from apps.clusters.models import Cluster
from apps.executions import ledger
from apps.executions.context import Context
from apps.executions.decisions import Decision, blocked, stop, wait_long
from apps.executions.drifting import why_drifted
from apps.executions.errors import HeldByPolicy
from apps.executions.locks import Lease, hold_fence
from apps.executions.models import Execution, Step
from apps.executions.outlook import tell_outlook
from apps.executions.shadow.standing import why_shadow
from apps.executions.states import FINISHED, TERMINAL, ExecutionState, StepKind, StepState
from apps.planner.protecting import why_protected
from apps.plans.models import ClusterPolicy
from apps.plans.policies import FREEZE, KILL_SWITCH, Ban, ban_of, policy_of
from apps.plans.services import lock_policy

State = ExecutionState
BEGINNING = (
    StepKind.HOLD_TARGET,
    StepKind.CHECKPOINT,
    StepKind.STEER,
    StepKind.EVICT_POD,
    StepKind.PREEMPT_POD,
)
"""Steps of a pod up to its eviction; what follows lands one that has left already."""
CAUSES_OF_BANS = {FREEZE: "freeze-window", KILL_SWITCH: "kill-switch"}
TURNS_LOCK = 7_340_211
"""Class of the advisory locks under which evictions on one cluster are counted."""


def ban_now(cluster: Cluster) -> Ban | None:
    """Why nothing new may be started there, by the database's clock."""
    return ban_of(policy_of(cluster), ledger.database_time())


def require_may_start(cluster: Cluster) -> None:
    """Inside the transaction that creates an execution: starts on a cluster are counted one by one.

    Raises HeldByPolicy.
    """
    policy = lock_policy(cluster)
    # The row is locked, so that nobody puts the cluster into shadow while an execution begins.
    locked = Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
    reason = why_shadow(locked) or (_why_not_start(policy) if policy is not None else "")
    if reason:
        raise HeldByPolicy(f"nothing may be started now: {reason}")


def why_not_start(cluster: Cluster) -> str:
    """What the policy has against a start now, or that the cluster is in shadow; "" if nothing: for pages."""
    return why_shadow(cluster) or _why_not_start(policy_of(cluster))


def _why_not_start(policy: ClusterPolicy) -> str:
    ban = ban_of(policy, ledger.database_time())
    if ban is not None:
        return ban.sentence
    cluster, most = policy.cluster, policy.max_concurrent_executions
    under_way = Execution.objects.filter(plan__cluster=cluster).exclude(state__in=TERMINAL)
    numbers = [str(number) for number in under_way.order_by("pk").values_list("pk", flat=True)]
    if most is None or len(numbers) < most:
        return ""
    return (
        f"the policy of {cluster.name} allows {most} {'execution' if most == 1 else 'executions'} at once "
        f"(max_concurrent_executions), and execution {', '.join(numbers)} is under way"
    )


def require_no_ban(policy: ClusterPolicy) -> None:
    ban = ban_of(policy, ledger.database_time())
    if ban is not None:
        raise HeldByPolicy(f"nothing new may be sent now: {ban.sentence}")


def keep_to_policy(lease: Lease, execution: Execution) -> bool | None:
    """What the policy makes of a turn: True if it changed the execution, False if it waits, None to go on."""
    is_waiting = execution.state == State.PAUSED and execution.is_frozen
    if not is_waiting and execution.state not in (State.QUEUED, State.PREFLIGHT, State.RUNNING):
        return None
    ban = ban_now(execution.plan.cluster)
    if ban is None:
        return _go_on(lease) if is_waiting else None
    if is_waiting:
        return _wait_for_person(lease, ban) if ban.kind == KILL_SWITCH else None
    if execution.state == State.RUNNING:
        _pause(lease, execution, ban)
        return True
    if ban.kind == FREEZE:
        return False
    outlook = tell_outlook(execution, is_touched=False)
    ledger.move_execution(
        lease, State.FAILED, f"Nothing was touched. {ban.sentence}. {outlook}", cause="preflight-refused"
    )
    return True


def _pause(lease: Lease, execution: Execution, ban: Ban) -> None:
    words = f"{ban.short[:1].upper()}{ban.short[1:]}."
    deadline = execution.deadline_at
    if ban.kind == FREEZE and deadline is not None and (ban.until is None or ban.until > deadline):
        words += (
            f" Its own deadline, {deadline:%Y-%m-%d %H:%M} UTC, comes first: it is cancelled then and gives "
            "everything back."
        )
    ledger.move_execution(
        lease, State.PAUSED, words, is_frozen=ban.kind == FREEZE, cause=CAUSES_OF_BANS[ban.kind]
    )


def _wait_for_person(lease: Lease, ban: Ban) -> bool:
    """Once the kill switch was thrown nothing goes on by itself. Landing goes on in the turns that follow."""
    with hold_fence(lease) as row:
        if not (row.state == State.PAUSED and row.is_frozen):
            return True  # a person decided meanwhile
        row.is_frozen = False
        row.state_reason = f"{ban.short[:1].upper()}{ban.short[1:]}."
        row.cause = CAUSES_OF_BANS[ban.kind]
        row.save(update_fields=["is_frozen", "state_reason", "cause"])
    return True


def _go_on(lease: Lease) -> bool:
    """Steps that stood still have their whole time ahead of them."""
    standing = (StepState.PENDING, StepState.BLOCKED, StepState.INTENT, StepState.ISSUED)
    with hold_fence(lease) as row:
        if not (row.state == State.PAUSED and row.is_frozen):
            return True  # a person decided meanwhile
        Step.objects.filter(execution=row, state__in=standing).update(deadline_at=None, retry_at=None)
        now = ledger.database_time()
        reason = "The freeze window is over: it goes on by itself."
        ledger.change_state(row, State.RUNNING, reason, actor=None, now=now, is_frozen=False)
    return True


def record_intent(
    context: Context, step: Step, decision: Decision, *, during: Collection[str], seconds: float
) -> Decision | None:
    """`ledger.record_intent`, where the policy allows the effect; else what is to be recorded instead.

    Raises HeldByPolicy while nothing new may be sent at all. Landing and giving back are not asked about.
    """
    if State.RUNNING not in during:
        ledger.record_intent(context.lease, step, decision, during=during, seconds=seconds)
        return None
    cluster = context.execution.plan.cluster
    policy = policy_of(cluster)
    require_no_ban(policy)
    instead = _why_protected(step, policy) or why_drifted(context.execution, step)
    if instead is not None:
        return instead
    most = policy.max_evictions_in_flight
    if most is None or decision.effect != "evict":
        ledger.record_intent(context.lease, step, decision, during=during, seconds=seconds)
        return None
    with _counted_alone(cluster):
        flying = evictions_in_flight(cluster).count()
        if flying >= most:
            return _wait_for_turn(step, f"{flying} of at most {most} evictions are in flight on the cluster")
        # Waiting for its turn was none of the step's own time.
        begun = replace(decision, is_beginning=True)
        ledger.record_intent(context.lease, step, begun, during=during, seconds=seconds)
    return None


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


def _why_protected(step: Step, policy: ClusterPolicy) -> Decision | None:
    if step.kind not in BEGINNING:
        return None
    if step.kind == StepKind.PREEMPT_POD and not policy.may_preempt:
        return stop(
            f"Pod {step.params['pod']} must not be preempted: the policy allows no preemption.",
            "Cancel this execution and ask for a new plan; this pod was not evicted.",
            cause="protected",
        )
    reason = why_protected(step.params["namespace"], policy.protected_namespaces)
    if not reason:
        return None
    return stop(
        f"Pod {step.params['pod']} must not be moved now: {reason}.",
        "Cancel this execution and ask for a new plan; this pod was not evicted. If the policy is wrong, "
        "have an admin change it, then resume.",
        cause="protected",
    )


def _wait_for_turn(step: Step, why: str) -> Decision:
    reason = f"waits for its turn: {why} (max_evictions_in_flight)"
    if step.state == StepState.BLOCKED:
        return blocked(
            reason,
            "It goes on by itself when another pod has landed.",
            cause="waits-for-turn",
            retry_seconds=2,
        )
    return wait_long(reason)


@contextmanager
def _counted_alone(cluster: Cluster) -> Iterator[None]:
    """No other runner counts evictions on the cluster until this one has written its own."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s, %s)", [TURNS_LOCK, cluster.pk])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [TURNS_LOCK, cluster.pk])
