"""Carries an execution forward. Safe to kill at any line and to run again, anywhere.

claim -> load the ledger -> look -> decide -> at most one effect -> record, again while that makes
progress -> give the claim back. Nothing is remembered between two visits but what the ledger says.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import InterfaceError, OperationalError

from apps.accounts.queries import may
from apps.clusters.errors import ConnectionFailed
from apps.clusters.gateways import open_gateway
from apps.executions import ledger, locks, names, queries
from apps.executions.blueprint import draft_steps
from apps.executions.closed_doors import face_closed_door
from apps.executions.context import Context, read_place
from apps.executions.errors import ExecutionError, HeldByPolicy, LostLease, WrongState
from apps.executions.flow import Ledger, is_finished, is_relaying, steps_to_run
from apps.executions.leased_gateway import LeasedGateway, lease_seconds
from apps.executions.models import Execution
from apps.executions.openings import begin_running
from apps.executions.outlook import tell_outlook
from apps.executions.own_failures import face_dead_worker, face_own_failure
from apps.executions.pausing import stand_in_safe_mode
from apps.executions.permission import keep_to_policy
from apps.executions.preflight import examine
from apps.executions.request_log import RequestLog, attribute_to
from apps.executions.standing import stand
from apps.executions.states import TERMINAL, ExecutionState
from apps.executions.stepping import NeedsPerson, Unreliable, advance_each
from apps.executions.undoing import cancel, roll_back, tell_left
from apps.executions.verifying import tell_elsewhere, verify_outcome
from apps.executions.watched import Sight, open_sight
from apps.kube.errors import KubeError
from apps.plans import queries as plans
from apps.plans import services as plan_services
from apps.plans.states import PlanState

log = structlog.get_logger(__name__)
State = ExecutionState
CAN_END = (State.RUNNING, State.PAUSED, State.NEEDS_HUMAN, State.VERIFYING)
"""Cancelled by themselves at the execution's deadline; a node that is being relaid is left to a person."""
ASK_ANEW = "Ask for a new plan."


def advance(execution_id: int, *, seconds: float | None = None, stays: bool = False) -> bool:
    """Stay with one execution while it moves, at most `seconds`. False if another runner has it, it ended, or
    its cluster is in safe mode.

    Where it only waits for the cluster the visit ends soon, so that no worker is kept: the timer comes back.
    stays: while it is the only execution that wants a worker, go on waiting for the cluster's news instead.
    Call it as often as you like, from anywhere.
    """
    if queries.is_in_safe_mode(execution_id):
        stand_in_safe_mode(execution_id)
        return False
    owner = f"{socket.gethostname()}:{os.getpid()}"
    lease = locks.claim(execution_id, owner=owner, seconds=lease_seconds())
    if lease is None:
        return False
    limit = time.monotonic() + (settings.EXECUTION_VISIT_SECONDS if seconds is None else seconds)
    try:
        _visit_or_tell(lease, limit, stays=stays)
    except LostLease as error:
        log.warning("left to another runner", execution=execution_id, reason=str(error))
    except WrongState as error:
        log.info("a person decided meanwhile", execution=execution_id, reason=str(error))
    finally:
        locks.release(lease)
    return True


def _visit_or_tell(lease: locks.Lease, limit: float, *, stays: bool) -> None:
    """Whatever ends a visit before its end is told in the ledger, where that can be written at all; what
    leaves no time for that, a kill, is told by the next one."""
    try:
        if not face_dead_worker(lease, _load(lease)):
            _visit(lease, limit, stays=stays)
    except ConnectionFailed as error:
        log.warning("the cluster cannot be opened", execution=lease.execution_id, reason=str(error))
        face_closed_door(lease, _load(lease), str(error))
    except (ExecutionError, KubeError, SoftTimeLimitExceeded, OperationalError, InterfaceError):
        raise  # told already, or the database itself is away
    except Exception as error:
        face_own_failure(lease, _load(lease), error)


