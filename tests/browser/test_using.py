"""What people do on the pages: look, move, find, decide; and what moves by itself."""

import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from apps.clusters.notices import publish
from apps.clusters.queries import latest_snapshot, open_snapshot
from apps.clusters.services import note_watch_error
from apps.executions.models import Execution
from apps.planner.defrag import plan_free_nodes
from apps.plans import services
from apps.plans.models import Plan
from tests.browser.conftest import wait_for_stream
from tests.browser.test_pages import GRID, console
from tests.dashboard.conftest import PASSWORD, make_picture

__all__ = ["console"]
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_new_snapshot_appears_without_a_reload(console, open_page):
    page = open_page(console["planner"], f"{GRID}?find=a100-08")
    page.evaluate("window.notReloaded = true")
    expect(page.locator("#n-a100-08")).to_contain_text("5 of 8 free")
    snapshot = open_snapshot(latest_snapshot(console["cluster"]))
    gone = next(uid for uid, pod in snapshot.pods.items() if pod.node_name == "a100-08")
    left = {uid: pod for uid, pod in snapshot.pods.items() if uid != gone}
    wait_for_stream(page)
    row = make_picture(console["cluster"], replace(snapshot, pods=left, taken_at=time.time()))
    expect(page.locator("#n-a100-08")).to_contain_text("6 of 8 free", timeout=20_000)
    expect(page.locator("#age")).to_contain_text(f"snapshot {row.pk}")
    assert page.evaluate("window.notReloaded")
    assert page.complaints == []


def test_arrows_move_through_the_rows_and_the_panel_follows(console, open_page):
    page = open_page(console["planner"], f"{GRID}?sort=name")
    page.locator("#n-a100-01").focus()
    expect(page.locator("#inspect h2")).to_have_text("a100-01")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#n-a100-03")).to_be_focused()
    expect(page.locator("#inspect h2")).to_have_text("a100-03")
    assert "node=a100-03" in page.url
    page.keyboard.press("ArrowRight")
    expect(page.locator("#n-h800-03")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/nodes/h800-03/$"))


def test_filters_go_into_the_address_and_come_back_from_it(console, open_page):
    page = open_page(console["planner"], GRID)
    page.locator("#find").press_sequentially("lora")
    expect(page.locator(".nrow")).to_have_count(7)
    expect(page.locator("#find")).to_be_focused()
    page.get_by_label("Fragmentation").check(force=True)
    expect(page.locator("#grid")).to_have_attribute("data-mode", "heat")
    assert "find=lora" in page.url
    assert "mode=heat" in page.url
    page.reload()
    expect(page.locator(".nrow")).to_have_count(7)
    expect(page.get_by_label("Fragmentation")).to_be_checked()


def test_the_legend_singles_out_one_workload(console, open_page):
    page = open_page(console["planner"], GRID)
    page.get_by_role("button", name="embed-svc").click()
    expect(page.locator("#grid[data-solo]")).to_have_count(1)
    shown = page.locator(".u.on")
    assert shown.count() > 5
    assert set(shown.evaluate_all("all => all.map(one => one.dataset.w)")) == {"ES"}
    page.get_by_role("button", name="embed-svc").click()
    expect(page.locator("#grid[data-solo]")).to_have_count(0)


def test_the_theme_follows_the_system_until_somebody_chooses(console, open_page):
    page = open_page(console["planner"], GRID, dark=True)
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "light")
    page.goto(f"{GRID}queue/")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "light")


def test_ages_grow_by_themselves(console, open_page):
    page = open_page(console["planner"], GRID)
    age = page.locator("#age .words")
    first = age.inner_text()
    expect(age).not_to_have_text(first, timeout=15_000)


def test_a_heartbeat_keeps_the_age_right_without_a_refetch(console, open_page):
    page = open_page(console["planner"], f"{GRID}plans/")
    row = latest_snapshot(console["cluster"])
    wait_for_stream(page)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    moment = datetime.now(UTC) + timedelta(hours=1)
    publish("gpu-east-1", "heartbeat", {"id": row.pk, "taken_at": moment.isoformat()})
    expect(page.locator("#age time")).to_have_text(f"{moment:%H:%M:%S} UTC", timeout=15_000)
    expect(page.locator("#age .words")).to_have_text("as of 0 s ago")
    assert asked == []


def test_a_heartbeat_that_tells_of_trouble_makes_the_page_ask_why(console, open_page):
    page = open_page(console["planner"], GRID)
    wait_for_stream(page)
    note_watch_error(cluster_id=console["cluster"].pk, cluster_name="gpu-east-1", error="connection refused")
    expect(page.get_by_text("Cluster gpu-east-1 cannot be watched.")).to_be_visible(timeout=15_000)


