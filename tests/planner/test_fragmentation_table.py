"""The measure that is kept up with every change is the definition's, to the last integer."""

import random

import pytest

from apps.planner import fragmentation_sheets
from apps.planner.fragmentation_sheets import CAUSES
from apps.planner.fragmentation_table import FragmentationTable
from apps.planner.rooms import WHOLE, Room, free_room
from apps.planner.workload import Spec, Workload
from tests.drawing import cluster
from tests.planner.fgd_definition import least_lost, lost_by_cause

SHARES = (1, 125, 250, 333, 500, 750, 999, 1000)
MODELS = ("", "", "A100", "H100", "A100|T4", "T4")


def draw_rooms(draw: random.Random, count: int = 7) -> list[Room]:
    lines = [f"n{at} {'.' * draw.choice([1, 2, 3, 4, 8])}" for at in range(count)]
    facts = {f"n{at}": {"model": draw.choice(["A100", "H100", "T4", ""])} for at in range(count)}
    rooms = list(free_room(cluster("\n".join(lines), nodes=facts)).by_node.values())
    for room in rooms:
        change(draw, room)
    return rooms


def change(draw: random.Random, room: Room) -> None:
    """Full, short of CPU, exactly enough, overcommitted: all of it happens."""
    room.gpu_left = [draw.choice([0, 1, 124, 125, 499, 500, 501, 875, WHOLE, WHOLE]) for _ in room.gpu_left]
    room.left["cpu"] = draw.choice([-500, 0, 999, 1000, 4000, 8000, 64_000, 128_000])


def draw_workload(draw: random.Random) -> Workload:
    specs = {
        Spec(draw.choice([0, 1000, 1001, 4000, 8000, 64_000]), milli if gpus else 0, gpus, models)
        for _ in range(draw.choice([1, 6, 40]))
        for gpus in (draw.choice([0, 1, 1, 2, 4, 8, 16]),)
        for milli in (draw.choice(SHARES),)
        for models in (draw.choice(MODELS) if gpus else "",)
    }
    return Workload(tuple((spec, draw.randint(1, 900)) for spec in sorted(specs)))


def assert_as_defined(table: FragmentationTable, rooms: list[Room], workload: Workload) -> None:
    defined = [lost_by_cause(room, workload) for room in rooms]
    assert table.causes.tolist() == [[causes[name] for name in CAUSES] for causes in defined]
    assert table.numerator == sum(causes.total() - causes["usable"] for causes in defined)
    assert table.stranded().tolist() == [least_lost(room, workload) for room in rooms]
    assert table.idle_milli == sum(room.idle_milli for room in rooms)


@pytest.mark.parametrize("cells", [fragmentation_sheets.MOST_CELLS, 20])
def test_every_change_is_scored_as_the_definition_scores_it(cells, monkeypatch):
    monkeypatch.setattr(fragmentation_sheets, "MOST_CELLS", cells)
    draw = random.Random(11)
    for _ in range(25):
        rooms, workload = draw_rooms(draw), draw_workload(draw)
        table = FragmentationTable(rooms, workload)
        assert_as_defined(table, rooms, workload)
        for _ in range(6):
            room = draw.choice(rooms)
            change(draw, room)
            would = table.would_lose(room.node.name, room.left["cpu"], room.gpu_left)
            table.update(room.node.name)
            assert table.lost_on(room.node.name) == would
        assert_as_defined(table, rooms, workload)


def test_updates_taken_back_leave_no_trace():
    draw = random.Random(5)
    rooms, workload = draw_rooms(draw), draw_workload(draw)
    table = FragmentationTable(rooms, workload)
    before, causes, stranded = table.numerator, table.causes.copy(), table.stranded()
    formers = []
    for _ in range(30):
        room = draw.choice(rooms)
        change(draw, room)
        formers.append(table.update(room.node.name))
    assert table.numerator != before
    for former in reversed(formers):
        table.undo(former)
    assert table.numerator == before
    assert (table.causes == causes).all()
    assert (table.stranded() == stranded).all()


def test_a_workload_of_many_shapes_needs_no_vast_table():
    specs = tuple((Spec(cpu, 1 + cpu % 1000, 1), 1) for cpu in range(6000))
    rooms = draw_rooms(random.Random(2), count=2)
    table = FragmentationTable(rooms, Workload(specs))

    assert sum(sheet.sums.size for sheet in table.sheets.sheets) < 10 * fragmentation_sheets.MOST_CELLS
    assert (
        table.lost_on("n1")
        == lost_by_cause(rooms[1], Workload(specs)).total()
        - (lost_by_cause(rooms[1], Workload(specs))["usable"])
    )


def test_endless_demands_fit_nowhere_and_break_nothing():
    specs = ((Spec(10**40, 1000, 1), 2), (Spec(0, 10**9, 1), 3), (Spec(0, 1000, 10**12), 4))
    room = free_room(cluster("a1 ..")).by_node["a1"]
    room.left["cpu"] = 10**39
    table = FragmentationTable([room], Workload(specs))

    assert (table.numerator, table.idle_milli) == (9 * 2000, 2000)
    table.update("a1")
    assert table.numerator == 9 * 2000


def test_where_no_node_can_be_measured_nothing_is_lost():
    workload = draw_workload(random.Random(3))
    assert any(spec.gpus for spec, _ in workload.specs)
    table = FragmentationTable([], workload)
    assert (table.numerator, table.idle_milli) == (0, 0)