def _visit(lease: locks.Lease, limit: float, *, stays: bool) -> None:
    cluster = _load(lease).plan.cluster
    gateway = open_gateway(cluster)
    sight = open_sight(cluster, gateway)
    requests = RequestLog(lease, cluster.pk)
    gateway.observe(requests.note)
    try:
        _turn_until(lease, sight, limit, requests, stays=stays)
    finally:
        sight.close()


def _turn_until(lease: locks.Lease, sight: Sight, limit: float, requests: RequestLog, *, stays: bool) -> None:
    moved_at = time.monotonic()
    while True:
        lease.ensure(lease.seconds / 2)
        attribute_to(None)
        execution = _load(lease)
        try:
            moved = _turn(lease, execution, sight)
        except WrongState as error:
            log.info("a person decided meanwhile", execution=execution.pk, reason=str(error))
            moved = True
        except KubeError as error:
            log.warning("the cluster could not be read", execution=execution.pk, reason=str(error))
            moved = False
        finally:
            requests.write()
        now = time.monotonic()
        moved_at = now if moved else moved_at
        is_over = now > limit or now - moved_at > settings.EXECUTION_IDLE_SECONDS
        if execution.state in TERMINAL or (is_over and not (stays and _may_stay(execution, now - limit))):
            return
        if not moved:
            if execution.state in (State.PAUSED, State.NEEDS_HUMAN):
                return
            sight.wait(settings.EXECUTION_POLL_SECONDS)


def _may_stay(execution: Execution, overtime: float) -> bool:
    """Nobody else needs this worker, and the visit is not so long that a broker would think it lost."""
    longest = settings.EXECUTION_LONG_VISIT_SECONDS - settings.EXECUTION_VISIT_SECONDS
    return overtime < longest and not queries.is_another_open(execution)


def _load(lease: locks.Lease) -> Execution:
    rows = Execution.objects.select_related("plan__cluster", "version__snapshot", "started_by")
    return rows.get(pk=lease.execution_id)


def _turn(lease: locks.Lease, execution: Execution, sight: Sight) -> bool:
    """One pass over what may be looked at. True if anything changed."""
    kept = keep_to_policy(lease, execution, sight.switch, sight.console)
    if kept is not None:
        return kept
    if execution.state in (State.QUEUED, State.PREFLIGHT):
        return _prepare(lease, execution, sight)
    now = ledger.database_time()
    steps = list(execution.steps.all())
    overdue = execution.deadline_at is not None and now > execution.deadline_at
    if overdue and execution.state in CAN_END and not any(is_relaying(step) for step in steps):
        ledger.move_execution(
            lease, State.CANCELLING, "The deadline of the execution has passed.", cause="execution-deadline"
        )
        return True
    sight.follow(steps)
    door = LeasedGateway(sight.gateway, lease, sight.view)
    sights = (sight.switch, sight.console, sight.scheduler)
    context = Context(door, lease, execution, steps, now, read_place(), *sights)
    turns: dict[str, Callable[[Context], bool]] = {
        State.RUNNING: _run,
        State.PAUSED: stand,
        State.NEEDS_HUMAN: stand,
        State.VERIFYING: _verify,
        State.CANCELLING: cancel,
        State.ROLLING_BACK: roll_back,
    }
    turn = turns.get(execution.state)
    if turn is None:
        return False
    try:
        return turn(context)
    except HeldByPolicy:
        return True  # the next turn pauses it and says why
    except NeedsPerson as error:
        return _stand_still(context, State.NEEDS_HUMAN, str(error), error.cause)
    except Unreliable as error:
        words = f"Several failures in a row. {error}"
        return _stand_still(context, State.PAUSED, words, ledger.FAILURES_IN_ROW)


def _stand_still(context: Context, target: ExecutionState, reason: str, cause: str) -> bool:
    """A running execution waits for a person; one that waits already goes on landing what it can."""
    if context.execution.state in (State.RUNNING, State.VERIFYING, State.CANCELLING, State.ROLLING_BACK):
        ledger.move_execution(context.lease, target, reason, cause=cause)
        return True
    return False


