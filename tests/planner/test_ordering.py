"""Waves: as few as budgets allow, never two moves at once that a rule between pods ties together."""

from dataclasses import replace

import pytest

from apps.planner.inventory import Gang, PodTerm, SpreadConstraint
from apps.planner.movability import MovabilityRules
from apps.planner.ordering import order_moves
from apps.planner.placement import PlannedMove
from tests.drawing import budget, cluster, select

HOST = "kubernetes.io/hostname"


def waves_of(drawing, targets, **facts):
    """targets: pod -> node, in the order of the board; the wave of each move by pod."""
    gangs = facts.pop("gangs", {})
    snapshot = cluster(drawing, **facts)
    snapshot = replace(snapshot, gangs={**snapshot.gangs, **gangs})
    moves = [
        PlannedMove(pod, pod.node_name, target)
        for name, target in targets.items()
        for pod in [snapshot.pods[f"uid-{name}"]]
    ]
    ordered = order_moves(snapshot, MovabilityRules(snapshot), moves)
    return {move.pod.name: wave for wave, move in ordered}


FIVE = "a1 abcde\na2 .....\na3 ....."
ALL = dict.fromkeys(("a1-a", "a1-b", "a1-c", "a1-d", "a1-e"), "a2")


def test_pods_that_share_nothing_move_at_once():
    assert set(waves_of(FIVE, ALL).values()) == {1}


@pytest.mark.parametrize(("allowed", "waves"), [(1, 5), (2, 3), (3, 2), (5, 1)])
def test_a_budget_needs_its_pods_by_what_it_allows_rounded_up(allowed, waves):
    pods = {name: {"labels": {"app": "db"}} for name in ALL}

    found = waves_of(FIVE, ALL, pods=pods, budgets=[budget("db", allowed=allowed, app="db")])

    assert max(found.values()) == waves


def test_two_budgets_are_spent_side_by_side():
    pods = {name: {"labels": {"app": "db" if name < "a1-c" else "web"}} for name in ALL}
    budgets = [budget("db", allowed=1, app="db"), budget("web", allowed=1, app="web")]

    assert max(waves_of(FIVE, ALL, pods=pods, budgets=budgets).values()) == 3


def test_a_workload_without_a_budget_loses_one_pod_at_a_time():
    pods = {name: {"workload": "owner-web"} for name in ("a1-a", "a1-b")}

    assert waves_of(FIVE, ALL, pods=pods) == {"a1-a": 1, "a1-b": 2, "a1-c": 1, "a1-d": 1, "a1-e": 1}


def test_an_unhealthy_pod_that_a_budget_lets_go_waits_for_nobody():
    pods = {name: {"labels": {"app": "db"}, "ready": False} for name in ALL}
    lenient = replace(budget("db", allowed=0, app="db"), always_allow_unhealthy=True)

    assert set(waves_of(FIVE, ALL, pods=pods, budgets=[lenient]).values()) == {1}


def test_a_gang_never_falls_below_its_minimum():
    pods = {name: {"gang": "team/g"} for name in ALL}

    found = waves_of(FIVE, ALL, pods=pods, gangs={"team/g": Gang("team/g", 3)})

    assert sorted(found.values()) == [1, 1, 2, 2, 3]


def test_pods_that_avoid_each_other_on_different_nodes_move_at_once():
    shy = {"labels": {"app": "db"}, "pod_anti_affinity": (PodTerm(HOST, select(app="db")),)}

    apart = waves_of("a1 a\na2 b\na3 .\na4 .", {"a1-a": "a3", "a2-b": "a4"}, pods={"a1-a": shy, "a2-b": shy})
    behind = waves_of("a1 a\na2 b.\na3 .", {"a2-b": "a3", "a1-a": "a2"}, pods={"a1-a": shy, "a2-b": shy})

    assert apart == {"a1-a": 1, "a2-b": 1}
    assert behind == {"a2-b": 1, "a1-a": 2}


def test_who_comes_where_a_shy_pod_leaves_waits_for_it():
    shy = {"pod_anti_affinity": (PodTerm(HOST, select(app="db")),)}
    pods = {"a1-a": {"labels": {"app": "db"}}, "a2-b": shy}

    assert waves_of("a1 a\na2 b.\na3 .", {"a2-b": "a3", "a1-a": "a2"}, pods=pods) == {"a2-b": 1, "a1-a": 2}


def test_who_needs_company_never_moves_at_once_with_it():
    friend = {"labels": {"app": "db"}}
    clingy = {"pod_affinity": (PodTerm(HOST, select(app="db")),)}
    drawing, targets = "a1 ab\na2 .\na3 ..", {"a1-a": "a3", "a1-b": "a3"}

    assert waves_of(drawing, targets, pods={"a1-a": friend, "a1-b": clingy}) == {"a1-a": 1, "a1-b": 2}


def test_what_a_spread_counts_moves_one_by_one_in_the_order_of_the_board():
    even = {"labels": {"app": "db"}, "spread": (SpreadConstraint(HOST, 1, select(app="db")),)}
    other = {"spread": (SpreadConstraint(HOST, 1, select(app="web")),)}
    pods = {"a1-a": even, "a1-b": even, "a1-c": other}

    assert waves_of(FIVE, ALL, pods=pods) == {"a1-a": 1, "a1-b": 2, "a1-c": 1, "a1-d": 1, "a1-e": 1}


def test_a_later_move_does_not_overtake_one_that_its_rule_looked_at():
    """By its budget the first may wait; whoever found it gone must not come before."""
    shy = {"labels": {"app": "web"}, "pod_anti_affinity": (PodTerm(HOST, select(app="db")),)}
    pods = {name: {"labels": {"app": "db"}} for name in ("a1-a", "a2-b")} | {"a1-c": shy}

    found = waves_of(
        "a1 ac\na2 b.\na3 ....",
        {"a1-a": "a3", "a2-b": "a3", "a1-c": "a2"},
        pods=pods,
        budgets=[budget("db", allowed=1, app="db")],
    )

    assert found == {"a1-a": 1, "a2-b": 2, "a1-c": 3}
