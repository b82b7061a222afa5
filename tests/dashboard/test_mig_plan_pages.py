"""What the pages of a plan and an execution say of GPUs that are cut anew."""

import pytest
from django.utils import timezone

from apps.executions.blueprint import draft_steps
from apps.executions.models import DryRun, Execution, Step
from apps.planner.plan import NamedLayout
from apps.planner.plan_json import digest
from apps.plans import services
from apps.plans.computing import compute_draft
from apps.plans.models import Plan, PlanVersion
from apps.plans.queries import current_version, open_plan
from tests.dashboard.conftest import log_in, make_picture
from tests.dashboard.test_grid_pages import text_of
from tests.planner.mig.drawing import mig_cluster, wanting

pytestmark = pytest.mark.django_db
PLANS = "/clusters/gpu-east-1/plans/"
DRAWN = {"n1": ["1g@0 1g@1 1g@2:a"], "n2": ["3g@0:B 1g@4 1g@5"]}


@pytest.fixture
def plan(cluster, planner) -> Plan:
    """n1 is cut anew once its pod has moved to n2."""
    picture = make_picture(cluster, mig_cluster(DRAWN, wanting("7g")))
    row = log_in(planner).post(PLANS, {"goal": "mig", "max_moves": "50"})
    plan = Plan.objects.get()
    assert row.url == f"{PLANS}{plan.pk}/"
    compute_draft(plan.pk)
    plan.refresh_from_db()
    assert current_version(plan).snapshot == picture
    return plan


def page_of(plan, person):
    return text_of(log_in(person).get(f"{PLANS}{plan.pk}/"))


def found(plan, *, allowed, message):
    DryRun.objects.create(
        version=current_version(plan), pod_uid="uid-n1", pod="node n1", allowed=allowed, message=message,
        at=timezone.now(),
    )  # fmt: skip


def test_a_mig_plan_shows_before_and_after_and_what_it_rests_on(plan, planner):
    page = page_of(plan, planner)
    assert plan.title == "Cut GPU 0 of n1 for 1 waiting pod"
    assert "3 × 1g.5gb" in page
    assert "1 × 7g.40gb" in page
    assert "Propose 1 GPU cut anew and 1 move" in page
    assert "on n1, cordoned meanwhile" in page
    assert "A node is cordoned while any of its GPUs is relaid" in page


def test_a_layout_that_gets_a_name_is_shown_as_a_diff_of_the_config_map(plan, planner):
    layout = NamedLayout("gpu-defrag-0123456789", "gpu-defrag-0123456789: [{devices: all}]", ("n1",))
    version = current_version(plan)
    body = {**version.body, "layouts": [{"name": layout.name, "line": layout.line, "nodes": ["n1"]}]}
    services.withdraw_plan(plan_id=plan.pk, actor=planner)
    row = Plan.objects.create(
        cluster=plan.cluster, title="named", created_by=planner, edited_by=planner, request=plan.request
    )
    copied = PlanVersion.objects.create(
        plan=row, number=1, snapshot=version.snapshot, snapshot_taken_at=version.snapshot_taken_at,
        snapshot_digest=version.snapshot_digest, body=body, digest=digest(body),
    )  # fmt: skip
    page = page_of(row, planner)
    assert "Layouts that get a name" in page
    assert "+ gpu-defrag-0123456789: [{devices: all}]" in page
    DryRun.objects.create(
        version=copied, pod_uid=layout.name, pod=f"layout {layout.name}", allowed=True,
        message=f" mig-configs:\n+  {layout.line}", at=timezone.now(),
    )  # fmt: skip
    assert "mig-configs: + gpu-defrag-0123456789" in " ".join(page_of(row, planner).split())


def test_the_approver_sees_what_the_look_at_the_cluster_found(plan, planner, approver):
    services.propose_plan(plan_id=plan.pk, actor=planner)
    assert "Nobody has looked yet whether n1 can be cut anew" in page_of(plan, approver)
    found(plan, allowed=False, message="Add this line under mig-configs: gpus-1x7g.40gb")
    page = page_of(plan, approver)
    assert "Add this line under mig-configs: gpus-1x7g.40gb" in page
    assert "n1 cannot be cut anew as things are" in page
    assert "You approve the way back as well" in page


def test_nothing_to_cut_is_said_with_its_reason(cluster, planner):
    make_picture(cluster, mig_cluster({"n1": ["7g@0:A"]}, wanting("7g")))
    log_in(planner).post(PLANS, {"goal": "mig"})
    compute_draft(Plan.objects.get().pk)
    page = page_of(Plan.objects.get(), planner)
    assert "Nothing to cut. No layouts within the limits let a waiting pod start." in page
    assert "1 pod the planner would not serve" in page


def test_a_reconfiguration_that_needs_a_person_says_what_to_do(plan, operator, viewer):
    version = current_version(plan)
    execution = Execution.objects.create(
        plan=plan, version=version, state="needs_human", started_by=operator, started_at=timezone.now()
    )
    picture = mig_cluster(DRAWN, wanting("7g"))
    drafts = draft_steps(
        open_plan(version), picture, owned="1-x", layouts=[{"node": "n1", "before_moves": False}]
    )
    for position, draft in enumerate(drafts, 1):
        step = Step(
            execution=execution, position=position, kind=draft.kind, target=draft.target, params=draft.params
        )
        step.move = draft.move
        if draft.kind == "reconfigure_mig":
            step.state, step.reason = "blocked", "mig-manager reported failed."
            step.observed = {
                "needs_person": True,
                "runbook": "Roll back, then see the log.",
                "sent": ["relabel"],
            }
        step.save()
    page = text_of(log_in(viewer).get(f"/clusters/gpu-east-1/executions/{execution.pk}/"))
    assert "node n1, cut anew: blocked" in page
    assert "What to do: Roll back, then see the log." in page
    assert "mig.config of n1 gets its earlier value" in page
