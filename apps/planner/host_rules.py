"""Rules that one node answers by itself, as amounts: host ports, and anti-affinity by host.

No pod of a node that takes arrivals leaves it, so whoever is there now keeps others away for good; and pods
that keep each other away share one place per node, as they would share a resource.
Not in here: rules about zones and racks, affinity and spread, which the board asks (affinity).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from apps.planner.capacity import MANY, Shape
from apps.planner.inventory import Pod, PodTerm
from apps.planner.placement import Board
from apps.planner.selectors import selects_pod

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
MOST_TOGETHER = 1000
"""More pods than that never come to one node."""


class HostRules:
    """shapes: with the amounts that the rules count. left: of each, by node. left_out: whether the shapes
    have rules that are not counted here."""

    def __init__(self, board: Board, shapes: Sequence[Shape]) -> None:
        self.board = board
        self._place = {name: at for at, name in enumerate(board.held.by_node)}
        self.left: dict[str, Ints] = {}
        self.left_out = False
        self._besides: list[list[tuple[str, int]]] = [[] for _ in shapes]
        self._add_ports(shapes)
        if any(board.fitting.needs_neighbours(shape.pod) for shape in shapes):
            self._add_terms(shapes)
        self.shapes = [
            replace(shape, besides=tuple(besides)) if besides else shape
            for shape, besides in zip(shapes, self._besides, strict=True)
        ]

    def blocked(self, pod: Pod) -> Flags | None:
        """By node, whether somebody there keeps the pod away, or it keeps away from somebody there."""
        if not self.board.fitting.needs_neighbours(pod):
            return None
        company = self.board.final.company
        mask = np.zeros(len(self._place), dtype=bool)
        foes = zip(pod.pod_anti_affinity, company.foes(pod), strict=True)
        for term, tally in (*foes, *company.shunning(pod)):
            if company.is_single(term.topology_key):
                mask[[self._place[name] for name in company.nodes_with(tally)]] = True
        return mask

    def _add_ports(self, shapes: Sequence[Shape]) -> None:
        rooms = self.board.held.by_node.values()
        for port in sorted({port for shape in shapes for port in shape.demand.ports}):
            name = f"host port {port}"
            self.left[name] = np.array([0 if room.ports[port] else 1 for room in rooms], dtype=np.int64)
            for at, shape in enumerate(shapes):
                if port in shape.demand.ports:
                    self._besides[at].append((name, 1))

    def _add_terms(self, shapes: Sequence[Shape]) -> None:
        company = self.board.final.company
        owners: dict[tuple[str, PodTerm], list[int]] = {}
        for at, shape in enumerate(shapes):
            pod = shape.pod
            shunned = any(not company.is_single(term.topology_key) for term, _ in company.shunning(pod))
            self.left_out = self.left_out or shunned or bool(pod.pod_affinity or pod.spread)
            for term in pod.pod_anti_affinity:
                owners.setdefault((pod.namespace, term), []).append(at)
        for number, ((namespace, term), owning) in enumerate(owners.items()):
            named = [at for at, shape in enumerate(shapes) if selects_pod(term, namespace, shape.pod)]
            if not company.is_single(term.topology_key):
                self.left_out = True
            elif named:
                self._add_term(f"place by rule {number}", term.topology_key, set(owning), named)

    def _add_term(self, name: str, topology_key: str, owning: set[int], named: Sequence[int]) -> None:
        """An owner that the term speaks of takes all places, others that it speaks of one each."""
        if not owning.issubset(named):
            self.left_out = True
            owning = owning.intersection(named)
            if not owning:
                return
        all_places = 1 if owning.issuperset(named) else MOST_TOGETHER
        nodes = self.board.snapshot.nodes
        self.left[name] = np.array(
            [all_places if topology_key in nodes[node].labels else MANY for node in self._place],
            dtype=np.int64,
        )
        for at in named:
            self._besides[at].append((name, all_places if at in owning else 1))
