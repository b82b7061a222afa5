"""The checker's own answer to who may be evicted, and how many of a kind at once.

Written apart from the planner's movability. Not in here: where evicted pods go (verification).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from apps.planner.inventory import DisruptionBudget, Pod
from apps.planner.plan import Plan, Waiver
from apps.planner.snapshot import Snapshot
from apps.planner.verification_rules import selector_holds

UNREAD = ("poddisruptionbudgets", "namespaces")
UNREAD_OF_OWNERS = {
    "ReplicaSet": ("replicasets", "deployments"),
    "StatefulSet": ("statefulsets",),
    "Job": ("jobs",),
}


INTERACTIVE = "A person works in it (interactive pods are protected)."
OF_ITS_OWNER = "the annotation defrag.gpu.internal/protect of its "
CAN_BE_WAIVED = re.compile(
    r"its annotation (karpenter\.sh/do-not-(disrupt|evict)|cluster-autoscaler\.kubernetes\.io/safe-to-evict"
    r"|defrag\.gpu\.internal/protect) is |the annotation defrag\.gpu\.internal/protect of its "
    r"|its local volume |its volume |it is an interactive notebook|it keeps a terminal open"
    r"|A person works in it"
    r"|It belongs to the scheduler "
)
"""Whoever else protects a pod is not overruled by a waiver: the rest would not come back, or not alone."""


class Departures:
    """What the snapshot says of budgets, owners and gangs, made ready for many questions."""

    def __init__(self, snapshot: Snapshot, waivers: Iterable[Waiver] = ()) -> None:
        self.snapshot = snapshot
        self._waived: dict[str, set[str]] = defaultdict(set)
        for waiver in waivers:
            lifted = (one for one in waiver.protections if CAN_BE_WAIVED.match(one))
            self._waived[waiver.pod_uid].update(lifted)
        self._budgets: dict[tuple[str, str, str], list[DisruptionBudget]] = defaultdict(list)
        for budget in snapshot.budgets.values():
            for key, value in _labels_needed(budget):
                self._budgets[budget.namespace, key, value].append(budget)
        self._members = Counter(
            pod.gang for pod in snapshot.pods.values() if pod.gang and pod.is_holding and not pod.terminating
        )
        said = " ".join(snapshot.problems)
        kinds = {*UNREAD, *(kind for kinds in UNREAD_OF_OWNERS.values() for kind in kinds)}
        self._unread = {kind for kind in kinds if re.search(rf"\b{kind}\b(?!/)", said)}

    def budgets_of(self, pod: Pod) -> list[DisruptionBudget]:
        found = {
            budget.uid: budget
            for key, value in (("", ""), *pod.labels.items())
            for budget in self._budgets.get((pod.namespace, key, value), ())
            if selector_holds(budget.selector, pod.labels)
        }
        return list(found.values())

    def faults(self, pod: Pod, *, stays_away: bool = False) -> list[str]:
        """Why this pod may not be evicted. stays_away: it gets no new place (preemption)."""
        waived = set() if stays_away else self._waived.get(pod.uid, set())
        return [
            *(f"{pod.key}: {reason}" for reason in pod.protections if reason not in waived),
            *self._of_itself(pod, stays_away, is_shown_only=self.is_shown_only(pod) and not stays_away),
            *self._of_its_owner(pod, waived),
            *self._of_its_budget(pod),
            *(
                f"{pod.key}: {kind} could not be read, which may forbid its eviction"
                for kind in UNREAD
                if kind in self._unread
            ),
        ]

    def is_shown_only(self, pod: Pod) -> bool:
        """Of another scheduler, and waived for planning: no execution ever begins with it."""
        waived = self._waived.get(pod.uid, ())
        is_waived = any(one.startswith("It belongs to the scheduler ") for one in waived)
        return is_waived and pod.scheduler != "default-scheduler"

    def _of_itself(self, pod: Pod, stays_away: bool, *, is_shown_only: bool) -> Iterator[str]:
        if pod.terminating or pod.hold or pod.is_being_moved or (pod.volumes_pin_node and not stays_away):
            yield f"{pod.key} is terminating, a hold, pinned by a volume or already moving"
        if pod.scheduler != "default-scheduler" and not is_shown_only:
            yield f"{pod.key} belongs to the scheduler {pod.scheduler}"
        if pod.reservation:
            yield f"{pod.key} is the placeholder of a share scheduler"
        node = self.snapshot.nodes.get(pod.node_name)
        if node is None or not node.ready or node.stale_since is not None:
            yield f"{pod.key} runs on a node that is not Ready or stale"

    def _of_its_owner(self, pod: Pod, waived: set[str]) -> Iterator[str]:
        if pod.owner_kind in ("DaemonSet", "Node") or not pod.workload:
            yield f"{pod.key} would not be created elsewhere (owner {pod.owner_kind or 'none'})"
        interactive = {"notebook-name", "hub.jupyter.org/username"} & set(pod.labels)
        is_interactive = bool(interactive) or pod.owner_kind in ("Notebook", "Workspace")
        if is_interactive and INTERACTIVE not in waived:
            yield f"{pod.key} is interactive: somebody works in it"
        if self._unread & set(UNREAD_OF_OWNERS.get(pod.owner_kind, ())):
            yield f"{pod.key}: its {pod.owner_kind} could not be read in full"
        owner = self.snapshot.workloads.get(pod.workload)
        said = [reason for reason in pod.protections if reason.startswith(OF_ITS_OWNER)]
        is_protected = owner is not None and owner.protected and not (said and waived.issuperset(said))
        if owner is not None and (owner.updating or is_protected):
            yield f"{pod.key}: {owner.name} is updating or protected"
        if owner is not None and owner.backoff_limit is not None and owner.failed_pods >= owner.backoff_limit:
            yield f"{pod.key}: one more lost pod fails {owner.name}"

    def _of_its_budget(self, pod: Pod) -> Iterator[str]:
        covering = self.budgets_of(pod)
        if len(covering) > 1:
            yield f"{pod.key} is covered by two budgets"
        for budget in covering:
            if not budget.observed and not (budget.always_allow_unhealthy and not pod.ready):
                yield f"{pod.key}: its budget {budget.name} has not been counted yet"

    def spending(self, pod: Pod) -> list[DisruptionBudget]:
        """Budgets that the eviction takes from: one that lets unhealthy pods go spends nothing on them."""
        return [one for one in self.budgets_of(pod) if pod.ready or not one.always_allow_unhealthy]

    def members(self, gang: str) -> int:
        return self._members[gang]


def wave_faults(departures: Departures, plan: Plan) -> list[str]:
    """No wave takes more of a budget, of a workload without one, or of a gang than it can bear."""
    snapshot = departures.snapshot
    budgets: Counter[tuple[int, str]] = Counter()
    alone: Counter[tuple[int, str]] = Counter()
    gangs: Counter[tuple[int, str]] = Counter()
    for move in plan.moves:
        pod = snapshot.pods[move.pod_uid]
        for budget in departures.spending(pod):
            budgets[move.wave, budget.uid] += 1
        if pod.workload and not departures.budgets_of(pod):
            alone[move.wave, pod.workload] += 1
        if pod.gang in snapshot.gangs and not departures.is_shown_only(pod):
            gangs[move.wave, pod.gang] += 1
    faults = [
        f"wave {wave} takes {count} pods of budget {snapshot.budgets[uid].name}"
        for (wave, uid), count in budgets.items()
        if count > snapshot.budgets[uid].disruptions_allowed
    ]
    faults += [
        f"wave {wave} takes {count} pods of a workload without a budget ({uid})"
        for (wave, uid), count in alone.items()
        if count > 1
    ]
    return faults + [
        f"wave {wave} takes gang {key} below its minimum"
        for (wave, key), count in gangs.items()
        if snapshot.gangs[key].min_members > 1
        and departures.members(key) - count < snapshot.gangs[key].min_members
    ]


def preemption_faults(departures: Departures, plan: Plan) -> list[str]:
    """Who gives way is less important than somebody who starts there, may go, and is missed by nobody."""
    snapshot = departures.snapshot
    moved = {move.pod_uid for move in plan.moves}
    spent: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    faults: list[str] = []
    for one in plan.preemptions:
        pod = snapshot.pods[one.pod_uid]
        if one.pod_uid in moved:
            faults.append(f"{one.pod} is moved and preempted")
        faults += [f"preemption: {fault}" for fault in departures.faults(pod, stays_away=True)]
        starting = [snapshot.pods[given.pod_uid] for given in plan.hand_overs if given.node == one.node]
        if not starting:
            faults.append(f"{one.pod} gives way on {one.node}, where nobody starts")
        elif not any(pod.priority < other.priority for other in starting):
            faults.append(f"{one.pod} gives way to nobody more important")
        elif not any(_may_preempt(other) and pod.priority < other.priority for other in starting):
            faults.append(f"{one.pod} gives way to pods whose policy is never to preempt")
        spent.update(budget.uid for budget in departures.spending(pod))
        lost[pod.gang] += 1
    faults += [
        f"preemptions take {count} pods of budget {snapshot.budgets[uid].name}"
        for uid, count in spent.items()
        if count > snapshot.budgets[uid].disruptions_allowed
    ]
    return faults + list(_broken_gangs(departures, lost))


def _broken_gangs(departures: Departures, lost: Counter[str]) -> Iterator[str]:
    for key, gang in departures.snapshot.gangs.items():
        members = departures.members(key)
        if gang.min_members > 1 and 0 < lost[key] < members and members - lost[key] < gang.min_members:
            yield f"gang {key} is preempted in part"


def _may_preempt(pod: Pod) -> bool:
    return pod.preemption_policy != "Never"


def _labels_needed(budget: DisruptionBudget) -> Iterable[tuple[str, str]]:
    """A label of which each covered pod has one; ("", "") where nothing of the kind can be said."""
    for part in budget.selector.requirements if budget.selector is not None else ():
        if part.operator == "In":
            return [(part.key, value) for value in set(part.values)]
    return [("", "")]
