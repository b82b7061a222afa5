"""The order of the moves, and waves of moves that may run in parallel.

Every target has room in the original state, beside all arrivals, so any order fits and cycles cannot arise:
nothing waits for another's place. What remains is that no wave takes more of a disruption budget, of a
workload or of a gang than it may lose at once, and that a pod with rules about its neighbours finds them as
they were when its place was chosen: moves that such a rule ties together keep their order and never share a
wave. All other moves may run at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from apps.planner.inventory import LabelSelector, Pod, PodTerm, SpreadConstraint
from apps.planner.movability import MovabilityRules
from apps.planner.placement import PlannedMove
from apps.planner.selectors import matches, selects_pod
from apps.planner.snapshot import Snapshot

Rule = tuple[str, PodTerm | SpreadConstraint]
"""Of a pod in this namespace."""
ANYWHERE = ""


def order_moves(
    snapshot: Snapshot, rules: MovabilityRules, moves: Sequence[PlannedMove]
) -> tuple[tuple[int, PlannedMove], ...]:
    """(wave, move) in the order of execution: by stage, then by wave, inside a wave as given.

    The fewest waves that the budgets allow (of each, its pods / what it allows, rounded up) unless rules
    between pods need more.
    """
    waves, ties = _Waves(), _Ties(snapshot, moves)
    placed: list[tuple[int, PlannedMove]] = []
    stage, floor = 1, 0
    for move in sorted(moves, key=lambda move: move.stage):
        if move.stage != stage:
            stage, floor = move.stage, 1 + max((wave for wave, _ in placed), default=0)
        first = max(floor, ties.earliest(move))
        wave = waves.take(wave_limits(snapshot, rules, move.pod), first=first)
        ties.note(move, wave)
        placed.append((wave, move))
    return tuple(sorted(placed, key=lambda entry: entry[0]))


def wave_limits(snapshot: Snapshot, rules: MovabilityRules, pod: Pod) -> dict[str, int]:
    """How many pods may be away at once, by budget uid, workload uid and gang key.

    Without a budget a workload of several replicas loses one at a time.
    """
    budgets = rules.budgets_of(pod)
    limits = {
        f"budget {budget.uid}": max(1, budget.disruptions_allowed)
        for budget in budgets
        if pod.ready or not budget.always_allow_unhealthy
    }
    if not budgets and pod.workload:
        limits[f"workload {pod.workload}"] = 1
    gang = snapshot.gangs.get(pod.gang)
    if gang is not None and gang.min_members > 1:
        limits[f"gang {pod.gang}"] = max(1, rules.members_of(pod.gang) - gang.min_members)
    return limits


class _Waves:
    """How much of each limit each wave has spent; waves count from 1."""

    def __init__(self) -> None:
        self._spent: dict[str, Counter[int]] = defaultdict(Counter)
        self._open: dict[str, int] = {}

    def take(self, limits: dict[str, int], first: int) -> int:
        wave = max([first, *(self._open.get(name, 1) for name in limits)])
        while any(self._spent[name][wave] >= most for name, most in limits.items()):
            wave += 1
        for name, most in limits.items():
            spent = self._spent[name]
            spent[wave] += 1
            start = self._open.get(name, 1)
            while spent[start] >= most:
                start += 1
            self._open[name] = start
        return wave


class _Ties:
    """Which moves meet in a rule: one asks it about a domain, another comes to that domain or leaves it.

    Kept per rule and domain, as the last wave in which it was asked or changed.
    """

    def __init__(self, snapshot: Snapshot, moves: Sequence[PlannedMove]) -> None:
        self._nodes = snapshot.nodes
        self._asked: dict[tuple[Rule, str], int] = {}
        self._changed: dict[tuple[Rule, str], int] = {}
        self._by_label: dict[tuple[str, str], list[Rule]] = defaultdict(list)
        self._anyhow: list[Rule] = []
        for rule in dict.fromkeys(rule for move in moves for rule in _rules_of(move.pod)):
            labels = _labels_asked(rule[1].selector)
            for label in labels or ():
                self._by_label[label].append(rule)
            if labels is None:
                self._anyhow.append(rule)

    def earliest(self, move: PlannedMove) -> int:
        asked = (self._changed.get(key, 0) for key in self._asks(move))
        changed = (self._asked.get(key, 0) for key in self._changes(move))
        return 1 + max((*asked, *changed), default=0)

    def note(self, move: PlannedMove, wave: int) -> None:
        for key in self._asks(move):
            self._asked[key] = max(self._asked.get(key, 0), wave)
        for key in self._changes(move):
            self._changed[key] = max(self._changed.get(key, 0), wave)

    def _asks(self, move: PlannedMove) -> Iterator[tuple[Rule, str]]:
        for rule in _rules_of(move.pod):
            yield rule, self._domain(rule, move.target)
            if rule[1] in move.pod.pod_anti_affinity:
                # Until it has left, it keeps others off its source.
                yield rule, self._domain(rule, move.source)

    def _changes(self, move: PlannedMove) -> Iterator[tuple[Rule, str]]:
        for rule in self._speaking_of(move.pod):
            yield from {(rule, self._domain(rule, name)): None for name in (move.source, move.target)}

    def _speaking_of(self, pod: Pod) -> Iterator[Rule]:
        found = dict.fromkeys(self._anyhow)
        for label in pod.labels.items():
            found.update(dict.fromkeys(self._by_label.get(label, ())))
        return (rule for rule in found if _speaks_of(rule, pod))

    def _domain(self, rule: Rule, name: str) -> str:
        """A spread looks at all domains, affinity only at the one of the pod's own target."""
        if isinstance(rule[1], SpreadConstraint):
            return ANYWHERE
        return self._nodes[name].labels.get(rule[1].topology_key, ANYWHERE)


def _rules_of(pod: Pod) -> list[Rule]:
    terms: tuple[PodTerm | SpreadConstraint, ...] = (*pod.pod_affinity, *pod.pod_anti_affinity, *pod.spread)
    return [(pod.namespace, term) for term in terms]


def _speaks_of(rule: Rule, pod: Pod) -> bool:
    namespace, term = rule
    if isinstance(term, SpreadConstraint):
        return pod.namespace == namespace and matches(term.selector, pod.labels)
    return selects_pod(term, namespace, pod)


def _labels_asked(selector: LabelSelector | None) -> list[tuple[str, str]] | None:
    """Labels of which every pod it selects has one; None where nothing of the kind can be said."""
    for part in selector.requirements if selector is not None else ():
        if part.operator == "In":
            return [(part.key, value) for value in dict.fromkeys(part.values)]
    return None
