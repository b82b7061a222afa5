"""Two databases and one cluster: a second console, and a backup that is older than what was done since."""

import json

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from django.urls import reverse

from apps.accounts.rights import Role
from apps.alerts.models import Alert
from apps.alerts.services import look as look_for_trouble
from apps.audit.models import AuditEntry
from apps.executions import safe_mode, services, tasks
from apps.executions.admissions import take_steering
from apps.executions.console_lease import look
from apps.executions.console_standing import own_identity
from apps.executions.errors import HeldByPolicy, WrongState
from apps.executions.lease_body import read_lease
from apps.executions.models import ClusterSafety, Execution, Steering
from apps.executions.releasing import Wish, release_everything
from apps.executions.states import TERMINAL, ExecutionState, StepKind
from tests.executions.backups import restore_backup, second_database, take_backup
from tests.executions.crashing import reconcile
from tests.executions.test_console_lease import LEASE, go_back
from tests.executions.test_hard_cases import have_steps
from tests.executions.test_stories import carry, carry_until, has_sent
from tests.faults.records import call_of
from tests.plans.situations import person

pytestmark = pytest.mark.django_db(transaction=True)
State = ExecutionState


def written(stage):
    return [one["path"] for one in stage.requests() if call_of(one).is_real]


def of(address, words):
    with psycopg.connect(address, autocommit=True) as ledger:
        return ledger.execute(words).fetchone()


@pytest.mark.fault("workflow: two consoles on one cluster")
def test_two_consoles_on_one_cluster_do_nothing_twice(stage, webhook):
    """The other one has the same plan under way, and waits until this one has gone."""
    execution, plan = stage.start()
    carry_until(execution, lambda: have_steps(execution))
    look(stage.cluster, stage.gateway)
    mine = own_identity()
    with second_database(take_backup()) as other:
        with psycopg.connect(other, autocommit=True) as ledger:
            ledger.execute("DELETE FROM executions_console")
            ledger.execute("DELETE FROM executions_clustersafety")
        theirs = reconcile(execution, webhook.environment, other)
        carry(execution)
        assert theirs.wait(60) == 0
        assert execution.state == State.SUCCEEDED, stage.told(execution)
        state, cause, reason = of(other, "SELECT state, cause, state_reason FROM executions_execution")
        assert (state, cause) == ("paused", "another-console")
        assert mine in reason
        assert stage.traces() == []
    assert sorted(stage.evicted()) == sorted(move.pod_uid for move in plan.moves)
    assert stage.simulated.ask("GET", LEASE)["spec"]["holderIdentity"] == mine


@pytest.mark.fault("database: an old backup restored", without=(8, 29, 30, 41))
def test_an_old_backup_sends_nothing_until_a_person_has_looked(stage, client):
    """The rules about the ledger are not asserted: the intents since the backup are what was lost."""
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold"))
    backup = take_backup()
    go_back(stage.cluster, 15)
    carry_until(execution, stage.evicted)
    restore_backup(backup)
    before, evicted = written(stage), stage.evicted()

    carry(execution, seconds=20)
    assert (execution.state, execution.cause) == (State.PAUSED, "database-old"), stage.told(execution)
    _nothing_is_sent_by_anybody(stage, execution)
    assert written(stage) == before
    admin = person("root", Role.ADMIN, cluster=stage.cluster)
    seen = _what_a_person_sees(stage, client, admin)
    leave = reverse("preflight-change", args=["sim", "leave-safe-mode"])
    client.post(leave, {"seen": "stale", "reason": "restored"})
    assert ClusterSafety.objects.get().safe_since is not None
    client.post(leave, {"seen": seen, "reason": "restored"})
    row = ClusterSafety.objects.get()
    assert row.safe_since is None
    assert row.epoch > read_lease(stage.simulated.ask("GET", LEASE), own_identity()).epoch
    left = AuditEntry.objects.get(action="cluster.safe_mode_left")
    assert (left.actor, left.detail["reason"]) == (admin, "restored")
    assert written(stage) == before

    services.resume(execution_id=execution.pk, actor=stage.operator)
    carry(execution, seconds=10)
    if execution.state not in TERMINAL:
        services.cancel(execution_id=execution.pk, actor=stage.operator, reason="looked at")
        carry(execution)
    assert execution.state in TERMINAL, stage.told(execution)
    assert stage.evicted()[: len(evicted)] == evicted
    assert len(set(stage.evicted())) == len(stage.evicted()), "somebody was evicted twice"
    assert {*stage.evicted()} <= {move.pod_uid for move in plan.moves}


