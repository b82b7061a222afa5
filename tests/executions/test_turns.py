"""Budgets count the evictions of all executions and pods that are away for other reasons."""

import threading
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import connections, transaction
from django.utils import timezone

from apps.executions import ledger, locks
from apps.executions.decisions import act
from apps.executions.models import Execution, Step
from apps.executions.returning import returning_moves
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.executions.turns import Away, NotYet, admission, count_away, is_away, limits_over, why_not_its_turn
from apps.plans.disruption import DisruptionLimit
from apps.plans.errors import InvalidPolicy
from apps.plans.models import ClusterPolicy
from apps.plans.policy_rules import checked_policy
from tests.executions import things
from tests.plans.situations import draft, make_cluster, person, picture, plan_of_one_move, pod

pytestmark = pytest.mark.django_db(transaction=True)
EVICT = {"source": "node-a", "namespace": "ml", "workload": "ml/web", "pool": "train", "workload_uid": "rs"}


@pytest.fixture
def cluster():
    return make_cluster()


def policy(cluster, *budgets, **facts):
    known = [{"name": "*", "counts": "unavailable", **one} for one in budgets]
    return ClusterPolicy(cluster=cluster, disruption_budgets=known, **facts)


def execution_on(cluster, author="ada"):
    made = person(author, "planner")
    plan = draft(cluster, made)
    return Execution.objects.create(
        plan=plan, version=plan.versions.get(), started_by=made, state=ExecutionState.RUNNING
    )


def eviction(execution, move, *, sent=True, **params):
    """A step of its own move, and what waits for its replacement."""
    facts = {"execution": execution, "move": move, "params": {**EVICT, "uid": f"uid-{move}", **params}}
    observed = {"sent": ["evict"]} if sent else {}
    Step.objects.create(position=2 * move, kind=StepKind.AWAIT_REPLACEMENT, **facts)
    return Step.objects.create(
        position=2 * move + 1,
        kind=StepKind.EVICT_POD,
        observed=observed,
        state=StepState.ISSUED if sent else StepState.PENDING,
        intent_at=timezone.now() if sent else None,
        **facts,
    )


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"scope": "cluster"}, "1 of at most 1 pods of the cluster are unavailable"),
        ({"scope": "pool"}, "1 of at most 1 pods of pool train are unavailable"),
        ({"scope": "namespace", "name": "m*"}, "1 of at most 1 pods of namespace ml are unavailable"),
        ({"scope": "workload", "name": "ml/web"}, "1 of at most 1 pods of workload ml/web are unavailable"),
        ({"scope": "node", "counts": "in_flight"}, "1 of at most 1 evictions of node node-a are in flight"),
        ({"scope": "namespace", "name": "prod-*"}, ""),
        ({"scope": "workload", "name": "ml/other"}, ""),
    ],
)
def test_evictions_of_another_execution_count(cluster, budget, words):
    eviction(execution_on(cluster), 1)
    mine = eviction(execution_on(cluster, "bob"), 2, sent=False)
    why = why_not_its_turn(mine, policy(cluster, {**budget, "at_most": 1}), Away(), timezone.now())
    assert why == (f"{words} (disruption_budgets)" if words else "")


@pytest.mark.parametrize("other", [{"source": "node-b"}, {"namespace": "ops"}, {"pool": "serve"}])
def test_each_place_counts_for_itself(cluster, other):
    eviction(execution_on(cluster), 1, **other)
    mine = eviction(execution_on(cluster, "bob"), 2, sent=False)
    scope = {"source": "node"}.get(next(iter(other)), next(iter(other)))
    budget = {"scope": scope, "at_most": 1}
    assert why_not_its_turn(mine, policy(cluster, budget), Away(), timezone.now()) == ""


def test_pods_away_for_other_reasons_take_their_share_and_are_told(cluster):
    eviction(execution_on(cluster), 1)
    mine = eviction(execution_on(cluster, "bob"), 2, sent=False)
    rules = policy(cluster, {"scope": "namespace", "at_most": 2})
    (limit,) = limits_over(rules, mine)
    assert why_not_its_turn(mine, rules, Away({limit: 0}), timezone.now()) == ""
    assert why_not_its_turn(mine, rules, Away({limit: 1}), timezone.now()) == (
        "2 of at most 2 pods of namespace ml are unavailable, 1 for other reasons (disruption_budgets)"
    )


def test_an_eviction_in_doubt_does_not_stand_in_its_own_way(cluster):
    mine = eviction(execution_on(cluster), 1)
    rules = policy(cluster, {"scope": "cluster", "at_most": 1}, max_evictions_in_flight=1)
    assert why_not_its_turn(mine, rules, Away(), timezone.now()) == ""


def test_so_many_evictions_an_hour(cluster):
    earlier = eviction(execution_on(cluster), 1)
    at = timezone.now() - timedelta(minutes=50)
    Step.objects.filter(pk=earlier.pk).update(intent_at=at, state=StepState.VERIFIED)
    mine = eviction(execution_on(cluster, "bob"), 2, sent=False)
    rules = policy(cluster, max_evictions_per_hour=1)
    free = f"{at + timedelta(hours=1):%H:%M} UTC"
    assert f"the next may go at {free}" in why_not_its_turn(mine, rules, Away(), timezone.now())
    assert why_not_its_turn(mine, rules, Away(), timezone.now() + timedelta(minutes=11)) == ""


