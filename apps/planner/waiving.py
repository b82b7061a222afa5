"""Protections that a named waiver lifts, for one pod each, as part of the plan that moves it.

A waiver names sentences as they stand among a pod's protections, so one that is added later is not lifted.
What can never be waived: pods that nothing would recreate elsewhere, whole groups that restart for one lost
pod, places that devices or volumes bind, and what the cluster's own policy says. Not in here: who may ask for
one (plans).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from apps.planner.inventory import Pod, Tie
from apps.planner.movability import DEFAULT_SCHEDULER, INTERACTIVE, is_interactive, tell_scheduler
from apps.planner.plan import Waiver
from apps.planner.snapshot import Snapshot

OF_OWNER = "the annotation defrag.gpu.internal/protect of its "
OF_SCHEDULER = "It belongs to the scheduler "
"""Lifted for planning alone, with the rule of the pod's gang: no such pod is evicted, whoever signs."""
WAIVABLE = (
    "its annotation karpenter.sh/do-not-disrupt is ",
    "its annotation karpenter.sh/do-not-evict is ",
    "its annotation cluster-autoscaler.kubernetes.io/safe-to-evict is ",
    "its annotation defrag.gpu.internal/protect is ",
    OF_OWNER,
    "its local volume ",
    "its volume ",
    "it is an interactive notebook",
    "it keeps a terminal open",
    INTERACTIVE,
    OF_SCHEDULER,
)
"""How the sentences begin (`kube.translate.protections` writes them). What follows may be anybody's text."""


def is_waivable(protection: str) -> bool:
    return protection.startswith(WAIVABLE)


def protections_of(pod: Pod) -> tuple[str, ...]:
    """Everything that protects it, the rules for interactive pods and of other schedulers among it."""
    scheduled = [tell_scheduler(pod)] if pod.scheduler != DEFAULT_SCHEDULER else []
    return (*pod.protections, *([INTERACTIVE] if is_interactive(pod) else []), *scheduled)


def lift(pod: Pod, waived: Iterable[str]) -> Pod:
    """The pod without those of its protections that are waived and can be."""
    lifted = {one for one in waived if is_waivable(one)}
    if not lifted & set(protections_of(pod)):
        return pod
    left = tuple(one for one in pod.protections if one not in lifted)
    ties = list(pod.ties)
    if INTERACTIVE in lifted:
        ties.append(Tie.MAY_BE_INTERRUPTED)
    if tell_scheduler(pod) in lifted:
        ties.append(Tie.PLANNED_ONLY)
    of_owner = [one for one in pod.protections if one.startswith(OF_OWNER)]
    if of_owner and lifted.issuperset(of_owner):
        ties.append(Tie.OWNER_WAIVED)
    return replace(pod, protections=left, ties=tuple(ties))


def waive(snapshot: Snapshot, waivers: Iterable[Waiver]) -> Snapshot:
    """The same cluster with these pods' waived protections lifted; the very same one if there are none."""
    changed = [
        lift(snapshot.pods[one.pod_uid], one.protections) for one in waivers if one.pod_uid in snapshot.pods
    ]
    return snapshot.with_pods(changed) if changed else snapshot
