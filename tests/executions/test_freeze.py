"""What a freeze window, the kill switch and the limits of a policy do to executions."""

import itertools
import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.db import connections
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.models import AuditEntry
from apps.executions import locks, permission, runner, services
from apps.executions.decisions import act
from apps.executions.errors import HeldByPolicy, WrongState
from apps.executions.models import Execution, Step
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.planner.plan import Goal, Plan
from apps.plans import services as plan_services
from apps.plans.states import PlanState
from tests.executions.test_stories import carry, carry_until, has_sent
from tests.plans.situations import (
    approve,
    attach,
    make_cluster,
    node,
    person,
    picture,
    plan_of_one_move,
    pod,
    see,
)

pytestmark = pytest.mark.django_db(transaction=True)
State = ExecutionState


def admin_of(cluster):
    return User.objects.filter(username="root").first() or person("root", "admin", cluster=cluster)


def set_policy(cluster, **wishes):
    return plan_services.change_policy(actor=admin_of(cluster), cluster=cluster, wishes=wishes)


def freeze(cluster, hours=2):
    """From an hour ago on. Gives the end as a person reads it."""
    begin = timezone.now() - timedelta(hours=1)
    end = timezone.now() + timedelta(hours=hours)
    told = {"time_zone": "UTC", "reason": "quarter end"}
    told |= {"first_day": f"{begin:%Y-%m-%d}", "start": f"{begin:%H:%M}"}
    told |= {"last_day": f"{end:%Y-%m-%d}", "end": f"{end:%H:%M}"}
    set_policy(cluster, freeze_windows=[told])
    return f"{end:%Y-%m-%d %H:%M} UTC"


def stop_everything(cluster):
    plan_services.stop_cluster(actor=admin_of(cluster), cluster=cluster, reason="the network burns")


def visit(execution, times=5):
    for _ in range(times):
        runner.advance(execution.pk, seconds=0.2)
    execution.refresh_from_db()


def test_a_freeze_lets_what_is_in_the_air_land_begins_nothing_and_ends_by_itself(stage):
    """With one eviction in flight at a time, though the moves of the wave would go side by side."""
    set_policy(stage.cluster, max_evictions_in_flight=1)
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.EVICT_POD, "evict"))
    until = freeze(stage.cluster)
    flown = set(stage.evicted())
    assert len(flown) == 1 < len([move for move in plan.moves if move.wave == 1])
    visit(execution, times=20)
    assert set(stage.evicted()) == flown
    assert not [trace for trace in stage.traces() if trace.startswith("gate")]
    assert (execution.state, execution.is_frozen) == (State.PAUSED, True)
    assert execution.state_reason == f"Paused by freeze window until {until} (quarter end)."
    with pytest.raises(HeldByPolicy, match=f"holds until {until}: quarter end"):
        services.resume(execution_id=execution.pk, actor=stage.operator)
    set_policy(stage.cluster, freeze_windows=[])
    carry(execution)
    assert execution.state == State.SUCCEEDED, stage.told(execution)
    assert len(stage.evicted()) == len(set(stage.evicted())) == len(plan.moves)
    assert execution.events.filter(message__startswith="The freeze window is over").count() == 1
    flights = sorted(flights_of(execution))
    assert all(landed <= begun for (_, landed), (begun, _) in itertools.pairwise(flights)), flights


def flights_of(execution):
    """From the intent of each eviction to the replacement's standing."""
    for step in Step.objects.filter(execution=execution, kind=StepKind.EVICT_POD):
        landing = Step.objects.get(execution=execution, move=step.move, kind=StepKind.AWAIT_REPLACEMENT)
        yield step.intent_at, landing.finished_at


def test_the_kill_switch_pauses_and_only_people_go_on(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.CORDON_NODE, "cordon"))
    stop_everything(stage.cluster)
    visit(execution)
    assert execution.state == State.PAUSED
    assert execution.state_reason == "Paused by the kill switch (root: the network burns)."
    assert stage.evicted() == []
    with pytest.raises(HeldByPolicy, match="kill switch of sim is on since .* by root: the network burns"):
        services.resume(execution_id=execution.pk, actor=stage.operator)
    plan_services.release_cluster(actor=admin_of(stage.cluster), cluster=stage.cluster, reason="out")
    visit(execution, times=3)
    assert execution.state == State.PAUSED
    services.resume(execution_id=execution.pk, actor=stage.operator)
    carry(execution)
    assert execution.state == State.SUCCEEDED, stage.told(execution)
    assert len(stage.evicted()) == len(plan.moves)


