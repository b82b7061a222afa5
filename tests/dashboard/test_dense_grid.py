"""The dense grid: what is prepared, when, and what the server still does for a visitor."""

import gzip
import json
import re
import time
from dataclasses import replace
from html import unescape

import pytest

from apps.accounts.models import Role
from apps.clusters.models import Snapshot
from apps.clusters.queries import open_snapshot
from apps.clusters.services import record_snapshot
from apps.dashboard import prepared, tasks
from apps.dashboard.models import GridPicture
from apps.dashboard.reading.compact import encode_grid
from apps.dashboard.reading.look import look_at
from apps.dashboard.reading.measures import Measures
from apps.fragmentation.tasks import measure_snapshots
from apps.planner.inventory import DeviceGroup, Gpu, Holding
from apps.plans.models import ClusterPolicy
from tests.dashboard.conftest import log_in, make_cluster, make_person, make_picture
from tests.dashboard.pictures import Board, forty_nodes

pytestmark = pytest.mark.django_db
GRID = "/clusters/gpu-east-1/"
PICTURE = f"{GRID}picture.json"


def text_of(response) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def cells_of(board: Board) -> dict:
    snapshot = board.snapshot()
    told = encode_grid(snapshot, look_at(snapshot), Measures())
    return {
        name: {column: values[at] for column, values in told["columns"].items()}
        for at, name in enumerate(told["columns"]["name"])
    } | {"": told}


def many_nodes(count: int):
    board = Board(now=time.time())
    for number in range(count):
        board.node(f"n-{number:04}", "ES . LS2")
    return board.snapshot()


def open_count(monkeypatch) -> list[int]:
    """Fills with the id of every snapshot that is opened from now on."""
    opened: list[int] = []

    def look(row):
        opened.append(row.pk)
        return open_snapshot(row)

    monkeypatch.setattr("apps.clusters.queries.open_snapshot", look)
    return opened


def test_bars_shares_cuts_and_what_is_unhealthy_are_told_by_position():
    board = Board()
    board.node("a", "CA4 ES . x ma")
    board.node("b", "s2 . . .")
    told = cells_of(board)
    table = [code for code, *_ in told[""]["workloads"]]
    bars = told["a"]["bars"]
    assert [(table[bars[at]], bars[at + 1], bars[at + 2]) for at in range(0, len(bars), 4)] == [
        ("CA", 0, 3), ("ES", 4, 4),
    ]  # fmt: skip
    assert told["a"]["bad"] == [6]
    cut = told["a"]["parts"]
    assert [cut[at : at + 2] for at in range(0, len(cut), 5)] == [[7, 1]] * 4
    assert [cut[at + 2] == -2 for at in range(0, len(cut), 5)] == [False, False, True, True]
    assert {told["b"]["parts"][at] for at in range(1, len(told["b"]["parts"]), 5)} == {0}
    assert told["a"]["free"] == 1


def test_the_cells_are_those_of_the_rows():
    snapshot = forty_nodes().snapshot()
    look = look_at(snapshot)
    told = encode_grid(snapshot, look, Measures())
    by_name = {name: at for at, name in enumerate(told["columns"]["name"])}
    for view in look.views:
        at = by_name[view.node.name]
        size, _, gaps = told["tables"]["shape"][told["columns"]["shape"][at]].partition(":")
        assert int(size) == view.seats.size
        assert told["columns"]["free"][at] == view.free
        assert len(told["columns"]["bars"][at]) == 4 * len(view.seats.bars)
        assert told["states"][told["columns"]["state"][at]] == view.state.word
        assert (told["columns"]["gain"][at] == -1) == (view.state.word == "stale")
        if view.seats.size == 8:
            assert gaps == "4"


