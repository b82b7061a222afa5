"""Which GPUs to relay, and to what, as an integer program over blocks that are alike.

Objectives, one after the other: unmet wants (in compute slices, by rank), reconfigurations, moves,
GPUs that leave whole-GPU use, memory slices left uncut. A pod that moves off a block lands on an
instance that is idle now, or on a GPU that nobody uses and that is relaid first: no chains.
Not in here: which blocks are worth a look (pruning), and in which order what is asked (choosing).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from apps.planner.mig.blocks import Choice, Kind, Shape, Want
from apps.planner.mig.sites import Row, SiteStocks
from apps.planner.mig.targets import list_targets
from apps.planner.mig.yielding import Columns, CostOf, Place, read_choice
from apps.planner.program import Deadline, Program, Solution

Supply = Mapping[tuple[str, str], int]
"""Idle instances by (group, profile)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """moves: at most so many, None for any number. cuts: GPUs relaid at most. must_serve: every want."""

    moves: int | None = None
    cuts: int | None = None
    must_serve: bool = False


@dataclass(slots=True)
class Answer:
    """choice: None where there is none (`is_impossible`), or where time ran out before one was found."""

    choice: Choice | None = None
    is_impossible: bool = False


class LayoutProgram:
    """Columns: blocks drained and GPUs relaid per kind, new layouts per place, pods per group.

    rest: what is idle on blocks that are no kinds here; they stay as they are.
    """

    def __init__(self, kinds: list[Kind], wants: list[Want], limits: Limits, rest: Supply) -> None:
        self.kinds, self.wants, self.limits = kinds, wants, limits
        self.program = Program()
        self.columns = Columns(kinds)
        self.wanted = frozenset(
            [want.shape[0] for want in wants]
            + [shape[0] for kind in kinds if not kind.fixed for shape, _ in kind.used]
        )
        self._final: dict[tuple[str, str], Row] = defaultdict(lambda: defaultdict(float))
        self._early: dict[tuple[str, str], Row] = defaultdict(lambda: defaultdict(float))
        self._idle: Counter[tuple[str, str]] = Counter(rest)
        self._early_idle: Counter[tuple[str, str]] = Counter(rest)
        self._moving = frozenset(shape[0] for kind in kinds if not kind.fixed for shape, _ in kind.used)
        self._groups = {kind.group for kind in kinds} | {group for group, _ in rest}
        self._stocks = SiteStocks(kinds, self.program)
        self._add_kinds()
        self._add_targets()
        self._add_pods()
        self._add_supply()
        self._add_limits()

    def run(self, deadline: Deadline, cost_of: CostOf) -> Answer:
        values: tuple[int, ...] = ()
        bound, proven = 0.0, True
        for name, costs in [*self._unmet_costs(), *self._layout_costs()]:
            if not costs:
                continue
            if values and not weigh(costs, values) and (name == "unmet" or _is_never_negative(costs)):
                self.program.add_row(costs, high=0.0)
                continue
            solution = self._solve(costs, deadline)
            if solution is None or not solution.values:
                if solution is not None and not values:
                    return Answer(is_impossible=True)
                proven = False
                break
            values = solution.values
            if name == "reconfigurations" and proven:
                bound = float(math.ceil(solution.bound - 1e-6))
            proven = proven and solution.proven
            if name != "all unmet":
                self.program.add_row(costs, high=float(weigh(costs, values)))
        if not values and self.program.costs:
            return Answer()
        choice = read_choice(self.columns, values, cost_of)
        choice.bound, choice.proven = bound, proven
        return Answer(choice)

    def _solve(self, costs: Row, deadline: Deadline) -> Solution | None:
        self.program.set_costs(costs)
        return self.program.solve(deadline)

    def _unmet_costs(self) -> list[tuple[str, Row]]:
        """All ranks at once first: where nothing is unmet, the ranks need no look."""
        ranks: dict[int, Row] = defaultdict(dict)
        for want, column in zip(self.wants, self.columns.unmet, strict=True):
            ranks[want.rank][column] = float(want.worth)
        everything = {column: cost for row in ranks.values() for column, cost in row.items()}
        found = [("unmet", ranks[rank]) for rank in sorted(ranks)]
        return found if len(found) < 2 else [("all unmet", everything), *found, ("unmet", everything)]

    def _layout_costs(self) -> list[tuple[str, Row]]:
        relaid, whole, uncut = {}, {}, {}
        for (_, _, gpu), column in self.columns.relaid.items():
            relaid[column] = 1.0
            uncut[column] = -float(gpu.uncut)
            if gpu.whole:
                whole[column] = 1.0
        uncut.update({column: float(left) for (_, (_, left)), column in self.columns.targets.items()})
        return [("reconfigurations", relaid), ("moves", self._moves()), ("whole", whole), ("uncut", uncut)]

    def _moves(self) -> Row:
        return {
            column: float(self.kinds[at].pods)
            for (at, _), column in self.columns.drained.items()
            if self.kinds[at].pods
        }

    def _add_kinds(self) -> None:
        for at, kind in enumerate(self.kinds):
            number = len(kind.blocks)
            for profile, idle in kind.idle.items():
                self._idle[kind.group, profile] += idle * number
                if not self._stocks.add_idle(kind, profile, idle * number):
                    self._early_idle[kind.group, profile] += idle * number
            if kind.fixed:
                continue
            closed = self._stocks.closed.get(kind.site)
            variants = [True] if kind.used else [False] if closed is None else [False, True]
            drained = {is_late: self._add_variant(at, kind, is_late) for is_late in variants}
            self.program.add_row(dict.fromkeys(drained.values(), 1.0), high=float(number))
            if closed is not None and kind.used:
                self.program.add_row({drained[True]: 1.0, closed: -float(number)}, high=0.0)
            elif closed is not None:
                self.program.add_row({drained[False]: 1.0, closed: float(number)}, high=float(number))
        self._stocks.add_supply(self._early, self._moving)

    def _add_variant(self, at: int, kind: Kind, is_late: bool) -> int:
        """The kind's blocks that are drained, and which of their GPUs are relaid, now or late."""
        number = len(kind.blocks)
        drained = self.columns.drained[at, is_late] = self.program.add_column(0.0, number)
        self._count_drained(kind, drained)
        relaid: Row = {}
        for gpu, times in kind.gpus:
            column = self.program.add_column(0.0, number * times)
            self.columns.relaid[at, is_late, gpu] = column
            low = 0.0 if kind.together else -float("inf")
            self.program.add_row({column: 1.0, drained: -float(times)}, low=low, high=0.0)
            relaid[column] = 1.0
            for profile, count in gpu.counts:
                self._final[kind.group, profile][column] -= count
                if not kind.used:
                    self._early_row(kind, profile)[column] -= count
        # Pods leave only what is relaid; to swap pods is what unlocking is for.
        self.program.add_row({**relaid, drained: -1.0}, low=0.0)
        return drained

    def _count_drained(self, kind: Kind, drained: int) -> None:
        """Its pods leave; where GPUs are not told apart, all that it offers goes too."""
        for profile, idle in kind.idle.items():
            if kind.used or kind.together:
                self._early_row(kind, profile)[drained] -= idle
            if kind.together:
                self._final[kind.group, profile][drained] -= idle
        if not kind.together:
            for (profile, _), number in kind.used:
                self._final[kind.group, profile][drained] += number

    def _early_row(self, kind: Kind, profile: str) -> Row:
        row = self._stocks.row(kind, profile)
        return self._early[kind.group, profile] if row is None else row

    def _add_targets(self) -> None:
        places: dict[Place, Row] = defaultdict(dict)
        limits: Counter[Place] = Counter()
        for (at, late, gpu), column in self.columns.relaid.items():
            place = (self.kinds[at].group, gpu.model, late)
            places[place][column] = -1.0
            limits[place] += int(self.program.limits[column])
        for place, row in places.items():
            group, model, is_late = place
            for target in list_targets(model, self.wanted):
                column = self.columns.targets[place, target] = self.program.add_column(0.0, limits[place])
                row[column] = 1.0
                for profile, count in target[0]:
                    self._final[group, profile][column] += count
                    if not is_late:
                        self._early[group, profile][column] += count
            self.program.add_row(row, low=0.0, high=0.0)

    def _add_pods(self) -> None:
        """Moved and pending pods spread over the groups that may take them."""
        groups = self._groups
        moving: dict[Shape, Row] = defaultdict(dict)
        for (at, _), drained in self.columns.drained.items():
            for shape, number in self.kinds[at].used:
                moving[shape][drained] = -float(number)
        for shape in sorted(moving, key=_name_shape):
            row = moving[shape]
            for group in sorted(groups & shape[1]):
                column = self.program.add_column(0.0, float("inf"))
                row[column] = 1.0
                self.columns.arrivals[shape, group] = column
                self._final[group, shape[0]][column] -= 1.0
                self._early[group, shape[0]][column] -= 1.0
            self.program.add_row(row, low=0.0, high=0.0)
        self._add_wants(groups)

    def _add_wants(self, groups: set[str]) -> None:
        left_out: dict[str, int] = {}
        for at, want in enumerate(self.wants):
            missing = self.program.add_column(0.0, want.number)
            self.columns.unmet.append(missing)
            row = {missing: 1.0}
            if want.bundle:
                # All of the bundle is missing, or none of it.
                if want.bundle not in left_out:
                    left_out[want.bundle] = self.program.add_column(0.0, 1.0)
                number = float(want.number)
                self.program.add_row({missing: 1.0, left_out[want.bundle]: -number}, low=0.0, high=0.0)
            for group in sorted(groups & want.shape[1]):
                column = self.program.add_column(0.0, want.number)
                row[column] = 1.0
                self.columns.places[at, group] = column
                self._final[group, want.shape[0]][column] -= 1.0
            self.program.add_row(row, low=float(want.number), high=float(want.number))

    def _add_supply(self) -> None:
        """No group gives out more instances than it has: at the end, and while pods are moving."""
        for rows, idle, asked in (
            (self._early, self._early_idle, self._moving),
            (self._final, self._idle, self.wanted),
        ):
            for key, row in sorted(rows.items(), key=lambda one: one[0]):
                if key[1] in asked:
                    weights = {column: -weight for column, weight in row.items() if weight}
                    self.program.add_row(weights, high=float(idle[key]))

    def _add_limits(self) -> None:
        if self.limits.moves is not None:
            self.program.add_row(self._moves(), high=float(self.limits.moves))
        if self.limits.cuts is not None:
            self.program.add_row(
                dict.fromkeys(self.columns.relaid.values(), 1.0), high=float(self.limits.cuts)
            )
        if self.limits.must_serve:
            self.program.add_row(dict.fromkeys(self.columns.unmet, 1.0), high=0.0)


def weigh(costs: Row, values: tuple[int, ...]) -> int:
    return round(sum(cost * values[column] for column, cost in costs.items()))


def _is_never_negative(costs: Row) -> bool:
    return all(cost >= 0 for cost in costs.values())


def _name_shape(shape: Shape) -> tuple[str, tuple[str, ...]]:
    return (shape[0], tuple(sorted(shape[1])))