def test_under_the_kill_switch_no_kind_of_step_begins_anything_and_each_lands_or_gives_back(
    cluster, two_plans, running
):
    execution = Execution.objects.get()
    stop_everything(cluster)
    lease = locks.Lease(execution.pk, execution.fence, 60)
    context = SimpleNamespace(lease=lease, execution=execution, switch=None, console=None)
    for number, kind in enumerate(StepKind.values):
        step = Step.objects.create(execution=execution, position=number, kind=kind, target="x")
        Execution.objects.update(state=State.RUNNING)
        with pytest.raises(HeldByPolicy, match="the network burns"):
            permission.record_intent(context, step, act("any", "x"), during=[State.RUNNING], seconds=9)
        step.refresh_from_db()
        assert (step.state, step.attempts, step.observed) == (StepState.PENDING, 0, {}), kind
        Execution.objects.update(state=State.ROLLING_BACK)
        permission.record_intent(context, step, act("any", "x"), during=[State.ROLLING_BACK], seconds=9)
        assert (step.state, step.observed["sent"]) == (StepState.INTENT, ["any"]), kind


def test_under_the_kill_switch_a_person_can_still_give_everything_back(stage):
    execution, _ = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold"))
    stop_everything(stage.cluster)
    visit(execution, times=1)
    services.cancel(execution_id=execution.pk, actor=stage.operator, reason="no")
    carry(execution)
    assert execution.state == State.CANCELLED, stage.told(execution)
    assert stage.traces() == []


def test_a_namespace_protected_after_the_start_is_not_moved_and_a_person_is_told(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.STEER, "create_webhook"))
    set_policy(stage.cluster, protected_namespaces=["wor*"])
    carry(execution)
    assert {move.pod.partition("/")[0] for move in plan.moves} == {"work"}
    assert execution.state == State.NEEDS_HUMAN, stage.told(execution)
    assert "its namespace work is protected by the cluster's policy (wor*)" in execution.state_reason
    assert stage.evicted() == []


def test_a_plan_over_a_protected_namespace_goes_stale_at_preflight(stage):
    execution, _ = stage.start()
    set_policy(stage.cluster, protected_namespaces=["work"])
    carry(execution)
    execution.plan.refresh_from_db()
    assert (execution.state, execution.plan.state) == (State.FAILED, PlanState.STALE)
    assert "its namespace work is protected" in execution.plan.state_reason


# Without any cluster behind it: who may start.


@pytest.fixture
def cluster():
    return make_cluster()


@pytest.fixture
def two_plans(cluster):
    """Approved, and without a pod, node or workload in common."""
    nodes = [node(name) for name in ("node-a", "node-b", "node-c", "node-d")]
    pods = [pod("one", "node-a", 1), pod("two", "node-c", 1)]
    row = see(cluster, picture(nodes=nodes, pods=pods))
    author, approver = person("ada", "planner"), person("ben", "approver")
    return [
        _approved(cluster, row, author, approver, *names)
        for names in (("one", "node-a", "node-b"), ("two", "node-c", "node-d"))
    ]


def _approved(cluster, row, author, approver, name, source, target):
    (move,) = plan_of_one_move().moves
    facts = {"pod_uid": f"uid-{name}", "pod": f"ml/{name}", "source": source, "target": target}
    facts |= {"workload_uid": f"rs-{name}", "source_uid": f"uid-{source}", "target_uid": f"uid-{target}"}
    found = Plan(
        goal=Goal.FREE_NODES, moves=(type(move)(**(vars_of(move) | facts)),), freed_nodes=(source,), cost=60.0
    )
    plan = plan_services.request_plan(actor=author, cluster=cluster, goal="free-nodes")
    attach(plan, row, found)
    plan_services.propose_plan(plan_id=plan.pk, actor=author)
    plan.refresh_from_db()
    return approve(plan, approver)


def vars_of(move):
    return {name: getattr(move, name) for name in move.__dataclass_fields__}


def test_nothing_can_be_started_in_a_freeze_and_the_refusal_says_until_when(cluster, two_plans):
    operator = person("omar", "operator")
    until = freeze(cluster)
    with pytest.raises(HeldByPolicy, match=f"A freeze window of east holds until {until}: quarter end"):
        services.start_execution(actor=operator, plan_id=two_plans[0].pk)
    two_plans[0].refresh_from_db()
    assert two_plans[0].begun_at is None
    set_policy(cluster, freeze_windows=[])
    assert services.start_execution(actor=operator, plan_id=two_plans[0].pk).state == State.QUEUED


