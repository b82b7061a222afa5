"""The best layouts for a cluster, from the easy question to the hard one.

First what is idle, then GPUs that nobody uses, then GPUs that others have to leave; each answer bounds the
next, so that most GPUs of a large cluster need no column. Objectives: see layout_program.
Not in here: which pod goes to which node (seating).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

from apps.planner.mig.blocks import Block, Choice, Kind, Want, count_idle, group_alike
from apps.planner.mig.layout_program import Answer, LayoutProgram, Limits
from apps.planner.mig.pruning import keep_useful
from apps.planner.mig.yielding import CostOf, stay
from apps.planner.program import Deadline
from apps.planner.progress import Progress, Tell, tell_nobody

FEW_BLOCKS = 400
"""Up to so many, all of them are asked with the rule about nodes that are drained."""
Judge = Callable[[Block], bool]


def choose_layouts(
    blocks: Iterable[Block],
    wants: Iterable[Want],
    *,
    deadline: Deadline,
    max_moves: int | None = None,
    may_drain: Judge = lambda _: True,
    cost_of: CostOf = lambda _: 0.0,
    tell: Tell = tell_nobody,
) -> Choice:
    """The best choice found; the module says what is better than what.

    may_drain: of a block in use, whether all its pods may leave; asked only where it matters. cost_of: what
    draining a block costs; of blocks that are alike the cheapest are drained.
    """
    return _Search(list(blocks), list(wants), deadline, max_moves, may_drain, cost_of, tell).run()


class _Search:
    def __init__(
        self,
        blocks: list[Block],
        wants: list[Want],
        deadline: Deadline,
        max_moves: int | None,
        may_drain: Judge,
        cost_of: CostOf,
        tell: Tell,
    ) -> None:
        self.blocks, self.wants, self.deadline, self.max_moves = blocks, wants, deadline, max_moves
        self.may_drain, self.cost_of, self.tell = may_drain, cost_of, tell
        self.idle = count_idle(blocks)
        self.unused = [block for block in blocks if not block.used and not block.fixed]
        self.in_use = [block for block in blocks if block.used and not block.fixed]
        self.asked = sum(want.number for want in wants)

    def run(self) -> Choice:
        still = self._ask([], Limits(moves=0)).choice
        if still is None:
            return stay(self.idle, self.wants)
        if not still.unmet and still.proven:
            return still
        self._say("Choosing among GPUs that nobody uses.", still)
        calm = self._ask(self._prune(self.unused, self.asked), Limits(moves=0)).choice
        best = replace(still, proven=False) if calm is None else self._better(still, calm)
        if not best.unmet and best.reconfigurations <= 1 and still.proven:
            best.bound = 1.0
            return best
        if self.max_moves == 0 or not self.in_use:
            return best
        self._say("Choosing among GPUs whose pods could move.", best)
        return self._with_moves(best, is_calm_proven=calm is not None and calm.proven)

    def _with_moves(self, best: Choice, *, is_calm_proven: bool) -> Choice:
        """Better than the best without a move, if anything is."""
        limits, most = Limits(moves=self.max_moves), self._most_cuts()
        if not best.unmet:
            most = best.reconfigurations - 1
            limits = replace(limits, cuts=most, must_serve=True)
        kinds = self._prune_in_use(most)
        loose = self._ask(kinds, limits)
        if loose.is_impossible:
            best.bound, best.proven = float(best.reconfigurations), is_calm_proven
            return best
        if loose.choice is None:
            return replace(best, proven=False, bound=0.0)
        if self._is_sound(loose.choice):
            return self._better(best, loose.choice)
        self._say("Keeping moved pods off nodes that are drained.", best)
        strict = self._ask_strictly(kinds, limits)
        if strict.is_impossible and self._asks_all:
            best.bound, best.proven = float(best.reconfigurations), is_calm_proven
            return best
        if strict.choice is None or strict.is_impossible:
            return replace(best, proven=False, bound=0.0)
        found = strict.choice
        if not self._asks_all:
            found.proven = loose.choice.proven and self.score(found) == self.score(loose.choice)
            found.bound = loose.choice.bound if found.unmet == loose.choice.unmet else 0.0
        return self._better(best, found)

    @property
    def _asks_all(self) -> bool:
        return len(self.blocks) <= FEW_BLOCKS

    def _ask(self, kinds: list[Kind], limits: Limits) -> Answer:
        """Without the rule about nodes that are drained: what it finds bounds whatever obeys it."""
        chosen = Counter[tuple[str, str]]()
        for kind in kinds:
            for profile, number in kind.idle.items():
                chosen[kind.group, profile] += number * len(kind.blocks)
        rest = Counter(self.idle)
        rest.subtract(chosen)
        return LayoutProgram(kinds, self.wants, limits, rest).run(self.deadline, self.cost_of)

    def _ask_strictly(self, kinds: list[Kind], limits: Limits) -> Answer:
        if self._asks_all:
            chosen = [*self.unused, *filter(self.may_drain, self.in_use)]
        else:
            chosen = [block for kind in kinds for block in kind.blocks]
        hot = {block.site for block in chosen if block.site and block.used}
        keys = {block.key for block in chosen}
        others = [block for block in self.blocks if block.key not in keys]
        beside = [replace(block, fixed=True) for block in others if block.site in hot]
        rest = count_idle(block for block in others if block.site not in hot)
        kinds = group_alike([*chosen, *beside], by_site=True)
        return LayoutProgram(kinds, self.wants, limits, rest).run(self.deadline, self.cost_of)

    def _is_sound(self, choice: Choice) -> bool:
        """Whether moved pods find room on nodes of which nothing is drained, as the groups were chosen."""
        drained = set(choice.drained)
        closed = {block.site for block in self.in_use if block.key in drained} - {""}
        if not closed:
            return True
        early: Counter[tuple[str, str]] = Counter()
        for block in self.blocks:
            if block.site not in closed and block.key not in drained:
                left = self._left(block, choice)
                for profile, number in left.items():
                    early[block.group, profile] += number
        asked: Counter[tuple[str, str]] = Counter()
        for shape, groups in choice.arrivals.items():
            for group, number in groups.items():
                asked[group, shape[0]] += number
        return all(early[key] >= number for key, number in asked.items())

    @staticmethod
    def _left(block: Block, choice: Choice) -> dict[str, int]:
        relaid = choice.relaid.get(block.key)
        if not relaid:
            return block.idle
        left = Counter() if block.together else Counter(block.idle)
        for at, counts in relaid.items():
            left.subtract(dict(block.gpus[at].counts))
            left.update(dict(counts))
        return left

    def _prune(self, blocks: list[Block], most: int) -> list[Kind]:
        wanted = frozenset(want.shape[0] for want in self.wants)
        return keep_useful(group_alike(blocks, by_site=False), wanted, most)

    def _prune_in_use(self, most: int) -> list[Kind]:
        """Pods are judged only where it matters: on blocks that are kept."""
        wanted = frozenset(want.shape[0] for want in self.wants) | {
            shape[0] for block in self.in_use for shape, _ in block.used
        }
        judged: set[str] = set()
        while True:
            kinds = keep_useful(group_alike([*self.unused, *self.in_use], by_site=False), wanted, most)
            asked = [
                block for kind in kinds for block in kind.blocks if kind.used and block.key not in judged
            ]
            stuck = {block.key for block in asked if not self.may_drain(block)}
            judged.update(block.key for block in asked)
            if not stuck:
                return kinds
            self.in_use = [block for block in self.in_use if block.key not in stuck]

    def _most_cuts(self) -> int:
        """Each GPU that is relaid serves a pod that waits or one that moves."""
        moving = sum(block.pods for block in self.in_use)
        return self.asked + (moving if self.max_moves is None else min(moving, self.max_moves))

    def _better(self, one: Choice, other: Choice) -> Choice:
        return other if self.score(other) <= self.score(one) else replace(one, proven=False)

    def score(self, choice: Choice) -> tuple[object, ...]:
        """Less is better."""
        lost: defaultdict[int, int] = defaultdict(int)
        for at, number in choice.unmet.items():
            lost[self.wants[at].rank] += number * self.wants[at].worth
        ranks = sorted({want.rank for want in self.wants})
        return (
            tuple(lost[rank] for rank in ranks),
            choice.reconfigurations,
            choice.moves,
            choice.whole,
            choice.uncut,
        )

    def _say(self, stage: str, best: Choice) -> None:
        total = sum(want.number * want.worth for want in self.wants)
        lost = sum(number * self.wants[at].worth for at, number in best.unmet.items())
        self.tell(Progress(stage, total - lost, best.moves, total))
