"""May this pod go on that node? The stock filter plug-ins, in their order, with their words.

Each answer is a tuple of reasons as the scheduler prints them; empty means yes. Not here: scores,
preemption.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from apps.simulator.controllers.scheduler.cache import NodeFacts, PodFacts, SchedulerCache
from apps.simulator.controllers.scheduler.topology_state import TopologyState
from apps.simulator.controllers.selectors import find_untolerated, matches_node, tolerates_one


class Verdict(NamedTuple):
    """resolvable: could removing pods from the node make it fit?"""

    reasons: tuple[str, ...] = ()
    resolvable: bool = True

    @property
    def fits(self) -> bool:
        return not self.reasons


FITS = Verdict()
_HARD = ("NoSchedule", "NoExecute")
_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass
class Decision:
    """One pod's scheduling attempt. topology: None when no spread or pod affinity is at stake. ignored:
    resources that an extender counts instead."""

    pod: PodFacts
    cache: SchedulerCache
    topology: TopologyState | None
    ignored: frozenset[str] = frozenset()


def check_node(decision: Decision, node: NodeFacts) -> Verdict:
    """With the room of nominated pods of the same or higher priority kept free, and without them:
    a nominated pod may be wanted by an affinity, but must not be relied on."""
    nominated = [
        other
        for other in decision.cache.nominated_on(node.name)
        if other.priority >= decision.pod.priority and other.uid != decision.pod.uid
    ]
    if not nominated:
        return run_filters(decision, node)
    fuller = node.copy()
    for other in nominated:
        fuller.add(other)
        if decision.topology:
            decision.topology.shift(other, node, 1)
    verdict = run_filters(decision, fuller)
    for other in nominated:
        if decision.topology:
            decision.topology.shift(other, node, -1)
    return run_filters(decision, node) if verdict.fits else verdict


def run_filters(decision: Decision, node: NodeFacts) -> Verdict:
    pod, spec = decision.pod, decision.pod.spec
    if node.is_unschedulable and not any(
        tolerates_one(each, _UNSCHEDULABLE_TAINT) for each in spec.get("tolerations") or []
    ):
        return Verdict(("node(s) were unschedulable",), resolvable=False)
    taint = find_untolerated(spec, node.taints, _HARD) if node.taints else None
    if taint:
        text = f"{{{taint['key']}: {taint.get('value') or ''}}}"
        return Verdict((f"node(s) had untolerated taint {text}",), resolvable=False)
    if pod.chooses_nodes and not matches_node(spec, node.name, node.labels):
        return Verdict(("node(s) didn't match Pod's node affinity/selector",), resolvable=False)
    if pod.ports and any(node.ports[port] > 0 for port in pod.ports):
        return Verdict(("node(s) didn't have free ports for the requested pod ports",))
    verdict = _check_resources(pod, node, decision.ignored)
    if verdict.fits and decision.topology:
        return _check_topology(decision.topology, node)
    return verdict


def _check_resources(pod: PodFacts, node: NodeFacts, ignored: frozenset[str]) -> Verdict:
    reasons = []
    resolvable = True
    if len(node.pods) + 1 > node.allocatable["pods"]:
        reasons.append("Too many pods")
    for resource, wanted in pod.requests.items():
        total = node.allocatable[resource]
        if resource not in ignored and wanted > total - node.used[resource]:
            reasons.append(f"Insufficient {resource}")
            resolvable = resolvable and wanted <= total
    return Verdict(tuple(reasons), resolvable) if reasons else FITS


def _check_topology(topology: TopologyState, node: NodeFacts) -> Verdict:
    reason = topology.why_not_spread(node)
    if reason:
        return Verdict((reason,), resolvable="missing required label" not in reason)
    reason, resolvable = topology.why_not_affinity(node)
    return Verdict((reason,), resolvable) if reason else FITS