def test_who_is_away():
    def away(**facts):
        return is_away(pod("a", facts.pop("on", "node-a"), 1, **facts))

    assert not away()
    assert away(ready=False)
    assert away(terminating=True)
    assert away(on="", phase="Pending", ready=False)
    assert not away(on="", phase="Pending", ready=False, owner_kind="Job")  # it waits in the queue
    assert not away(on="", phase="Pending", ready=False, gang="ml/train")
    assert not away(phase="Succeeded", ready=False)
    assert not away(ready=False, owner_kind="DaemonSet")
    assert not away(hold=True, ready=False)
    assert not away(steering="ours", ready=False)  # ours: it counts as in flight


def test_what_is_away_is_read_from_the_cluster_and_ours_is_not_counted_twice(cluster):
    eviction(execution_on(cluster), 1)
    mine = eviction(execution_on(cluster, "bob"), 2, sent=False)
    pods = [
        things.pod("gone", uid="uid-1", on="node-a", leaving=True),
        things.pod("sick", on="node-a"),
        things.pod("well", on="node-a", ready=True),
    ]
    context = SimpleNamespace(gateway=SimpleNamespace(list_objects=lambda kind, **where: pods))
    rules = policy(cluster, {"scope": "namespace", "at_most": 2}, {"scope": "node", "at_most": 9})
    assert set(count_away(context, mine, rules).pods.values()) == {1}
    only_ours = policy(cluster, {"scope": "cluster", "at_most": 1, "counts": "in_flight"})
    assert count_away(SimpleNamespace(), mine, only_ours) == Away()


def test_of_two_runners_at_once_one_gets_the_last_turn(cluster):
    rules = policy(cluster, {"scope": "cluster", "at_most": 1})
    steps = [eviction(execution_on(cluster, name), 1, sent=False) for name in ("ada", "bob")]
    leases = [locks.claim(step.execution_id, owner="test", seconds=60) for step in steps]
    barrier, refused = threading.Barrier(2), []

    def send(step, lease):
        facts = {"during": [ExecutionState.RUNNING], "seconds": 9, "admit": admission(step, rules, Away())}
        barrier.wait()
        try:
            ledger.record_intent(lease, step, act("evict", "go"), **facts)
        except NotYet as why:
            refused.append(str(why))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=send, args=pair) for pair in zip(steps, leases, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["1 of at most 1 pods of the cluster are unavailable (disruption_budgets)"]
    assert sorted(step.state for step in Step.objects.filter(kind=StepKind.EVICT_POD)) == [
        StepState.INTENT,
        StepState.PENDING,
    ]


def test_the_lock_ends_with_the_transaction_also_when_it_fails(cluster):
    mine = eviction(execution_on(cluster), 1, sent=False)
    admit = admission(mine, policy(cluster), Away())
    with transaction.atomic():
        admit()
        transaction.set_rollback(True)
    done = threading.Event()

    def other():
        with transaction.atomic():
            admit()
        done.set()
        connections.close_all()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(timeout=30)
    assert done.is_set()


def landed(execution, minutes_ago, workload="ml/lora"):
    step = eviction(execution, 1, workload=workload)
    at = timezone.now() - timedelta(minutes=minutes_ago)
    Step.objects.filter(execution=execution).update(state=StepState.VERIFIED, finished_at=at)
    return step


@pytest.mark.parametrize(
    ("facts", "minutes", "words"),
    [
        ({"workload_cool_down_seconds": 3600}, 30, "its workload ml/lora was moved at"),
        ({"workload_cool_down_seconds": 3600}, 90, ""),
        (
            {"max_moves_per_workload_per_day": 1},
            600,
            "was moved 1 times within a day and the plan moves 1 more",
        ),
        ({"max_moves_per_workload_per_day": 2}, 600, ""),
        ({}, 30, ""),
    ],
)
def test_a_workload_rests_as_long_as_the_policy_says(cluster, facts, minutes, words):
    landed(execution_on(cluster), minutes)
    ClusterPolicy.objects.create(cluster=cluster, **facts)
    found = returning_moves(cluster, plan_of_one_move(), timezone.now(), picture())
    assert list(found) == (["uid-lora"] if words else [])
    assert words in found.get("uid-lora", "")
    elsewhere = replace(picture(), workloads={})
    assert returning_moves(cluster, plan_of_one_move(moves=()), timezone.now(), elsewhere) == {}


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"scope": "galaxy", "at_most": 1}, "scope must be one of cluster, pool"),
        ({"scope": "node", "at_most": 0}, "at_most is 0: take 1 to"),
        ({"scope": "node", "at_most": True}, "at_most is True"),
        ({"scope": "node", "name": "a b", "at_most": 1}, "names no place"),
        ({"scope": "node", "at_most": 1, "counts": "all"}, "counts must be one of"),
        ({"scope": "node", "at_most": 1, "more": 1}, "give an object with"),
    ],
)
def test_a_budget_that_cannot_be_used_is_refused_in_one_line(budget, words):
    with pytest.raises(InvalidPolicy, match=f"disruption budget 1: .*{words}"):
        checked_policy({"disruption_budgets": [budget]})


def test_a_budget_says_what_it_allows():
    limit = DisruptionLimit("namespace", "ml", 2)
    assert limit.words == "at most 2 pods unavailable in namespace ml"
    assert DisruptionLimit("cluster", "*", 3, "in_flight").words == (
        "at most 3 evictions in flight in the cluster"
    )
