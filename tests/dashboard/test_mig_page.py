"""MIG on its page and on the node's: strips, demand, changes that hang, what is not told, nothing to show."""

import csv
import io
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.test import override_settings

from apps.dashboard.mig_changes import follow_mig_changes
from apps.dashboard.models import MigChange
from apps.dashboard.reading.mig import look_at_mig, tell_demand
from apps.dashboard.reading.mig_legal import read_legal
from apps.dashboard.reading.mig_trouble import list_troubles
from apps.planner.inventory import Node
from apps.planner.mig.changing import Change, Stage
from apps.plans.models import Plan
from tests.dashboard.conftest import log_in, make_picture
from tests.dashboard.pictures import Board
from tests.dashboard.pictures_mig import mig_board, mig_labels, mig_node
from tests.dashboard.test_grid_pages import text_of

pytestmark = pytest.mark.django_db
MIG = "/clusters/gpu-east-1/mig/"


@pytest.fixture
def mig(cluster):
    """The cluster as it was 15 minutes ago, and as it is now."""
    now = time.time()
    for moment in (now - 875, now):
        row = make_picture(cluster, replace(mig_board(now).snapshot(), taken_at=moment))
        follow_mig_changes(row.pk)
    return row


def shown_on(person, path=MIG):
    return text_of(log_in(person).get(path))


def strip_of(client, name: str) -> str:
    """The part of the page about one node."""
    page = client.get(f"{MIG}?find={name}").content.decode()
    return page.partition(f'id="m-{name}"')[2].partition("</li>\n\n")[0]


def test_commands_to_copy_name_the_operator_as_it_is_called_here_and_are_quoted(settings):
    settings.MIG_MANAGER_NAMESPACE, settings.MIG_MANAGER_DAEMONSET = "nvidia", "own-mig"
    now = datetime.now(UTC)
    nodes = [
        SimpleNamespace(node=Node(name), change=Change(config="x", stage=stage))
        for name, stage in (("a;b", Stage.ASKED), ("a;c", Stage.PENDING), ("a;d", Stage.FAILED))
    ]
    troubles = list_troubles(nodes, {one.node.name: now - timedelta(hours=1) for one in nodes}, now)
    asked, pending, failed = (trouble.command for trouble in troubles)
    assert asked == "kubectl -n nvidia get daemonset own-mig"
    assert pending == "kubectl -n nvidia get pods -o wide --field-selector 'spec.nodeName=a;c'"
    assert "own-mig" in failed
    assert "DaemonSet own-mig runs" in troubles[0].steps[0]


def test_strips_tell_held_free_unknown_and_uncut_by_word_and_ground(viewer, mig):
    client = log_in(viewer)
    told = strip_of(client, "mig-01")
    assert 'aria-label="GPU 0: 2g.20gb at 0 serving/ocr-svc-0, 1g.10gb at 2 serving/ocr-svc-1' in told
    assert "1g.10gb at 3 free, 3g.40gb at 4 free" in told
    assert "2 memory slices uncut from 6" in told
    assert "still fits 1 × 1g.20gb or 1 × 1g.10gb" in told
    assert 'class="cell free"' in told
    assert 'class="uncut"' in told
    assert 'class="cell dots"' not in told
    untold = strip_of(client, "mig-02")
    assert 'class="cell dots"' in untold
    assert ">?</text>" in untold
    assert "holder unknown on this node" in untold
    assert "needs the whole node drained" in untold


def test_a_node_of_which_only_numbers_are_known_has_no_strips(viewer, mig):
    part = strip_of(log_in(viewer), "mig-03")
    assert "only numbers are known" in part
    assert '<svg class="strip"' not in part
    assert "4 of 4 in use" in text_of(log_in(viewer).get(f"{MIG}?find=mig-03"))


def test_demand_stands_beside_what_is_free_and_leads_to_one_plan(viewer, planner, mig):
    page = shown_on(planner)
    assert "6 pods wait for MIG instances. 2 × 7g.80gb are missing. Nothing uncut has room for them." in page
    assert "7g.80gb 2 2 0 2 0 0 0 media/video-gen-0, media/video-gen-1 What if" in page
    assert "3g.40gb 3 3" in page
    assert "Plan a layout for what waits" in page
    assert "Needs the role planner." not in page
    refused = shown_on(viewer)
    assert "Needs the role planner." in refused
    form = log_in(planner).get(MIG).content.decode()
    assert '<input type="hidden" name="goal" value="mig">' in form


def test_an_open_plan_for_mig_is_shown_instead_of_the_button(planner, cluster, mig):
    plan = Plan.objects.create(
        cluster=cluster, created_by=planner, edited_by=planner, state="draft", request={"goal": "mig"}
    )
    page = shown_on(planner)
    assert f"Review plan {plan.pk}" in page
    assert "Plan a layout for what waits" not in page


