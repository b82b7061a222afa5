"""What people decide about an execution: start, pause, resume, cancel, roll back.

One durable transaction each: rights, row lock, state by compare-and-set, ledger entry. Nothing here talks to
a cluster; the runner acts on the new state within one look.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.db import IntegrityError, transaction

from apps.accounts.models import User
from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters import notices
from apps.executions import ledger, permission
from apps.executions.errors import InUse, WrongState
from apps.executions.models import Claim, Execution, Step
from apps.executions.states import TERMINAL, ExecutionState, StepState
from apps.executions.ways import require_seen, steps_to_settle
from apps.planner.plan import Plan as PlannerPlan
from apps.plans import queries as plans
from apps.plans import services as plan_services
from apps.plans.policies import policy_of
from apps.plans.waking import wake_worker

STANDING = (StepState.PENDING, StepState.BLOCKED, StepState.INTENT, StepState.ISSUED)
CAUSES_OF_WISHES = {
    ExecutionState.PAUSED: "paused-by-person",
    ExecutionState.CANCELLING: "stopped-by-person",
    ExecutionState.ROLLING_BACK: "stopped-by-person",
}
ADVANCE = "apps.executions.tasks.advance_execution"


@denials_recorded()
@transaction.atomic(durable=True)
def start_execution(*, actor: User, plan_id: int) -> Execution:
    """Begin carrying out an approved plan: QUEUED, with everything that it needs claimed for it.

    Raises Denied, HeldByPolicy (a freeze, the kill switch, a limit), InUse (another open execution has a
    node, pod or workload of it), WrongState (it has an open execution) and what plans refuse: WrongState
    (not approved, expired), DigestMismatch.
    """
    plan = plan_services.find_plan(plan_id)
    authorize(actor, Action.OPERATE, plan.cluster, subject=plan)
    version = plan_services.begin_plan(plan_id=plan_id)
    permission.require_may_start(plan.cluster)
    if Execution.objects.filter(plan=plan).exclude(state__in=TERMINAL).exists():
        raise WrongState(f"plan {plan_id} is being carried out already")
    done = Execution.objects.filter(plan=plan, state=ExecutionState.SUCCEEDED).first()
    if done is not None:
        raise WrongState(f"plan {plan_id} was carried out by execution {done.pk}: ask for a new plan")
    execution = Execution.objects.create(plan=plan, version=version, started_by=actor)
    _claim(execution, plan.cluster.name, plans.open_plan(version))
    detail = {"plan": plan_id, "version": version.number, "digest": version.digest}
    audit.record(
        actor=actor, action="execution.started", subject=execution, cluster=plan.cluster.name, detail=detail
    )
    wake(execution)
    return execution


def pause(*, execution_id: int, actor: User, reason: str) -> Execution:
    """No new hold, steering or eviction. What is evicted already is still landed. One that a freeze window
    paused then no longer goes on by itself."""
    return _change(execution_id, actor, ExecutionState.PAUSED, reason)


def resume(*, execution_id: int, actor: User, reason: str = "", seen: str = "") -> Execution:
    """Go on after a pause, or after a person has dealt with what an execution stopped at. seen: the mark of
    how it stood when that was decided (`ways.mark_of_standing`)."""
    return _change(execution_id, actor, ExecutionState.RUNNING, reason or "resumed", seen)


def cancel(*, execution_id: int, actor: User, reason: str) -> Execution:
    """Land what is in the air, then give everything back."""
    return _change(execution_id, actor, ExecutionState.CANCELLING, reason)


def roll_back(*, execution_id: int, actor: User, reason: str) -> Execution:
    """Give everything back at once. Evictions cannot be undone."""
    return _change(execution_id, actor, ExecutionState.ROLLING_BACK, reason)


@denials_recorded()
@transaction.atomic(durable=True)
def _change(execution_id: int, actor: User, target: ExecutionState, reason: str, seen: str = "") -> Execution:
    row = Execution.objects.select_for_update(no_key=True, of=("self",)).select_related("plan__cluster")
    execution = row.filter(pk=execution_id).first()
    if execution is None:
        raise WrongState(f"there is no execution {execution_id}")
    authorize(actor, Action.OPERATE, execution.plan.cluster, subject=execution)
    if target == ExecutionState.RUNNING:
        _require_stopped(execution)
        require_seen(execution, list(execution.steps.all()), seen)
        permission.require_no_ban(policy_of(execution.plan.cluster))
        execution.outcome = {}
        _look_afresh(execution, STANDING)
    elif target == execution.state == ExecutionState.PAUSED and not execution.is_frozen:
        raise WrongState(f"execution {execution_id} is paused already, until somebody resumes it")
    elif target in (ExecutionState.CANCELLING, ExecutionState.ROLLING_BACK):
        _look_back_afresh(execution)
    execution.is_frozen = False
    words = f"{actor.get_username()}: {reason}" if reason else f"by {actor.get_username()}"
    cause = CAUSES_OF_WISHES.get(target, "")
    now = ledger.database_time()
    ledger.change_state(execution, target, words, actor=actor, now=now, cause=cause)
    wake(execution)
    return execution


@transaction.atomic(durable=True)
def cancel_from_server(*, execution_id: int, reason: str) -> None:
    """As `cancel`, by somebody at the server's command line. One that ends already is left to it."""
    row = Execution.objects.select_for_update(no_key=True, of=("self",)).select_related("plan__cluster")
    execution = row.get(pk=execution_id)
    ending = {ExecutionState.CANCELLING, ExecutionState.ROLLING_BACK, *TERMINAL}
    if execution.state in ending:
        return
    _look_back_afresh(execution)
    execution.is_frozen = False
    words, now = f"from the server's command line: {reason}", ledger.database_time()
    cause = CAUSES_OF_WISHES[ExecutionState.CANCELLING]
    ledger.change_state(execution, ExecutionState.CANCELLING, words, actor=None, now=now, cause=cause)
    wake(execution)


