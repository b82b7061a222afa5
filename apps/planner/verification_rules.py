"""The checker's own reading of Kubernetes' rules. Shares no helper with the planner on purpose:
a mistake made in one of the two must not be repeated by the other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from apps.planner.inventory import LabelSelector, Node, Pod, PodTerm, Requirement
from apps.planner.snapshot import Snapshot

Placed = Mapping[str, str]
"""Pod uid -> node name."""


def requirement_holds(part: Requirement, labels: Mapping[str, str]) -> bool:
    present = part.key in labels
    match part.operator:
        case "In":
            return present and labels[part.key] in part.values
        case "NotIn":
            return not present or labels[part.key] not in part.values
        case "Exists":
            return present
        case "DoesNotExist":
            return not present
        case "Gt":
            return present and _as_number(labels[part.key]) > _as_number(part.values[0])
        case "Lt":
            return present and _as_number(labels[part.key]) < _as_number(part.values[0])
    return False


def selector_holds(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    return all(requirement_holds(part, labels) for part in selector.requirements)


def node_faults(pod: Pod, node: Node) -> list[str]:
    """What about the node itself forbids the pod."""
    faults: list[str] = []
    if not node.ready or node.stale_since is not None:
        faults.append(f"{node.name} is not Ready or stale")
    if node.unschedulable:
        faults.append(f"{node.name} is cordoned")
    if pod.node_name and pod.node_name != node.name:
        faults += [f"{node.name} has drifted: {sentence}" for sentence in node.drift]
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        faults.append(f"{pod.key} selects other nodes than {node.name}")
    if pod.node_terms and not any(_term_holds(term.labels, term.fields, node) for term in pod.node_terms):
        faults.append(f"{pod.key} has an affinity to other nodes than {node.name}")
    for taint in node.taints:
        if taint.effect == "PreferNoSchedule":
            continue
        tolerated = any(
            (one.effect in ("", taint.effect))
            and (
                (one.key == "" and one.operator == "Exists")
                or (one.key == taint.key and (one.operator == "Exists" or one.value == taint.value))
            )
            for one in pod.tolerations
        )
        if not tolerated:
            faults.append(f"{pod.key} does not tolerate {taint.key} on {node.name}")
    return faults + _faults_anywhere(pod)


def _faults_anywhere(pod: Pod) -> list[str]:
    faults = []
    if pod.scheduler != "default-scheduler":
        faults.append(f"{pod.key} belongs to the scheduler {pod.scheduler}")
    if pod.claims or pod.claim_wishes:
        faults.append(f"{pod.key} gets devices by resource claims, whose place no plan can choose")
    return faults


def neighbour_faults(
    snapshot: Snapshot, placed: Placed, pod: Pod, node: Node, shy: Placed | None = None
) -> list[str]:
    """What other pods forbid. placed: the state without the pod itself; shy: of these at least all
    that keep others away."""
    faults: list[str] = []
    for term in pod.pod_affinity:
        friends = [uid for uid in placed if _speaks_of(term, pod.namespace, snapshot.pods[uid])]
        here = [uid for uid in friends if _same_domain(snapshot, placed[uid], node, term.topology_key)]
        is_first = not friends and _speaks_of(term, pod.namespace, pod)
        if term.topology_key not in node.labels or (not here and not is_first):
            faults.append(f"{pod.key} has no company on {node.name} ({term.topology_key})")
    for term in pod.pod_anti_affinity:
        if any(
            _speaks_of(term, pod.namespace, snapshot.pods[uid])
            and _same_domain(snapshot, name, node, term.topology_key)
            for uid, name in placed.items()
        ):
            faults.append(f"{pod.key} meets a pod it avoids on {node.name}")
    for uid, name in (placed if shy is None else shy).items():
        other = snapshot.pods[uid]
        if any(
            _speaks_of(term, other.namespace, pod) and _same_domain(snapshot, name, node, term.topology_key)
            for term in other.pod_anti_affinity
        ):
            faults.append(f"{other.key} avoids {pod.key} on {node.name}")
    return faults + _spread_faults(snapshot, placed, pod, node)


def departure_faults(snapshot: Snapshot, pod: Pod) -> list[str]:
    """Why this pod may not be evicted."""
    faults = [f"{pod.key}: {reason}" for reason in pod.protections]
    if pod.owner_kind in ("DaemonSet", "Node") or not pod.workload:
        faults.append(f"{pod.key} would not be created elsewhere (owner {pod.owner_kind or 'none'})")
    if pod.terminating or pod.hold or pod.volumes_pin_node or pod.is_being_moved:
        faults.append(f"{pod.key} is terminating, a hold, pinned by a volume or already moving")
    if pod.scheduler != "default-scheduler":
        faults.append(f"{pod.key} belongs to the scheduler {pod.scheduler}")
    owner = snapshot.workloads.get(pod.workload)
    if owner is not None and (owner.updating or owner.protected):
        faults.append(f"{pod.key}: {owner.name} is updating or protected")
    covering = covering_budgets(snapshot, pod)
    if len(covering) > 1:
        faults.append(f"{pod.key} is covered by two budgets")
    for kind in ("poddisruptionbudgets", "namespaces"):
        if any(re.search(rf"\b{kind}\b(?!/)", problem) for problem in snapshot.problems):
            faults.append(f"{pod.key}: {kind} could not be read, which may forbid its eviction")
    return faults


def may_go_unhealthy(snapshot: Snapshot, uid: str, pod: Pod) -> bool:
    """A budget that lets unhealthy pods go spends nothing on them."""
    return snapshot.budgets[uid].always_allow_unhealthy and not pod.ready


def covering_budgets(snapshot: Snapshot, pod: Pod) -> list[str]:
    return [
        uid
        for uid, budget in snapshot.budgets.items()
        if budget.namespace == pod.namespace and selector_holds(budget.selector, pod.labels)
    ]


def _spread_faults(snapshot: Snapshot, placed: Placed, pod: Pod, node: Node) -> list[str]:
    faults: list[str] = []
    for rule in pod.spread:
        counts: Counter[str] = Counter(
            {
                other.labels[rule.topology_key]: 0
                for other in snapshot.nodes.values()
                if rule.topology_key in other.labels and _wants_node(pod, other)
            }
        )
        for uid, name in placed.items():
            other_pod, other = snapshot.pods[uid], snapshot.nodes.get(name)
            if other is None or rule.topology_key not in other.labels or not _wants_node(pod, other):
                continue
            if other_pod.namespace == pod.namespace and not other_pod.terminating:
                counts[other.labels[rule.topology_key]] += selector_holds(rule.selector, other_pod.labels)
        here = node.labels.get(rule.topology_key)
        low = 0 if rule.min_domains and len(counts) < rule.min_domains else min(counts.values(), default=0)
        if here is None or counts[here] + selector_holds(rule.selector, pod.labels) - low > rule.max_skew:
            faults.append(f"{pod.key} on {node.name} breaks the spread over {rule.topology_key}")
    return faults


def _wants_node(pod: Pod, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return not pod.node_terms or any(_term_holds(term.labels, term.fields, node) for term in pod.node_terms)


def _term_holds(labels: Iterable[Requirement], fields: Iterable[Requirement], node: Node) -> bool:
    labels, fields = list(labels), list(fields)
    if not labels and not fields:
        return False
    return all(requirement_holds(part, node.labels) for part in labels) and all(
        requirement_holds(part, {"metadata.name": node.name}) for part in fields
    )


def _speaks_of(term: PodTerm, namespace: str, pod: Pod) -> bool:
    spaces = term.namespaces or (namespace,)
    return (term.all_namespaces or pod.namespace in spaces) and selector_holds(term.selector, pod.labels)


def _same_domain(snapshot: Snapshot, name: str, node: Node, key: str) -> bool:
    other = snapshot.nodes.get(name)
    return other is not None and key in node.labels and other.labels.get(key) == node.labels[key]


def _as_number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float("nan")
