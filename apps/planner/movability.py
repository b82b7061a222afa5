"""May a running pod be moved, and if not, why: one sentence for each reason.

Not in here: whether there is room for it elsewhere (fitting).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from apps.planner.inventory import DisruptionBudget, Pod, Tie
from apps.planner.selectors import matches
from apps.planner.snapshot import Snapshot

DEFAULT_SCHEDULER = "default-scheduler"
INTERACTIVE_OWNERS = ("Notebook", "Workspace")
INTERACTIVE_LABELS = ("notebook-name", "hub.jupyter.org/username")
INTERACTIVE = "A person works in it (interactive pods are protected)."
UNREAD = {
    "poddisruptionbudgets": "Disruption budgets cannot be read, so whether one forbids it is not known.",
    "namespaces": "Namespaces cannot be read, so whether its own is protected is not known.",
}
OWNERS_READ_FROM = {
    "ReplicaSet": ("replicasets", "deployments"),
    "StatefulSet": ("statefulsets",),
    "Job": ("jobs",),
}


def tell_scheduler(pod: Pod) -> str:
    """A rule that a waiver lifts for planning alone: such a pod is planned and shown, never evicted."""
    return f"It belongs to the scheduler {pod.scheduler}, which cannot be steered yet."


@dataclass(frozen=True, slots=True)
class Movability:
    """reasons: why it may not be moved, empty when it may."""

    movable: bool
    reasons: tuple[str, ...] = ()


class _BudgetIndex:
    """Budgets by one label value that their selector insists on: a namespace may hold hundreds of them."""

    def __init__(self, budgets: Mapping[str, DisruptionBudget]) -> None:
        self._by_value: dict[tuple[str, str, str], list[DisruptionBudget]] = defaultdict(list)
        self._others: dict[str, list[DisruptionBudget]] = defaultdict(list)
        for uid in sorted(budgets):
            budget = budgets[uid]
            parts = budget.selector.requirements if budget.selector is not None else ()
            named = next((part for part in parts if part.operator == "In" and len(part.values) == 1), None)
            if named is None:
                self._others[budget.namespace].append(budget)
            else:
                self._by_value[budget.namespace, named.key, named.values[0]].append(budget)

    def covering(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        found = list(self._others.get(pod.namespace, ()))
        for key, value in pod.labels.items():
            found += self._by_value.get((pod.namespace, key, value), ())
        covering = [budget for budget in found if matches(budget.selector, pod.labels)]
        return (
            tuple(sorted(covering, key=lambda budget: budget.uid)) if len(covering) > 1 else tuple(covering)
        )


class MovabilityRules:
    """The rules, with the look-ups that they need, for one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._budgets = _BudgetIndex(snapshot.budgets)
        self._members = Counter(
            pod.gang for pod in snapshot.pods.values() if pod.gang and pod.is_holding and not pod.terminating
        )
        self._verdicts: dict[str, Movability] = {}
        self._unread = tuple(sentence for plural, sentence in UNREAD.items() if snapshot.cannot_read(plural))
        self._unread_owners = frozenset(
            kind
            for kind, plurals in OWNERS_READ_FROM.items()
            if any(snapshot.cannot_read(plural) for plural in plurals)
        )

    def judge(self, pod: Pod) -> Movability:
        known = self._verdicts.get(pod.uid)
        if known is None:
            reasons = (
                *self._identity(pod),
                *self._moment(pod),
                *self._owner(pod),
                *self._budget(pod),
                *self._unread,
            )
            known = self._verdicts[pod.uid] = Movability(not reasons, reasons)
        return known

    def budgets_of(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        return self._budgets.covering(pod)

    def members_of(self, gang: str) -> int:
        """Running members that are not about to go."""
        return self._members[gang]

    def _identity(self, pod: Pod) -> tuple[str, ...]:
        reasons: list[str] = []
        if pod.hold:
            reasons.append("It is a hold of the console, not load.")
        if pod.owner_kind == "DaemonSet":
            reasons.append("It belongs to a DaemonSet and would return to the same node.")
        elif pod.owner_kind == "Node":
            reasons.append("It is a static pod of its node.")
        elif not pod.workload and Tie.NO_OWNER not in pod.ties:
            reasons.append("No controller would create it again.")
        if is_interactive(pod) and Tie.MAY_BE_INTERRUPTED not in pod.ties:
            reasons.append(INTERACTIVE)
        if pod.reservation:
            reasons.append("It is a placeholder that keeps a device for the shares on it.")
        if pod.scheduler != DEFAULT_SCHEDULER and Tie.PLANNED_ONLY not in pod.ties:
            reasons.append(tell_scheduler(pod))
        if pod.volumes_pin_node:
            reasons.append("Its volume can be reached from its present place only.")
        return (*reasons, *pod.protections)

    def _moment(self, pod: Pod) -> tuple[str, ...]:
        reasons: list[str] = []
        node = self.snapshot.nodes.get(pod.node_name)
        if not pod.is_holding:
            reasons.append("It is not running.")
        elif node is None or not node.ready or node.stale_since is not None:
            reasons.append("Its node is not Ready or its facts are stale.")
        if pod.terminating:
            reasons.append("It is already terminating.")
        if pod.is_being_moved:
            reasons.append("Another migration is moving it.")
        return tuple(reasons)

    def _owner(self, pod: Pod) -> tuple[str, ...]:
        reasons: list[str] = []
        owner = self.snapshot.workloads.get(pod.workload)
        if pod.owner_kind in self._unread_owners:
            reasons.append(f"Its {pod.owner_kind} cannot be read in full, so what it bears is not known.")
        if owner is not None and owner.updating:
            reasons.append(f"{owner.display or owner.name} is in the middle of a rollout.")
        if owner is not None and owner.protected and Tie.OWNER_WAIVED not in pod.ties:
            reasons.append(f"{owner.display or owner.name} is protected.")
        if owner is not None and owner.backoff_limit is not None and owner.failed_pods >= owner.backoff_limit:
            reasons.append(f"One more lost pod would fail {owner.display or owner.name} (backoffLimit).")
        gang = self.snapshot.gangs.get(pod.gang)
        is_bound = gang is not None and gang.min_members > 1 and Tie.PLANNED_ONLY not in pod.ties
        if gang is not None and is_bound and self._members[pod.gang] <= gang.min_members:
            reasons.append(
                f"Its gang {pod.gang} needs all {gang.min_members} members; gangs move whole or not at all."
            )
        return tuple(reasons)

    def _budget(self, pod: Pod) -> tuple[str, ...]:
        budgets = self.budgets_of(pod)
        if len(budgets) > 1:
            names = " and ".join(budget.name for budget in budgets)
            return (f"Disruption budgets {names} both cover it, so the API server refuses every eviction.",)
        if not budgets or (budgets[0].always_allow_unhealthy and not pod.ready):
            return ()
        budget = budgets[0]
        if not budget.observed:
            return (f"Disruption budget {budget.name} has not been counted yet.",)
        if budget.disruptions_allowed < 1:
            return (f"Disruption budget {budget.name} allows no disruption now; ask its owner.",)
        return ()


def is_interactive(pod: Pod) -> bool:
    return pod.owner_kind in INTERACTIVE_OWNERS or any(name in pod.labels for name in INTERACTIVE_LABELS)


def movability(snapshot: Snapshot, pod: Pod) -> Movability:
    """For a single pod; use `MovabilityRules` for many of one snapshot."""
    return MovabilityRules(snapshot).judge(pod)