def test_as_many_executions_as_the_policy_allows_also_when_two_people_start_at_once(cluster, two_plans):
    operator = person("omar", "operator")
    set_policy(cluster, max_concurrent_executions=1)
    barrier, refused = threading.Barrier(2), []

    def start(plan):
        barrier.wait()
        try:
            services.start_execution(actor=operator, plan_id=plan.pk)
        except HeldByPolicy as error:
            refused.append(str(error))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=start, args=[plan]) for plan in two_plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (running,) = Execution.objects.all()
    assert refused == [
        "nothing may be started now: the policy of east allows 1 execution at once "
        f"(max_concurrent_executions), and execution {running.pk} is under way"
    ]


def test_an_effect_is_asked_about_on_its_own_right_before_its_intent(cluster, two_plans):
    """Also within one pass over many steps."""
    execution = services.start_execution(actor=person("omar", "operator"), plan_id=two_plans[0].pk)
    Execution.objects.filter(pk=execution.pk).update(state=State.RUNNING)
    step = Step.objects.create(
        execution=execution, position=1, kind=StepKind.CORDON_NODE, target="node node-a"
    )
    lease = locks.claim(execution.pk, owner="test", seconds=60)
    context = SimpleNamespace(
        lease=lease, execution=Execution.objects.get(pk=execution.pk), switch=None, console=None
    )
    decision, facts = act("cordon", "free it"), {"during": [State.RUNNING], "seconds": 9}
    freeze(cluster)
    with pytest.raises(HeldByPolicy, match="quarter end"):
        permission.record_intent(context, step, decision, **facts)
    step.refresh_from_db()
    assert (step.state, step.attempts) == (StepState.PENDING, 0)
    assert not AuditEntry.objects.filter(action__startswith="step.").exists()
    set_policy(cluster, freeze_windows=[])
    assert permission.record_intent(context, step, decision, **facts) is None
    assert AuditEntry.objects.filter(action="step.cordon_node.cordon").count() == 1


@pytest.fixture
def running(cluster, two_plans):
    """Under way for a runner that holds its lease. held(): what the policy makes of the next turn."""
    execution = services.start_execution(actor=person("omar", "operator"), plan_id=two_plans[0].pk)
    lease = locks.claim(execution.pk, owner="test", seconds=60)

    def held(**facts):
        Execution.objects.filter(pk=execution.pk).update(**facts)
        row = Execution.objects.select_related("plan__cluster").get(pk=execution.pk)
        kept = permission.keep_to_policy(lease, row)
        row.refresh_from_db()
        return kept, row

    return held


def test_a_pause_says_when_the_deadline_comes_before_the_end_of_the_freeze(cluster, running):
    freeze(cluster, hours=100)
    deadline = datetime.now(UTC) + timedelta(hours=4)
    kept, execution = running(state=State.RUNNING, deadline_at=deadline)
    assert (kept, execution.state, execution.is_frozen) == (True, State.PAUSED, True)
    assert f"Its own deadline, {deadline:%Y-%m-%d %H:%M} UTC, comes first" in execution.state_reason


def test_one_that_a_freeze_meets_in_the_queue_waits_and_the_kill_switch_ends_it_untouched(cluster, running):
    freeze(cluster)
    assert running()[0] is False
    set_policy(cluster, freeze_windows=[])
    assert running()[0] is None
    stop_everything(cluster)
    kept, execution = running()
    assert (kept, execution.state, execution.plan.state) == (True, State.FAILED, PlanState.APPROVED)
    assert "Nothing was touched. The kill switch of east is on" in execution.state_reason


def test_one_that_a_freeze_paused_waits_for_a_person_once_the_kill_switch_was_thrown(cluster, running):
    freeze(cluster)
    running(state=State.RUNNING)
    assert running()[0] is None
    stop_everything(cluster)
    kept, execution = running()
    assert (kept, execution.is_frozen) == (True, False)
    assert execution.state_reason == "Paused by the kill switch (root: the network burns)."
    plan_services.release_cluster(actor=admin_of(cluster), cluster=cluster, reason="out")
    set_policy(cluster, freeze_windows=[])
    assert (running()[0], running()[1].state) == (None, State.PAUSED)


