"""The dense grid in a real Chromium: drawn, looked through by mouse and keys, live, clean and accessible."""

import re
import time
from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from apps.clusters.queries import latest_snapshot, open_snapshot
from apps.dashboard.prepared import prepare_grid
from apps.planner.inventory import DeviceGroup, Gpu
from tests.browser.conftest import wait_for_stream
from tests.browser.test_pages import GRID
from tests.dashboard.conftest import make_cluster, make_person, make_picture

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
DENSE = f"{GRID}?view=dense&sort=name"


@pytest.fixture
def cluster(console_server):
    cluster = make_cluster()
    make_picture(cluster)
    return cluster


@pytest.fixture
def person(cluster):
    return make_person("m.okafor", "planner", "viewer")


def colours(page) -> int:
    """How many different colours the canvas shows."""
    return page.locator("#dense").evaluate(
        """canvas => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return new Set(new Uint32Array(data.buffer)).size;
        }"""
    )


def drawn(page):
    expect(page.locator("#now")).not_to_be_empty()
    return page


@pytest.mark.parametrize(("dark", "width", "mode"), [(False, 1440, "work"), (True, 390, "heat")])
def test_the_dense_grid_is_clean_and_accessible(person, open_page, dark, width, mode):
    page = drawn(open_page(person, f"{DENSE}&mode={mode}&node=a100-07", dark=dark, width=width))
    expect(page.locator("#inspect h2")).to_have_text("a100-07")
    page.get_by_text("The same as a table").click()
    assert colours(page) > 4
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    serious = [one["id"] for one in Axe().run(page).response["violations"]]
    assert (page.complaints, serious) == ([], [])


def test_arrow_keys_move_and_enter_opens_the_node(person, open_page):
    page = drawn(open_page(person, DENSE))
    page.locator("#theme").focus()
    page.locator("#other-view").focus()
    for _ in range(6):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "dense":
            break
    expect(page.locator("#now")).to_contain_text("a100-01 · A100-SXM4-80GB")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#now")).to_contain_text("h800-03")
    expect(page.locator("#inspect h2")).to_have_text("h800-03")
    expect(page).to_have_url(re.compile("node=h800-03"))
    page.keyboard.press("Escape")
    expect(page.locator("#inspect h2")).to_have_text("Most worth defragmenting")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/nodes/l40s-08/$"))


def test_the_pointer_looks_and_a_click_opens(person, open_page):
    page = drawn(open_page(person, f"{DENSE}&find=a100-08"))
    page.locator("#dense").hover(position={"x": 20, "y": 40})
    expect(page.locator("#now")).to_contain_text("a100-08 · A100-SXM4-80GB · ")
    expect(page.locator("#now")).to_contain_text("5 of 8 free")
    expect(page.locator("#inspect li", has_text="lora-sweep")).to_contain_text("movable")
    page.locator("#dense").click(position={"x": 20, "y": 40})
    expect(page).to_have_url(re.compile(r"/nodes/a100-08/$"))


def test_wishes_go_into_the_address_and_come_back_from_it(person, open_page):
    page = drawn(open_page(person, DENSE))
    page.get_by_text("The same as a table").click()
    rows = page.locator("#as-table tbody tr")
    expect(rows).to_have_count(40)
    page.locator("#find").fill("lora")
    page.get_by_label("Fragmentation").check(force=True)
    expect(rows).to_have_count(7)
    expect(page).to_have_url(re.compile("mode=heat.*find=lora"))
    page.reload()
    drawn(page)
    expect(page.locator("#grid")).to_have_attribute("data-mode", "heat")
    expect(page.locator("#now")).to_have_text("7 of 40 nodes match.")
    page.locator("#other-view").click()
    expect(page.locator(".nrow")).to_have_count(7)
    assert page.complaints == []


def test_the_legend_singles_out_one_workload(person, open_page):
    page = drawn(open_page(person, DENSE))
    before = colours(page)
    button = page.get_by_role("button", name="embed-svc")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    assert colours(page) > before
    button.click()
    assert colours(page) == before


def test_devices_of_other_vendors_are_drawn_told_and_in_the_legend(person, open_page, cluster):
    snapshot = open_snapshot(latest_snapshot(cluster))
    group = DeviceGroup("acme", "acme.example/npu", gpus=(Gpu(0, "NPU-0"), Gpu(1, "NPU-1", healthy=False)))
    node = replace(snapshot.nodes["a100-08"], others=(group,))
    nodes = {**snapshot.nodes, "a100-08": node}
    make_picture(cluster, replace(snapshot, nodes=nodes, taken_at=time.time()))
    page = drawn(open_page(person, f"{DENSE}&find=a100-08&node=a100-08"))
    expect(page.locator("#now")).to_contain_text("2 devices of other vendors beside them")
    expect(page.locator("#inspect")).to_contain_text("another vendor’s, unhealthy")
    expect(page.locator(".keys")).to_contain_text("another vendor’s device")
    place, width = page.locator("#cursor").bounding_box(), page.locator("#dense").bounding_box()
    assert place["width"] > 10 * 16, "ten cells, the round ones too"
    assert place["x"] + place["width"] <= width["x"] + width["width"] + 3
    assert page.complaints == []


def test_a_new_picture_is_drawn_in_place(person, open_page, cluster):
    page = drawn(open_page(person, f"{DENSE}&node=a100-08"))
    page.evaluate("window.notReloaded = true")
    expect(page.locator("#now")).to_contain_text("5 of 8 free")
    row = latest_snapshot(cluster)
    snapshot = open_snapshot(row)
    gone = next(uid for uid, pod in snapshot.pods.items() if pod.node_name == "a100-08")
    left = {uid: pod for uid, pod in snapshot.pods.items() if uid != gone}
    wait_for_stream(page)
    newer = make_picture(cluster, replace(snapshot, pods=left, taken_at=time.time()))
    prepare_grid(snapshot_id=newer.pk)
    expect(page.locator("#now")).to_contain_text("6 of 8 free", timeout=20_000)
    expect(page.locator("#age")).to_contain_text(f"snapshot {newer.pk}")
    expect(page.locator("#inspect h2")).to_have_text("a100-08")
    assert page.evaluate("window.notReloaded")
    assert page.complaints == []


def test_nothing_changes_its_place_under_the_keys(person, open_page, cluster):
    page = drawn(open_page(person, f"{GRID}?view=dense&sort=free&find=l40s&node=l40s-08"))
    page.get_by_text("The same as a table").click()
    first = page.locator("#as-table tbody tr").first
    expect(first).to_contain_text("l40s-08")
    page.locator("#dense").focus()
    snapshot = open_snapshot(latest_snapshot(cluster))
    pod = next(one for one in snapshot.pods.values() if one.node_name == "l40s-01")
    taken = {**snapshot.pods, "new": replace(pod, uid="new", name="new-1", node_name="l40s-08")}
    wait_for_stream(page)
    prepare_grid(snapshot_id=make_picture(cluster, replace(snapshot, pods=taken, taken_at=time.time())).pk)
    expect(page.locator("#now")).to_contain_text("3 of 4 free", timeout=20_000)
    expect(first).to_contain_text("l40s-08")
    page.locator("#find").focus()
    expect(first).not_to_contain_text("l40s-08")


def test_a_picture_that_cannot_be_fetched_is_said(person, open_page):
    page = open_page(person, "/clusters/")
    page.route("**/picture.json", lambda route: route.fulfill(status=503, body="no"))
    page.goto(DENSE)
    expect(page.locator("#picture")).to_contain_text("could not be fetched (the server answered 503)")
