"""From the request to the decision, through the pages."""

import re
from dataclasses import replace

import pytest
from django.utils import timezone

from apps.accounts.models import Role
from apps.audit.models import AuditEntry
from apps.clusters.queries import latest_snapshot, open_snapshot
from apps.executions.models import DryRun, Execution
from apps.executions.queries import plans_under_way
from apps.planner.plan_json import digest
from apps.plans import services
from apps.plans.computing import compute_draft
from apps.plans.models import Plan, PlanVersion
from apps.plans.queries import current_version, open_plan
from tests.dashboard.conftest import log_in, make_person, make_picture
from tests.dashboard.test_grid_pages import text_of

pytestmark = pytest.mark.django_db(transaction=True)
PLANS = "/clusters/gpu-east-1/plans/"


@pytest.fixture
def draft(planner, cluster, picture) -> Plan:
    plan = services.request_plan(actor=planner, cluster=cluster, goal="unlock", workload="default/llama-70b")
    compute_draft(plan.pk)
    plan.refresh_from_db()
    return plan


@pytest.fixture
def proposed(draft, planner) -> Plan:
    services.propose_plan(plan_id=draft.pk, actor=planner)
    draft.refresh_from_db()
    return draft


def page_of(plan: Plan) -> str:
    return f"{PLANS}{plan.pk}/"


def test_without_plans_the_list_says_how_one_comes_about(viewer, picture):
    assert "No plan yet" in text_of(log_in(viewer).get(PLANS))


def test_a_fresh_request_says_that_it_is_being_computed(planner, picture):
    response = log_in(planner).post(PLANS, {"goal": "free-nodes", "max_moves": "7"})
    page = text_of(log_in(planner).get(response.url))
    assert Plan.objects.get().request["max_moves"] == 7
    assert "Computing…" in page
    assert "Propose" not in page


@pytest.mark.parametrize(
    ("wish", "line"),
    [
        ({"goal": "world-peace"}, "world-peace"),
        (
            {"goal": "free-nodes", "max_moves": "many"},
            "Max_moves must be a whole number of moves, not 'many'",
        ),
        ({"goal": "free-nodes", "max_moves": "0"}, "max_moves"),
    ],
)
def test_a_bad_request_is_one_clear_line(planner, picture, wish, line):
    client = log_in(planner)
    page = client.post(PLANS, wish, follow=True)
    assert line.lower() in text_of(page).lower()
    assert page.content.decode().count('role="alert"') == 1
    assert not Plan.objects.exists()


def test_the_page_shows_gain_moves_distance_cost_snapshot_and_digest(draft, viewer):
    page = text_of(log_in(viewer).get(page_of(draft)))
    sha = current_version(draft).digest
    assert "frees 3 nodes unlocks llama-70b (24 GPUs)" in page
    assert f"sha256:{sha[:12]}…" in page
    assert "still matches" in page
    assert re.search(r"Moves \d+, in \d waves?", page)
    assert "not asked yet" in page


def test_optimal_is_only_said_when_it_was_proven(draft, viewer):
    first = current_version(draft)
    wording = ("proven optimal", "not proven optimal")
    for number, proven in ((2, True), (3, False)):
        body = {**first.body, "proven_optimal": proven, "gap": 0.25}
        PlanVersion.objects.create(
            plan=draft, number=number, body=body, digest=digest(body), snapshot=first.snapshot,
            snapshot_taken_at=first.snapshot_taken_at, snapshot_digest=first.snapshot_digest,
        )  # fmt: skip
        Plan.objects.filter(pk=draft.pk).update(version_number=number)
        page = text_of(log_in(viewer).get(page_of(draft))).lower()
        assert (wording[0] in page.replace(wording[1], "")) is proven


def test_the_author_proposes_and_then_cannot_approve(draft, planner):
    client = log_in(planner)
    page = text_of(client.post(f"{page_of(draft)}propose/", follow=True))
    assert "Proposed, waits for approval" in page
    assert (
        "Approve is off: you asked for this plan, somebody else with the approver role must approve it."
        in page
    )
    draft.refresh_from_db()
    assert draft.state == "proposed"