def _nothing_is_sent_by_anybody(stage, execution):
    tasks.keep_leases()
    tasks.free_stray_pods()
    tasks.tell_owners_of_moves()
    with pytest.raises(WrongState, match="is in safe mode"):
        release_everything(actor=None, cluster=stage.cluster, wish=Wish(of_stopped=True))
    for steering in Steering.objects.all():
        facts = {"name": steering.name, "secret": steering.secret, "owner_uid": steering.owner_uid}
        assert take_steering(**facts, pod_name="", admission_uid="a") is None
    with pytest.raises(HeldByPolicy, match="safe mode"):
        services.resume(execution_id=execution.pk, actor=stage.operator)
    Execution.objects.update(state=State.ROLLING_BACK)
    carry(execution, seconds=1)
    Execution.objects.update(state=State.PAUSED)
    look_for_trouble()
    assert Alert.objects.filter(kind="safe-mode", cleared_at=None).count() == 1


def _what_a_person_sees(stage, client, admin):
    """Page, command and REST tell the same list, with one mark."""
    client.force_login(stage.operator)
    page = client.get(reverse("preflight", args=["sim"])).content.decode()
    assert "leave safe mode</button>" not in page
    client.force_login(admin)
    page = client.get(reverse("preflight", args=["sim"])).content.decode()
    assert "execution 1 is paused here" in page or "is paused here; the cluster carries" in page
    told = client.get("/api/v1/preflights/sim/").json()["safe_mode"]
    assert f'name="seen" value="{told["seen"]}"' in page
    with pytest.raises(CommandError, match="has changed since you looked"):
        call_command("leave_safe_mode", "sim", "--seen", "stale")
    assert "an old backup was restored" in told["reason"]
    assert json.dumps(told["found"]).count("execution") >= 1
    return told["seen"]


def test_nothing_that_ran_goes_on_by_itself_when_safe_mode_is_left(stage, monkeypatch):
    """Also where no worker came by to pause it before an admin left."""
    execution, _ = stage.start()

    def leave(state, **facts):
        Execution.objects.update(state=state, **facts)
        safe_mode.enter(stage.cluster, "restored")
        seen = safe_mode.mark_of(safe_mode.look_and_keep(stage.cluster, is_due=False).safe_found)
        safe_mode.leave(actor=None, cluster=stage.cluster, seen=seen)
        execution.refresh_from_db()
        return execution.state, execution.cause, execution.is_frozen

    assert leave(State.RUNNING) == (State.PAUSED, "database-old", False)
    assert leave(State.PAUSED, is_frozen=True, cause="freeze-window") == (State.PAUSED, "database-old", False)
    assert "look at it, then resume or cancel" in execution.state_reason
    assert leave(State.PAUSED, state_reason="Paused by safe mode", cause="database-old")[0] == State.PAUSED
    assert execution.state_reason.startswith("Safe mode was left")
    assert leave(State.CANCELLING)[0] == State.CANCELLING, "what gives back goes on"

    look_around = safe_mode.look_around
    monkeypatch.setattr(safe_mode, "look_around", lambda *args: [look_around(*args), enter_anew()][0])

    def enter_anew():
        ClusterSafety.objects.update(safe_since=Now())

    with pytest.raises(WrongState, match="left or entered anew meanwhile"):
        leave(State.RUNNING)
    monkeypatch.undo()
    assert (ClusterSafety.objects.get().safe_since is None, execution.state) == (False, State.CANCELLING)
    assert leave(State.QUEUED)[:2] == (State.FAILED, "database-old")
    assert "an operator can start it again" in execution.state_reason


def test_what_a_page_cannot_show_counts_in_the_mark_all_the_same():
    told = [f"cordon on node {number}" for number in range(safe_mode.MOST_TOLD + 2)]
    shown = safe_mode.cut(told)
    assert (len(shown), shown[-1].startswith("and 2 more")) == (safe_mode.MOST_TOLD + 1, True)
    assert safe_mode.mark_of(shown) != safe_mode.mark_of(safe_mode.cut([*told[:-1], "gate on pod a/b"]))
