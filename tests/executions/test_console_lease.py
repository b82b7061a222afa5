"""Which console may change a cluster: one Lease, taken, renewed, left to the other, taken over."""

from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db.models import F

from apps.alerts.queries import read_facts
from apps.alerts.rules import Limits, due_on_cluster
from apps.audit.models import AuditEntry
from apps.executions import ledger, locks, permission, stepping
from apps.executions.cluster_preflight.consoles import judge_console, judge_lease_rights
from apps.executions.cluster_preflight.keeping import lines_of
from apps.executions.cluster_preflight.lines import Line, Standing, line_to_dict
from apps.executions.cluster_preflight.rights import Right
from apps.executions.console_lease import ConsoleSight, Word, look
from apps.executions.console_standing import Known, ban_of_console, is_held, known_of, own_identity
from apps.executions.decisions import act
from apps.executions.errors import HeldByPolicy, WrongState
from apps.executions.lease_body import EPOCH, lease_body, read_lease
from apps.executions.leased_gateway import LeasedGateway, seconds_per_call
from apps.executions.models import ClusterPreflight, ClusterSafety, Console, Execution, Step
from apps.executions.releasing import Wish, release_everything
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.kube.errors import NotSent
from apps.kube.gateway import NODES
from tests.executions.test_freeze import cluster, running, two_plans  # noqa: F401
from tests.plans.situations import make_cluster

pytestmark = pytest.mark.django_db(transaction=True)
LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpu-defrag/leases/console"


def epoch_in(api):
    return read_lease(api.ask("GET", LEASE), own_identity()).epoch


def writes(api):
    return [(one.method, one.status) for one in api.requests() if one.method != "GET"]


def go_back(place, seconds):
    """To the row it is the same whether the clock went on or its times lie further back."""
    back = timedelta(seconds=seconds)
    ClusterSafety.objects.filter(cluster=place).update(
        lease_until=F("lease_until") - back,
        holder_since=F("holder_since") - back,
        holder_looked_at=F("holder_looked_at") - back,
    )


@contextmanager
def another_console(place):
    """What another database knows: nothing yet of this cluster, and another name."""
    mine = ClusterSafety.objects.get(cluster=place), own_identity()
    ClusterSafety.objects.filter(cluster=place).delete()
    Console.objects.update(identity="b0b")
    yield
    ClusterSafety.objects.filter(cluster=place).delete()
    mine[0].save(force_insert=True)
    Console.objects.update(identity=mine[1])


def test_a_new_cluster_is_taken_without_a_word_and_renewed(api_server):
    place, gateway = make_cluster(), api_server.gateway()
    assert look(place, gateway).word == Word.HELD
    assert writes(api_server) == [("POST", 404), ("POST", 201), ("POST", 201)]
    assert is_held(place, 39)
    assert epoch_in(api_server) == ClusterSafety.objects.get().epoch == 2
    assert look(place, gateway).word == Word.HELD
    assert len(writes(api_server)) == 3
    go_back(place, 11)
    assert look(place, gateway).word == Word.HELD
    assert writes(api_server)[3:] == [("PATCH", 200)]
    assert epoch_in(api_server) == ClusterSafety.objects.get().epoch == 3
    taken = AuditEntry.objects.filter(action="cluster.lease_taken")
    assert [one.detail["epoch"] for one in taken.order_by("pk")] == [1, 2]
    line = judge_console(known_of(place))
    assert line.standing == Standing.OK


def test_the_epoch_is_committed_before_it_is_sent(api_server):
    place, gateway = make_cluster(), api_server.gateway()
    look(place, gateway)
    go_back(place, 11)
    api_server.fault(action="status", code=503, match={"method": "PATCH"}, times=1)
    assert look(place, gateway).word == Word.UNREAD
    assert ClusterSafety.objects.get().epoch == epoch_in(api_server) + 1
    assert is_held(place, 39), "what holds, holds until its time is over"
    go_back(place, 50)
    assert not is_held(place, 39)
    api_server.fault(action="status", code=409, match={"method": "PATCH"}, times=1)
    assert look(place, gateway).word == Word.HELD
    assert is_held(place, 39)


