"""What an execution may do now, by its cluster's policy and state: asked at start, each turn, each effect.

Nothing new is sent while a freeze window or the kill switch holds; what is in the air is landed, and whatever
gives something back (cancelling, rolling back) goes on. What a policy may say is `plans.policies`'.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from apps.accounts.queries import may
from apps.accounts.rights import Action
from apps.clusters.models import Cluster
from apps.executions import ledger
from apps.executions.before_effects import prove_age, why_unsure
from apps.executions.cluster_switch import SwitchSight, ban_of_switch, keep
from apps.executions.console_lease import ConsoleSight
from apps.executions.console_standing import ban_of_console
from apps.executions.context import Context
from apps.executions.decisions import Decision, blocked, stop, wait_long
from apps.executions.departing import why_not_leave
from apps.executions.drifting import why_drifted
from apps.executions.errors import HeldByPolicy
from apps.executions.leased_gateway import seconds_per_call
from apps.executions.locks import Lease
from apps.executions.maintaining import pause_for_maintenance
from apps.executions.models import Execution, Step
from apps.executions.outlook import tell_outlook
from apps.executions.pausing import go_on, pause_by, stand_in_safe_mode, wait_for_person
from apps.executions.queries import in_safe_mode
from apps.executions.safe_mode import ban_of_safe_mode
from apps.executions.shadow.standing import why_shadow
from apps.executions.states import TERMINAL, ExecutionState, StepKind, StepState
from apps.executions.turns import NotYet, admission, count_away
from apps.planner.protecting import why_protected
from apps.plans.models import ClusterPolicy
from apps.plans.policies import (
    SAFE_MODE,
    Ban,
    ban_of,
    policy_of,
)
from apps.plans.services import lock_policy

State = ExecutionState
BEGINNING = (
    StepKind.HOLD_TARGET,
    StepKind.CHECKPOINT,
    StepKind.STEER,
    StepKind.EVICT_POD,
    StepKind.PREEMPT_POD,
    StepKind.LOWER_MEMORY,
)
"""Steps of a pod up to its eviction, and a change of its owner; what follows lands one that has left."""


def ban_now(cluster: Cluster) -> Ban | None:
    """Why nothing new may be started there, by the database's clock."""
    return ban_under(policy_of(cluster))


def ban_under(policy: ClusterPolicy) -> Ban | None:
    """What a person has to lift comes first: safe mode, the policy's kill switch, the one in the cluster."""
    ban = ban_of_safe_mode(policy.cluster) or ban_of(policy, ledger.database_time())
    if ban is not None and not ban.ends_by_itself:
        return ban
    return ban_of_switch(policy.cluster) or ban_of_console(policy.cluster) or ban


def require_may_start(cluster: Cluster) -> None:
    """Inside the transaction that creates an execution: starts on a cluster are counted one by one.

    Raises HeldByPolicy.
    """
    policy = lock_policy(cluster)
    # The row is locked, so that nobody puts the cluster into shadow while an execution begins.
    locked = Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
    reason = why_shadow(locked) or _why_not_start(policy or policy_of(cluster))
    if reason:
        raise HeldByPolicy(f"nothing may be started now: {reason}")


def why_not_start(cluster: Cluster) -> str:
    """What the policy has against a start now, or that the cluster is in shadow; "" if nothing: for pages."""
    return why_shadow(cluster) or _why_not_start(policy_of(cluster))


def _why_not_start(policy: ClusterPolicy) -> str:
    ban = ban_under(policy)
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
    ban = ban_under(policy)
    if ban is not None:
        raise HeldByPolicy(f"nothing new may be sent now: {ban.sentence}")


def keep_to_policy(
    lease: Lease,
    execution: Execution,
    switch: SwitchSight | None = None,
    console: ConsoleSight | None = None,
) -> bool | None:
    """What the policy, the cluster's own kill switch and other consoles make of a turn: True if it changed
    the execution, False if it waits, None to go on. switch, console: looked at where anything could begin."""
    if in_safe_mode(execution.plan.cluster_id):
        return stand_in_safe_mode(execution.pk)
    is_waiting = execution.state == State.PAUSED and execution.is_frozen
    if not is_waiting and execution.state not in (State.QUEUED, State.PREFLIGHT, State.RUNNING):
        return None
    cluster = execution.plan.cluster
    if switch is not None:
        keep(cluster, switch.look())
    if console is not None and (is_waiting or execution.state == State.RUNNING):
        lease.ensure(seconds_per_call())
        console.look()
    ban = ban_now(cluster)
    if ban is None:
        if is_waiting:
            return go_on(lease)
        is_running = execution.state == State.RUNNING
        return True if is_running and pause_for_maintenance(lease, execution) else None
    if is_waiting:
        return None if ban.ends_by_itself else wait_for_person(lease, ban)
    if execution.state == State.RUNNING:
        pause_by(lease, execution, ban)
        return True
    if ban.ends_by_itself or ban.kind == SAFE_MODE:
        return False
    outlook = tell_outlook(execution, is_touched=False)
    ledger.move_execution(
        lease, State.FAILED, f"Nothing was touched. {ban.sentence}. {outlook}", cause="preflight-refused"
    )
    return True


def record_intent(
    context: Context, step: Step, decision: Decision, *, during: Collection[str], seconds: float
) -> Decision | None:
    """`ledger.record_intent`, where the policy allows the effect; else what is to be recorded instead.

    Raises HeldByPolicy while nothing new may be sent at all. Landing and giving back are not asked about.
    """
    if State.RUNNING not in during:
        prove_age(context)
        ledger.record_intent(context.lease, step, decision, during=during, seconds=seconds)
        return None
    cluster = context.execution.plan.cluster
    policy = policy_of(cluster)
    unread = why_unsure(context, cluster)
    require_no_ban(policy)
    if unread is not None:
        return unread
    if not may(context.execution.started_by, Action.OPERATE, cluster):
        raise HeldByPolicy(f"{context.execution.started_by} may not operate any more")
    instead = _why_protected(step, policy) or why_drifted(context.execution, step)
    if instead is not None:
        return instead
    if decision.effect != "evict":
        ledger.record_intent(context.lease, step, decision, during=during, seconds=seconds)
        return None
    instead = why_not_leave(context, step, shadow=why_shadow(cluster), only_offered=policy.only_offered)
    if instead is not None:
        return instead
    admit = admission(step, policy, count_away(context, step, policy))
    # Waiting for its turn was none of the step's own time; being refused by a budget is.
    begun = decision if step.attempts else replace(decision, is_beginning=True)
    try:
        ledger.record_intent(context.lease, step, begun, during=during, seconds=seconds, admit=admit)
    except NotYet as why:
        return _wait_for_turn(step, str(why))
    return None


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
    if step.kind == StepKind.LOWER_MEMORY:
        return stop(
            f"{step.params['owner']} must not be changed now: {reason}.",
            "Cancel this execution. If the policy is wrong, have an admin change it, then resume.",
            cause="protected",
        )
    return stop(
        f"Pod {step.params['pod']} must not be moved now: {reason}.",
        "Cancel this execution and ask for a new plan; this pod was not evicted. If the policy is wrong, "
        "have an admin change it, then resume.",
        cause="protected",
    )


def _wait_for_turn(step: Step, why: str) -> Decision:
    reason = f"waits for its turn: {why}"
    if step.state == StepState.BLOCKED or "for other reasons" in why:
        return blocked(
            reason,
            "It goes on by itself when another pod has landed or is back.",
            cause="waits-for-turn",
            retry_seconds=2,
        )
    return wait_long(reason)
