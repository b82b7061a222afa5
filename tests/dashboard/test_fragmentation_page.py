"""The Fragmentation page: figures of now, what changed, gaps, filters, exports, and why it is empty."""

import csv
import io
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.clusters.models import Snapshot
from apps.executions.models import Execution
from apps.fragmentation.models import Report
from apps.plans import services
from apps.plans.computing import compute_draft
from apps.plans.queries import current_version
from tests.dashboard.conftest import log_in, make_cluster, make_person, make_picture
from tests.dashboard.pictures import Board
from tests.dashboard.test_grid_pages import text_of

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/clusters/gpu-east-1/fragmentation/"


def earlier(cluster, snapshot, seconds, *, lasting=None):
    """A picture of `seconds` ago with its report, true until now unless `lasting` says less."""
    row = make_picture(cluster, replace(snapshot, taken_at=time.time() - seconds))
    until = row.taken_at + timedelta(seconds=seconds if lasting is None else lasting)
    Report.objects.filter(snapshot_id=row.pk).update(seen_until=until)
    return row


def board(*rows, now=None):
    found = Board(now=now or time.time())
    for number, row in enumerate(rows):
        found.node(f"n-{number}", row, pool="train-a" if number == 0 else "train-b")
    return found.snapshot()


def figure(client, query=""):
    return client.get(f"{PAGE}figure.json{query}").json()["figures"]


@pytest.fixture
def fallen(cluster):
    """40 min ago two nodes of 8 were free; now jobs of one GPU lie on both."""
    earlier(cluster, board(". . . . . . . .", ". . . . . . . ."), 2400)
    make_picture(cluster, board("AB AB . . . . . .", "AB . . . . . . ."))


def test_the_page_says_what_changed_since_the_beginning(viewer, fallen):
    page = text_of(log_in(viewer).get(PAGE))
    assert "the largest gang that could start fell from 2 × 8 to 0 × 8" in page
    assert "Whole 8-GPU nodes free 0 was 2 at" in page
    assert "Largest gang now 0 × 8, NVLink was 2 × 8 at" in page
    assert "nothing that is free is lost" in page


def test_free_blocks_are_told_now_and_at_the_beginning(viewer, fallen):
    now, then = figure(log_in(viewer))["now"]["data"]
    assert (now["x"], now["y"]) == (["1 GPU", "2 GPUs", "4 GPUs", "8 GPUs"], [1, 2, 2, 0])
    assert then["y"] == [0, 0, 0, 2]
    assert now["name"] == "now"


def test_charts_hold_their_values_until_the_next_report(viewer, fallen):
    (trace,) = figure(log_in(viewer))["gang"]["data"]
    assert trace["y"] == [16, 0, 0]
    assert trace["line"]["shape"] == "hv"


def test_time_that_nobody_saw_stays_empty_and_is_named(viewer, cluster):
    earlier(cluster, board(". . . ."), 3000, lasting=300)
    make_picture(cluster, board("AB . . ."))
    client = log_in(viewer)
    figures = figure(client)
    assert [trace["y"] for trace in figures["gang"]["data"]] == [[4, 4], [0, 0]]
    stacks = {trace["stackgroup"] for trace in figures["causes"]["data"]}
    assert stacks == {"run-0", "run-1"}
    assert "not seen" in [note["text"] for note in figures["causes"]["layout"]["annotations"]]
    assert "for 45 min nobody saw the cluster" in text_of(client.get(PAGE))


def test_a_cluster_out_of_sight_ends_before_the_edge(viewer, cluster):
    row = earlier(cluster, board(". . . ."), 3000, lasting=600)
    Snapshot.objects.filter(pk=row.pk).update(taken_at=timezone.now() - timedelta(seconds=2400))
    client = log_in(viewer)
    page = text_of(client.get(PAGE))
    assert "the cluster has not been seen since" in page
    (trace,) = figure(client)["gang"]["data"]
    assert trace["x"][-1] < figure(client)["gang"]["layout"]["xaxis"]["range"][1]


def test_a_quiet_cluster_goes_on_to_now(viewer, cluster):
    row = earlier(cluster, board(". . . ."), 3000, lasting=0)
    Snapshot.objects.filter(pk=row.pk).update(taken_at=timezone.now())
    (trace,) = figure(log_in(viewer))["gang"]["data"]
    assert trace["y"] == [4, 4]
    assert "nobody saw" not in text_of(log_in(viewer).get(PAGE))


def test_a_pool_and_a_model_can_be_chosen_in_the_address(viewer, fallen):
    client = log_in(viewer)
    page = client.get(f"{PAGE}?pool=train-a&range=6h")
    assert '<option value="train-a" selected>' in page.content.decode()
    assert "fell from 1 × 8 to 0 × 8" in text_of(page)
    assert figure(client, "?pool=train-b&model=A100-SXM4-80GB")["gang"]["data"][0]["y"] == [8, 0, 0]
    nothing = text_of(client.get(f"{PAGE}?pool=train-z"))
    assert "Nothing measured for this choice" in nothing
    assert "train-z" in nothing