def with_others(board: Board, name: str) -> None:
    """Beside its GPUs two of another vendor: one held by the first pod there, one unhealthy."""
    devices = (Gpu(0, "NPU-0"), Gpu(1, "NPU-1", healthy=False))
    node = board.nodes[name]
    holder = next(pod for pod in board.pods.values() if pod.node_name == name)
    held = (*(node.holdings or ()), Holding(holder.uid, "NPU-0"))
    group = DeviceGroup("acme", "acme.example/npu", gpus=devices)
    board.nodes[name] = replace(node, others=(group,), holdings=held)


def test_devices_of_other_vendors_stand_beside_the_gpus():
    board = Board()
    board.node("a", "ES . . .")
    board.node("b", ". .")
    with_others(board, "a")
    told = cells_of(board)
    shapes = told[""]["tables"]["shape"]
    assert (shapes[told["a"]["shape"]], shapes[told["b"]["shape"]]) == ("4:4:2", "2:")
    ((at, others),) = told[""]["sparse"]["others"].items()
    assert told[""]["columns"]["name"][at] == "a"
    assert others == [told["a"]["bars"][0], 0, -2, 1]


def test_hostile_names_are_made_visible_and_keep_their_address():
    board = Board()
    board.node("n-1\u202e", ". .")
    told = cells_of(board)[""]
    assert told["columns"]["name"] == ["n-1\u27e8U+202E\u27e9"]
    assert told["sparse"]["raw"] == {0: "n-1\u202e"}