def test_outside_the_maintenance_windows_it_pauses_and_goes_on_by_itself_once_one_is_open(cluster, running):
    ahead = timezone.now() + timedelta(days=2)
    later = {
        "first_day": f"{ahead:%Y-%m-%d}",
        "last_day": f"{ahead:%Y-%m-%d}",
        "start": "01:00",
        "end": "24:00",
    }
    later |= {"time_zone": "UTC", "reason": "sunday"}
    always = {**later, "first_day": f"{timezone.now() - timedelta(days=1):%Y-%m-%d}"}
    set_policy(cluster, maintenance_windows=[later])
    assert running()[0] is False  # it waits in the queue
    kept, execution = running(state=State.RUNNING)
    assert (kept, execution.state, execution.is_frozen) == (True, State.PAUSED, True)
    until = f"{ahead:%Y-%m-%d} 01:00 UTC"
    assert execution.state_reason == f"Paused until the maintenance window at {until} (sunday)."
    with pytest.raises(HeldByPolicy, match=f"No maintenance window of east is open before {until}"):
        permission.require_no_ban(permission.policy_of(cluster))
    set_policy(cluster, maintenance_windows=[always])
    kept, execution = running()
    assert (kept, execution.state, execution.is_frozen) == (True, State.RUNNING, False)
    assert execution.state_reason == "The maintenance window is open: it goes on by itself."


def test_a_right_that_was_taken_away_stops_the_very_next_effect(cluster, two_plans):
    """Within a pass over many steps, too: not only at the turn of the execution."""
    omar = person("omar", "operator")
    execution = services.start_execution(actor=omar, plan_id=two_plans[0].pk)
    Execution.objects.filter(pk=execution.pk).update(state=State.RUNNING)
    step = Step.objects.create(execution=execution, position=1, kind=StepKind.CORDON_NODE, target="node a")
    lease = locks.claim(execution.pk, owner="test", seconds=60)
    context = SimpleNamespace(
        lease=lease, execution=Execution.objects.get(pk=execution.pk), switch=None, console=None
    )
    omar.grants.all().delete()
    with pytest.raises(HeldByPolicy, match="omar may not operate any more"):
        permission.record_intent(context, step, act("cordon", "x"), during=[State.RUNNING], seconds=9)
    assert not AuditEntry.objects.filter(action__startswith="step.").exists()


def test_a_pause_by_a_person_outlasts_every_freeze(cluster, running):
    """Also one that came after the freeze had paused it and had ended."""
    freeze(cluster)
    running(state=State.RUNNING)
    set_policy(cluster, freeze_windows=[])
    kept, execution = running()
    assert (kept, execution.state, execution.is_frozen) == (True, State.RUNNING, False)
    services.pause(execution_id=execution.pk, actor=User.objects.get(username="omar"), reason="lunch")
    assert running()[0] is None
    freeze(cluster)
    set_policy(cluster, freeze_windows=[])
    assert running()[1].state == State.PAUSED


def test_a_person_may_make_the_pause_of_a_freeze_a_lasting_one(cluster, running):
    freeze(cluster)
    _, read_before = running(state=State.RUNNING)
    omar = User.objects.get(username="omar")
    services.pause(execution_id=read_before.pk, actor=omar, reason="let it be")
    lasting = running()[1]
    assert (lasting.state, lasting.is_frozen) == (State.PAUSED, False)
    assert lasting.state_reason == "omar: let it be"
    assert lasting.events.filter(message="omar: let it be").count() == 1
    assert AuditEntry.objects.filter(action="execution.paused", actor=omar).count() == 1
    with pytest.raises(WrongState, match="paused already"):
        services.pause(execution_id=lasting.pk, actor=omar, reason="again")
    set_policy(cluster, freeze_windows=[])
    lease = locks.Lease(lasting.pk, lasting.fence, 60)
    permission.keep_to_policy(lease, read_before)
    assert running()[1].state == State.PAUSED


def test_the_kill_switch_does_not_speak_over_a_person_who_cancelled_meanwhile(cluster, running):
    freeze(cluster)
    _, read_before = running(state=State.RUNNING)
    stop_everything(cluster)
    omar = User.objects.get(username="omar")
    services.cancel(execution_id=read_before.pk, actor=omar, reason="never mind")
    lease = locks.Lease(read_before.pk, read_before.fence, 60)
    assert permission.keep_to_policy(lease, read_before) is True
    execution = Execution.objects.get(pk=read_before.pk)
    assert (execution.state, execution.state_reason) == (State.CANCELLING, "omar: never mind")
