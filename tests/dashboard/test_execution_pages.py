"""The live page of an execution, and the ways to stop one."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.executions.models import Execution, GpuHours
from apps.plans import services
from apps.plans.computing import compute_draft
from apps.plans.models import Plan
from apps.plans.queries import current_version
from tests.dashboard.conftest import log_in, make_person
from tests.dashboard.executions import BLOCKED, RUNBOOK, make_execution
from tests.dashboard.test_grid_pages import text_of

pytestmark = pytest.mark.django_db(transaction=True)
EXECUTIONS = "/clusters/gpu-east-1/executions/"


@pytest.fixture
def approved(planner, approver, cluster, picture):
    plan = services.request_plan(actor=planner, cluster=cluster, goal="unlock", workload="default/llama-70b")
    compute_draft(plan.pk)
    services.propose_plan(plan_id=plan.pk, actor=planner)
    digest = current_version(plan).digest
    services.approve_plan(plan_id=plan.pk, digest=digest, approver=approver, logged_in_at=timezone.now())
    plan.refresh_from_db()
    return plan


@pytest.fixture
def running(approved, operator) -> Execution:
    return make_execution(approved, operator)


def page_of(execution: Execution) -> str:
    return f"{EXECUTIONS}{execution.pk}/"


def test_without_executions_the_list_says_how_one_comes_about(viewer, picture):
    assert "Nothing has been carried out yet" in text_of(log_in(viewer).get(EXECUTIONS))


def test_the_list_links_execution_and_plan(viewer, running):
    page = text_of(log_in(viewer).get(EXECUTIONS))
    assert f"Execution {running.pk}" in page
    assert "Running" in page


def test_progress_counts_steps_by_what_they_are(viewer, running):
    page = text_of(log_in(viewer).get(page_of(running)))
    done, total = re.search(r"(\d+) of (\d+) steps done", page).groups()
    assert int(total) == running.steps.count()
    assert int(done) == running.steps.filter(state="verified").count()
    assert "1 under way" in page
    assert "1 step blocked" in page


def test_a_blocked_step_says_why_since_when_and_what_to_do(viewer, running):
    page = text_of(log_in(viewer).get(page_of(running)))
    assert re.search(r"Move 2, evict: blocked for 3 min \d+ s", page)
    assert BLOCKED in page
    assert "Tried 9 times" in page
    assert f"What to do: {RUNBOOK}" in page


def test_moves_in_flight_are_named_in_what_a_stop_would_do(viewer, running):
    page = text_of(log_in(viewer).get(page_of(running)))
    assert "Moves in flight (3) land first." in page
    assert "Pods of moves in flight (3) are let go and may land elsewhere." in page
    assert "1 pod already moved and stays there." in page
    assert "Evictions can’t be undone." in page


def test_events_come_newest_first(viewer, running):
    markup = log_in(viewer).get(page_of(running)).content.decode()
    ids = list(running.events.order_by("-id").values_list("message", flat=True))
    log = markup[markup.index('class="log"') :]
    assert log.index(ids[0]) < log.index(ids[-1])


def test_only_operators_get_the_buttons(viewer, operator, running):
    assert "need the operator role" in text_of(log_in(viewer).get(page_of(running)))
    page = log_in(operator).get(page_of(running)).content.decode()
    for verb in ("pause", "cancel", "roll-back"):
        assert f"{page_of(running)}{verb}/" in page
    assert f"{page_of(running)}resume/" not in page


def test_pause_and_resume_go_through_the_service(operator, running):
    client = log_in(operator)
    page = client.post(f"{page_of(running)}pause/", {"reason": "lunch"}, follow=True)
    running.refresh_from_db()
    assert running.state == "paused"
    assert "Paused" in text_of(page)
    assert "resume/" in page.content.decode()
    client.post(f"{page_of(running)}resume/")
    running.refresh_from_db()
    assert running.state == "running"


def test_a_stale_tab_cannot_go_on_from_a_stop_that_it_never_showed(operator, running):
    """In one tab the first stop is dealt with, then another one comes; the second still shows the first."""
    client, act = log_in(operator), page_of(running)
    step = running.steps.first()
    rows = Execution.objects.filter(pk=running.pk)

    def stand_still(reason):
        step.observed |= {"needs_person": True, "cause": "no-room"}
        step.reason, step.state = reason, "blocked"
        step.save()
        rows.update(state="needs_human", cause="no-room", state_reason=reason)

    def shown():
        page = client.get(act).content.decode()
        (seen,) = set(re.findall(r'name="seen" value="(\w+)"', page))
        return seen

    stand_still("the first")
    stale = shown()
    stand_still("the second")
    page = client.post(f"{act}resume/", {"seen": stale}, follow=True)
    assert "does not stand as your page showed it" in text_of(page)
    assert rows.get().state == "needs_human"
    fresh = shown()
    assert fresh != stale
    client.post(f"{act}resume/", {"seen": fresh})
    assert rows.get().state == "running"
    page = client.post(f"{act}resume/", {"seen": fresh}, follow=True)
    assert "so there is nothing to resume" in text_of(page), "pressed twice: told, and nothing is done twice"
    client.post(f"{act}cancel/", {"seen": stale, "reason": "no"})
    assert rows.get().state == "cancelling", "what stops is never held up"


def test_the_pause_of_a_freeze_can_be_made_a_lasting_one(operator, running):
    client = log_in(operator)
    Execution.objects.filter(pk=running.pk).update(state="paused", is_frozen=True)
    assert f"{page_of(running)}pause/" in client.get(page_of(running)).content.decode()
    page = client.post(f"{page_of(running)}pause/", {"reason": "lunch"}, follow=True).content.decode()
    running.refresh_from_db()
    assert (running.state, running.is_frozen) == ("paused", False)
    assert f"{page_of(running)}pause/" not in page


def test_actions_of_one_person_are_counted(operator, running, settings):
    settings.API_RATES = {**settings.API_RATES, "operating": (1, 3600)}
    client = log_in(operator)
    client.post(f"{page_of(running)}pause/")
    page = client.post(f"{page_of(running)}resume/", follow=True)
    running.refresh_from_db()
    assert running.state == "paused"
    assert "More than 1 in 3600 seconds: wait" in text_of(page)


def test_a_viewer_who_posts_anyway_is_refused_with_one_line(viewer, running):
    page = log_in(viewer).post(f"{page_of(running)}cancel/", {"reason": "x"}, follow=True)
    assert "You may not operate on cluster gpu-east-1" in text_of(page)
    running.refresh_from_db()
    assert running.state == "running"


def test_a_stop_that_comes_too_late_is_said(operator, running):
    Execution.objects.filter(pk=running.pk).update(state="succeeded", finished_at=timezone.now())
    page = log_in(operator).post(f"{page_of(running)}pause/", follow=True)
    assert page.content.decode().count('role="alert"') >= 1
    assert "succeeded" in text_of(page)


@pytest.mark.parametrize(
    ("matches", "head"), [(True, "It did what it promised."), (False, "It did not do what")]
)
def test_the_result_stands_against_the_promise(viewer, running, matches, head):
    running.state, running.finished_at = ("succeeded" if matches else "needs_human"), timezone.now()
    running.outcome = {
        "matches": matches,
        "promised": ["3 nodes are free"],
        "found": ["3 nodes are free" if matches else "2 nodes are free"],
        "differences": [] if matches else ["a100-07 is not free"],
    }
    running.save()
    page = text_of(log_in(viewer).get(page_of(running)))
    assert head in page
    assert (
        "Promised and found: 1 fact" if matches else "Promised 3 nodes are free Found 2 nodes are free"
    ) in page


def test_the_buttons_are_only_sent_again_when_the_state_changed(operator, running):
    client = log_in(operator)
    key = re.search(
        r'id="actions-key" name="was" value="(\w+)"', client.get(page_of(running)).content.decode()
    )[1]
    asked = {"part": "actions", "was": key}
    assert client.get(page_of(running), asked).status_code == 204
    Execution.objects.filter(pk=running.pk).update(state="paused")
    assert "Resume" in text_of(client.get(page_of(running), asked))


def test_before_its_steps_are_written_every_move_is_listed_as_to_come(viewer, approved, operator):
    execution = Execution.objects.create(
        plan=approved, version=current_version(approved), state="preflight", started_by=operator
    )
    page = text_of(log_in(viewer).get(page_of(execution)))
    assert "Nothing has been touched." in page
    assert "Wave 1" in page


def test_executions_of_other_clusters_and_unknown_verbs_are_404(operator, running):
    client = log_in(operator)
    assert client.post(f"{page_of(running)}explode/").status_code == 404
    assert client.get(f"{EXECUTIONS}99999/").status_code == 404


def test_a_step_that_was_not_needed_does_not_look_like_a_failure(viewer, running):
    skipped = running.steps.filter(kind="checkpoint").first()
    running.steps.filter(pk=skipped.pk).update(state="superseded")
    page = log_in(viewer).get(page_of(running)).content.decode()
    cell = re.search(r'<span class="stp superseded">(.*?)not needed', page)[1]
    assert "#dash" in cell
    assert "#x" not in cell


def test_only_a_running_execution_says_what_a_pause_would_do(viewer, running):
    assert "<b>Pause</b>" in log_in(viewer).get(page_of(running)).content.decode()
    Execution.objects.filter(pk=running.pk).update(state="paused")
    assert "<b>Pause</b>" not in log_in(viewer).get(page_of(running)).content.decode()


def test_after_a_roll_back_nothing_counts_as_done_and_no_promise_was_broken(viewer, operator, running):
    steps = running.steps
    steps.update(state="superseded")
    steps.filter(kind__in=["cordon_node", "hold_target"]).update(state="compensated")
    landed = steps.filter(move=1)
    landed.filter(kind__in=["evict_pod", "await_replacement"]).update(state="verified")
    Execution.objects.filter(pk=running.pk).update(
        state="rolled_back",
        state_reason="r.tanaka: drill. No pod was moved.",
        outcome={"not_undone": [], "layouts_kept": []},
        finished_at=timezone.now(),
    )
    page = text_of(log_in(viewer).get(page_of(running)))
    needed = steps.exclude(state="superseded").count()
    assert f"2 of {needed} steps done" in page
    assert f"{steps.filter(state='compensated').count()} undone" in page
    assert f"1 of {steps.exclude(move=0).values('move').distinct().count()} moves done" in page
    assert "It was rolled back. r.tanaka: drill. No pod was moved." in page
    assert "did not do what it promised" not in page
    assert page.count("No pod was moved") == 1
    plan = running.plan
    Plan.objects.filter(pk=plan.pk).update(begun_at=timezone.now())
    at = f"/clusters/{plan.cluster.name}/plans/{plan.pk}/"
    asked = log_in(make_person("p.lan", "planner", cluster=plan.cluster)).get(at).content.decode()
    assert "It cannot be started as it is" in asked
    assert "Plan again</button>" in asked


def test_a_refetch_brings_the_counts_of_the_navigation_with_it(viewer, running):
    client = log_in(viewer)
    badge = '<span id="count-executions" class="count" title="1 under way"'
    assert f"{badge}>" in client.get(page_of(running)).content.decode()
    asked = {"headers": {"hx-request": "true"}}
    assert f'{badge} hx-swap-oob="true">1<' in client.get(page_of(running), **asked).content.decode()
    Execution.objects.filter(pk=running.pk).update(state="succeeded", finished_at=timezone.now())
    assert '<span id="count-executions" hx-swap-oob="true"></span>' in (
        client.get(page_of(running), **asked).content.decode()
    )


def test_gpu_hours_are_predicted_beside_measured_and_what_is_not_known_is_said(viewer, running, cluster):
    client = log_in(viewer)
    page = text_of(client.get(page_of(running)))
    assert "Not yet known: the console looks every 15 min." in page
    sums = {"work": 3.0, "away": 0.5, "unlocked": 40.0, "freed": 0.0, "left": 3, "without_checkpoint": 2}
    ended = timezone.now() - timedelta(hours=25)
    facts = {"lost_foreseen": 2.5, "won_foreseen": 192.0, "closed_at": timezone.now()}
    GpuHours.objects.create(execution=running, sums={**sums, "still_away": 1}, **facts)
    began = ended - timedelta(minutes=5)
    Execution.objects.filter(pk=running.pk).update(started_at=began, finished_at=ended, state="succeeded")
    page = text_of(client.get(page_of(running)))
    assert "Lost by pods that left 2.5 GPU-h 3.5 GPU-h 3.0 GPU-h of work since the last checkpoint" in page
    assert "of 3 pods 2 had no known checkpoint, so all running time counts; 1 pod not back yet" in page
    assert "Won by what got room at most 192 GPU-h 40 GPU-h 40 GPU-h by what the plan unlocked" in page
    assert "since the console did not look: what began and ended then is not counted." in page
    told = client.get(f"/api/v1/executions/{running.pk}/").json()["gpu_hours"]
    assert (told["standing"], told["lost"], told["won"]) == ("partly", 3.5, 40.0)
    total = client.get(f"/api/v1/executions/gpu-hours/?cluster={cluster.name}").json()
    assert (total["measured"], total["lost"], total["won"], total["unknown"]) == (1, 3.5, 40.0, 0)
    assert "Measured over 1: 40 GPU-h won (predicted at most 192 GPU-h), 3.5 GPU-h lost" in text_of(
        client.get(EXECUTIONS)
    )
    assert client.get("/api/v1/executions/gpu-hours/?cluster=unseen").status_code == 404