def test_a_planner_who_is_also_approver_is_told_why_and_refused_all_the_same(proposed, planner):
    make_role(planner, Role.APPROVER)
    client = log_in(planner)
    page = client.get(page_of(proposed)).content.decode()
    assert re.search(r'aria-disabled="true" aria-describedby="why-not">Approve \d+ moves', page)
    assert "Approve is off: You asked for this plan: somebody else must approve it." in page
    forced = client.post(
        f"{page_of(proposed)}approve/", {"digest": current_version(proposed).digest}, follow=True
    )
    assert "somebody else must approve it" in text_of(forced)
    proposed.refresh_from_db()
    assert proposed.state == "proposed"
    assert AuditEntry.objects.filter(action="denied").exists()


def make_role(person, role):
    from apps.accounts.models import RoleGrant

    RoleGrant.objects.create(user=person, role=role)


def test_an_approver_approves_what_was_looked_at_and_an_operator_may_start(
    proposed, approver, operator, viewer
):
    client = log_in(approver)
    page = text_of(client.get(page_of(proposed)))
    assert "You are not the requester (m.okafor)" in page
    done = client.post(
        f"{page_of(proposed)}approve/",
        {"digest": current_version(proposed).digest, "comment": "Checked <b>it</b>"},
        follow=True,
    )
    assert "Approved by b.lindqvist" in text_of(done)
    assert "Checked &lt;b&gt;it&lt;/b&gt;" in done.content.decode()
    assert "Start is off: it needs the operator role" in text_of(log_in(viewer).get(page_of(proposed)))
    started = log_in(operator).post(f"{page_of(proposed)}start/", follow=True)
    assert Execution.objects.get().started_by == operator
    assert "Every precondition is checked again before the first step" in text_of(started)
    assert "Execution" in text_of(log_in(viewer).get(page_of(proposed)))


def test_another_digest_is_refused_with_a_line(proposed, approver):
    page = log_in(approver).post(f"{page_of(proposed)}approve/", {"digest": "0" * 64}, follow=True)
    assert "look at it again" in text_of(page)
    proposed.refresh_from_db()
    assert proposed.state == "proposed"


def test_a_rejection_carries_its_comment_to_the_author(proposed, approver, planner):
    log_in(approver).post(
        f"{page_of(proposed)}reject/",
        {"digest": current_version(proposed).digest, "comment": "Not before Friday"},
    )
    page = text_of(log_in(planner).get(page_of(proposed)))
    assert "Rejected by b.lindqvist" in page
    assert "Not before Friday" in page
    assert "Plan again" in page


def test_a_viewer_can_neither_propose_nor_withdraw(draft, viewer):
    client = log_in(viewer)
    assert "Proposing needs the planner role" in text_of(client.get(page_of(draft)))
    assert "Withdraw" not in text_of(client.get(page_of(draft)))
    refused = client.post(f"{page_of(draft)}propose/", follow=True)
    assert "You may not plan on cluster gpu-east-1" in text_of(refused)


def test_a_plan_that_the_cluster_left_behind_says_what_changed(proposed, approver, cluster, picture):
    from dataclasses import replace

    from apps.clusters.queries import open_snapshot

    snapshot = open_snapshot(picture)
    moved = {move["pod_uid"] for move in current_version(proposed).body["moves"]}
    left = {uid: pod for uid, pod in snapshot.pods.items() if uid not in moved}
    make_picture(cluster, replace(snapshot, pods=left, taken_at=snapshot.taken_at + 1))
    client = log_in(approver)
    page = text_of(client.get(page_of(proposed)))
    assert "This plan no longer matches the cluster." in page
    assert "is gone (move 1)" in page
    assert "Approve is off:" in page
    refused = client.post(
        f"{page_of(proposed)}approve/", {"digest": current_version(proposed).digest}, follow=True
    )
    assert "This plan is stale and can’t be approved or started." in text_of(refused)


def test_the_eviction_dry_run_stands_beside_each_move(proposed, approver, picture):
    version = current_version(proposed)
    for move in version.body["moves"]:
        refused = move["order"] == 2
        DryRun.objects.create(
            version=version,
            pod_uid=move["pod_uid"],
            pod=move["pod"],
            allowed=not refused,
            at=proposed.proposed_at,
            message="embed-svc-pdb allows 0 disruptions" if refused else "",
        )
    page = text_of(log_in(approver).get(page_of(proposed)))
    assert "refused embed-svc-pdb allows 0 disruptions" in page
    assert "Eviction dry run refused for move 2" in page


