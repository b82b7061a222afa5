"""One file with all that is known of an execution, the change ticket, and the way on after a stop."""

import csv
import io
import json
import zipfile

import pytest
from django.utils import timezone

from apps.audit import services as audit
from apps.audit.models import AuditEntry
from apps.executions.models import Execution, SentRequest
from apps.executions.settling import settle_by_hand
from apps.plans import services
from apps.plans.computing import compute_draft
from apps.plans.errors import TicketNeeded
from apps.plans.models import ClusterPolicy
from tests.dashboard.conftest import log_in
from tests.dashboard.executions import make_execution
from tests.dashboard.test_execution_pages import approved, page_of, running  # noqa: F401
from tests.dashboard.test_grid_pages import text_of

pytestmark = pytest.mark.django_db(transaction=True)


def files_of(answer) -> dict[str, str]:
    assert answer.status_code == 200
    with zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content))) as bundle:
        return {name.partition("/")[2]: bundle.read(name).decode() for name in bundle.namelist()}


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_bundle_holds_what_is_known_and_nothing_secret(operator, running, cluster):  # noqa: F811
    cluster.credential = "sealed-credential"
    cluster.save()
    running.events.create(at=timezone.now(), state="seen", message="=HYPERLINK(1)")
    SentRequest.objects.create(
        execution=running, at=timezone.now(), fence=3, position=2, method="PATCH", path="/a", status=200
    )  # fmt: skip
    files = files_of(log_in(operator).get(f"/api/v1/executions/{running.pk}/bundle/"))
    told = json.loads(files["execution.json"])
    assert told["digest"] == running.version.digest
    assert len(rows_of(files["steps.csv"])) == running.steps.count()
    assert rows_of(files["events.csv"])[-1]["message"] == "'=HYPERLINK(1)"
    (sent,) = rows_of(files["requests.csv"])
    assert (sent["method"], sent["status"], sent["fence"], sent["position"]) == ("PATCH", "200", "3", "2")
    assert json.loads(files["plan.json"]) == running.version.body
    assert [one["verdict"] for one in json.loads(files["approvals.json"])] == ["approved"]
    assert json.loads(files["snapshot-before.json"])["nodes"]
    assert any(row["action"] == "plan.approved" for row in rows_of(files["audit.csv"]))
    assert "sealed-credential" not in "".join(files.values())
    assert AuditEntry.objects.filter(action="execution.bundle", subject=audit.name_subject(running)).exists()


def test_the_page_gives_the_same_file_to_whoever_acts_and_to_nobody_else(operator, viewer, running):  # noqa: F811
    address = f"{page_of(running)}bundle.zip"
    assert "steps.csv" in files_of(log_in(operator).get(address))
    assert "Incident bundle" not in text_of(log_in(viewer).get(page_of(running)))
    assert log_in(viewer).get(f"/api/v1/executions/{running.pk}/bundle/").status_code == 403


def test_a_policy_may_require_a_ticket_and_the_approver_sees_it(planner, approver, cluster, picture):
    ClusterPolicy.objects.create(cluster=cluster, requires_ticket=True)
    plan = services.request_plan(actor=planner, cluster=cluster, goal="unlock", workload="default/llama-70b")
    compute_draft(plan.pk)
    with pytest.raises(TicketNeeded):
        services.propose_plan(plan_id=plan.pk, actor=planner)
    services.propose_plan(plan_id=plan.pk, actor=planner, change_ticket=" CHG-1042 ")
    page = text_of(log_in(approver).get(f"/clusters/gpu-east-1/plans/{plan.pk}/"))
    assert "Change ticket CHG-1042" in page
    assert AuditEntry.objects.get(action="plan.proposed").detail["change_ticket"] == "CHG-1042"


def test_after_an_end_that_touched_nothing_the_plan_can_be_started_again(operator, approved):  # noqa: F811
    execution = Execution.objects.create(
        plan=approved, version=approved.versions.get(), started_by=operator, state="failed",
        state_reason="Nothing was touched.", cause="cluster-unreadable", finished_at=timezone.now(),
    )  # fmt: skip
    type(approved).objects.filter(pk=approved.pk).update(begun_at=timezone.now())
    client = log_in(operator)
    assert "Start again" in text_of(client.get(f"/clusters/gpu-east-1/plans/{approved.pk}/"))
    assert f"Start plan {approved.pk} again" in text_of(client.get(page_of(execution)))
    make_execution(approved, operator)
    page = text_of(client.get(f"/clusters/gpu-east-1/plans/{approved.pk}/"))
    assert "Start again" not in page
    assert "carries it out" in page


def test_what_stands_still_is_told_over_rest_with_what_is_held_and_the_ways_on(operator, running):  # noqa: F811
    told = log_in(operator).get(f"/api/v1/executions/{running.pk}/").json()
    (stop,) = told["stops"]
    assert stop["cause"]["code"] == "other"
    assert stop["attempts"] == 9
    assert set(told["ways"]) == {"cancel", "roll_back"}


def test_a_person_settles_what_cannot_be_undone_and_says_how(operator, running):  # noqa: F811
    step = running.steps.filter(kind="cordon_node").first()
    step.state, step.observed = "compensating", {"needs_person": True, "cause": "mig-not-restored"}
    step.save()
    Execution.objects.filter(pk=running.pk).update(state="needs_human")
    client = log_in(operator)
    assert "I have dealt with it" in text_of(client.get(page_of(running)))
    client.post(f"{page_of(running)}settle/", {"reason": ""})
    running.refresh_from_db()
    assert running.state == "needs_human"
    settle_by_hand(execution_id=running.pk, actor=operator, reason="cut by hand")
    running.refresh_from_db()
    step.refresh_from_db()
    assert (running.state, step.state) == ("cancelling", "superseded")
    assert "cut by hand" in step.reason