def test_whole_nodes_are_asked_for_from_the_grid(console, open_page):
    page = open_page(console["planner"], GRID)
    page.get_by_text("Plan to free nodes…").click()
    page.get_by_label("At most how many moves").fill("12")
    page.get_by_role("button", name="Plan to free whole nodes").click()
    expect(page.get_by_text("Computing…")).to_be_visible()
    assert Plan.objects.latest("pk").request["max_moves"] == 12


def test_times_are_utc_with_the_local_time_on_hover(console, open_page):
    page = open_page(console["planner"], f"{GRID}nodes/a100-16/")
    time_element = page.locator("time").first
    expect(time_element).to_contain_text("UTC")
    expect(time_element).to_have_attribute("title", re.compile(r"UTC · here "))


def test_an_approver_keeps_the_comment_while_the_cluster_goes_on_and_approves(console, open_page):
    plan = console["plan"]
    page = open_page(console["everybody"], f"{GRID}plans/{plan.pk}/")
    page.locator("#comment").press_sequentially("Half a thou")
    picture = open_snapshot(latest_snapshot(console["cluster"]))
    pods = {**picture.pods}
    spare = next(pod for pod in pods.values() if pod.node_name == "npu-04")
    pods.pop(spare.uid)
    row = make_picture(console["cluster"], replace(picture, pods=pods, taken_at=time.time()))
    expect(page.locator("#age")).to_contain_text(f"snapshot {row.pk}", timeout=12000)
    expect(page.locator("#comment")).to_have_value("Half a thou")
    expect(page.locator("#comment")).to_be_focused()
    page.get_by_role("button", name=re.compile(r"^Approve \d+ moves$")).click()
    expect(page.get_by_text(f"Plan {plan.pk} is approved: an operator can start it.")).to_be_visible()
    assert Plan.objects.get(pk=plan.pk).state == "approved"
    assert page.complaints == []


def test_a_button_that_is_off_does_nothing_and_says_why(console, open_page):
    plan = console["plan"]
    page = open_page(console["planner"], f"{GRID}plans/{plan.pk}/")
    button = page.get_by_role("button", name=re.compile("^Approve"))
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(page.locator(f"#{button.get_attribute('aria-describedby')}")).to_contain_text("somebody else")
    button.click(force=True)
    expect(page).to_have_url(re.compile(rf"/plans/{plan.pk}/$"))


def test_on_a_narrow_screen_the_menu_opens_and_leads_on(console, open_page):
    page = open_page(console["planner"], GRID, width=390, height=844)
    expect(page.locator("#side")).to_be_hidden()
    page.locator("#menu").click()
    page.locator("#side").get_by_role("link", name="Plans").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Plans")


def test_logging_in_by_hand_and_out_again(console, open_page):
    page = open_page(None, GRID)
    page.get_by_label("Username").fill("m.okafor")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Username").fill("m.okafor")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster grid")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()


def test_two_clusters_can_be_switched_between(console, open_page):
    from tests.dashboard.conftest import make_cluster

    make_cluster("gpu-west-1")
    page = open_page(console["planner"], GRID)
    page.get_by_label("Cluster").select_option("gpu-west-1")
    expect(page).to_have_url(re.compile("/clusters/gpu-west-1/$"))
    expect(page.get_by_role("heading", level=2, name="No snapshot of this cluster yet")).to_be_visible()


def test_an_execution_moves_on_the_page_while_somebody_looks(console, open_page):
    page = open_page(console["everybody"], console["paths"]["execution"])
    page.evaluate("window.notReloaded = true")
    expect(page.get_by_text("1 step blocked")).to_be_visible()
    execution = Execution.objects.get()
    wait_for_stream(page)
    execution.steps.filter(state="blocked").update(state="issued")
    Execution.objects.update(state="paused", state_reason="lunch")
    publish("gpu-east-1", "execution", {"id": execution.pk})
    expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=15_000)
    expect(page.get_by_text("1 step blocked")).to_have_count(0)
    assert page.evaluate("window.notReloaded")
    assert page.complaints == []


def test_a_simulation_opens_by_the_keyboard_and_stays_open_through_a_new_snapshot(console, open_page):
    page = open_page(console["planner"], f"{GRID}queue/")
    expect(page.locator(".unblock")).to_contain_text("makes room on", timeout=45_000)
    page.get_by_role("link", name="Simulate llama-70b").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#room")).to_contain_text("No fewer would do.", timeout=45_000)
    assert "simulate=default%2Fllama-70b" in page.url
    page.locator("#rules-h800-08 summary").click()
    picture = open_snapshot(latest_snapshot(console["cluster"]))
    spare = next(uid for uid, pod in picture.pods.items() if pod.node_name == "npu-04")
    pods = {uid: pod for uid, pod in picture.pods.items() if uid != spare}
    row = make_picture(console["cluster"], replace(picture, pods=pods, taken_at=time.time()))
    expect(page.locator("#age")).to_contain_text(f"snapshot {row.pk}", timeout=45_000)
    expect(page.locator("#rules-h800-08")).to_contain_text("The node is Ready.")
    expect(page.locator("#rules-h800-08")).to_have_attribute("open", "")
    assert page.complaints == []