def test_stuck_changes_say_what_to_do(viewer, mig):
    page = shown_on(viewer)
    assert "mig-04 hangs in its MIG change “all-3g.40gb”: pending for 15 min" in page
    assert "with operands paused (dcgm and device-plugin)" in page
    assert "Setting the same label value again is no retry." in page
    assert "mig-manager failed on mig-05 with the layout “all-9g”." in page
    assert "mig-07 offers no GPUs: MIG-INVALID under mig.strategy=single." in page
    assert "labels count 4 × 3g.40gb, the kubelet offers 2" in page
    assert "operands paused : done GPUs cut anew : under way" in page
    assert "not by an execution of the console" in page


def test_a_change_that_has_only_begun_is_not_called_stuck(viewer, cluster):
    now = time.time()
    held = {"state": "pending", "dcgm": "paused-for-mig-change"}
    for moment, labels in (
        (now - 1500, {}),
        (now - 1400, mig_labels(config="other", **held)),
        (now - 305, mig_labels(config="a", **held)),
        (now, mig_labels(config="a", **held)),
    ):
        board = Board(now=moment)
        mig_node(board, "n-1", ". .", labels=labels)
        follow_mig_changes(make_picture(cluster, board.snapshot()).pk)
    page = shown_on(viewer)
    assert "hangs" not in page
    assert "to a · pending since 5 min" in page
    board = Board(now=now)
    mig_node(board, "n-1", ". .")
    follow_mig_changes(make_picture(cluster, board.snapshot(taken_at=now + 1)).pk)
    assert not MigChange.objects.exists()
    assert "none under way" in shown_on(viewer)


def test_a_success_that_disagrees_has_two_minutes_to_settle(viewer, cluster):
    now = time.time()
    for moment, told in ((now - 60, ""), (now - 170, "says success for “all-3g.40gb”")):
        board = Board(now=now)
        mig_node(board, "n-1", "mc", labels=mig_labels(config="all-3g.40gb", state="success"))
        MigChange.objects.all().delete()
        follow_mig_changes(make_picture(cluster, board.snapshot()).pk)
        MigChange.objects.update(since=datetime.fromtimestamp(moment, UTC))
        page = shown_on(viewer)
        assert ("its name promises 3g.40gb on every GPU" in page) is bool(told)
        assert told in page
        assert "success, but disagrees" in page


def test_without_anything_that_can_be_cut_the_page_says_why(viewer, cluster):
    assert "No snapshot of this cluster yet" in shown_on(viewer)
    board = Board(now=time.time())
    board.node("n-1", ". . . .", model="L40S-48GB", code="")
    make_picture(cluster, board.snapshot())
    page = shown_on(viewer)
    assert "No GPU here can be cut by MIG" in page
    assert "kubectl get nodes -L nvidia.com/gpu.product -L nvidia.com/mig.capable" in page


def test_gpus_that_could_be_cut_and_are_not_are_an_offer(viewer, cluster):
    board = Board(now=time.time())
    board.node("n-1", ". . . .")
    make_picture(cluster, board.snapshot())
    page = shown_on(viewer)
    assert "Nobody uses MIG here" in page
    assert "19 full layouts, 78 with 1g.20gb" in page


@override_settings(SNAPSHOT_STALE_SECONDS=120)
def test_an_old_picture_is_called_stale(viewer, cluster):
    row = make_picture(cluster, mig_board(time.time()).snapshot())
    type(row).objects.filter(pk=row.pk).update(taken_at=datetime.fromtimestamp(time.time() - 300, UTC))
    assert "stale: as of 5 min ago" in shown_on(viewer)


def test_filters_and_pages_stand_in_the_address(viewer, mig):
    client = log_in(viewer)
    only = text_of(client.get(f"{MIG}?only=untold"))
    assert "2 nodes; each strip" in only
    assert "1 node; each strip" in text_of(client.get(f"{MIG}?find=MIG-06"))
    assert "No node matches this choice." in text_of(client.get(f"{MIG}?find=zzz"))
    assert "8 nodes; each strip" in text_of(client.get(f"{MIG}?only=nonsense&page=99"))


def test_many_nodes_come_in_pages(viewer, cluster):
    board = Board(now=time.time())
    for number in range(45):
        mig_node(board, f"m-{number:03}", "mc")
    make_picture(cluster, board.snapshot())
    client = log_in(viewer)
    first, last = (client.get(f"{MIG}?page={number}&only=cut").content.decode() for number in (1, 3))
    assert first.count('class="strip"') == 20
    assert last.count('class="strip"') == 5
    assert "?only=cut&amp;page=2" in first