def test_the_second_console_waits_and_takes_over_when_the_first_has_gone(api_server):
    place, gateway = make_cluster(), api_server.gateway()
    look(place, gateway)
    first = own_identity()
    with another_console(place):
        assert look(place, gateway).word == Word.OTHER
        assert first in ban_of_console(place).sentence
        assert not is_held(place, 0)
        (_, facts), *_ = read_facts()
        (due,) = due_on_cluster(facts, ledger.database_time(), Limits())
        assert (due.kind, first in due.what) == ("other-console", True)
        line = judge_console(known_of(place))
        assert (line.standing, first in line.found) == (Standing.WARNING, True)
        go_back(place, 49)
        assert look(place, gateway).word == Word.OTHER
        go_back(place, 10)
        assert look(place, gateway).word == Word.OTHER
        go_back(place, 2)
        assert ban_of_console(place) is None, "a start is not refused for what nobody has renewed"
        assert look(place, gateway).word == Word.HELD
        assert is_held(place, 39)
        found = api_server.ask("GET", LEASE)
        assert (found["spec"]["holderIdentity"], found["spec"]["leaseTransitions"]) == ("b0b", 1)
        assert epoch_in(api_server) > read_lease(found, first).epoch > 0
    assert look(place, gateway).word == Word.OTHER
    assert not is_held(place, 0)
    assert ClusterSafety.objects.get().holder == "b0b"


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_clock_that_jumps_takes_no_cluster(api_server, seconds):
    """The other one lives: nobody could look meanwhile, so its time is counted anew."""
    place, gateway = make_cluster(), api_server.gateway()
    look(place, gateway)
    with another_console(place):
        look(place, gateway)
        go_back(place, seconds)
        assert look(place, gateway).word == Word.OTHER
        go_back(place, 40)
        assert look(place, gateway).word == Word.OTHER
        go_back(place, 21)
        assert look(place, gateway).word == Word.HELD


def test_what_another_console_left_is_not_taken_away_while_that_console_lives(api_server, monkeypatch):
    place, gateway = make_cluster(), api_server.gateway()
    look(place, gateway)
    first = own_identity()
    monkeypatch.setattr("apps.executions.releasing.open_gateway", lambda place: api_server.gateway())
    theirs = {"name": "n", "labels": {"defrag.gpu.internal/owned": "7-b0b"}}
    cordon = {"defrag.gpu.internal/cordon": '{"execution": 7, "mark": "b0b"}'}
    api_server.ask("POST", "/api/v1/nodes", {"metadata": theirs | {"annotations": cordon}})

    def release(**wish):
        return release_everything(actor=None, cluster=place, wish=Wish(of_others=True, **wish))

    with another_console(place):
        before = len(writes(api_server))
        for _ in range(2):
            with pytest.raises(WrongState, match=f"another console has east: {first} .last renewed"):
                release()
        shown = release(dry_run=True)
        assert (len(shown.released), first in shown.left["what another console left"]) == (1, True)
        assert release_everything(actor=None, cluster=place, wish=Wish()).released == []
        assert len(writes(api_server)) == before
        go_back(place, 49)
        with pytest.raises(WrongState):
            release()
        go_back(place, 20)
        assert release().released == ["cordon on node n"]
        assert len(writes(api_server)) == before + 1, "it is no reason to take the Lease"
        look(place, gateway)
    with pytest.raises(WrongState, match="b0b"):
        release()
    assert release(even_while_held=True).left == {}


def test_a_lease_is_never_too_short_for_what_a_request_may_take(api_server, settings):
    """Else nothing could ever be sent, and nothing would say why."""
    settings.KUBE_READ_SECONDS = 20
    place, gateway = make_cluster(), api_server.gateway()
    assert look(place, gateway).word == Word.HELD
    assert is_held(place, seconds_per_call())
    assert api_server.ask("GET", LEASE)["spec"]["leaseDurationSeconds"] == 97
    go_back(place, 10)
    assert is_held(place, seconds_per_call()), "until the next renewal"


def test_a_lease_that_names_no_duration_bars_starts_as_long_as_any_other(api_server):
    place, gateway = make_cluster(), api_server.gateway()
    look(place, gateway)
    api_server.ask("PATCH", LEASE, {"spec": {"holderIdentity": "by hand", "leaseDurationSeconds": None}})
    assert look(place, gateway).word == Word.OTHER
    assert "by hand" in ban_of_console(place).sentence