def test_a_shape_is_asked_by_the_form_and_stays_in_the_address(console, open_page):
    page = open_page(console["planner"], f"{GRID}what-if/")
    page.get_by_label("GPUs a pod").fill("4")
    page.get_by_label("GPUs a pod").press("Enter")
    expect(page.locator(".callout")).to_contain_text("1 pod of 4 GPUs:")
    assert "gpus=4" in page.url
    page.get_by_label("Link between them").select_option("nvlink")
    expect(page.locator(".callout")).to_contain_text("4 GPUs, NVLink:")
    page.reload()
    expect(page.get_by_label("GPUs a pod")).to_have_value("4")
    page.get_by_text("If the cluster were another one").click()
    page.get_by_label("Try it with").select_option("add")
    page.get_by_label("Node or queue").fill("a100-01")
    page.get_by_label("Number, to add").fill("3")
    page.get_by_role("button", name="Try this change").click()
    expect(page.locator("#effect tbody tr").first).to_have_text("Nodes4043other")
    assert "change=add%3A3%3Aa100-01" in page.url
    assert page.complaints == []


def test_a_page_that_asks_by_itself_leaves_no_part_behind_when_an_event_makes_it_ask_too(console, open_page):
    plan = services.request_plan(actor=console["planner"], cluster=console["cluster"], goal="mig")
    page, held = open_page(console["planner"], f"{GRID}plans/{plan.pk}/"), []
    expect(page.locator("#live")).to_contain_text("Computing…")

    def hold_the_first(route):
        if held:
            route.continue_()
        held.append(route)

    page.route(f"**/plans/{plan.pk}/", hold_the_first)
    with page.expect_request(f"**/plans/{plan.pk}/"):
        pass
    page.evaluate('document.body.dispatchEvent(new Event("missed"))')
    page.wait_for_timeout(1000)
    with page.expect_response(f"**/plans/{plan.pk}/"):
        held[0].continue_()
    page.wait_for_timeout(500)
    assert len(held) > 1
    assert page.complaints == []


def test_a_search_is_followed_live_and_stopped_with_the_best_plan_so_far(console, open_page):
    """The worker's part is played here: it tells, it hears the stop, and it answers."""
    planner, cluster = console["planner"], console["cluster"]
    page = open_page(planner, f"{GRID}plans/")
    page.locator("#max-seconds").fill("300")
    page.get_by_role("button", name="Plan to free whole nodes").click()
    expect(page.locator("#live")).to_contain_text("It waits for a worker")
    page.evaluate("window.notReloaded = true")
    plan = services.claim_draft(plan_id=Plan.objects.latest("pk").pk)
    assert plan.request["seconds"] == 300
    wait_for_stream(page)
    told = {"stage": "trying for one node more", "achieved": 1, "moves": 2, "bound": 3}
    services.note_progress(plan=plan, told=told)
    sentence = "1 node freed with 2 moves; no plan can free more than 3."
    expect(page.locator("#live")).to_contain_text(sentence, timeout=15_000)
    expect(page.locator("#live")).to_contain_text("Trying for one node more")
    expect(page.locator("progress")).to_have_attribute("max", "300")
    assert page.evaluate("window.notReloaded")
    page.get_by_role("button", name="Stop and keep the best plan so far").click()
    expect(page.locator("#live")).to_contain_text("Stopping…", timeout=15_000)
    row = latest_snapshot(cluster)
    found = plan_free_nodes(open_snapshot(row), max_moves=1, deadline=lambda: False)
    honest = replace(found, proven_optimal=False, lower_bound=len(found.freed_nodes) + 2.0, gap=0.5)
    services.attach_version(
        plan_id=plan.pk, number=1, snapshot=row, found=honest, title="Free nodes", ending="stopped",
        search_seconds=3.0,
    )  # fmt: skip
    expect(page.locator("#live")).to_contain_text("At most 2 more could be freed", timeout=15_000)
    expect(page.locator("#live")).to_contain_text("gap 50 %")
    expect(page.locator("#live")).to_contain_text("The search was stopped after 3 s")
    expect(page.locator("#live")).not_to_contain_text("Proven optimal")
    assert page.complaints == []
