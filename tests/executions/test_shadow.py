"""In shadow nothing is started; plans are made by the timer and compared with what happens."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.errors import Denied
from apps.audit.models import AuditEntry
from apps.clusters.models import Cluster
from apps.executions import services
from apps.executions.errors import HeldByPolicy, WrongState
from apps.executions.models import ClusterPreflight, Execution, Prediction
from apps.executions.permission import why_not_start
from apps.executions.shadow.comparing import compare_open
from apps.executions.shadow.predicting import foresee_moves, predict_if_due
from apps.executions.shadow.standing import shadow_clusters, why_shadow
from apps.executions.shadow.switching import set_shadow
from apps.executions.shadow.telling import sum_shadow
from apps.planner.inventory import DisruptionBudget, LabelSelector, Requirement
from tests.plans.situations import (
    approve,
    make_cluster,
    node,
    person,
    picture,
    plan_of_one_move,
    pod,
    proposed,
    see,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cluster():
    return make_cluster()


def approved(cluster):
    plan = proposed(cluster, person("ada", "planner", cluster=cluster))
    approve(plan, person("ben", "approver", cluster=cluster))
    return plan


def test_nothing_is_started_in_shadow_and_an_admin_ends_it(cluster):
    plan, operator = approved(cluster), person("omar", "operator", cluster=cluster)
    admin = person("root", "admin", cluster=cluster)
    set_shadow(actor=admin, cluster_id=cluster.pk, is_shadow=True)
    with pytest.raises(HeldByPolicy, match="east is in shadow: plans are made and compared"):
        services.start_execution(actor=operator, plan_id=plan.pk)
    assert not Execution.objects.exists()
    cluster.refresh_from_db()
    assert why_not_start(cluster) == why_shadow(cluster) != ""
    assert [one.name for one in shadow_clusters()] == ["east"]
    set_shadow(actor=admin, cluster_id=cluster.pk, is_shadow=False)
    execution = services.start_execution(actor=operator, plan_id=plan.pk)
    with pytest.raises(WrongState, match=f"execution {execution.pk} is under way on east"):
        set_shadow(actor=admin, cluster_id=cluster.pk, is_shadow=True)
    actions = AuditEntry.objects.filter(action__contains="shadowed").values_list("action", flat=True)
    assert sorted(actions) == ["cluster.shadowed", "cluster.unshadowed"]


def test_a_credential_that_may_not_evict_puts_its_cluster_into_shadow(cluster):
    plan, operator = approved(cluster), person("omar", "operator", cluster=cluster)
    found = ClusterPreflight.objects.create(cluster=cluster, may_evict=False)
    with pytest.raises(HeldByPolicy, match=r"may not evict pods, .* Apply deploy/rbac/executor.yaml"):
        services.start_execution(actor=operator, plan_id=plan.pk)
    found.may_evict = True
    found.save()
    assert services.start_execution(actor=operator, plan_id=plan.pk).state == "queued"


def test_only_admins_switch_and_a_dump_is_no_shadow(cluster):
    with pytest.raises(Denied):
        set_shadow(actor=person("omar", "operator", cluster=cluster), cluster_id=cluster.pk, is_shadow=True)
    dump = Cluster.objects.create(name="monday", source=Cluster.Source.DUMP)
    with pytest.raises(WrongState, match="known from a dump only"):
        set_shadow(actor=None, cluster_id=dump.pk, is_shadow=True)
    assert why_shadow(dump) == ""


def waiting_picture():
    """node-a can be freed by one move; a pod of 8 GPUs waits for that."""
    waits = pod("big", "", 8, phase="Pending", ready=False, started_at=None)
    pods = [pod("lora", "node-a", 1), pod("train", "node-b", 7), pod("serve", "node-c", 8), waits]
    return picture(pods=pods)


def later(cluster, seconds):
    """As if the predictions had been made so long ago."""
    for row in Prediction.objects.filter(cluster=cluster):
        row.made_at = timezone.now() - timedelta(seconds=seconds)
        row.save()


def test_a_prediction_is_made_every_quarter_of_an_hour_and_compared_with_what_happened(cluster):
    see(cluster, waiting_picture())
    assert predict_if_due(cluster) == 2
    assert predict_if_due(cluster) == 0
    unlock = Prediction.objects.get(cluster=cluster, goal="unlock")
    assert [(m["pod"], m["source"], m["target"], m["is_allowed"]) for m in unlock.moves] == [
        ("ml/lora", "node-a", "node-b", True)
    ]
    assert (unlock.summary["unlocked"], unlock.summary["free_gpus"]) == (["ml/big"], 8)
    assert [one["pod"] for one in unlock.summary["waiting"]] == ["ml/big"]

    later(cluster, 310)
    compare_open(cluster)
    unlock.refresh_from_db()
    assert [(look["after"], look["is_valid"]) for look in unlock.looks] == [(300, True)]

    started = waiting_picture()
    pods = {
        **started.pods,
        "uid-big": replace(started.pods["uid-big"], node_name="node-d", phase="Running", started_at=None),
    }
    nodes = {**started.nodes, "node-d": node("node-d")}
    see(cluster, replace(started, pods=pods, nodes=nodes, taken_at=started.taken_at + 1))
    later(cluster, 3605)
    compare_open(cluster)
    unlock.refresh_from_db()
    assert [look.get("is_valid", "missed") for look in unlock.looks] == [True, "missed", False]
    assert "ml/big" in " ".join(unlock.looks[-1]["why"])
    assert [(one["pod"], one["node"]) for one in unlock.started] == [("ml/big", "node-d")]
    assert unlock.closed_at is not None
    assert compare_open(cluster) == 0

    told = sum_shadow(cluster)
    assert (told.predictions, told.with_moves, told.evictions, told.allowed) == (2, 2, 2, 2)
    assert (told.waited, told.would_start, told.started) == (1, 1, 1)
    assert [(one.after, one.looked) for one in told.validity] == [(300, 2), (900, 0), (3600, 2)]
    assert told.median_seconds == pytest.approx(3605, abs=5)
    assert predict_if_due(cluster) == 2


def test_no_prediction_is_made_on_an_old_picture(cluster):
    row = see(cluster, waiting_picture())
    old = timezone.now() - timedelta(seconds=600)
    type(row).objects.filter(pk=row.pk).update(taken_at=old)
    Cluster.objects.filter(pk=cluster.pk).update(watched_at=old)
    cluster.refresh_from_db()
    assert predict_if_due(cluster) == 0


@pytest.mark.parametrize(
    ("allowed", "is_allowed", "why"),
    [
        ([0], False, "budget b0 allows no disruption"),
        ([1], True, ""),
        ([1, 1], False, "refuses every eviction"),
    ],
)
def test_whether_an_eviction_would_be_allowed_follows_from_the_budgets(allowed, is_allowed, why):
    selector = LabelSelector((Requirement("app", "In", ("lora",)),))
    budgets = {
        f"b{n}": DisruptionBudget("ml", f"b{n}", f"b{n}", selector, disruptions_allowed=count)
        for n, count in enumerate(allowed)
    }
    (move,) = foresee_moves(plan_of_one_move(), picture(budgets=budgets))
    assert move["is_allowed"] == is_allowed
    assert why in move["why"]