def test_files_hold_every_gpu_and_every_profile(viewer, mig):
    client = log_in(viewer)
    rows = list(csv.DictReader(io.StringIO(client.get(f"{MIG[:-1]}.csv").content.decode())))
    first = next(row for row in rows if row["node"] == "mig-01")
    assert first["layout"] == "2g.20gb@0 1g.10gb@2 1g.10gb@3 3g.40gb@4"
    assert first["held_by"] == "serving/ocr-svc-0 serving/ocr-svc-1"
    told = client.get(f"{MIG[:-1]}.json").json()["mig"]
    assert next(one for one in told["gpus"] if one["node"] == "mig-03")["layout"] is None
    assert {one["profile"] for one in told["demand"]} == {"7g.80gb", "3g.40gb", "1g.10gb", "2g.20gb"}
    demand = client.get(f"{MIG[:-1]}-demand.csv").content.decode()
    assert "7g.80gb,2,2,0,2,2" in demand


def test_names_from_the_cluster_cannot_write_into_the_page(viewer, cluster):
    board = Board(now=time.time())
    labels = mig_labels(config="<b>x</b>", state="failed")
    mig_node(board, "n-1", "mc", labels=labels)
    make_picture(cluster, board.snapshot())
    page = log_in(viewer).get(MIG).content.decode()
    assert "<b>x</b>" not in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page


def test_the_sentence_tells_what_would_fit_uncut():
    board = Board()
    mig_node(board, "n-1", "mc")
    board.pod("OC", None, 0, requests={"nvidia.com/mig-1g.10gb": 1})
    sentence = tell_demand(look_at_mig(board.snapshot()))
    assert sentence == (
        "1 pod waits for MIG instances. 1 × 1g.10gb is missing. "
        "Uncut memory slices have room for 1 × 1g.10gb."
    )


def test_legal_layouts_come_from_the_placement_table():
    legal = read_legal("A30-24GB")
    assert [words for _, words in legal.shown][0] == "4g.24gb"
    assert (len(legal.shown), legal.full, legal.wide) == (5, 5, ())


def test_the_node_page_shows_its_layout_and_who_holds_it(viewer, mig):
    page = shown_on(viewer, "/clusters/gpu-east-1/nodes/mig-01/")
    assert "2g.20gb at 0 ocr-svc-0" in page
    assert "uncut from 6 2 memory slices" in page
    untold = shown_on(viewer, "/clusters/gpu-east-1/nodes/mig-03/")
    assert "0 free of 2 2 cut by MIG, not told which" in untold
    assert "which GPU has which instance, and who holds it, is not" in untold
    assert "pending for 15 min" in shown_on(viewer, "/clusters/gpu-east-1/nodes/mig-04/")


def test_instances_that_the_table_leaves_out_are_said_beside_it(viewer, cluster):
    board = Board(now=time.time())
    mig_node(board, "mig-1", "ma")
    mig_node(board, "mig-2", "ma", unschedulable=True)
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        "nvidia.com/mig.strategy": "single",
    }
    host = {"cpu": 64_000, "memory": 2**40, "pods": 110, "nvidia.com/gpu": 7}
    mig_node(board, "mig-3", ".", labels=labels, mig_strategy="single", allocatable=host)
    picture = board.snapshot()
    look = look_at_mig(picture)
    assert look.totals.instances == sum(one.offered for one in look.demand) + 4 + 7
    make_picture(cluster, picture)
    page = log_in(viewer).get(MIG)
    beside = (
        "of nodes that take pods; 4 instances on other nodes; 7 instances of nodes under mig.strategy=single"
    )
    assert beside in text_of(page)
    assert 'class="callout calm"' in page.content.decode()


def test_shared_gpus_are_drawn_as_slots(viewer, mig):
    told = log_in(viewer).get("/clusters/gpu-east-1/nodes/ts-01/").content.decode()
    assert 'aria-label="GPU 0: 2 of 4 slots in use, by lora-sweep, notebook"' in told
    assert 'aria-label="GPU 1: 1 of 4 slots in use, by notebook"' in told
    page = shown_on(viewer, "/clusters/gpu-east-1/nodes/ts-02/")
    assert "4 slots a GPU, 3 of 8 in use" in page
    assert "Which slot is on which GPU is not told on this node" in page


def test_nodes_that_are_not_cut_are_one_line_a_model_until_asked_for(viewer, cluster):
    board = Board(now=time.time())
    for number in range(28):
        mig_node(board, f"whole-{number:02}", ". . . .")
    mig_node(board, "cut-01", "mc")
    make_picture(cluster, board.snapshot())
    client = log_in(viewer)
    page = client.get(MIG)
    assert "A100-80GB : 28 nodes with 112 GPUs, none cut. Show them" in text_of(page)
    assert page.content.decode().count('<li id="m-') == 1
    assert client.get(f"{MIG}?only=whole").content.decode().count('<li id="m-') == 20
