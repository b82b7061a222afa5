"""The page of a cluster's policy: who edits, what a mistake is told, what other pages say of it."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.audit.models import AuditEntry
from apps.plans import services
from apps.plans.models import ClusterPolicy
from tests.dashboard.conftest import log_in, make_person
from tests.dashboard.test_grid_pages import text_of
from tests.plans.situations import approve, proposed

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/clusters/gpu-east-1/policies/"


def freeze_now(cluster, admin):
    day = timezone.now()
    first, last = (f"{day + timedelta(days=ahead):%Y-%m-%d}" for ahead in (-1, 1))
    window = {"first_day": first, "last_day": last, "start": "00:00", "end": "24:00"}
    told = [{**window, "time_zone": "Europe/Berlin", "reason": "quarter end"}]
    return services.change_policy(actor=admin, cluster=cluster, wishes={"freeze_windows": told})


def save(client, verb, **sent):
    return client.post(f"{PAGE}{verb}/", sent, follow=True)


def test_an_admin_sets_limits_and_windows_by_forms(admin, cluster):
    client = log_in(admin)
    page = save(
        client,
        "save",
        version="0",
        protected_namespaces="prod-*\nserving",
        max_moves_per_plan="20",
        approval_minutes="60",
    )
    assert "The policy is saved" in text_of(page)
    page = save(
        client,
        "add-window",
        version="1",
        kind="weekly",
        weekdays=["fri", "sat"],
        start="18:00",
        end="08:00",
        time_zone="Europe/Berlin",
        reason="weekend",
    )
    assert "Fri, Sat 18:00 to 08:00 of the next day Europe/Berlin" in text_of(page)
    dates = {"first_day": "2031-12-23", "last_day": "2032-01-02", "start": "", "end": ""}
    page = save(client, "add-window", version="2", kind="once", time_zone="UTC", reason="holidays", **dates)
    assert "2031-12-23 00:00 to 2032-01-02 24:00 UTC" in text_of(page)
    save(client, "remove-window", version="3", number="0")
    policy = ClusterPolicy.objects.get(cluster=cluster)
    assert policy.protected_namespaces == ["prod-*", "serving"]
    assert (policy.max_moves_per_plan, policy.max_evictions_in_flight) == (20, None)
    assert policy.approval_expires_after_seconds == 3600
    assert [one["reason"] for one in policy.freeze_windows] == ["holidays"]
    assert AuditEntry.objects.filter(action="policy.changed", actor=admin).count() == 4


def test_budgets_rest_and_maintenance_windows_are_set_by_forms_and_read_by_everybody(admin, cluster):
    client = log_in(admin)
    budgets = "namespace prod-* 2\n\nnode * 1 in_flight"
    rest = {"cool_down_minutes": "90", "max_evictions_per_hour": "40", "max_moves_per_workload_per_day": "3"}
    save(client, "save", version="0", disruption_budgets=budgets, **rest)
    weekly = {"kind": "weekly", "weekdays": ["sun"], "start": "01:00", "end": "05:00", "reason": "low load"}
    zone = {"time_zone": "Europe/Berlin", "windows": "maintenance_windows"}
    page = save(client, "add-window", version="1", **weekly, **zone)
    assert "The maintenance window is added." in text_of(page)
    assert "Sun 01:00 to 05:00 Europe/Berlin" in text_of(page)
    assert "node * 1 in_flight" in page.content.decode()
    policy = ClusterPolicy.objects.get(cluster=cluster)
    assert [one["scope"] for one in policy.disruption_budgets] == ["namespace", "node"]
    assert (policy.workload_cool_down_seconds, policy.max_evictions_per_hour) == (5400, 40)
    assert (policy.freeze_windows, len(policy.maintenance_windows)) == ([], 1)
    seen = text_of(log_in(make_person("vera", "viewer")).get(PAGE))
    assert "at most 2 pods unavailable in namespace prod-*" in seen
    assert "at most 1 evictions in flight in node *" in seen
    save(client, "remove-window", version="2", number="0", windows="maintenance_windows")
    assert ClusterPolicy.objects.get(cluster=cluster).maintenance_windows == []


@pytest.mark.parametrize(
    ("verb", "sent", "line"),
    [
        ("save", {"disruption_budgets": "two of prod"}, "disruption budget 1: write scope, name and number"),
        ("save", {"disruption_budgets": "galaxy * 2"}, "disruption budget 1: scope must be one of"),
        ("save", {"protected_namespaces": "Prod serving"}, "is no namespace"),
        ("save", {"max_moves_per_plan": "many"}, "max moves per plan must be a whole number or empty"),
        ("save", {"max_moves_per_plan": "6000"}, "take 1 to 5000"),
        ("add-window", {"kind": "weekly", "start": "18:00", "end": "08:00"}, "give weekdays"),
        ("stop", {"reason": " "}, "say in one line why"),
    ],
)
def test_a_mistake_is_one_line_and_the_form_keeps_what_was_typed(admin, cluster, verb, sent, line):
    page = save(log_in(admin), verb, version="0", **sent)
    assert line in text_of(page).lower()
    assert page.content.decode().count('role="alert"') == 1
    assert sent.get("protected_namespaces", "") in page.content.decode()
    assert not ClusterPolicy.objects.filter(version__gt=0).exists()


def test_nobody_overwrites_what_he_has_not_seen(admin, cluster):
    save(log_in(admin), "save", version="0", max_moves_per_plan="20")
    page = save(log_in(admin), "save", version="0", max_moves_per_plan="30")
    assert "somebody changed this policy since you opened the page" in text_of(page).lower()
    assert ClusterPolicy.objects.get().max_moves_per_plan == 20


def test_a_mistake_that_is_mended_still_overwrites_nothing_unseen(admin, cluster):
    """The form that comes back speaks of the policy that it was opened on, not of the newest."""
    client = log_in(admin)
    services.change_policy(actor=admin, cluster=cluster, wishes={"max_concurrent_executions": 1})
    page = save(client, "save", version="0", max_moves_per_plan="many").content.decode()
    form = page.partition("/policies/save/")[2].partition("</form>")[0]
    (looked_at,) = re.findall(r'name="version" value="(\d+)"', form)
    mended = save(client, "save", version=looked_at, max_moves_per_plan="30")
    assert "somebody changed this policy since you opened the page" in text_of(mended).lower()
    assert ClusterPolicy.objects.get().max_concurrent_executions == 1


def test_others_read_it_and_are_refused_to_edit(viewer, operator, admin, cluster):
    save(log_in(admin), "save", version="0", protected_namespaces="prod-*")
    page = log_in(viewer).get(PAGE).content.decode()
    assert "prod-*" in page
    assert page.count("<form") == 2  # the cluster switch and the log-out
    assert "you may not administer" in text_of(save(log_in(operator), "save", version="1")).lower()
    assert ClusterPolicy.objects.get().protected_namespaces == ["prod-*"]
    assert "Stop everything on gpu-east-1" in log_in(operator).get(PAGE).content.decode()
    stranger = make_person("nobody")
    assert log_in(stranger).get(PAGE).status_code == 404


def test_every_page_of_the_cluster_says_that_the_kill_switch_is_on(operator, viewer, admin, cluster, picture):
    save(log_in(operator), "stop", reason="the network <burns>")
    for path in ("", "queue/", "plans/", "executions/", "policies/", "policies/standing/"):
        page = log_in(viewer).get(f"/clusters/gpu-east-1/{path}")
        words = "The kill switch of gpu-east-1 is on since"
        assert words in text_of(page), path
        assert "by r.tanaka: the network &lt;burns&gt;" in page.content.decode()
    assert "an admin" in text_of(save(log_in(operator), "release", reason="out")).lower()
    assert "Say in one line why it is safe again" in text_of(save(log_in(admin), "release", reason=" "))
    assert "The kill switch is off" in text_of(save(log_in(admin), "release", reason="out"))
    assert log_in(viewer).get(f"{PAGE}standing/").content.decode().strip() == ""


def test_an_approved_plan_says_which_policy_forbids_its_start_and_the_form_shows_the_cap(
    operator, admin, cluster
):
    plan = approve(proposed(cluster, make_person("ada", "planner")), make_person("ben", "approver"))
    path = f"/clusters/gpu-east-1/plans/{plan.pk}/"
    client = log_in(operator)
    assert ">Start 1 move<" in client.get(path).content.decode()
    freeze_now(cluster, admin)
    page = client.get(path)
    assert re.search(
        r"Start is off: A freeze window of gpu-east-1 holds until .* Europe/Berlin", text_of(page)
    )
    assert ">Start 1 move<" not in page.content.decode()
    refused = client.post(f"{path}start/", follow=True)
    assert "Nothing may be started now: A freeze window of gpu-east-1 holds until" in text_of(refused)
    services.change_policy(actor=admin, cluster=cluster, wishes={"max_moves_per_plan": 7})
    form = log_in(make_person("mia", "planner")).get("/clusters/gpu-east-1/plans/").content.decode()
    assert 'max="7" value="7"' in form
    assert "The policy of gpu-east-1 allows 7 moves and 600 s of search a plan." in form