def test_the_picture_is_sent_packed_once_and_then_not_at_all(viewer, picture):
    client = log_in(viewer)
    answer = client.get(PICTURE, headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Cache-Control"] == "private, no-cache"
    told = json.loads(gzip.decompress(answer.content))
    assert len(told["columns"]["name"]) == 40
    again = {"Accept-Encoding": "gzip", "If-None-Match": answer.headers["ETag"]}
    assert client.get(PICTURE, headers=again).status_code == 304
    plain = client.get(PICTURE, headers={"If-None-Match": answer.headers["ETag"]})
    assert "Content-Encoding" not in plain.headers
    assert plain.json() == told


def test_the_picture_is_absent_where_the_cluster_may_not_be_seen(picture):
    other = make_cluster("gpu-west-1")
    client = log_in(make_person("west.only", Role.VIEWER, cluster=other))
    etag = f'"{prepared.prepare_grid(snapshot_id=picture.pk).etag}"'
    headers = {"If-None-Match": etag, "Accept-Encoding": "gzip"}
    assert client.get(PICTURE, headers=headers).status_code == 404
    assert client.get("/clusters/gpu-west-1/picture.json").status_code == 404


def test_small_clusters_are_drawn_as_rows_and_dense_on_demand(viewer, picture):
    client = log_in(viewer)
    assert 'class="nrow' in client.get(GRID).content.decode()
    assert not GridPicture.objects.exists()
    dense = client.get(f"{GRID}?view=dense&mode=heat&find=lora")
    assert 'id="dense"' in dense.content.decode()
    assert 'class="nrow' not in dense.content.decode()
    assert 'data-mode="heat"' in dense.content.decode()
    rows = f"{GRID}?view=rows&mode=heat&sort=worth&group=model&find=lora"
    assert rows in unescape(dense.content.decode())


def test_both_views_say_the_same_above_the_cells(planner, picture):
    client = log_in(planner)

    def facts_in(query: str) -> str:
        page = text_of(client.get(f"{GRID}{query}"))
        return page.partition("Physical GPUs")[2].partition("Colour cells by")[0]

    assert facts_in("?view=dense") == facts_in("?view=rows")
    assert "llama-70b (3 × 8 GPU, NVLink) has waited 47 min." in facts_in("?view=dense")


def test_many_nodes_are_dense_unless_rows_are_asked_for(viewer, cluster):
    make_picture(cluster, many_nodes(prepared.DENSE_FROM))
    client = log_in(viewer)
    assert 'id="dense"' in client.get(GRID).content.decode()
    assert 'class="nrow' in client.get(f"{GRID}?view=rows").content.decode()


def test_no_visitor_opens_what_the_worker_prepared(viewer, cluster, monkeypatch):
    row = record_snapshot(cluster_id=cluster.pk, snapshot=many_nodes(400))
    measure_snapshots()
    ready = GridPicture.objects.get(cluster=cluster)
    assert (ready.snapshot_id, ready.report_id is not None) == (row.pk, True)
    opened = open_count(monkeypatch)
    client = log_in(viewer)
    assert client.get(GRID).status_code == 200
    assert client.get(PICTURE).status_code == 200
    assert client.get(f"{GRID}plans/").status_code == 200
    assert opened == []


def test_the_picture_before_serves_until_the_next_is_ready(viewer, cluster, monkeypatch):
    snapshot = many_nodes(400)
    first = record_snapshot(cluster_id=cluster.pk, snapshot=snapshot)
    tasks.prepare_grids()
    later = replace(snapshot, problems=("x",), taken_at=time.time())
    second = record_snapshot(cluster_id=cluster.pk, snapshot=later)
    opened = open_count(monkeypatch)
    page = text_of(log_in(viewer).get(GRID))
    assert f"snapshot {first.pk}," in page
    assert opened == []
    monkeypatch.setattr(prepared, "PATIENCE_SECONDS", 0.0)
    assert f"snapshot {second.pk}," in text_of(log_in(viewer).get(GRID))
    assert opened == [second.pk]


def test_small_pictures_are_prepared_on_the_spot(viewer, cluster):
    snapshot = forty_nodes(time.time()).snapshot()
    make_picture(cluster, snapshot)
    client = log_in(viewer)
    client.get(f"{GRID}?view=dense")
    second = make_picture(cluster, replace(snapshot, problems=("x",), taken_at=time.time()))
    assert f"snapshot {second.pk}," in text_of(client.get(f"{GRID}?view=dense"))


def test_nothing_newer_is_replaced_and_a_report_is_news(cluster):
    snapshot = forty_nodes(time.time()).snapshot()
    old = record_snapshot(cluster_id=cluster.pk, snapshot=snapshot)
    new = record_snapshot(cluster_id=cluster.pk, snapshot=replace(snapshot, problems=("x",)))
    unmeasured = prepared.prepare_grid(snapshot_id=new.pk)
    assert unmeasured.report_id is None
    assert prepared.prepare_grid(snapshot_id=old.pk).snapshot_id == new.pk
    measure_snapshots()
    ready = GridPicture.objects.get(cluster=cluster)
    assert ready.report_id is not None
    assert ready.etag != unmeasured.etag
    assert ready.facts["measures"]["stranded_gpus"] is not None


def test_without_gpus_the_dense_page_says_what_to_do(viewer, cluster):
    board = Board(now=time.time())
    board.node("cpu-1", "")
    make_picture(cluster, board.snapshot())
    assert "No node has a GPU" in text_of(log_in(viewer).get(f"{GRID}?view=dense"))


def test_without_a_snapshot_there_is_no_picture(viewer, cluster):
    client = log_in(viewer)
    assert client.get(PICTURE).status_code == 404
    assert "No snapshot of this cluster yet" in text_of(client.get(f"{GRID}?view=dense"))


def test_a_pruned_snapshot_leaves_its_grid_readable(viewer, cluster):
    row = make_picture(cluster, many_nodes(400))
    tasks.prepare_grids()
    newer = record_snapshot(cluster_id=cluster.pk, snapshot=replace(many_nodes(400), problems=("x",)))
    Snapshot.objects.filter(pk=row.pk).delete()
    assert f"snapshot {newer.pk}," in text_of(log_in(viewer).get(GRID))


def test_a_policy_that_protects_others_makes_it_news(cluster, planner):
    snapshot = many_nodes(400)
    row = make_picture(cluster, snapshot)
    before = prepared.prepare_grid(snapshot_id=row.pk)
    assert prepared.grid_of(cluster, row).etag == before.etag
    ClusterPolicy.objects.create(cluster=cluster, protected_namespaces=["*"])
    assert prepared.grid_of(cluster, row).etag != before.etag
