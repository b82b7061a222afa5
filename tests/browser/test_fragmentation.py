"""The Fragmentation page in a real Chromium: clean, readable by everybody, alive, and it keeps a zoom."""

import time
from dataclasses import replace
from datetime import timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.utils import timezone
from playwright.sync_api import expect

from apps.clusters.notices import publish
from apps.executions.models import Execution
from apps.fragmentation.models import Report
from apps.plans import services
from apps.plans.computing import compute_draft
from apps.plans.queries import current_version
from tests.browser.conftest import wait_for_stream
from tests.dashboard.conftest import make_cluster, make_person, make_picture
from tests.dashboard.pictures import forty_nodes

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PAGE = "/clusters/gpu-east-1/fragmentation/"
OURS = ":not([data-figure], [data-figure] *, #js-plotly-tester, #js-plotly-tester *)"
NEWEST = "document.querySelector('[data-figure=gang]').data.at(-1).y.at(-1)"
FROM = "document.querySelector('[data-figure=gang]').layout.xaxis.range[0]"


@pytest.fixture
def history(console_server):
    """An hour of the forty nodes: first two nodes empty, then a gap, a plan, and full again."""
    cluster = make_cluster()
    person = make_person("m.okafor", "planner", "viewer", "operator")
    full = forty_nodes(time.time()).snapshot()
    bare = {uid: pod for uid, pod in full.pods.items() if pod.node_name not in ("a100-07", "a100-08")}
    for minutes, pods in ((50, bare), (40, full.pods), (20, bare), (0, full.pods)):
        row = make_picture(cluster, replace(full, pods=pods, taken_at=time.time() - 60 * minutes))
        lasting = timedelta(minutes=min(minutes, 10))
        Report.objects.filter(snapshot_id=row.pk).update(seen_until=row.taken_at + lasting)
    plan = services.request_plan(actor=person, cluster=cluster, goal="unlock", workload="default/llama-70b")
    compute_draft(plan.pk)
    ended = timezone.now() - timedelta(minutes=21)
    execution = Execution.objects.create(
        plan=plan, version=current_version(plan), state="succeeded", started_by=person,
        started_at=ended - timedelta(minutes=5), finished_at=ended, outcome={"matches": True},
    )  # fmt: skip
    return {"cluster": cluster, "person": person, "full": full, "execution": execution}


def drawn(page):
    """Waits until all four charts stand."""
    expect(page.locator(".plot.js-plotly-plot")).to_have_count(4, timeout=45_000)
    expect(page.locator("[data-figure=now] .bars .point")).to_have_count(8)
    return page


def until(page, script, value, seconds=45):
    """The page's policy refuses the browser's own way of waiting for a script's answer."""
    deadline = time.monotonic() + seconds
    while page.evaluate(script) != value:
        assert time.monotonic() < deadline, f"{script} stays {page.evaluate(script)}"
        page.wait_for_timeout(100)


@pytest.mark.parametrize(("dark", "width"), [(False, 1440), (True, 1440), (False, 390), (True, 390)])
def test_the_page_is_clean_and_accessible(history, open_page, dark, width):
    page = drawn(open_page(history["person"], PAGE, dark=dark, width=width))
    page.locator("#numbers > summary").click()
    expect(page.get_by_role("region", name="Fragmentation over time as a table")).to_be_visible()
    violations = Axe().run(page).response["violations"]
    assert [(one["id"], [node["target"] for node in one["nodes"][:3]]) for one in violations] == []
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert page.locator(f"[style]{OURS}").count() == 0
    assert page.complaints == []


def test_a_new_report_moves_the_charts_and_keeps_the_zoom(history, open_page):
    page = drawn(open_page(history["person"], PAGE))
    page.evaluate("window.notReloaded = true")
    assert page.evaluate(NEWEST) == 0
    box = page.locator("[data-figure=causes] .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 105, steps=6)
    page.mouse.up()
    button = page.get_by_role("button", name="Whole range")
    expect(button).to_be_visible()
    zoomed = page.evaluate(FROM)
    wait_for_stream(page)
    page.wait_for_timeout(2500)  # the charts are fetched again after some seconds at the earliest
    left = {uid: pod for uid, pod in history["full"].pods.items() if pod.node_name != "a100-07"}
    make_picture(history["cluster"], replace(history["full"], pods=left, taken_at=time.time()))
    expect(page.locator("dd", has_text="1 × 8, NVLink")).to_be_visible(timeout=45_000)
    until(page, NEWEST, 8)
    assert page.evaluate(FROM) == zoomed
    assert page.evaluate("window.notReloaded")
    button.click()
    expect(button).to_be_hidden()
    assert page.evaluate(FROM) != zoomed
    assert page.complaints == []


def test_the_theme_repaints_the_charts(history, open_page):
    page = drawn(open_page(history["person"], PAGE))
    colour = "document.querySelector('[data-figure=causes]').data[0].fillcolor"
    assert page.evaluate(colour) == "#477c74"
    page.get_by_role("button", name="Switch between light and dark").click()
    expect(page.locator("[data-figure=causes] .js-fill").first).to_have_css("fill", "rgb(147, 188, 173)")
    assert page.evaluate(colour) == "#93bcad"


def test_choices_go_into_the_address_and_the_charts_follow(history, open_page):
    page = drawn(open_page(history["person"], PAGE))
    with page.expect_response(lambda answer: "figure.json" in answer.url and "pool=train-h" in answer.url):
        page.get_by_label("Pool").select_option("train-h")
    page.get_by_label("6 h").check(force=True)
    expect(page.locator("#exports a").first).to_have_attribute(
        "href", f"{PAGE[:-1]}.csv?range=6h&pool=train-h"
    )
    assert "pool=train-h" in page.url
    page.get_by_label("Model").select_option("Ascend 910B")
    expect(page.get_by_role("heading", name="Nothing measured for this choice")).to_be_visible()
    expect(page.locator("#charts")).to_be_hidden()
    page.get_by_label("Model").select_option("")
    expect(page.locator("#charts")).to_be_visible()
    assert page.complaints == []


def test_a_gap_is_a_hole_and_a_plan_leads_to_its_execution(history, open_page):
    page = drawn(open_page(history["person"], PAGE))
    assert page.evaluate("document.querySelector('[data-figure=gang]').data.length") >= 2
    expect(page.locator("[data-figure=gang]").get_by_text("not seen").first).to_be_visible()
    page.locator("[data-figure=causes] .annotation", has_text="carried out").locator("rect").first.click(
        force=True
    )
    page.wait_for_url(f"**/executions/{history['execution'].pk}/")


def test_the_first_report_fills_an_empty_page(console_server, open_page):
    cluster, person = make_cluster(), make_person("v.ida", "viewer")
    page = open_page(person, PAGE)
    expect(page.get_by_role("heading", name="No snapshot of this cluster yet")).to_be_visible()
    expect(page.locator("#charts")).to_be_hidden()
    wait_for_stream(page)
    make_picture(cluster)
    publish(cluster.name, "fragmentation", {})
    drawn(page)
    assert page.complaints == []
