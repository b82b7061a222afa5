"""Who gives way where no move makes room: each thing that is weighed, and what is told of the choice."""

from dataclasses import replace

import pytest

from apps.planner.defrag import plan_unlock
from apps.planner.inventory import Gang
from apps.planner.unblocking import tell_preemption
from apps.planner.verification import check_plan
from tests.drawing import budget, cluster, waiting

HOUR = 3600.0
NOW = 100 * HOUR
FULL = """
    n1  aaaa
    n2  bbbb
"""
URGENT = waiting("ml/urgent", gpus=4, priority=1000)


def full(drawing=FULL, budgets=(), urgent=URGENT, gangs=(), **pods):
    """pods: by the letter of the drawing."""
    facts = {f"{'n1' if mark in 'ac' else 'n2'}-{mark}": told for mark, told in pods.items()}
    seen = cluster(drawing, urgent, pods=facts, budgets=budgets, taken_at=NOW)
    return replace(seen, gangs={**seen.gangs, **{gang.key: gang for gang in gangs}})


def who(snapshot):
    plan = plan_unlock(snapshot, workload="ml/urgent", max_moves=5, deadline=lambda: False, may_preempt=True)
    assert check_plan(snapshot, plan) == []
    return plan, [one.pod for one in plan.preemptions]


OLD, NEW = {"started_at": NOW - 20 * HOUR}, {"started_at": NOW - 1 * HOUR}


@pytest.mark.parametrize(
    ("one", "two", "chosen", "second"),
    [
        (
            {**NEW, "priority": 500},
            {**OLD, "priority": 100},
            "team/n2-b",
            "a pod of priority 500 would have to",
        ),
        (OLD, NEW, "team/n2-b", "On n1 instead 273600 GPU-seconds more of work would be lost."),
        ({**OLD, "checkpointed_at": NOW - 60}, NEW, "team/n1-a", "more of work would be lost."),
        (NEW, {**NEW, "environment": "prod"}, "team/n1-a", "more of work would be lost."),
    ],
    ids=["priority before all", "age", "checkpoint", "production"],
)
def test_the_cheapest_gives_way_and_the_plan_says_why_not_the_other(one, two, chosen, second):
    plan, victims = who(full(a=one, b=two))
    assert victims == [chosen]
    assert plan.runner_up is not None
    assert second in plan.runner_up.sentence


def test_fewer_gpus_are_taken_away_before_less_work_is_lost():
    plan, victims = who(
        full("n1  aaaa\nn2  bb..", urgent=waiting("ml/urgent", gpus=4, priority=9), a=NEW, b=OLD)
    )
    assert victims == ["team/n2-b"]
    assert plan.runner_up.sentence == "On n1 instead 2 GPUs more would be taken away."


def test_nobody_whose_budget_has_nothing_to_spare_gives_way():
    labels = {"labels": {"app": "b"}}
    plan, victims = who(full(a=OLD, b={**NEW, **labels}, budgets=[budget("b", allowed=0, app="b")]))
    assert victims == ["team/n1-a"]
    plan, victims = who(full(a=OLD, b={**NEW, **labels}, budgets=[budget("b", allowed=1, app="b")]))
    assert victims == ["team/n2-b"]
    assert plan.preemptions[0].budget == "b allows 1 eviction"


def test_no_gang_falls_below_its_minimum_and_a_member_costs_more_than_a_pod_alone():
    member = {**NEW, "gang": "team/ring"}
    both = full(a=member, b=member, gangs=[Gang("team/ring", 2)])
    assert who(both)[1] == []
    assert len(who(full(a=member, b=member, gangs=[Gang("team/ring", 1)]))[1]) == 1
    older = {"started_at": NOW - 1.2 * HOUR}  # by itself more is lost than of the member
    plan, victims = who(full(a=older, b=member, gangs=[Gang("team/ring", 0)]))
    assert victims == ["team/n1-a"]
    assert who(full(a=older, b=NEW))[1] == ["team/n2-b"]


def test_nobody_gives_way_to_who_never_preempts_or_ranks_no_higher():
    never = waiting("ml/urgent", gpus=4, priority=1000, preemption_policy="Never")
    assert who(full(urgent=never, a=OLD, b=NEW))[1] == []
    equal = waiting("ml/urgent", gpus=4, priority=0)
    assert who(full(urgent=equal, a=OLD, b=NEW))[1] == []


def test_what_is_lost_is_told_with_the_advice():
    plan, _ = who(full(a={**OLD, "checkpointed_at": NOW - 600}, b=NEW))
    (one,) = plan.preemptions
    assert (one.lost_seconds, one.has_checkpoint, one.gang, one.budget) == (600.0, True, "", "")
    said = "Only if team/n1-a gives way (priority up to 0, 4 GPUs, 10 min of work lost) could it start on n1."
    assert tell_preemption(plan) == said
