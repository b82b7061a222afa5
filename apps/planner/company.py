"""Who is in whose company: how many pods of a kind each topology domain holds, as pods come and go.

An index beside the rooms, which tell it of each change. A question about a rule between pods costs the same
in a large cluster as in a small one; what a rule counts is counted once, when it is first asked for.
Not in here: what the rules make of the numbers (affinity), who has room (rooms).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from apps.planner.inventory import LabelSelector, Node, Pod, PodTerm, Requirement
from apps.planner.selectors import matches, matches_labels, node_matches_terms, selects_pod


@dataclass(frozen=True, slots=True)
class Selection:
    """Which pods are counted. namespaces: None for all of them. living: not those about to go."""

    namespaces: tuple[str, ...] | None
    selector: LabelSelector | None
    living: bool = False

    def speaks_of(self, pod: Pod) -> bool:
        if self.living and pod.terminating:
            return False
        if self.namespaces is not None and pod.namespace not in self.namespaces:
            return False
        return matches(self.selector, pod.labels)


class Tally:
    """Counts by domain. value_of: node -> its domain, of the nodes that count. values: those domains."""

    __slots__ = ("counts", "levels", "total", "value_of", "values")

    def __init__(self, value_of: Mapping[str, str], values: frozenset[str]) -> None:
        self.value_of, self.values = value_of, values
        self.counts: dict[str, int] = {}
        self.levels: dict[int, int] = {}
        self.total = 0

    def shift(self, node_name: str, by: int) -> None:
        self.total += by
        value = self.value_of.get(node_name)
        if value is None:
            return
        before = self.counts.get(value, 0)
        after = before + by
        if after:
            self.counts[value] = after
            self.levels[after] = self.levels.get(after, 0) + 1
        else:
            del self.counts[value]
        if before:
            self.levels[before] -= 1
            if not self.levels[before]:
                del self.levels[before]

    @property
    def fewest(self) -> int:
        """In any domain; 0 where one holds none."""
        return 0 if len(self.counts) < len(self.values) else min(self.levels, default=0)


class TermIndex:
    """Terms of pods, each with the namespace of its owner, by one label value that they insist on."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, PodTerm], int] = {}
        self._by_label: dict[tuple[str, str], list[tuple[str, PodTerm]]] = defaultdict(list)
        self._others: list[tuple[str, PodTerm]] = []

    def add(self, namespace: str, term: PodTerm) -> None:
        owned = namespace, term
        if owned in self._known:
            return
        self._known[owned] = len(self._known)
        named = _named(term.selector)
        if named is None:
            self._others.append(owned)
        for value in dict.fromkeys(named.values if named else ()):
            self._by_label[named.key if named else "", value].append(owned)

    def speaking_of(self, pod: Pod) -> list[tuple[str, PodTerm]]:
        """In the order in which they were added."""
        found = list(self._others)
        for label in pod.labels.items():
            found += self._by_label.get(label, ())
        found = [(namespace, term) for namespace, term in found if selects_pod(term, namespace, pod)]
        return sorted(found, key=self._known.__getitem__) if len(found) > 1 else found

    def number(self, namespace: str, term: PodTerm) -> int:
        return self._known[namespace, term]


def _named(selector: LabelSelector | None) -> Requirement | None:
    """A label of which the selector insists on one of certain values."""
    requirements = selector.requirements if selector else ()
    return next((part for part in requirements if part.operator == "In"), None)


@dataclass(slots=True)
class _Kind:
    """Pods between which no selector can tell. example: any of them. nodes: how many of them on each node."""

    example: Pod
    nodes: Counter[str] = field(default_factory=Counter)
    tallies: list[Tally] = field(default_factory=list)


