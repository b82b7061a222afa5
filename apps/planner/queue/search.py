"""The nodes' choices worth knowing, found by the prices of a linear program (column generation), and a bound.

Each round asks every node for its best choice at the present prices of a move, of a start and of a place
for a moved pod. The sum of what the nodes could gain at any prices bounds every plan (Lagrange), so the
bound holds whenever the search stops. Not in here: putting an answer on the board (realising).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from apps.planner.clearing_table import ClearingTable
from apps.planner.placement import Board
from apps.planner.queue.columns import Column, count_kinds
from apps.planner.queue.filling import Filling, list_fillings
from apps.planner.queue.pools import Pool, stack_nodes
from apps.planner.queue.prices import FillPrices, Offer
from apps.planner.queue.program import Duals, QueueProgram, Relaxed
from apps.planner.queue.seeding import list_large
from apps.planner.queue.states import PODS, UNITS, Flags, NodeStates, StateTable
from apps.planner.queue.wishes import Batch, Wish
from apps.planner.resources import asks_gpu

FIRST_PRICES = (900.0, 350.0)
"""Of a move, in milli-GPU: what the first choices are found with."""
NODES, NODES_A_MOVE = 60, 2
"""How many nodes are asked in a round: those that could gain most."""
MOST_FILLS, MOST_STEPS = 5, 30
THOROUGH_FILLS, THOROUGH_STEPS = 40, 1000
FEW_STATES, VERY_FEW_STATES = 15_000, 400
MOST_LISTED = 60
"""Up to so many all nodes are asked in a round, and thoroughly."""
ENOUGH = 2e-3
"""Share of the bound below which a further round is not worth its time."""
GAIN, DONE = 1.0, 1e-6
SLACK = 5e-4
"""In stages: better columns help more than a longer search among those at hand."""
PLACE = 2.0
"""In stages: what a place for a moved pod may cost, by the GPUs that it takes. So much that nothing leaves in
the linear program without a place, and so little that its prices say early where places are worth making."""


class ChoiceSearch:
    def __init__(
        self,
        board: Board,
        wishes: Sequence[Wish],
        batches: Sequence[Batch],
        most_moves: int,
        stages: int,
        price: float,
        is_late: Callable[[], bool],
    ) -> None:
        self.board = board
        self.stages = stages
        self.wishes = wishes
        self.batches = batches
        self.most_moves = most_moves
        self.is_late = is_late
        self.table = StateTable(board, wishes, most_moves, stages, is_late)
        self.milli = [float(wish.demand.gpu_milli) for wish in wishes]
        self.scarcity = [float(board.final.demand(pod).gpu_milli) for pod in self.table.examples]
        self._first_prices = self.table.price_places()
        places = [amount * (PLACE if stages > 1 else 1.0) for amount in self._first_prices]
        self.program = QueueProgram(batches, len(wishes), places, most_moves, price)
        if stages > 1:
            self.program.slack = SLACK
        self._leaving: frozenset[int] | None = None
        self.amounts = [self.table.amounts(wish.demand) for wish in wishes]
        self.kind_amounts = [self.table.amounts(board.final.demand(pod)) for pod in self.table.examples]
        self.homes = [
            frozenset(board.open_nodes(pod)) if asks_gpu(pod) else frozenset() for pod in self.table.examples
        ]
        self._priced = [at for at, name in enumerate(self.table.resources) if name not in (PODS, UNITS)]
        self.pools = list(self._pool())
        states = sum(len(pool.size) for pool in self.pools)
        self.is_small, self.is_tiny = states <= FEW_STATES, states <= VERY_FEW_STATES
        self._fills, self._steps = (
            (THOROUGH_FILLS, THOROUGH_STEPS) if self.is_small else (MOST_FILLS, MOST_STEPS)
        )
        self._asked = len(self.table.nodes) if self.is_small else NODES_A_MOVE * most_moves + NODES
        self.bound = float(sum(batch.milli * len(batch.members) for batch in batches))

    def seed_large(self, clearings: ClearingTable) -> None:
        """The cheapest ways to make room for one large pod each, as if moved pods found places anywhere."""
        self.program.kinds = [0.0] * len(self.scarcity)
        for at, wish in enumerate(self.wishes):
            if wish.demand.gpus > 1 and not self.is_late():
                self._seed_large(at, wish, clearings)

    def seed(self, clearings: ClearingTable) -> None:
        """Choices to begin with. clearings: the cheapest ways to make room for one large pod each."""
        for at, wish in enumerate(self.wishes):
            if wish.demand.gpus > 1 and not self.is_late():
                self._seed_large(at, wish, clearings)
        if self.is_tiny:
            self._list_everything()
        for price in FIRST_PRICES:
            if not self.is_late():
                self._round(Duals(price, tuple(self.milli), tuple(self._first_prices)))

    def _list_everything(self) -> None:
        """Every choice of every node, as long as they are few."""
        prices = Duals(0.0, tuple(self.milli), tuple(self._first_prices))
        for pool in self.pools:
            offers = self._offers(pool, prices)
            both = [*offers, *self._arrival_offers(pool, prices)]
            for row in range(len(pool.size)):
                at = int(np.searchsorted(pool.first, row, side="right")) - 1
                left = tuple(max(0, int(amount)) for amount in pool.left[row])
                devices = tuple(sorted(int(milli) for milli in pool.devices[row] if milli > 0))
                for counts in list_fillings(both if pool.quiet[row] else offers, left, devices, MOST_LISTED):
                    column = self._column(pool.nodes[at], row - int(pool.first[at]), counts)
                    if column is not None:
                        self.program.add(column)

    def _seed_large(self, at: int, wish: Wish, clearings: ClearingTable) -> None:
        for column in list_large(at, wish, clearings, self.table.kinds, self.most_moves, self.is_late):
            self.program.add(column)

    def improve(self, rounds: int) -> bool:
        """Further rounds at the prices of the linear program; whether more would bring next to nothing."""
        for _ in range(rounds):
            relaxed = None if self.is_late() else self.program.relax()
            if relaxed is None:
                return True
            if self.stages > 1:
                self._leaving = self._list_leaving(relaxed)
            added = self._round(relaxed.duals)
            if not added or self.bound - relaxed.value <= ENOUGH * self.bound:
                return True
        return False

    def _list_leaving(self, relaxed: Relaxed) -> frozenset[int]:
        """Kinds that leave somewhere in the program's answer: of the others no arrivals are looked for."""
        done = zip(self.program.columns, relaxed.parts, strict=True)
        return frozenset(kind for column, part in done if part > DONE for kind, _ in column.leaves)

    def _round(self, duals: Duals) -> int:
        """Every node's best choice at these prices; how many are new. Betters the bound."""
        gains = self._constant(duals)
        added = 0
        for pool in self.pools:
            gain, new = self._price_pool(pool, duals)
            gains += gain
            added += new
        if not self.is_late() and self.table.is_complete:
            self.bound = min(self.bound, gains)
        return added

    def _constant(self, duals: Duals) -> float:
        """The bound's part that no node has a share in."""
        total = duals.move * self.most_moves
        for batch in self.batches:
            spent = sum(duals.wishes[wish] * number for wish, number in batch.needs.items())
            total += max(0.0, batch.milli - spent) * len(batch.members)
        return total

    def _price_pool(self, pool: Pool, duals: Duals) -> tuple[float, int]:
        offers = self._offers(pool, duals)
        prices = FillPrices(offers, self.table.unit, self._priced)
        kinds = np.array([*duals.kinds, 0.0]) + duals.move
        kinds[-1] = 0.0
        paid = (pool.chosen * kinds[pool.kinds]).sum(axis=1) if pool.chosen.size else np.zeros(len(pool.size))
        most = prices.bound(pool.left, pool.devices) - paid
        arrivals = self._arrival_offers(pool, duals)
        both = FillPrices([*offers, *arrivals], self.table.unit, self._priced) if arrivals else prices
        if arrivals:
            quiet = pool.quiet
            most[quiet] = both.bound(pool.left[quiet], pool.devices[quiet]) - paid[quiet]
        filling, wide = (
            Filling(offers, prices, self._steps),
            Filling([*offers, *arrivals], both, self._steps),
        )
        return self._take_best(pool, most, paid, filling, wide)

    def _take_best(
        self,
        pool: Pool,
        most: npt.NDArray[np.float64],
        paid: npt.NDArray[np.float64],
        filling: Filling,
        wide: Filling,
    ) -> tuple[float, int]:
        added = 0
        peaks = np.maximum.reduceat(most, pool.first[:-1])
        total = float(np.maximum(peaks, 0.0).sum())
        for at in np.argsort(-peaks, kind="stable")[: self._asked]:
            if peaks[at] <= GAIN or self.is_late():
                break
            low, high = int(pool.first[at]), int(pool.first[at + 1])
            best, chosen = GAIN, None
            for row in (low + np.argsort(-most[low:high], kind="stable"))[: self._fills]:
                if most[row] <= best:
                    break
                left = tuple(max(0, int(amount)) for amount in pool.left[row])
                devices = tuple(sorted(int(milli) for milli in pool.devices[row] if milli > 0))
                search = wide if pool.quiet[row] else filling
                value, counts = search.fill(left, devices)
                if value - paid[row] > best:
                    best, chosen = value - float(paid[row]), (int(row) - low, counts)
            if chosen is not None:
                column = self._column(pool.nodes[at], *chosen)
                added += column is not None and self.program.add(column)
        return total, added

    def _column(self, node: NodeStates, row: int, counts: tuple[tuple[int, int], ...]) -> Column | None:
        """As the node's own room sees it: whoever does not fit there is left out."""
        victims = node.victims(row)
        final = self.board.final
        room = final.by_node[node.name].copy()
        for pod in victims:
            room.drop(pod, final.demand(pod))
        starts: list[tuple[int, int]] = []
        arrives: list[tuple[int, int]] = []
        for number, count in sorted(counts, key=self._bulk):
            is_start = number < len(self.wishes)
            pod = self.wishes[number].pod if is_start else self.table.examples[number - len(self.wishes)]
            demand = final.demand(pod)
            done = 0
            while done < count and room.fits(demand):
                guest = replace(pod, uid=f"{number}-{done}")
                room.add(guest, demand, room.choose_devices(demand))
                done += 1
            if done:
                (starts if is_start else arrives).append(
                    (number if is_start else number - len(self.wishes), done)
                )
        if not starts and not arrives:
            return None
        leaves = count_kinds(
            [int(kind) for kind, gone in zip(node.kinds, node.chosen[row], strict=True) if gone]
        )
        cost = sum(self.board.cost(pod) for pod in victims)
        return Column(node.name, victims, leaves, tuple(sorted(starts)), tuple(sorted(arrives)), cost)

    def _bulk(self, entry: tuple[int, int]) -> tuple[int, int]:
        number = entry[0]
        if number < len(self.wishes):
            return -self.wishes[number].demand.gpu_milli, number
        return -int(self.scarcity[number - len(self.wishes)]), number

    def _offers(self, pool: Pool, duals: Duals) -> list[Offer]:
        return [
            Offer(
                at,
                duals.wishes[at],
                self.wishes[at].demand.milli,
                self.wishes[at].demand.gpus,
                self.amounts[at],
                self.wishes[at].most,
            )
            for at in pool.wishes
            if duals.wishes[at] > 0
        ]

    def _arrival_offers(self, pool: Pool, duals: Duals) -> list[Offer]:
        offers = []
        for at in pool.arrivals:
            if self._leaving is not None and at not in self._leaving:
                continue
            demand = self.board.final.demand(self.table.examples[at])
            if duals.kinds[at] > 0:
                amounts = self.kind_amounts[at]
                number = len(self.wishes) + at
                offers.append(
                    Offer(number, duals.kinds[at], demand.milli, demand.gpus, amounts, self.most_moves)
                )
        return offers

    def _may_take(self, node: NodeStates) -> Flags:
        """The states in which pods with GPUs may come: nobody has left, or (in stages) nobody with GPUs."""
        if node.name in self.board.closed or (self.stages == 1 and node.name in self.board.kept_free):
            return np.zeros(len(node.chosen), dtype=bool)
        heavy = np.array([self.scarcity[kind] > 0 for kind in node.kinds], dtype=bool)
        if self.stages == 1:
            heavy[:] = True
        free: Flags = np.logical_not(node.chosen[:, heavy].any(axis=1))
        return free

    def _pool(self) -> Iterator[Pool]:
        """Nodes that look alike to all wishes and all kinds, so that one set of offers serves them."""
        groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[NodeStates]] = {}
        for node in self.table.nodes:
            arrivals = tuple(at for at, names in enumerate(self.homes) if node.name in names)
            groups.setdefault((node.wishes, arrivals), []).append(node)
        for (wishes, arrivals), nodes in groups.items():
            quiet = np.concatenate([self._may_take(node) for node in nodes])
            yield stack_nodes(wishes, arrivals, nodes, len(self.table.examples), quiet)
