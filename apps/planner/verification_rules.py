"""The checker's own reading of Kubernetes' rules about one pod and one node.

Shares no helper with the planner on purpose: a mistake made in one of the two must not be repeated by the
other. Not in here: rules between pods (verification_company), who may be evicted (verification_departures).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from apps.planner.inventory import LabelSelector, Node, NodeTerm, Pod, Requirement
from apps.planner.outcome import wants_device


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
        case "Gt" | "Lt" if present and len(part.values) == 1:
            have, bound = _as_number(labels[part.key]), _as_number(part.values[0])
            return have > bound if part.operator == "Gt" else have < bound
    return False


def selector_holds(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    return all(requirement_holds(part, labels) for part in selector.requirements)


def node_faults(pod: Pod, node: Node, *, is_shown_only: bool = False) -> list[str]:
    """What about the node itself forbids the pod. is_shown_only: it is never carried out."""
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
    return faults + _faults_anywhere(pod, is_shown_only)


def model_faults(pod: Pod, source: Node, target: Node) -> list[str]:
    """Work that was saved on GPUs of one model cannot be restored on another."""
    if "saved-work" not in pod.ties or not wants_device(pod) or source.model == target.model:
        return []
    return [f"{pod.key} saved its work on {source.model or 'unknown GPUs'}, {target.name} has other GPUs"]


def _faults_anywhere(pod: Pod, is_shown_only: bool) -> list[str]:
    faults = []
    if pod.scheduler != "default-scheduler" and not is_shown_only:
        faults.append(f"{pod.key} belongs to the scheduler {pod.scheduler}")
    if pod.claims or pod.claim_wishes:
        faults.append(f"{pod.key} gets devices by resource claims, whose place no plan can choose")
    return faults


def wants_node(selector: Mapping[str, str], terms: Iterable[NodeTerm], node: Node) -> bool:
    """Whether a pod's own selector and affinity let it onto the node; without any they do."""
    if any(node.labels.get(key) != value for key, value in selector.items()):
        return False
    terms = tuple(terms)
    return not terms or any(_term_holds(term.labels, term.fields, node) for term in terms)


def _term_holds(labels: Iterable[Requirement], fields: Iterable[Requirement], node: Node) -> bool:
    labels, fields = list(labels), list(fields)
    if not labels and not fields:
        return False
    return all(requirement_holds(part, node.labels) for part in labels) and all(
        requirement_holds(part, {"metadata.name": node.name}) for part in fields
    )


def _as_number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float("nan")