def _require_stopped(execution: Execution) -> None:
    if execution.state not in (ExecutionState.PAUSED, ExecutionState.NEEDS_HUMAN):
        raise WrongState(f"execution {execution.pk} is {execution.state}, so there is nothing to resume")
    undone = [StepState.COMPENSATING, StepState.COMPENSATED]
    if Step.objects.filter(execution=execution, state__in=undone).exists():
        raise WrongState(
            f"execution {execution.pk} was being undone when it stopped: cancel it or roll it back"
        )


def _look_back_afresh(execution: Execution) -> None:
    """What is being given back, and evictions of which nobody could tell whether they went out."""
    _look_afresh(execution, (StepState.COMPENSATING,))
    given_up = [step for step in execution.steps.all() if step in steps_to_settle([step])]
    _look_afresh(execution, STANDING, among=[step.pk for step in given_up])


def _look_afresh(
    execution: Execution, states: Collection[StepState], *, among: Collection[int] | None = None
) -> None:
    """Steps that waited for a person are looked at again, with their whole time ahead of them. among: their
    keys, all if None."""
    rows = Step.objects.select_for_update(no_key=True).filter(execution=execution, state__in=states)
    for step in rows if among is None else rows.filter(pk__in=among):
        step.deadline_at = None
        step.retry_at = None
        step.observed |= {"needs_person": False, "failures": 0, "crashes": 0}
        step.observed.pop("stands", None)
        step.save()


def _claim(execution: Execution, cluster: str, plan: PlannerPlan) -> None:
    subjects = list(dict.fromkeys(claimed_subjects(cluster, plan)))
    taken = Claim.objects.filter(subject__in=subjects).first()
    if taken is None:
        try:
            with transaction.atomic():
                Claim.objects.bulk_create(Claim(execution=execution, subject=name) for name in subjects)
            return
        except IntegrityError:
            taken = Claim.objects.filter(subject__in=subjects).first()
    other = f"execution {taken.execution_id} has {taken.subject}" if taken else "another execution began"
    raise InUse(f"plan {execution.plan_id} cannot start now: {other}. Wait until that one has ended.")


def claimed_subjects(cluster: str, plan: PlannerPlan) -> Iterable[str]:
    """One open execution per node, pod and workload."""
    for move in plan.moves:
        yield f"{cluster}:pod:{move.pod_uid}"
        yield f"{cluster}:node:{move.source_uid or move.source}"
        yield f"{cluster}:node:{move.target_uid or move.target}"
        if move.workload_uid:
            yield f"{cluster}:workload:{move.workload_uid}"
    for given in plan.preemptions:
        yield f"{cluster}:pod:{given.pod_uid}"
        yield f"{cluster}:node:{given.node_uid or given.node}"
        if given.workload_uid:
            yield f"{cluster}:workload:{given.workload_uid}"
    for one in plan.reconfigurations:
        yield f"{cluster}:node:{one.node_uid or one.node}"
    for lowering in plan.lowerings:
        yield f"{cluster}:workload:{lowering.owner_uid}"
        yield from (f"{cluster}:pod:{uid}" for uid in lowering.pod_uids)
    for hand_over in plan.hand_overs:
        yield f"{cluster}:pod:{hand_over.pod_uid}"
        yield f"{cluster}:node:{hand_over.node_uid or hand_over.node}"


def wake(execution: Execution) -> None:
    cluster, data = execution.plan.cluster.name, {"id": execution.pk}
    execution_id = execution.pk
    transaction.on_commit(lambda: wake_worker(ADVANCE, execution_id), robust=True)
    transaction.on_commit(lambda: notices.publish(cluster, "execution", data), robust=True)
