"""Adds to nodes what other objects tell of where their GPUs sit: Koordinator's Device, DRA's ResourceSlices.

They speak only where the node itself says nothing: of its links, or of a GPU's NUMA node, switch or bus.
Remembered per node, so that an unchanged node stays the very same object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from apps.kube.topology.placing import Seat, read_device_cr, read_seats, read_slices
from apps.kube.topology.reading import Cells
from apps.kube.translate.matrix import tells_any
from apps.kube.translate.unreadable import Raw, opened, stamp_of
from apps.kube.translate.values import child, clean
from apps.planner.inventory import Gpu, Node, Topology

Told = dict[str, tuple[tuple[Seat, ...], str]]
KOORDINATOR, DRA = "koordinator", "dra"


class Linker:
    """Not safe to share between threads."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Node, tuple[Seat, ...], str, Node]] = {}
        self._stamps: list[tuple[str, str]] = []
        self._told: Told = {}

    def link(
        self, nodes: Mapping[str, Node], devices: Iterable[Raw], slices: Iterable[Raw]
    ) -> dict[str, Node]:
        """devices: Koordinator's Device objects, each named after its node. slices: ResourceSlices."""
        devices, slices = list(devices), list(slices)
        stamps = [stamp_of(raw) for raw in (*devices, *slices)]
        if stamps != self._stamps or ("", "") in stamps:
            self._told = _seats_by_node(map(opened, devices), map(opened, slices))
            self._stamps = stamps
        told = self._told
        kept: dict[str, tuple[Node, tuple[Seat, ...], str, Node]] = {}
        found = dict(nodes)
        for name, (seats, source) in told.items():
            node = nodes.get(name)
            if node is None or not node.gpus:
                continue
            known = self._known.get(name)
            if known is None or known[0] is not node or known[1] != seats or known[2] != source:
                known = (node, seats, source, with_places(node, seats, source))
            kept[name], found[name] = known, known[3]
        self._known = kept
        return found


def _seats_by_node(devices: Iterable[Mapping[str, Any]], slices: Iterable[Mapping[str, Any]]) -> Told:
    told: Told = {}
    by_node: dict[str, list[Mapping[str, Any]]] = {}
    for one in slices:
        name = clean(child(one, "spec").get("nodeName"), 253)
        if name:
            by_node.setdefault(name, []).append(one)
    for name, members in by_node.items():
        if seats := read_slices(members):
            told[name] = (seats, DRA)
    for device in devices:
        name = clean(child(device, "metadata").get("name"), 253)
        if name and (seats := read_device_cr(device)):
            told[name] = (seats, KOORDINATOR)
    return told


def with_places(node: Node, seats: Sequence[Seat], source: str) -> Node:
    """The node with what the seats tell beyond its own facts. A seat is a GPU's by UUID, else by index."""
    by_uuid = {seat.uuid.lower(): seat for seat in seats if seat.uuid}
    by_index = {seat.index: seat for seat in seats}
    own = [_seat_of(gpu, by_uuid, by_index) for gpu in node.gpus]
    gpus = tuple(_placed(gpu, seat) for gpu, seat in zip(node.gpus, own, strict=True))
    topology = node.topology or _topology(own, source)
    if gpus == node.gpus and topology is node.topology:
        return node
    return replace(node, gpus=gpus, topology=topology)


def _seat_of(gpu: Gpu, by_uuid: Mapping[str, Seat], by_index: Mapping[int, Seat]) -> Seat | None:
    if gpu.uuid and by_uuid:
        return by_uuid.get(gpu.uuid.lower())
    return by_index.get(gpu.index)


def _placed(gpu: Gpu, seat: Seat | None) -> Gpu:
    if seat is None:
        return gpu
    return replace(
        gpu,
        uuid=gpu.uuid or seat.uuid,
        numa=gpu.numa if gpu.numa is not None else seat.numa,
        pcie_switch=gpu.pcie_switch or seat.switch or seat.root or None,
        bus_id=gpu.bus_id or seat.bus_id,
        healthy=gpu.healthy and seat.healthy,
        memory_mib=gpu.memory_mib if gpu.memory_mib is not None else seat.memory_mib,
    )


def _topology(own: Sequence[Seat | None], source: str) -> Topology | None:
    """Links in the order of the node's GPUs; one that has no seat has unknown links."""
    placed = [(at, seat) for at, seat in enumerate(own) if seat is not None]
    reading = read_seats([seat for _, seat in placed], source)
    if reading is None or reading.links is None or len(own) < 2:
        return None
    rows = [["X" if a == b else "" for b in range(len(own))] for a in range(len(own))]
    for row, (a, _) in enumerate(placed):
        for column, (b, _) in enumerate(placed):
            rows[a][b] = reading.links[row][column]
    links: Cells = tuple(map(tuple, rows))
    if not tells_any(links):
        return None
    return Topology(links=links, source=source, complete=reading.complete and len(placed) == len(own))
