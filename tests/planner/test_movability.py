"""Who may be moved, and the sentence for each who may not."""

from dataclasses import replace

import pytest

from apps.planner.constraints import movability
from apps.planner.inventory import Gang, Tie, Workload
from tests.drawing import budget, cluster, running

DRAWING = "a1 aB.."


def judge(name="a1-a", *, budgets=(), workloads=None, gangs=None, extra=(), nodes=None, problems=(), **facts):
    snapshot = cluster(
        DRAWING, pods={name: facts} if facts else None, budgets=budgets, extra=extra, nodes=nodes
    )
    snapshot = replace(
        snapshot,
        workloads={**snapshot.workloads, **(workloads or {})},
        gangs=snapshot.gangs if gangs is None else gangs,
        problems=problems,
    )
    return movability(snapshot, snapshot.pods[f"uid-{name}"])


def test_a_running_pod_that_its_controller_recreates_may_be_moved():
    assert judge() == judge()
    assert judge().movable
    assert judge().reasons == ()


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"owner_kind": "DaemonSet"}, "would return to the same node"),
        ({"owner_kind": "Node"}, "static pod"),
        ({"workload": "", "owner_kind": ""}, "No controller would create it again"),
        ({"terminating": True}, "already terminating"),
        ({"scheduler": "volcano"}, "scheduler volcano"),
        ({"volumes_pin_node": True}, "volume"),
        ({"steering": "move-7", "ready": False}, "Another migration"),
        ({"hold": True}, "hold of the console"),
        ({"owner_kind": "Notebook"}, "interactive"),
        ({"labels": {"notebook-name": "n"}}, "interactive"),
        ({"labels": {"hub.jupyter.org/username": "ana"}}, "interactive"),
        ({"owner_kind": "Workspace"}, "interactive"),
        ({"phase": "Succeeded"}, "not running"),
        ({"protections": ("It keeps local storage.", "Karpenter must not disrupt it.")}, "local storage"),
    ],
)
def test_each_kind_of_pod_that_must_stay_says_why(facts, words):
    verdict = judge(**facts)

    assert not verdict.movable
    assert words in " ".join(verdict.reasons)


def test_what_a_protection_says_of_its_owner_is_not_said_twice():
    words = "nobody would bring it back"

    assert judge(workload="", owner_kind="", protections=(words,), ties=(Tie.NO_OWNER,)).reasons == (words,)
    assert len(judge(workload="", owner_kind="", protections=(words,)).reasons) == 2


def test_a_pod_that_was_moved_once_may_be_moved_again_when_it_runs():
    assert judge(steering="move-7", phase="Running", ready=True).movable


@pytest.mark.parametrize("facts", [{"gates": ("g",)}, {"ready": False}, {"phase": "Pending"}])
def test_a_pod_that_another_migration_still_moves_must_stay(facts):
    facts = {"steering": "move-7", "phase": "Running", "ready": True} | facts

    assert "Another migration is moving it." in judge(**facts).reasons


def test_every_reason_is_told_not_only_the_first():
    assert (
        len(judge(owner_kind="DaemonSet", terminating=True, protections=("It is protected.",)).reasons) == 3
    )


def test_a_pod_on_a_stale_node_is_never_planned_on():
    assert "stale" in judge(nodes={"a1": {"stale_since": 3.0}}).reasons[0]


def owner(**facts):
    return {"owner-a1-a": Workload("owner-a1-a", "ReplicaSet", "team", "web-77", display="web", **facts)}


def test_a_rollout_a_protected_owner_and_a_job_at_its_limit_keep_their_pods():
    assert "web is in the middle of a rollout." in judge(workloads=owner(updating=True)).reasons
    assert "web is protected." in judge(workloads=owner(protected=True)).reasons
    assert "backoffLimit" in judge(workloads=owner(backoff_limit=0)).reasons[0]
    assert judge(workloads=owner(backoff_limit=6, failed_pods=2)).movable


def test_a_budget_that_allows_nothing_keeps_its_pods():
    labels = {"labels": {"app": "db"}}

    assert "allows no disruption" in judge(budgets=[budget("db", allowed=0, app="db")], **labels).reasons[0]
    assert judge(budgets=[budget("db", allowed=1, app="db")], **labels).movable
    assert judge(budgets=[budget("other", allowed=0, app="web")], **labels).movable


def test_two_budgets_over_one_pod_make_every_eviction_fail():
    budgets = [budget("one", allowed=1, app="db"), budget("two", allowed=1, app="db")]

    assert "one and two both cover it" in judge(budgets=budgets, labels={"app": "db"}).reasons[0]


def test_an_unhealthy_pod_may_go_where_its_budget_says_so():
    lenient = replace(budget("db", allowed=0, app="db"), always_allow_unhealthy=True)

    assert judge(budgets=[lenient], labels={"app": "db"}, ready=False).movable
    assert not judge(budgets=[lenient], labels={"app": "db"}, ready=True).movable


def test_a_budget_that_lags_behind_its_pods_is_not_trusted():
    late = replace(budget("db", allowed=3, app="db"), observed=False)

    assert "not been counted" in judge(budgets=[late], labels={"app": "db"}).reasons[0]


def test_a_gang_at_its_minimum_moves_whole_or_not_at_all():
    mates = [running("mate", "a1", gang="team/g")]

    assert (
        "gangs move whole"
        in judge(gang="team/g", extra=mates, gangs={"team/g": Gang("team/g", 2)}).reasons[0]
    )
    assert judge(gang="team/g", extra=mates, gangs={"team/g": Gang("team/g", 1)}).movable


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ('poddisruptionbudgets cannot be read: User "u" cannot list it', "Disruption budgets cannot be read"),
        ("GET /apis/policy/v1/poddisruptionbudgets?limit=500: no right", "Disruption budgets cannot be read"),
        ("namespaces cannot be read: no right", "Namespaces cannot be read"),
        ("replicasets cannot be read: no right", "Its ReplicaSet cannot be read"),
        ("deployments cannot be read: no right", "Its ReplicaSet cannot be read"),
    ],
)
def test_nothing_moves_where_what_might_forbid_it_cannot_be_read(problem, words):
    verdict = judge(problems=(problem,))

    assert not verdict.movable
    assert words in " ".join(verdict.reasons)


def test_other_gaps_in_the_picture_keep_no_pod():
    problems = ("jobs cannot be read: no right", "GET /api/v1/namespaces/team/pods/a: gone")

    assert judge(problems=problems).movable
