"""Adds to nodes what other objects tell of where their GPUs sit: Koordinator's Device, DRA's ResourceSlices.

They speak only where the node itself says nothing: of its links, or of a GPU's NUMA node, switch or bus.
Slices were read before (`sliced_nodes`): of them only the links that follow are added here.
Remembered per node, so that an unchanged node stays the very same object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from apps.kube.topology.placing import Seat, read_device_cr, read_seats
from apps.kube.topology.reading import MOST_GPUS, Cells
from apps.kube.translate.device_book import SlicedNode
from apps.kube.translate.matrix import tells_any
from apps.kube.translate.sliced_nodes import gpus_of_main
from apps.kube.translate.unreadable import Raw, opened, stamp_of
from apps.kube.translate.values import child, clean
from apps.planner.inventory import Gpu, Node, Topology

Told = dict[str, tuple[tuple[Seat, ...], str]]
KOORDINATOR, DRA = "koordinator", "dra"


class Linker:
    """Not safe to share between threads. told: of all nodes, by name, when they were linked last."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Node, tuple[Seat, ...], str, Node]] = {}
        self._stamps: list[tuple[str, str]] = []
        self._told: Told = {}
        self.told: Told = {}

    def link(
        self, nodes: Mapping[str, Node], devices: Iterable[Raw], sliced: Mapping[str, SlicedNode]
    ) -> dict[str, Node]:
        """devices: Koordinator's Device objects, each named after its node. sliced: by the node's name."""
        told = {**_seats_of_slices(nodes, sliced), **self._koordinators(list(devices))}
        self.told = told
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

    def _koordinators(self, devices: list[Raw]) -> Told:
        stamps = [stamp_of(raw) for raw in devices]
        if stamps != self._stamps or any("" in stamp for stamp in stamps):
            self._told, self._stamps = _seats_of_devices(map(opened, devices)), stamps
        return self._told


def _seats_of_devices(devices: Iterable[Mapping[str, Any]]) -> Told:
    told: Told = {}
    for device in devices:
        name = clean(child(device, "metadata").get("name"), 253)
        if name and (seats := read_device_cr(device)):
            told[name] = (seats, KOORDINATOR)
    return told


def _seats_of_slices(nodes: Mapping[str, Node], sliced: Mapping[str, SlicedNode]) -> Told:
    """Of the node's main GPUs alone: slices of another vendor's devices number those from 0 as well."""
    told: Told = {}
    for name, facts in sliced.items():
        node = nodes.get(name)
        if node is not None and node.topology is None and (gpus := gpus_of_main(node, facts)):
            told[name] = (tuple(map(_seat_in_slices, gpus)), DRA)
    return told


def _seat_in_slices(gpu: Gpu) -> Seat:
    return Seat(gpu.index, gpu.uuid, gpu.numa, root=gpu.pcie_switch or "", bus_id=gpu.bus_id)


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
    if not 2 <= len(own) <= MOST_GPUS:
        return None
    placed = [(at, seat) for at, seat in enumerate(own) if seat is not None]
    reading = read_seats([seat for _, seat in placed], source)
    if reading is None or reading.links is None:
        return None
    rows = [["X" if a == b else "" for b in range(len(own))] for a in range(len(own))]
    for row, (a, _) in enumerate(placed):
        for column, (b, _) in enumerate(placed):
            rows[a][b] = reading.links[row][column]
    links: Cells = tuple(map(tuple, rows))
    if not tells_any(links):
        return None
    return Topology(links=links, source=source, complete=reading.complete and len(placed) == len(own))
