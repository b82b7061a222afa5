"""The checker's counts of pods by domain: what one rule asks, and who answers to it.

Not in here: the rules themselves, and keeping the counts current (verification_company).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from apps.planner.inventory import LabelSelector, NodeTerm, Pod, PodTerm
from apps.planner.snapshot import Snapshot
from apps.planner.verification_rules import selector_holds, wants_node

Label = tuple[str, str]
Wish = tuple[tuple[tuple[str, str], ...], tuple[NodeTerm, ...]]


@dataclass(frozen=True, slots=True)
class Question:
    """Which pods, by the value of which node label. namespaces: None for all. holders: pods that have `term`
    themselves, not those it speaks of. wish: only nodes of these selectors and terms count (spread)."""

    key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] | None
    holders: tuple[str, PodTerm] | None = None
    wish: Wish | None = None

    def concerns(self, pod: Pod) -> bool:
        if self.holders is not None:
            namespace, term = self.holders
            return pod.namespace == namespace and term in pod.pod_anti_affinity
        if self.wish is not None and pod.terminating:
            return False
        in_space = self.namespaces is None or pod.namespace in self.namespaces
        return in_space and selector_holds(self.selector, pod.labels)


@dataclass(slots=True)
class Crowd:
    """possible: pods that may be in the domain. sure: of these, those that can be nowhere else but there.
    listed: number of domains that count, also empty ones (spread only); levels: how many of them have so
    many pods."""

    total: int = 0
    listed: int = 0
    possible: Counter[str] = field(default_factory=Counter)
    sure: Counter[str] = field(default_factory=Counter)
    levels: Counter[int] = field(default_factory=Counter)

    def shift(self, domains: frozenset[str], is_sure: bool, sign: int) -> None:
        self.total += sign
        for domain in domains:
            before = self.possible[domain]
            self.possible[domain] = before + sign
            if self.levels:
                self.levels[before] -= 1
                self.levels[before + sign] += 1
            if is_sure:
                self.sure[domain] += sign


class Domains:
    """What never changes while a plan is replayed: pods, nodes, which domains a rule counts."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._eligible: dict[tuple[str, Wish], frozenset[str]] = {}
        self._numbers: dict[tuple[str, Wish], int] = {}
        self._shy_terms: dict[Label, dict[tuple[str, PodTerm], None]] = defaultdict(dict)
        self._shy_anyhow: dict[tuple[str, PodTerm], None] = {}
        for pod in snapshot.pods.values():
            for term in pod.pod_anti_affinity:
                labels = labels_asked(question_of(term, pod.namespace))
                for label in labels or ():
                    self._shy_terms[label][pod.namespace, term] = None
                if labels is None:
                    self._shy_anyhow[pod.namespace, term] = None

    def pod(self, uid: str) -> Pod:
        return self.snapshot.pods[uid]

    def domains(self, question: Question, names: tuple[str, ...]) -> tuple[frozenset[str], bool]:
        """The domains of these nodes, and whether all of them lie in one."""
        found = {self._domain(question, name) for name in names}
        return frozenset(one for one in found if one is not None), len(found) == 1

    def _domain(self, question: Question, name: str) -> str | None:
        node = self.snapshot.nodes[name]
        value = node.labels.get(question.key)
        if value is None or question.wish is None or name in self.eligible(question.key, question.wish):
            return value
        return None

    def eligible(self, key: str, wish: Wish) -> frozenset[str]:
        """Nodes that count for a spread over this label."""
        known = self._eligible.get((key, wish))
        if known is None:
            known = self._eligible[key, wish] = frozenset(
                name
                for name, node in self.snapshot.nodes.items()
                if key in node.labels and wants_node(dict(wish[0]), wish[1], node)
            )
        return known

    def empty_crowd(self, question: Question) -> Crowd:
        if question.wish is None:
            return Crowd()
        number = self._number_of_domains(question.key, question.wish)
        return Crowd(listed=number, levels=Counter({0: number}))

    def _number_of_domains(self, key: str, wish: Wish) -> int:
        known = self._numbers.get((key, wish))
        if known is None:
            nodes = self.snapshot.nodes
            values = {nodes[name].labels[key] for name in self.eligible(key, wish)}
            known = self._numbers[key, wish] = len(values)
        return known

    def shunning(self, pod: Pod) -> Iterator[tuple[str, PodTerm]]:
        """Terms of anybody's anti-affinity that speak of the pod, with their owner's namespace."""
        found = dict(self._shy_anyhow)
        for label in pod.labels.items():
            found.update(self._shy_terms.get(label, {}))
        for namespace, term in found:
            if question_of(term, namespace).concerns(pod):
                yield namespace, term


def question_of(term: PodTerm, namespace: str) -> Question:
    spaces = None if term.all_namespaces else term.namespaces or (namespace,)
    return Question(term.topology_key, term.selector, spaces)


def holders_of(term: PodTerm, namespace: str) -> Question:
    """The pods that have this anti-affinity."""
    return Question(term.topology_key, None, None, holders=(namespace, term))


def labels_asked(question: Question) -> tuple[Label, ...] | None:
    """Labels of which every pod it counts has one; None where nothing of the kind can be said."""
    if question.holders is not None or question.selector is None:
        return None
    for part in question.selector.requirements:
        if part.operator == "In":
            return tuple((part.key, value) for value in dict.fromkeys(part.values))
    return None