def test_of_two_that_renew_at_once_one_is_refused_and_looks_again(api_server, monkeypatch):
    place, gateway = make_cluster(), api_server.gateway()
    look(place, gateway)
    stale = read_lease(api_server.ask("GET", LEASE), own_identity())
    other = {"identity": "b0b", "host": "b", "epoch": 9, "now": ledger.database_time(), "seconds": 60}
    api_server.ask("PATCH", LEASE, lease_body(stale, **other))
    go_back(place, 11)
    monkeypatch.setattr("apps.executions.console_lease.read_lease", _once(stale))
    assert look(place, gateway).word == Word.OTHER
    assert writes(api_server)[-1] == ("PATCH", 409)
    assert api_server.ask("GET", LEASE)["spec"]["holderIdentity"] == "b0b"


def _once(stale):
    """What it read right before the other one wrote."""
    answers = [stale]
    return lambda body, identity: answers.pop() if answers else read_lease(body, identity)


def test_without_it_nothing_new_is_sent_and_landing_goes_on(cluster, two_plans, running):  # noqa: F811
    execution = Execution.objects.get()
    Execution.objects.update(state=ExecutionState.RUNNING)
    step = Step.objects.create(execution=execution, position=1, kind=StepKind.CORDON_NODE, target="node a")
    execution.refresh_from_db()
    lease = locks.Lease(execution.pk, execution.fence, 60)
    away = SimpleNamespace(look=lambda **how: SimpleNamespace(word=Word.REFUSED, error="403: no"), prove=list)
    context = SimpleNamespace(lease=lease, execution=execution, switch=None, console=away)
    facts = {"during": [ExecutionState.RUNNING], "seconds": 9}
    instead = permission.record_intent(context, step, act("cordon", "x"), **facts)
    assert (instead.cause, "403: no" in instead.reason) == ("lease-unreadable", True)
    row, _ = ClusterSafety.objects.get_or_create(cluster=cluster)
    row.lease_until = ledger.database_time() + timedelta(seconds=50)
    row.save()
    assert permission.record_intent(context, step, act("cordon", "x"), **facts) is None
    row.holder, row.holder_since, row.holder_seconds = "b0b", ledger.database_time(), 60
    row.save()
    step.refresh_from_db()
    with pytest.raises(HeldByPolicy, match="Another console has east: b0b"):
        permission.record_intent(context, step, act("cordon", "x"), **facts)
    assert running()[1].cause == "another-console"
    step.refresh_from_db()
    landing = facts | {"during": [ExecutionState.PAUSED]}
    assert permission.record_intent(context, step, act("cordon", "x"), **landing) is None
    go_back(cluster, 61)
    kept, execution = running()
    assert (kept, execution.state) == (True, ExecutionState.RUNNING)
    assert execution.state_reason.startswith("No other console has the cluster any more")


def test_a_runner_looks_again_where_the_lease_is_too_old_for_what_it_sends(api_server):
    place = make_cluster()
    sight = ConsoleSight(place, api_server.gateway())
    sight.look()
    asked = len(api_server.requests())
    sight.look()
    assert len(api_server.requests()) == asked
    go_back(place, 25)
    sight.look(is_enough=False)
    assert is_held(place, 39)


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000, "-3", "1e9", "\u0664" * 40], ids=len)
def test_a_number_that_nobody_counted_to_stands_in_nobodys_way(api_server, number):
    """The Lease is an object that people can edit."""
    place, gateway = make_cluster(), api_server.gateway()
    look(place, gateway)
    noted = {f"{EPOCH}{own_identity()}": number, f"{EPOCH}b0b": number}
    api_server.ask("PATCH", LEASE, {"metadata": {"annotations": noted}})
    go_back(place, 11)
    assert look(place, gateway).word == Word.HELD
    assert epoch_in(api_server) == ClusterSafety.objects.get().epoch == 3


def test_a_preflight_says_in_one_line_that_the_right_is_missing():
    missing = [Right("executor.yaml", verb, "coordination.k8s.io", "leases") for verb in ("get", "create")]
    (line,) = judge_lease_rights(missing)
    assert line.standing == Standing.PLANNED_ONLY
    assert line.found.startswith("The console may not get or create the Lease gpu-defrag/console")
    line = judge_console(Known("a", error="503: away"))
    assert (line.standing, "503: away" in line.found) == (Standing.TOLD, True)