def test_a_short_history_is_not_shown_as_a_sliver_of_a_day(viewer, fallen):
    assert 'value="1h" checked' in log_in(viewer).get(PAGE).content.decode()
    oldest = Report.objects.earliest("measured_at")
    Report.objects.filter(pk=oldest.pk).update(measured_at=timezone.now() - timedelta(days=3))
    assert 'value="24h" checked' in log_in(viewer).get(f"{PAGE}?range=nonsense").content.decode()


def test_a_plan_that_was_carried_out_is_marked_and_leads_there(planner, operator, cluster, picture):
    plan = services.request_plan(actor=planner, cluster=cluster, goal="unlock", workload="default/llama-70b")
    compute_draft(plan.pk)
    plan.refresh_from_db()
    ended = timezone.now() - timedelta(minutes=3)
    facts = {"plan": plan, "version": current_version(plan), "started_by": operator, "started_at": ended}
    done = Execution.objects.create(state="succeeded", finished_at=ended, outcome={"matches": True}, **facts)
    Execution.objects.create(state="failed", finished_at=ended, **facts)
    client = log_in(planner)
    answer = client.get(f"{PAGE}figure.json").json()
    notes = answer["figures"]["causes"]["layout"]["annotations"]
    (mark,) = [note for note in notes if note["name"].startswith("mark")]
    assert (mark["text"], mark["hovertext"]) == (f"○ plan {plan.pk} carried out", plan.title)
    assert answer["links"] == {f"mark-{done.pk}": f"/clusters/gpu-east-1/executions/{done.pk}/"}
    page = client.get(PAGE)
    assert f'href="/clusters/gpu-east-1/executions/{done.pk}/"' in page.content.decode()
    assert "carried out, as promised" in text_of(page)


def test_the_charts_stand_in_a_table_too(viewer, cluster):
    earlier(cluster, board(". . . ."), 3000, lasting=300)
    make_picture(cluster, board("AB . . ."))
    page = text_of(log_in(viewer).get(PAGE)).partition("The same as a table")[2]
    assert "Time, UTC Too few GPUs on the node Lacks CPU" in page
    assert "0 × 4" in page
    assert "1 × 4" in page
    assert "not seen until" in page


def test_exports_hold_every_point_and_no_formula(viewer, cluster):
    evil = Board(now=time.time())
    evil.node("n-1", ". . . .", pool="=HYPERLINK(1)")
    make_picture(cluster, evil.snapshot())
    client = log_in(viewer)
    text = client.get("/clusters/gpu-east-1/fragmentation.csv?pool=%3DHYPERLINK(1)").content.decode()
    (line,) = csv.DictReader(io.StringIO(text))
    assert line["pool"] == "'=HYPERLINK(1)"
    assert (line["gpus_free"], line["free_blocks_of_4"], line["largest_gang_pods"]) == ("4.0", "1", "1")
    body = client.get("/clusters/gpu-east-1/fragmentation.json?range=1h").json()
    assert (body["range"], body["points"][0]["gpus_total"]) == ("1h", 4.0)
    assert [gap["why"] for gap in body["gaps"]] == ["not measured yet"]


def test_nothing_to_export_is_said(viewer, cluster):
    assert log_in(viewer).get("/clusters/gpu-east-1/fragmentation.csv").status_code == 404


def test_every_empty_page_says_why(viewer, cluster):
    client = log_in(viewer)
    assert "No snapshot of this cluster yet" in text_of(client.get(PAGE))
    make_picture(cluster, board(". . . ."))
    Report.objects.all().delete()
    assert "No report yet" in text_of(client.get(PAGE))
    bare = make_cluster("bare")
    make_picture(bare, Board(cluster="bare", now=time.time()).snapshot())
    assert "No GPU that could be used" in text_of(client.get("/clusters/bare/fragmentation/"))


def test_an_old_history_asks_for_a_longer_range(viewer, cluster):
    row = earlier(cluster, board(". . . ."), 90_000, lasting=60)
    Snapshot.objects.filter(pk=row.pk).update(taken_at=timezone.now() - timedelta(seconds=80_000))
    client = log_in(viewer)
    assert "Nothing was measured in this range" in text_of(client.get(f"{PAGE}?range=1h"))
    assert "has not been seen since" in text_of(client.get(f"{PAGE}?range=7d"))


def test_a_refetch_brings_the_parts_and_the_key_that_tells_a_change(viewer, fallen, cluster):
    client = log_in(viewer)

    def key():
        page = client.get(PAGE, headers={"HX-Request": "true"}).content.decode()
        assert page.count('hx-swap-oob="true"') == 7
        return page.partition('data-key="')[2].partition('"')[0].rpartition("-")[0]

    before = key()
    make_picture(cluster, board("AB . . . . . . .", ". . . . . . . ."))
    assert key() != before


def test_a_hidden_cluster_has_no_trend(db, cluster, picture):
    client = log_in(make_person("nobody"))
    for path in (PAGE, f"{PAGE}figure.json", f"{PAGE[:-1]}.csv", f"{PAGE[:-1]}.json"):
        assert client.get(path).status_code == 404