def test_the_decision_is_only_sent_again_when_it_changed(proposed, approver, planner):
    """What an approver types must not be lost to every new snapshot."""
    client = log_in(approver)
    key = re.search(
        r'id="decide-key" name="was" value="(\w+)"', client.get(page_of(proposed)).content.decode()
    )[1]
    asked = {"part": "decide", "was": key}
    assert client.get(page_of(proposed), asked).status_code == 204
    services.withdraw_plan(plan_id=proposed.pk, actor=planner)
    changed = client.get(page_of(proposed), asked)
    assert changed.status_code == 200
    assert "Withdrawn" in text_of(changed)
    assert "<html" not in changed.content.decode()


def test_an_empty_plan_says_why_and_cannot_be_proposed(planner, cluster):
    import time

    from tests.dashboard.pictures import Board

    board = Board(now=time.time())
    board.node("n-1", "PM8")
    make_picture(cluster, board.snapshot())
    plan = services.request_plan(actor=planner, cluster=cluster, goal="free-nodes")
    compute_draft(plan.pk)
    page = text_of(log_in(planner).get(page_of(plan)))
    assert "Nothing to move." in page
    assert "It moves nothing, so there is nothing to decide." in page
    assert "Propose" not in page
    assert not plans_under_way(Plan.objects.all()).exists()


def test_a_draft_is_under_way_until_it_fails(draft):
    assert plans_under_way(Plan.objects.all()).get() == draft
    Plan.objects.filter(pk=draft.pk).update(version_number=2)
    assert plans_under_way(Plan.objects.all()).get() == draft
    Plan.objects.filter(pk=draft.pk).update(state_reason="no snapshot is known")
    assert not plans_under_way(Plan.objects.all()).exists()


def test_plans_of_other_clusters_and_unknown_verbs_are_404(draft, planner):
    from tests.dashboard.conftest import make_cluster

    make_cluster("gpu-west-1")
    client = log_in(planner)
    assert client.get(f"/clusters/gpu-west-1/plans/{draft.pk}/").status_code == 404
    assert client.post(f"{page_of(draft)}explode/").status_code == 404
    assert client.get(f"{page_of(draft)}propose/").status_code == 405
    assert client.get(f"{PLANS}99999/").status_code == 404


def test_every_decision_needs_the_security_token(proposed, approver):
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    client.force_login(approver, backend="django.contrib.auth.backends.ModelBackend")
    response = client.post(f"{page_of(proposed)}approve/", {"digest": current_version(proposed).digest})
    assert response.status_code == 403
    assert "The form was too old" in text_of(response)


def test_somebody_without_any_role_sees_no_plan(draft):
    assert log_in(make_person("nobody")).get(page_of(draft)).status_code == 404


def test_an_eviction_that_would_be_refused_stands_as_a_warning_above_the_button(proposed, approver):
    moves = current_version(proposed).body["moves"]
    for number, move in enumerate(moves, 1):
        DryRun.objects.create(
            version=current_version(proposed), pod_uid=move["pod_uid"], pod=move["pod"],
            allowed=number != 2, message="" if number != 2 else "budget allows 0", at=timezone.now(),
        )  # fmt: skip
    page = log_in(approver).get(page_of(proposed)).content.decode()
    warning = page.index("The API server would refuse the eviction of move 2 now.")
    assert warning < page.index(f">Approve {len(moves)} moves<")


def test_the_page_asks_again_by_itself_while_something_is_computed_or_dry_run(proposed, approver, planner):
    fresh = log_in(planner).post(PLANS, {"goal": "free-nodes"}, follow=True).content.decode()
    assert 'hx-trigger="load delay:1500ms"' in fresh
    client = log_in(approver)
    assert 'hx-trigger="load delay:3s"' in client.get(page_of(proposed)).content.decode()
    for move in current_version(proposed).body["moves"]:
        DryRun.objects.create(
            version=current_version(proposed), pod_uid=move["pod_uid"], pod=move["pod"], allowed=True,
            at=timezone.now(),
        )  # fmt: skip
    assert 'hx-trigger="load delay' not in client.get(page_of(proposed)).content.decode()


