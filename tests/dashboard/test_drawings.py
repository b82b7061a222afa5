"""The SVG: classes and geometry only, cluster text escaped, what is not known said so."""

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from apps.dashboard.drawings.cells import spots, workload_cells
from apps.dashboard.drawings.grid import Brush, draw_rows, draw_strip
from apps.dashboard.drawings.moves import draw_moves
from apps.dashboard.drawings.timeline import Bar, Lane, draw_timeline
from apps.dashboard.drawings.topology import draw_matrix, link_step
from apps.dashboard.reading.measures import Measures
from apps.dashboard.reading.moving import stage_moves
from apps.dashboard.reading.nodes import view_node
from apps.dashboard.reading.picture import group_nodes, mark_pods, view_nodes
from apps.planner.defrag import plan_unlock
from apps.planner.inventory import LinkClass
from tests.dashboard.pictures import Board, forty_nodes

ALLOWED = {
    "class", "x", "y", "width", "height", "rx", "d", "cx", "cy", "r", "viewBox", "transform", "text-anchor",
    "preserveAspectRatio", "role", "aria-label", "aria-hidden", "data-w",
}  # fmt: skip


def assert_is_plain_svg(markup: str) -> ElementTree.Element:
    """Well-formed, and nothing that the CSP would refuse or a theme could not change."""
    root = ElementTree.fromstring(f"<div>{markup}</div>")
    for element in root.iter():
        if element.tag != "div":
            assert set(element.attrib) <= ALLOWED, element.attrib
    return root


def strip(row: str, mode: str = "work", **more):
    board = Board()
    node = board.node("n-1", row, **more)
    snapshot = board.snapshot()
    view = view_node(snapshot, node, worth=2.0, blocked=0.24)
    marks, _ = mark_pods(snapshot, [view])
    return draw_strip(view, Brush(mode, marks, ""))


@pytest.mark.parametrize("mode", ["work", "heat", "link"])
@pytest.mark.parametrize(
    "row", ["PM8", "CA4 ES . x .", "s2 s1 VG .", "EN2 ES . LS mc . .", ". . . .", ". " * 16]
)
def test_every_mode_draws_plain_svg(row, mode):
    assert_is_plain_svg(strip(row, mode))


def test_free_gpus_are_empty_cells_and_a_pod_is_one_shape():
    picture = strip("AB2 . . . . . .")
    assert picture.count('class="cell free"') == 6
    assert len(re.findall(r'class="cell f\d+"', picture)) == 1


def test_unknown_holders_are_drawn_as_counted_and_never_as_seated():
    picture = strip("CA4 ES . . .", holdings=None)
    assert picture.count('class="cell unsure"') == 8
    assert len(re.findall(r'class="cell loose f\d+"', picture)) == 2
    assert 'class="cell free"' not in picture
    assert "which pod holds which GPU is not told" in picture


def test_a_cordoned_node_is_outlined_and_an_unhealthy_gpu_is_hatched():
    assert 'class="cord"' in strip(". . x .", unschedulable=True)
    assert strip(". . x .").count('class="bad-h"') == 1


def test_fragmentation_and_links_write_their_number_into_each_free_cell():
    assert strip("ES . . .", "heat").count(">24</text>") == 3
    assert strip("ES . . .", "link").count(">3</text>") == 3
    assert strip("ES . . .", "link", topology=None).count("</text>") == 0


def test_hostile_names_are_escaped_and_made_visible():
    board = Board()
    node = board.node("n<b>\u202e", "ES . . .")
    board.workloads["owner-embed-svc"] = board.workloads["owner-embed-svc"].__class__(
        uid="owner-embed-svc", kind="ReplicaSet", namespace="x", name='"><script>', display='"><script>'
    )
    snapshot = board.snapshot()
    view = view_node(snapshot, node)
    marks, _ = mark_pods(snapshot, [view])
    (group,) = group_nodes([view], "model", "name")
    row = draw_rows(group, Brush("work", marks, "/clusters/x/nodes/NODE/"))
    assert "<script" not in row
    assert "<b>" not in row
    assert "\u202e" not in row
    assert "U+202E" in row