class Company:
    """nodes: of the cluster. placed: (pod, node) of all that runs; `note` tells of what changes."""

    def __init__(self, nodes: Mapping[str, Node], placed: Iterable[tuple[Pod, str]]) -> None:
        self._nodes = nodes
        self._kinds: dict[Hashable, _Kind] = {}
        self._kind_of: dict[str, _Kind] = {}
        self._by_label: dict[tuple[str, str], list[_Kind]] = defaultdict(list)
        self._tallies: dict[Hashable, tuple[Selection, Tally]] = {}
        self._domains: dict[Hashable, tuple[Mapping[str, str], frozenset[str]]] = {}
        self._terms = TermIndex()
        self._owned: dict[tuple[str, PodTerm], Tally] = {}
        self._owned_by: dict[str, tuple[Tally, ...]] = {}
        self._shunning: dict[int, list[tuple[PodTerm, Tally]]] = {}
        self._asked: dict[tuple[str, str], tuple[Tally, ...]] = {}
        for pod, node_name in placed:
            self.note(pod, node_name, 1)

    def note(self, pod: Pod, node_name: str, sign: int) -> None:
        """The pod has come to the node (+1) or left it (-1)."""
        kind = self._kind(pod)
        kind.nodes[node_name] += sign
        for tally in kind.tallies:
            tally.shift(node_name, sign)
        if pod.pod_anti_affinity:
            for tally in self.owned_by(pod):
                tally.shift(node_name, sign)

    def friends(self, pod: Pod) -> tuple[Tally, ...]:
        """By term of its affinity: the pods that the term speaks of."""
        return self._of_terms("friends", pod, pod.pod_affinity)

    def foes(self, pod: Pod) -> tuple[Tally, ...]:
        """The same for its anti-affinity."""
        return self._of_terms("foes", pod, pod.pod_anti_affinity)

    def peers(self, pod: Pod) -> tuple[Tally, ...]:
        """By constraint on its spread: the pods counted, on the nodes that its own wishes allow."""
        known = self._asked.get(("peers", pod.uid))
        if known is None:
            found = [
                self._tally(Selection((pod.namespace,), one.selector, living=True), one.topology_key, pod)
                for one in pod.spread
            ]
            known = self._asked["peers", pod.uid] = tuple(found)
        return known

    def shunning(self, pod: Pod) -> list[tuple[PodTerm, Tally]]:
        """(term, its owners by domain) of all anti-affinity that speaks of the pod."""
        kind = self._kind(pod)
        known = self._shunning.get(id(kind))
        if known is None:
            known = [(owned[1], self._owned[owned]) for owned in self._terms.speaking_of(pod)]
            self._shunning[id(kind)] = known
        return known

    def owned_by(self, pod: Pod) -> tuple[Tally, ...]:
        """By term of its anti-affinity: the pods that have the very same term."""
        known = self._owned_by.get(pod.uid)
        if known is None:
            found = [self._owners(pod.namespace, term) for term in pod.pod_anti_affinity]
            known = self._owned_by[pod.uid] = tuple(found)
        return known

    def is_single(self, topology_key: str) -> bool:
        """Whether each domain is one node, so that the node alone answers a rule about it."""
        value_of, values = self._domain(topology_key, None)
        return len(value_of) == len(values)

    def nodes_with(self, tally: Tally) -> list[str]:
        """The nodes of the domains that hold any."""
        return [name for name, value in tally.value_of.items() if value in tally.counts]

    def _owners(self, namespace: str, term: PodTerm) -> Tally:
        key = (namespace, term)
        if key not in self._owned:
            self._owned[key] = Tally(*self._domain(term.topology_key, None))
            self._terms.add(namespace, term)
            self._shunning.clear()
        return self._owned[key]

    def _of_terms(self, question: str, pod: Pod, terms: Iterable[PodTerm]) -> tuple[Tally, ...]:
        known = self._asked.get((question, pod.uid))
        if known is None:
            found = [self._tally(select_by(term, pod.namespace), term.topology_key, None) for term in terms]
            known = self._asked[question, pod.uid] = tuple(found)
        return known

    def _tally(self, selection: Selection, topology_key: str, asker: Pod | None) -> Tally:
        """asker: only nodes that this pod's selector and affinity allow are domains."""
        wishes = (tuple(sorted(asker.node_selector.items())), asker.node_terms) if asker else ((), ())
        key = (selection, topology_key, wishes)
        known = self._tallies.get(key)
        if known is None:
            tally = Tally(*self._domain(topology_key, asker if any(wishes) else None, wishes))
            for kind in self._kinds_for(selection):
                kind.tallies.append(tally)
                for node_name, number in kind.nodes.items():
                    if number:
                        tally.shift(node_name, number)
            known = self._tallies[key] = selection, tally
        return known[1]

    def _domain(
        self, topology_key: str, asker: Pod | None, wishes: Hashable = ((), ())
    ) -> tuple[Mapping[str, str], frozenset[str]]:
        """(node -> domain of the nodes that count, the domains)"""
        known = self._domains.get((topology_key, wishes))
        if known is None:
            value_of = {
                name: node.labels[topology_key]
                for name, node in self._nodes.items()
                if topology_key in node.labels and (asker is None or is_eligible(asker, node))
            }
            known = self._domains[topology_key, wishes] = value_of, frozenset(value_of.values())
        return known

    def _kinds_for(self, selection: Selection) -> Iterator[_Kind]:
        """By one label value that the selector insists on, where it does."""
        named = _named(selection.selector)
        kinds: Iterable[_Kind] = self._kinds.values()
        if named is not None:
            values = dict.fromkeys(named.values)
            kinds = [kind for value in values for kind in self._by_label.get((named.key, value), ())]
        return (kind for kind in kinds if selection.speaks_of(kind.example))

    def _kind(self, pod: Pod) -> _Kind:
        known = self._kind_of.get(pod.uid)
        if known is None:
            key = (pod.namespace, pod.terminating, tuple(sorted(pod.labels.items())))
            known = self._kinds.get(key)
            if known is None:
                known = self._kinds[key] = _Kind(pod)
                for label in pod.labels.items():
                    self._by_label[label].append(known)
                known.tallies = [tally for one, tally in self._tallies.values() if one.speaks_of(pod)]
            self._kind_of[pod.uid] = known
        return known


def select_by(term: PodTerm, owner_namespace: str) -> Selection:
    namespaces = None if term.all_namespaces else tuple(sorted(set(term.namespaces or (owner_namespace,))))
    return Selection(namespaces, term.selector)


def is_eligible(pod: Pod, node: Node) -> bool:
    """The nodes that count as domains: those the pod's own selector and affinity allow."""
    return matches_labels(pod.node_selector, node.labels) and node_matches_terms(node, pod.node_terms)