def _prepare(lease: locks.Lease, execution: Execution, sight: Sight) -> bool:
    if execution.state == State.QUEUED:
        ledger.move_execution(lease, State.PREFLIGHT, "looking whether everything is as it was approved")
        return True
    if not may(execution.started_by, "operate", execution.plan.cluster):
        ledger.move_execution(
            lease, State.FAILED, f"{execution.started_by} may not operate any more.", cause="right-lost"
        )
        return True
    if execution.plan.state != PlanState.APPROVED:
        # A runner died between the plan's change and the execution's.
        why = f"Nothing was touched. Plan {execution.plan_id} is {execution.plan.state}."
        ledger.move_execution(
            lease, State.FAILED, f"{why} {execution.plan.state_reason} {ASK_ANEW}", cause="plan-changed"
        )
        return True
    try:
        found = examine(execution.version, sight.gateway, sight.view)
    except KubeError as error:
        return _fail_closed(lease, execution, str(error))
    if found.changes or found.refusals:
        reason = " ".join((found.changes or found.refusals)[:3])
        if found.changes:
            plan_services.mark_stale(plan_id=execution.plan_id, reason=reason, is_untouched=True)
        outlook = ASK_ANEW if found.changes else tell_outlook(execution, is_touched=False)
        cause = "plan-changed" if found.changes else "preflight-refused"
        ledger.move_execution(lease, State.FAILED, f"Nothing was touched. {reason} {outlook}", cause=cause)
        return True
    plan = plans.open_plan(execution.version)
    owned = names.owned_value(execution.pk, execution.created_at)
    drafts = draft_steps(plan, found.picture, owned=owned, layouts=found.layouts, form=found.form)
    begin_running(lease, drafts, found.dry_runs)
    return True


def _fail_closed(lease: locks.Lease, execution: Execution, reason: str) -> bool:
    """A cluster that cannot be read blocks; after a while the try ends with nothing touched."""
    waited = (ledger.database_time() - execution.created_at).total_seconds()
    if waited > settings.EXECUTION_STEP_SECONDS:
        outlook = tell_outlook(execution, is_touched=False)
        words = f"Nothing was touched. {reason} {outlook}"
        ledger.move_execution(lease, State.FAILED, words, cause="cluster-unreadable")
        return True
    log.warning("preflight waits for the cluster", execution=execution.pk, reason=reason)
    return False


def _run(context: Context) -> bool:
    execution = context.execution
    if not may(execution.started_by, "operate", execution.plan.cluster):
        ledger.move_execution(
            context.lease,
            State.PAUSED,
            f"{execution.started_by} may not operate any more.",
            cause="right-lost",
        )
        return True
    book = Ledger(context.steps)
    if all(is_finished(step) for step in book.before_final):
        ledger.move_execution(context.lease, State.VERIFYING, "looking whether it is as it was promised")
        return True
    return advance_each(context, steps_to_run(book), during=(State.RUNNING,))


def _verify(context: Context) -> bool:
    """Compare with what was promised while our cordons still stand, release them, then close."""
    if not context.execution.outcome:
        verify_outcome(context)
        return True
    final = [step for step in Ledger(context.steps).final if not is_finished(step)]
    if final:
        return advance_each(context, final, during=(State.VERIFYING,))
    if context.execution.outcome["matches"]:
        told = f"{tell_elsewhere(context.steps)}{tell_left(context.steps)}"
        words = f"Everything is as it was promised.{told}"
        ledger.move_execution(context.lease, State.SUCCEEDED, words)
    else:
        differences = " ".join(context.execution.outcome["differences"])
        ledger.move_execution(
            context.lease,
            State.NEEDS_HUMAN,
            f"It is not as it was promised. {differences}",
            cause="not-as-promised",
        )
    return True
