"""The checker's own count of neighbours: affinity, anti-affinity both ways round, and spread.

Pods that one rule speaks of are counted by domain once and kept current, so that a move costs the same on
ten nodes and on ten thousand. Pods of one wave are under way together: each may still be where it was, be
nowhere, or be where it goes, and a rule must hold whichever it is.
Not in here: one pod and one node (verification_rules), room (verification_books).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from apps.planner.inventory import Node, Pod, PodTerm, SpreadConstraint
from apps.planner.snapshot import Snapshot
from apps.planner.verification_crowds import (
    Crowd,
    Domains,
    Label,
    Question,
    holders_of,
    labels_asked,
    question_of,
)
from apps.planner.verification_rules import selector_holds


class Company:
    """Who is where: pods by uid, each with the nodes it may be on (one, or two while it moves)."""

    def __init__(self, facts: Domains, places: Mapping[str, tuple[str, ...]]) -> None:
        self.facts = facts
        self.places: dict[str, tuple[str, ...]] = {}
        self.crowds: dict[Question, Crowd] = {}
        self._asked_by: dict[Label, list[Question]] = defaultdict(list)
        self._asked_anyhow: list[Question] = []
        self._by_label: dict[Label, dict[str, None]] | None = None
        self._shy: dict[tuple[str, PodTerm], dict[str, None]] = defaultdict(dict)
        for uid, names in places.items():
            self.add(uid, names)

    def add(self, uid: str, names: tuple[str, ...]) -> None:
        self._change(uid, names, 1)
        self.places[uid] = names

    def remove(self, uid: str) -> None:
        self._change(uid, self.places.pop(uid), -1)

    def _change(self, uid: str, names: tuple[str, ...], sign: int) -> None:
        pod = self.facts.pod(uid)
        for question in self._watching(pod):
            if question.concerns(pod):
                domains, is_sure = self.facts.domains(question, names)
                self.crowds[question].shift(domains, is_sure, sign)
        if self._by_label is not None:
            self._index(pod, sign)
        for term in pod.pod_anti_affinity:
            if sign > 0:
                self._shy[pod.namespace, term][uid] = None
            else:
                self._shy[pod.namespace, term].pop(uid, None)

    def crowd(self, question: Question) -> Crowd:
        known = self.crowds.get(question)
        if known is None:
            known = self.crowds[question] = self.facts.empty_crowd(question)
            for uid in self._candidates(question):
                if question.concerns(self.facts.pod(uid)):
                    domains, is_sure = self.facts.domains(question, self.places[uid])
                    known.shift(domains, is_sure, 1)
            labels = labels_asked(question)
            for label in labels or ():
                self._asked_by[label].append(question)
            if labels is None and question.holders is None:
                self._asked_anyhow.append(question)
        return known

    def _watching(self, pod: Pod) -> Iterator[Question]:
        yield from self._asked_anyhow
        for term in pod.pod_anti_affinity:
            question = holders_of(term, pod.namespace)
            if question in self.crowds:
                yield question
        if self._asked_by:
            for label in pod.labels.items():
                yield from self._asked_by.get(label, ())

    def _candidates(self, question: Question) -> Iterable[str]:
        if question.holders is not None:
            return list(self._shy.get(question.holders, ()))
        labels = labels_asked(question)
        if labels is None:
            return list(self.places)
        if self._by_label is None:
            self._by_label = defaultdict(dict)
            for uid in self.places:
                self._index(self.facts.pod(uid), 1)
        return [uid for label in labels for uid in self._by_label.get(label, ())]

    def _index(self, pod: Pod, sign: int) -> None:
        assert self._by_label is not None
        for label in pod.labels.items():
            if sign > 0:
                self._by_label[label][pod.uid] = None
            else:
                self._by_label[label].pop(pod.uid, None)


def company_now(snapshot: Snapshot) -> Company:
    """Everybody who runs."""
    places = {
        uid: (pod.node_name,)
        for uid, pod in snapshot.pods.items()
        if pod.is_holding and not pod.hold and pod.node_name in snapshot.nodes
    }
    return Company(Domains(snapshot), places)


def neighbour_faults(standing: Company, moving: Company, pod: Pod, node: Node) -> list[str]:
    """What other pods forbid, or could forbid. standing: without the pod itself and all that is under way;
    moving: the pods under way, this one perhaps among them."""
    view = _View(standing, moving, pod)
    faults: list[str] = []
    for term in pod.pod_affinity:
        if not _has_company(view, term, node):
            faults.append(f"{pod.key} has no company on {node.name} ({term.topology_key})")
    for term in pod.pod_anti_affinity:
        if _is_met(view, question_of(term, pod.namespace), node):
            faults.append(f"{pod.key} meets a pod it avoids on {node.name}")
    for namespace, term in standing.facts.shunning(pod):
        if _is_met(view, holders_of(term, namespace), node):
            faults.append(f"a pod of {namespace} avoids {pod.key} on {node.name}")
    faults += [
        f"{pod.key} on {node.name} breaks the spread over {rule.topology_key}"
        for rule in pod.spread
        if not _keeps_spread(view, rule, node)
    ]
    return faults


@dataclass(slots=True)
class _View:
    """The state as one pod finds it: itself taken out of those under way."""

    standing: Company
    moving: Company
    pod: Pod

    def under_way(self, question: Question, here: str) -> tuple[int, int, int]:
        """(in all, perhaps in this domain, surely in it or nowhere) of the others under way."""
        if not self.moving.places:
            return 0, 0, 0
        crowd = self.moving.crowd(question)
        total, possible, sure = crowd.total, crowd.possible[here], crowd.sure[here]
        names = self.moving.places.get(self.pod.uid)
        if names is not None and question.concerns(self.pod):
            domains, is_sure = self.standing.facts.domains(question, names)
            is_here = here in domains
            total, possible, sure = total - 1, possible - is_here, sure - (is_here and is_sure)
        return total, possible, sure


def _has_company(view: _View, term: PodTerm, node: Node) -> bool:
    here = node.labels.get(term.topology_key)
    question = question_of(term, view.pod.namespace)
    if here is None:
        return False
    standing = view.standing.crowd(question)
    if standing.possible[here]:
        return True
    others, _, sure = view.under_way(question, here)
    # Nobody else anywhere, or all of them on their way within this domain: the first may start.
    return not standing.total and sure == others and question.concerns(view.pod)


def _is_met(view: _View, question: Question, node: Node) -> bool:
    here = node.labels.get(question.key)
    if here is None:
        return False
    return bool(view.standing.crowd(question).possible[here] or view.under_way(question, here)[1])


def _keeps_spread(view: _View, rule: SpreadConstraint, node: Node) -> bool:
    pod, here = view.pod, node.labels.get(rule.topology_key)
    if here is None:
        return False
    wish = (tuple(sorted(pod.node_selector.items())), pod.node_terms)
    question = Question(rule.topology_key, rule.selector, (pod.namespace,), wish=wish)
    standing = view.standing.crowd(question)
    most = standing.possible[here] + view.under_way(question, here)[1]
    itself = int(selector_holds(rule.selector, pod.labels))
    low = min(most, _least_elsewhere(standing, here))
    if rule.min_domains and standing.listed < rule.min_domains:
        low = 0
    return most + itself - low <= rule.max_skew


def _least_elsewhere(crowd: Crowd, here: str) -> int:
    """Of all domains but this one; a large number where there is no other."""
    level = crowd.possible[here]
    return min(
        (at for at, number in crowd.levels.items() if number > (1 if at == level else 0)), default=1 << 60
    )
