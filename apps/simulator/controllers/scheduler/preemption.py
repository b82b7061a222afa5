"""Who would have to go so that a pod fits, and on which node that hurts least. Pure decision.

As the stock DefaultPreemption: victims have lower priority, as few as possible; nodes are
compared by budget violations, highest victim, sum of priorities, number, and start times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apps.simulator.controllers.objects import is_terminating
from apps.simulator.controllers.scheduler.cache import NodeFacts, PodFacts
from apps.simulator.controllers.scheduler.filters import Decision, Verdict, check_node
from apps.simulator.controllers.selectors import matches_selector

Json = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    node: str
    victims: tuple[PodFacts, ...]
    violations: int


def is_eligible(decision: Decision) -> str:
    """ "" when the pod may preempt, else the words the scheduler uses."""
    pod = decision.pod
    if not pod.may_preempt:
        return "not eligible due to preemptionPolicy=Never."
    node = decision.cache.nodes.get(pod.nominated)
    if node and any(
        is_terminating(other.pod) and other.priority < pod.priority for other in node.pods.values()
    ):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def find_candidates(
    decision: Decision, verdicts: dict[str, Verdict], budgets: Iterable[Json]
) -> list[Candidate]:
    """One per node where victims would make room."""
    candidates = []
    all_budgets = list(budgets)
    for name, verdict in verdicts.items():
        node = decision.cache.nodes.get(name)
        if node and verdict.resolvable:
            candidate = _try_node(decision, node, all_budgets)
            if candidate:
                candidates.append(candidate)
    return candidates


def choose_candidate(candidates: list[Candidate]) -> Candidate | None:
    return min(candidates, key=_hurt, default=None)


def _try_node(decision: Decision, node: NodeFacts, budgets: list[Json]) -> Candidate | None:
    lower = [pod for pod in node.pods.values() if pod.priority < decision.pod.priority]
    if not lower:
        return None
    trial = _Trial(decision, node)
    for victim in lower:
        trial.remove(victim)
    try:
        if not trial.fits():
            return None
        violating, others = _split_by_budget(sorted(lower, key=_importance), budgets)
        victims: list[PodFacts] = []
        violations = 0
        for group, is_violating in ((violating, True), (others, False)):
            for pod in group:
                if not trial.reprieve(pod):
                    victims.append(pod)
                    violations += is_violating
        return Candidate(node.name, tuple(victims), violations) if victims else None
    finally:
        trial.restore()


class _Trial:
    """A copy of one node from which pods are taken; the shared topology counts are put back."""

    def __init__(self, decision: Decision, node: NodeFacts) -> None:
        self.decision = decision
        self.node = node.copy()
        self._removed: dict[str, PodFacts] = {}

    def remove(self, pod: PodFacts) -> None:
        self.node.remove(pod)
        self._removed[pod.uid] = pod
        self._shift(pod, -1)

    def reprieve(self, pod: PodFacts) -> bool:
        self.node.add(pod)
        self._removed.pop(pod.uid)
        self._shift(pod, 1)
        if self.fits():
            return True
        self.remove(pod)
        return False

    def fits(self) -> bool:
        return check_node(self.decision, self.node).fits

    def restore(self) -> None:
        for pod in self._removed.values():
            self._shift(pod, 1)

    def _shift(self, pod: PodFacts, by: int) -> None:
        if self.decision.topology:
            self.decision.topology.shift(pod, self.node, by)


def _importance(pod: PodFacts) -> tuple[int, str]:
    """Most important first: those are spared first."""
    return -pod.priority, _started(pod)


def _started(pod: PodFacts) -> str:
    return (pod.pod.get("status") or {}).get("startTime") or "9999"


def _split_by_budget(pods: list[PodFacts], budgets: list[Json]) -> tuple[list[PodFacts], list[PodFacts]]:
    left = [int((budget.get("status") or {}).get("disruptionsAllowed") or 0) for budget in budgets]
    violating: list[PodFacts] = []
    others: list[PodFacts] = []
    for pod in pods:
        breaks = False
        for position, budget in enumerate(budgets):
            same = budget["metadata"]["namespace"] == pod.namespace
            if same and matches_selector(budget["spec"].get("selector"), pod.labels):
                left[position] -= 1
                breaks = breaks or left[position] < 0
        (violating if breaks else others).append(pod)
    return violating, others


def _hurt(candidate: Candidate) -> tuple[int, int, int, int, tuple[int, ...]]:
    priorities = [pod.priority for pod in candidate.victims]
    highest = [pod for pod in candidate.victims if pod.priority == max(priorities)]
    earliest = min(_started(pod) for pod in highest)
    return (
        candidate.violations,
        max(priorities),
        sum(priorities),
        len(candidate.victims),
        # The latest start wins, so the text is turned round.
        tuple(-ord(letter) for letter in earliest),
    )
