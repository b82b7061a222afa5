"""Evictions are asked about a few at a time: each answer stays with its pod, in the order of the plan."""

import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from apps.clusters.models import Cluster
from apps.executions.checks.looking import Look, Objection
from apps.executions.dry_runs import ASKED_AT_ONCE, ask_evictions
from apps.kube.errors import BudgetExhausted, Unreachable
from apps.planner.plan import Goal, Plan, Preemption
from apps.plans.models import Plan as PlanRow
from apps.plans.models import PlanVersion
from tests.plans.situations import picture

PODS = [f"web-{number}" for number in range(20)]


def ask(evict_pod, *, objections=()):
    leaving = tuple(
        Preemption(order, f"uid-{name}", f"ml/{name}", "node-a", 1, 0, 1.0, "why")
        for order, name in enumerate(PODS, start=1)
    )
    version = PlanVersion(plan=PlanRow(cluster=Cluster(name="here")))
    plan = Plan(Goal.UNLOCK, preemptions=leaving)
    gateway = SimpleNamespace(evict_pod=evict_pod)
    return ask_evictions(Look(version, plan, picture(), gateway, datetime.now(UTC)), objections)


def test_a_refusal_is_told_of_its_own_pod_and_the_order_is_the_plans():
    gone = threading.Event()

    def evict_pod(_namespace, name, *, uid, dry_run):
        assert (uid, dry_run) == (f"uid-{name}", True)
        if name == "web-0":
            assert gone.wait(30)  # the first is answered after a later one
        if name == "web-7":
            gone.set()
            raise BudgetExhausted("budget web allows none")

    runs = ask(evict_pod, objections=[Objection("It is protected.", "uid-web-3")])
    assert [run.pod for run in runs] == [f"ml/{name}" for name in PODS]
    assert {run.pod: run.message for run in runs if not run.allowed} == {
        "ml/web-3": "It is protected.",
        "ml/web-7": "budget web allows none",
    }


def test_no_more_are_asked_at_once_than_was_set():
    lock, under_way, most = threading.Lock(), [], []
    full = threading.Barrier(ASKED_AT_ONCE)

    def evict_pod(_namespace, name, **_):
        with lock:
            under_way.append(name)
            most.append(len(under_way))
        if PODS.index(name) < ASKED_AT_ONCE:
            full.wait(30)
        with lock:
            under_way.remove(name)

    assert all(run.allowed for run in ask(evict_pod))
    assert max(most) == ASKED_AT_ONCE


def test_where_nobody_answers_no_pod_is_blamed():
    asked = []

    def evict_pod(_namespace, name, **_):
        asked.append(name)
        raise Unreachable("no answer")

    with pytest.raises(Unreachable):
        ask(evict_pod)
    assert "web-0" in asked