def test_the_cost_is_gpu_time_and_says_how_it_is_weighted(draft, viewer):
    page = log_in(viewer).get(page_of(draft)).content.decode()
    assert re.search(r"[\d,.]+ GPU-(h|min|s)<small title=\"Running time since the last checkpoint", page)
    assert "production 10 times" in page


def test_a_stale_plan_offers_one_new_plan_and_says_that_none_was_dry_run(proposed, planner):
    services.mark_stale(plan_id=proposed.pk, reason="budget embed-svc allows no eviction now")
    page = log_in(planner).get(page_of(proposed)).content.decode()
    assert page.count(">Plan again<") == 1
    assert "eviction dry run: none was made" in page


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("succeeded", "Carried out"),
        ("running", "Under way"),
        ("rolled_back", "Ended: rolled back"),
        ("failed", "Ended: failed"),
    ],
)
def test_list_page_and_calls_tell_what_became_of_a_plan(proposed, approver, planner, operator, state, word):
    digest = current_version(proposed).digest
    services.approve_plan(plan_id=proposed.pk, digest=digest, approver=approver, logged_in_at=timezone.now())
    client = log_in(planner)
    review, expires = f"Review plan {proposed.pk}", 'data-l="Expires"><time'
    assert expires in client.get(PLANS).content.decode()
    assert review in text_of(client.get("/clusters/gpu-east-1/queue/"))
    Plan.objects.filter(pk=proposed.pk).update(begun_at=timezone.now())
    version = current_version(proposed)
    Execution.objects.create(plan=proposed, version=version, started_by=operator, state="failed")
    run = {"plan": proposed, "version": version, "started_by": operator}
    Execution.objects.create(**run, state=state, finished_at=timezone.now())
    listed = client.get(PLANS)
    assert word in text_of(listed)
    assert "Approved" not in text_of(listed)
    assert expires not in listed.content.decode()
    assert word in text_of(client.get(page_of(proposed)))
    told = client.get(f"/api/v1/plans/{proposed.pk}/")
    assert (told.json()["state"], told.json()["execution_state"]) == ("approved", state)
    assert client.get("/api/v1/plans/").json()["results"][0]["execution_state"] == state
    Execution.objects.filter(state=state).update(state="cancelled")
    assert client.get(f"/api/v1/plans/{proposed.pk}/", headers={"if-none-match": told["ETag"]}).json()
    Execution.objects.filter(state="cancelled").update(state=state)
    for offer in ("/clusters/gpu-east-1/queue/", "/clusters/gpu-east-1/"):
        page = text_of(client.get(offer))
        assert (review in page, "Make a plan" in page) == (state == "running", state != "running")


def test_a_waiver_is_asked_for_on_the_page_and_shown_with_who_which_pod_and_why(planner, cluster, draft):
    """What it is for is seen by everybody; the version that is proposed then is another one."""
    snapshot = open_snapshot(latest_snapshot(cluster))
    move = open_plan(current_version(draft)).moves[0]
    pod = snapshot.pods[move.pod_uid]
    guarded = replace(pod, protections=("its local volume scratch (emptyDir) would be lost",))
    make_picture(cluster, snapshot.with_pods([guarded]))
    client = log_in(planner)
    sent = {"pod": pod.key, "reason": "only scratch"}
    page = client.post(f"{page_of(draft)}waive/", sent, follow=True)
    assert f"computed anew, with the waiver for {pod.key}" in text_of(page)
    compute_draft(draft.pk)
    draft.refresh_from_db()
    assert draft.version_number == 2
    assert pod.uid in {one.pod_uid for one in open_plan(current_version(draft)).moves}
    shown = text_of(client.get(page_of(draft)))
    for words in ("Waivers", pod.key, "its local volume scratch", "only scratch", planner.username):
        assert words in shown
    refused = client.post(f"{page_of(draft)}waive/", {"pod": "no/where", "reason": "x"}, follow=True)
    assert "runs in the newest snapshot" in text_of(refused)
