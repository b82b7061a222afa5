"""The grid, its panel, the node page and the exports, through the front door."""

import csv
import io
import re
import time
from dataclasses import replace
from html import unescape

import pytest
from django.urls import reverse

from apps.accounts.models import Role
from apps.dashboard.reading.measures import Measures
from apps.dashboard.reading.picture import count_totals, view_nodes
from apps.planner.fragmentation import measure
from apps.planner.inventory import Topology
from tests.dashboard.conftest import log_in, make_cluster, make_person, make_picture
from tests.dashboard.pictures import Board, forty_nodes

pytestmark = pytest.mark.django_db
GRID = "/clusters/gpu-east-1/"


def text_of(response) -> str:
    """What a person reads: no markup, spaces joined."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def test_strangers_are_sent_to_the_login(client, cluster):
    response = client.get(GRID)
    assert response.status_code == 302
    assert response.url == f"/login/?next={GRID}"
    assert "Username" in client.get(response.url).content.decode()


def test_home_is_the_grid_of_the_first_visible_cluster(viewer, picture):
    assert log_in(viewer).get("/").url == GRID


def test_home_without_a_visible_cluster_says_what_to_do():
    client = log_in(make_person("nobody"))
    assert client.get("/").url == "/clusters/"
    assert "You see no cluster" in text_of(client.get("/clusters/"))


def test_a_cluster_that_one_may_not_see_looks_absent(cluster, picture):
    other = make_cluster("gpu-west-1")
    client = log_in(make_person("west.only", Role.VIEWER, cluster=other))
    for path in (GRID, f"{GRID}nodes/a100-07/", f"{GRID}queue/", f"{GRID}plans/", f"{GRID}grid.csv"):
        assert client.get(path).status_code == 404
    assert client.get("/clusters/gpu-west-1/").status_code == 200
    assert "gpu-east-1" not in client.get("/clusters/gpu-west-1/").content.decode()


def test_the_tiles_say_what_is_physical_schedulable_allocated_and_stranded(viewer, picture):
    page = text_of(log_in(viewer).get(GRID))
    assert "Physical GPUs 288 on 40 nodes, 4 models" in page
    assert "Schedulable 270 less 8 cordoned, 2 unhealthy, 8 not ready or stale" in page
    assert "Largest gang that could start now 0 × 8" in page
    assert re.search(r"Stranded [\d.]+ of [\d.]+ free", page)


def test_the_sentence_names_what_waits_and_offers_the_plan_only_to_planners(viewer, planner, picture):
    page = log_in(planner).get(GRID)
    assert "llama-70b (3 × 8 GPU, NVLink) has waited 47 min." in text_of(page)
    assert "Make a plan" in text_of(page)
    assert "Make a plan" not in text_of(log_in(viewer).get(GRID))


def test_each_row_says_in_words_what_it_draws(viewer, picture):
    page = text_of(log_in(viewer).get(GRID))
    gain = "each pod moved makes 1.7 of its free GPUs whole"
    assert f"5 of 8 free, largest link group 5, NVLink, {gain}" in page
    assert "cordoned" in page
    assert "stale 6 min" in page


def test_filters_and_sorting_come_from_the_address_and_nonsense_falls_back(viewer, picture):
    client = log_in(viewer)
    names = re.findall(r'data-node="([^"]+)"', client.get(f"{GRID}?sort=name").content.decode())
    assert names[:2] == ["a100-01", "a100-02"]
    found = client.get(f"{GRID}?find=LORA-sweep&group=pool&mode=heat").content.decode()
    assert set(re.findall(r'data-node="([^"]+)"', found)) == {
        "a100-08", "a100-12", "a100-15", "a100-16", "h800-07", "h800-08", "h800-09",
    }  # fmt: skip
    assert 'data-mode="heat"' in found
    assert client.get(f"{GRID}?sort=;drop&mode=%01&group=x").status_code == 200
    assert "No node matches “nothing-like-it”." in text_of(client.get(f"{GRID}?find=nothing-like-it"))


def test_a_live_refetch_gets_only_what_changes_with_new_facts_beside_it(viewer, picture):
    fragment = log_in(viewer).get(GRID, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in fragment
    assert 'id="age" class="row-x" hx-swap-oob="true"' in fragment
    assert '<div id="facts" class="stack" hx-swap-oob="true">' in fragment
    restored = {"HX-Request": "true", "HX-History-Restore-Request": "true"}
    assert "<html" in log_in(viewer).get(GRID, headers=restored).content.decode()


def test_what_cannot_be_read_is_said_and_the_rest_of_the_picture_stands(viewer, cluster, picture):
    cluster.watch_error = "https://10.0.0.1:6443 presents a certificate of another CA: check the kubeconfig."
    cluster.problems = [
        {"kind": "PodDisruptionBudget", "message": "no permission to list it: apply the reader role"}
    ]
    cluster.save()
    page = text_of(log_in(viewer).get(GRID))
    assert (
        "Cluster gpu-east-1 cannot be watched. https://10.0.0.1:6443 presents a certificate of another CA"
        in page
    )
    assert "PodDisruptionBudget cannot be read. no permission to list it: apply the reader role" in page
    assert "Physical GPUs 288" in page


def test_a_cluster_that_is_away_is_told_once(viewer, cluster, picture):
    away = "GET /version on 10.0.0.1:6443: no answer within 10 s."
    cluster.watch_error = away
    cluster.problems = [
        *({"kind": kind, "message": f"{kind} cannot be read: {away}"} for kind in ("nodes", "pods")),
        {"kind": "podgroups", "message": "podgroups cannot be read: apply the reader role"},
    ]
    cluster.save()
    page = text_of(log_in(viewer).get(GRID))
    assert page.count(away) == 1
    assert page.count("podgroups cannot be read") == 1
    assert "podgroups cannot be read. apply the reader role" in page


def test_before_the_first_snapshot_nothing_is_claimed(viewer, cluster):
    page = text_of(log_in(viewer).get(GRID))
    assert "No snapshot of this cluster yet" in page
    assert "Physical GPUs" not in page


def test_a_cluster_without_gpus_says_so(viewer, cluster):
    board = Board(now=time.time())
    board.node("cpu-1", "", model="", gpu_resource="")
    make_picture(cluster, board.snapshot())
    assert "No node has a GPU" in text_of(log_in(viewer).get(GRID))


def test_the_age_turns_late_and_stale(viewer, cluster):
    make_picture(cluster, forty_nodes(time.time() - 60).snapshot())
    assert 'class="age late"' in log_in(viewer).get(GRID).content.decode()
    make_picture(cluster, forty_nodes(time.time() - 50).snapshot())
    cluster.snapshots.update(taken_at="2026-01-01T00:00:00Z")
    assert 'class="age stale"' in log_in(viewer).get(GRID).content.decode()


def test_no_page_carries_an_inline_script_style_or_handler(admin, planner, picture):
    pages = [(planner, path) for path in (GRID, f"{GRID}nodes/a100-16/", f"{GRID}queue/", f"{GRID}plans/")]
    pages += [(admin, path) for path in ("/clusters/", "/audit/", "/people/")]
    for person, path in pages:
        response = log_in(person).get(path)
        assert response.status_code == 200, path
        markup = response.content.decode()
        assert not re.search(r"\sstyle=|\son[a-z]+=|<style|javascript:", markup), path
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", markup)), path
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert "unsafe" not in response.headers["Content-Security-Policy"]


def test_the_panel_lists_the_holders_and_says_what_moving_would_give(viewer, picture):
    page = text_of(log_in(viewer).get(f"{GRID}nodes/a100-08/panel/"))
    assert "Moving 3 pods frees all 8 GPUs." in page
    assert "lora-sweep movable" in page
    gone = log_in(viewer).get(f"{GRID}nodes/long-gone/panel/")
    assert "long-gone is no longer part of the cluster." in text_of(gone)


def test_the_panel_says_why_a_node_stays(viewer, picture):
    client = log_in(viewer)
    assert "chat-api stays. Its namespace is protected." in text_of(client.get(f"{GRID}nodes/a100-06/panel/"))
    assert "will not remove the cordon" in text_of(client.get(f"{GRID}nodes/a100-15/panel/"))
    assert "nothing is planned here until it reports" in text_of(client.get(f"{GRID}nodes/h800-09/panel/"))


def test_the_node_page_shows_links_holders_and_movability(viewer, picture):
    page = text_of(log_in(viewer).get(f"{GRID}nodes/a100-16/"))
    assert "3 free of 8 1 cut by MIG, 4 held whole" in page
    assert "2 GPU 6–7, NVLink" in page
    assert "NVML sees NVIDIA A100 80GB PCIe in bridged pairs." in page
    assert "4 GPUs, NVLink never here" in page
    assert "3g.40gb at 0 eval-nightly-5" in page
    assert "Movable No disruption budget, no checkpoint known" in page


def test_a_node_without_topology_or_holders_says_unknown_and_not_none(viewer, cluster):
    snapshot = forty_nodes(time.time()).snapshot()
    blind = replace(snapshot.nodes["a100-14"], topology=None, holdings=None)
    make_picture(cluster, replace(snapshot, nodes={**snapshot.nodes, "a100-14": blind}))
    page = text_of(log_in(viewer).get(f"{GRID}nodes/a100-14/"))
    assert "no GPU topology metadata" in page
    assert "Who holds which GPU is unknown on this node" in page
    assert "in use, by whom is unknown on this node" in page
    assert "idle" not in page


def test_a_node_that_is_gone_is_a_404(viewer, picture):
    response = log_in(viewer).get(f"{GRID}nodes/long-gone/")
    assert response.status_code == 404
    assert "it may have left the cluster since" in text_of(response)


def test_exports_hold_every_node_and_no_formula(viewer, cluster):
    board = Board(now=time.time())
    board.node("=cmd()", "ES . . .", pool="@evil", rack="\u202er1")
    board.node("n-2", ". . . .")
    make_picture(cluster, board.snapshot())
    client = log_in(viewer)
    rows = list(
        csv.DictReader(io.StringIO(client.get(reverse("grid-csv", args=["gpu-east-1"])).content.decode()))
    )
    assert [row["node"] for row in rows] == ["'=cmd()", "n-2"]
    assert rows[0]["pool"] == "'@evil"
    assert rows[0]["rack"] == "⟨U+202E⟩r1"
    answer = client.get(reverse("grid-json", args=["gpu-east-1"])).json()
    assert [node["gpus_free"] for node in answer["nodes"]] == [3, 4]
    assert answer["nodes"][0]["node"] == "=cmd()"


def test_names_from_the_cluster_cannot_become_markup_on_any_page(viewer, cluster):
    board = Board(now=time.time())
    evil = '"><img/src=x>'
    board.node("n-1", "ES . . .", pool=evil, rack=evil, model=evil, warnings=(evil,))
    board.pod("ES", board.nodes["n-1"], 1, name=evil, namespace=evil, uid="uid-evil", protections=(evil,))
    board.pod("ES", None, 8, name=evil, namespace=evil, uid="uid-evil-2", workload="", owner_kind="")
    make_picture(cluster, board.snapshot())
    client = log_in(viewer)
    for path in (GRID, f"{GRID}nodes/n-1/", f"{GRID}queue/", f"{GRID}nodes/n-1/panel/"):
        markup = client.get(path).content.decode()
        assert "<img" not in markup, path
        assert "&lt;img/src=x&gt;" in markup, path


def test_a_refetch_after_the_session_ended_leads_the_whole_page_to_the_login(client, cluster):
    headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{GRID}?mode=heat"}
    answer = client.get(GRID, headers=headers)
    assert answer.status_code == 204
    assert answer.headers["HX-Redirect"] == "/login/?next=%2Fclusters%2Fgpu-east-1%2F%3Fmode%3Dheat"


def test_what_is_stranded_is_measured_by_what_waits_and_says_so(viewer, cluster, picture):
    assert re.search(
        r"Stranded [\d.]+ of [\d.]+ free nothing that waits can use them", text_of(log_in(viewer).get(GRID))
    )
    board = Board(now=time.time())
    board.node("n-1", "ES . . .")
    make_picture(cluster, board.snapshot())
    assert "free each fits a shape that runs here" in text_of(log_in(viewer).get(GRID))


def test_the_queue_counter_counts_workloads_and_not_their_pods(viewer, picture):
    page = log_in(viewer).get(GRID).content.decode()
    assert 'title="1 workload waiting"' in page


def test_models_are_called_by_their_short_name(viewer, cluster):
    board = Board(now=time.time())
    board.node("n-1", "ES . . .", model="NVIDIA-A100-SXM4-80GB")
    make_picture(cluster, board.snapshot())
    client = log_in(viewer)
    for address in (GRID, f"{GRID}nodes/n-1/", f"{GRID}nodes/n-1/panel/"):
        page = text_of(client.get(address))
        assert "A100-SXM4-80GB" in page
        assert "NVIDIA-A100" not in page


def test_whole_nodes_can_be_asked_for_with_a_number_of_moves_by_planners_alone(viewer, planner, picture):
    page = log_in(planner).get(GRID).content.decode()
    assert 'name="goal" value="free-nodes"' in page
    assert 'name="max_moves" type="number"' in page
    assert 'value="free-nodes"' not in log_in(viewer).get(GRID).content.decode()


def test_pages_of_a_cluster_ask_again_when_the_heartbeat_tells_of_something_they_lack(planner, picture):
    client = log_in(planner)
    for address in (GRID, f"{GRID}queue/", f"{GRID}plans/", f"{GRID}executions/", f"{GRID}nodes/a100-01/"):
        page = client.get(address).content.decode()
        assert "missed from:body" in page
        assert f'data-snapshot="{picture.pk}"' in page


def test_a_group_of_hundreds_has_columns_of_fixed_width(viewer, cluster):
    board = Board(now=time.time())
    for number in range(41):
        board.node(f"gpu-{number:03}", ". . . .")
    make_picture(cluster, board.snapshot())
    assert 'class="group long brief"' in log_in(viewer).get(GRID).content.decode()


def test_what_is_schedulable_is_held_free_whole_or_in_cut_and_shared_gpus(viewer, cluster):
    board = Board(now=time.time())
    product = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}
    single = board.node(
        "n-1", "ma ma", labels=product, mig_strategy="single", allocatable={"nvidia.com/gpu": 14}
    )
    for _ in range(9):
        board.pod("LS", single, 1)
    board.node("n-2", ". .", shares_per_gpu=4, sharing="time-slicing", allocatable={"nvidia.com/gpu": 8})
    board.node("n-3", ". . .", allocatable={"nvidia.com/gpu": 3})
    snapshot = board.snapshot()
    make_picture(cluster, snapshot)
    page = text_of(log_in(viewer).get(GRID))
    totals = count_totals(view_nodes(snapshot, Measures()))
    assert totals.free == 3
    assert 1000 * totals.schedulable == totals.used_milli + 1000 * totals.free + totals.rest_milli
    assert "3 free whole, 2 in GPUs cut by MIG or shared: idle, or not told" in page
    assert "3 free, 1 whole" in page
    assert measure(snapshot).free_nodes == {"3": 1}
    assert re.search(r"Workloads, by GPUs held.*lora-sweep MIG", page), "instances are no GPUs"


def test_a_cut_matrix_is_shown_with_its_gaps_and_nothing_made_up(viewer, cluster):
    snapshot = forty_nodes(time.time()).snapshot()
    node = snapshot.nodes["a100-14"]
    links = tuple(
        tuple(
            "X" if a == b else "" if 7 in (a, b) else "NV12" if a // 4 == b // 4 else "SYS" for b in range(8)
        )
        for a in range(8)
    )
    nics = (("mlx5_0", 0), ("mlx5_1", None))
    cut = replace(
        node,
        topology=Topology(links, nics, (("PIX", ""),) * 8, source="text", complete=False),
        gpus=tuple(replace(gpu, numa=gpu.index // 4) for gpu in node.gpus),
    )
    make_picture(cluster, replace(snapshot, nodes={**snapshot.nodes, "a100-14": cut}))
    response = log_in(viewer).get(f"{GRID}nodes/a100-14/")
    page, raw = text_of(response), response.content.decode()
    assert "Incomplete. The table is cut or damaged: 7 pairs of GPUs have an unknown link." in page
    assert "Topology source text of a tool age not told, incomplete" in page
    assert "8 GPUs, NVLink not known" in page
    assert "NV12 600 GB/s both ways SYS at most 32 GB/s one way" in page
    assert "Direct links GPU 0–3 · 4–6 · 7" in page
    assert raw.count(">PIX</text>") == 8  # one NIC on eight GPUs; of the other nothing is told
    assert raw.count('class="ltu"') == 14 + 8


def test_what_is_held_on_a_silent_node_stands_beside_what_is_allocated(viewer, cluster):
    board = Board(now=time.time())
    board.node("n-1", "CA2 . .")
    board.node("n-2", "LS3 .", ready=False, ready_reason="NodeStatusUnknown")
    make_picture(cluster, board.snapshot())
    page = text_of(log_in(viewer).get(GRID))
    assert "Allocated 2 50 % 2 free whole; 3 more held on nodes that take no pods" in page