def test_the_matrix_holds_every_code_and_brackets_each_numa_node():
    board = Board()
    node = board.node("n-1", ". " * 8, code="pairs")
    picture = draw_matrix(node, (0,), node.topology.links)
    assert_is_plain_svg(picture)
    assert picture.count(">NV12<") == 8
    assert picture.count(">self<") == 8
    assert picture.count('class="bracket"') == 2


def test_codes_of_other_vendors_and_unknown_words_have_their_step():
    assert [link_step(code) for code in ("NV18", "HCCS", "PIX", "PXB", "PHB", "NODE", "SYS", "QQQ")] == [
        "0", "0", "1", "2", "3", "4", "5", "u",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def planned():
    snapshot = forty_nodes().snapshot()
    return snapshot, plan_unlock(snapshot, workload="default/llama-70b", max_moves=50, deadline=lambda: False)


def test_before_and_after_show_every_move_with_its_number_three_times(planned):
    snapshot, plan = planned
    assert plan.moves
    stages = stage_moves(snapshot, plan)
    marks, _ = mark_pods(snapshot, view_nodes(snapshot, Measures()))
    picture = draw_moves(stages, plan.moves, marks, "After")
    assert_is_plain_svg(picture)
    assert picture.count('class="flow"') == len(plan.moves)
    assert picture.count('class="freed"') == len(plan.freed_nodes)
    for move in plan.moves:
        assert picture.count(f">{move.order}</text>") >= 3


def test_after_the_moves_freed_nodes_are_empty_and_nobody_got_lost(planned):
    snapshot, plan = planned
    stages = {stage.view.node.name: stage for stage in stage_moves(snapshot, plan)}
    for name in plan.freed_nodes:
        assert stages[name].after.free_count == stages[name].after.size
    for move in plan.moves:
        assert len(stages[move.target].after.positions_of(move.pod_uid)) == move.gpus
        assert stages[move.source].after.positions_of(move.pod_uid) == ()


def test_moves_onto_a_node_without_told_holders_are_counted_there():
    board = Board()
    board.node("a", "ES . . .")
    board.node("b", "CA2 . .", holdings=None)
    snapshot = board.snapshot()
    pod = next(pod for pod in snapshot.pods.values() if pod.node_name == "a")
    plan = plan_of(pod, "a", "b")
    after = {stage.view.node.name: stage.after for stage in stage_moves(snapshot, plan)}["b"]
    assert dict(after.unplaced)[pod.uid] == 1000
    assert after.bars == ()


def plan_of(pod, source, target):
    from apps.planner.plan import Goal, Move, Plan

    move = Move(1, 1, pod.uid, pod.key, source, target, 1, 60.0, "frees it")
    return Plan(goal=Goal.FREE_NODES, moves=(move,), freed_nodes=(source,))


def test_the_time_line_grows_to_now_and_stops_when_it_is_over():
    start = datetime(2026, 1, 5, 14, 2, 4, tzinfo=UTC)
    bars = (Bar(start, start + timedelta(seconds=30), "verified", "Evict: verified"),)
    lanes = [Lane("1", "asr-batch-0", bars), Lane("2", "embed-svc", (), "waits")]
    open_one = draw_timeline(lanes, start, start + timedelta(minutes=4), is_open=True)
    assert "now 14:06:04" in open_one
    assert "now " not in draw_timeline(lanes, start, start + timedelta(minutes=4), is_open=False)
    assert_is_plain_svg(open_one)


def test_a_free_link_group_is_counted_by_the_closest_link_of_the_node():
    board = Board()
    view = view_node(board.snapshot(), board.node("n-1", ". " * 8, code=""))
    assert (view.link, view.group) == (LinkClass.PCIE_SWITCH, 4)
    assert spots((0, 0, 1, 1)).xs == (0.5, 21.5, 46.5, 67.5)
    assert workload_cells(view.seats, spots((None,) * 8), {}).count("cell free") == 8