def test_which_console_has_the_cluster_is_reckoned_when_the_kept_lines_are_shown(api_server):
    """Not as it was at the look minutes ago, by this release or an older one."""
    place, gateway = make_cluster(), api_server.gateway()
    found = [Line("Consoles", Standing.OK, "this console"), Line("Version", Standing.OK, "1.36")]
    row = ClusterPreflight.objects.create(cluster=place, lines=[line_to_dict(one) for one in found])
    assert [one.standing for one in lines_of(row)] == [Standing.TOLD, Standing.OK]
    look(place, gateway)
    assert lines_of(row)[0].found.startswith(f"This console ({own_identity()}) alone")
    go_back(place, 61)
    assert lines_of(row)[0].standing == Standing.TOLD
    with another_console(place):
        look(place, gateway)
        assert lines_of(row)[0].standing == Standing.WARNING
    row.lines = [line_to_dict(*judge_lease_rights([Right("x", "get", "coordination.k8s.io", "leases")]))]
    assert [one.found[:19] for one in lines_of(row)] == ["The console may not"]
    row.lines = []
    assert lines_of(row) == [], "nobody has looked yet"


class Door:
    """Takes what is sent."""

    def __init__(self):
        self.sent = []

    def patch_object(self, kind, name, body, **facts):
        self.sent.append(name)
        return {}


def test_a_cluster_taken_by_another_console_after_the_intent_gets_no_request(
    cluster,  # noqa: F811
    two_plans,  # noqa: F811
    running,  # noqa: F811
    monkeypatch,
):
    """The step is left as after a crash before the request: an intent of which nothing was sent."""
    execution = Execution.objects.get()
    Execution.objects.update(state=ExecutionState.RUNNING, lease_until=None)
    step = Step.objects.create(execution=execution, position=1, kind=StepKind.CORDON_NODE, target="node a")
    execution.refresh_from_db()
    row, _ = ClusterSafety.objects.get_or_create(cluster=cluster)
    row.lease_until = ledger.database_time() + timedelta(seconds=50)
    row.save()
    lease = locks.claim(execution.pk, owner="test", seconds=60)
    held = SimpleNamespace(look=lambda **how: SimpleNamespace(word=Word.HELD, error=""), prove=list)
    door = Door()
    facts = {"lease": lease, "execution": execution, "switch": None, "console": held}
    context = SimpleNamespace(gateway=LeasedGateway(door, lease), now=ledger.database_time(), **facts)
    taken = []

    def apply(context, step, decision):
        assert Step.objects.get().state == StepState.INTENT
        if not taken:
            taken.append(ClusterSafety.objects.update(holder="b0b", lease_until=None))
        context.gateway.patch_object(NODES, "a", {})

    monkeypatch.setattr(stepping, "module_of", lambda step: SimpleNamespace(apply=apply))
    running_only = [ExecutionState.RUNNING]
    assert stepping._act(context, step, act("cordon", "x"), running_only)
    assert (door.sent, step.state, step.observed["sent"]) == ([], StepState.INTENT, [])
    assert "nothing was sent" in step.reason
    assert step.retry_at is not None
    row.save()  # it is ours again: looked at anew, and sent once
    assert stepping._act(context, step, act("cordon", "x"), running_only)
    assert (door.sent, step.state) == (["a"], StepState.ISSUED)


def test_an_answer_of_long_ago_does_not_let_a_request_out(monkeypatch):
    """A worker that was stopped between the answer and the request."""
    clock = [100.0]
    monkeypatch.setattr("apps.executions.leased_gateway.steady_now", lambda: clock[0])
    door, late = Door(), []
    lease = SimpleNamespace(renew=lambda seconds: clock.__setitem__(0, clock[0] + (late or [0])[0]))
    gateway = LeasedGateway(door, lease)
    enough = seconds_per_call() + 5
    with gateway.while_ours(lambda: enough):
        gateway.patch_object(NODES, "a", {})
        late.append(6)
        with pytest.raises(NotSent):
            gateway.patch_object(NODES, "b", {})
    gateway.patch_object(NODES, "c", {})
    assert door.sent == ["a", "c"]
