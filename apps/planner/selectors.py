"""Label selectors, node affinity terms, taints: Kubernetes' own matching rules, nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from apps.planner.inventory import LabelSelector, Node, NodeTerm, Pod, PodTerm, Requirement, Taint, Toleration

BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


def meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """One matchExpression. NotIn and DoesNotExist hold where the label is absent."""
    value = labels.get(requirement.key)
    operator = requirement.operator
    if operator == "In":
        return value is not None and value in requirement.values
    if operator == "NotIn":
        return value is None or value not in requirement.values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt") and value is not None and len(requirement.values) == 1:
        try:
            have, bound = int(value), int(requirement.values[0])
        except ValueError:
            return False
        return have > bound if operator == "Gt" else have < bound
    return False


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """None selects nothing; an empty selector selects everything."""
    return selector is not None and all(meets(part, labels) for part in selector.requirements)


def matches_labels(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


def node_matches_terms(node: Node, terms: Iterable[NodeTerm]) -> bool:
    """Terms are ORed; no terms at all match every node; an empty term matches none."""
    terms = tuple(terms)
    if not terms:
        return True
    fields = {"metadata.name": node.name}
    return any(
        (term.labels or term.fields)
        and all(meets(part, node.labels) for part in term.labels)
        and all(meets(part, fields) for part in term.fields)
        for term in terms
    )


def tolerates_taint(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    if toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def untolerated_taints(pod: Pod, taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints that keep the pod away (PreferNoSchedule never does)."""
    return tuple(
        taint
        for taint in taints
        if taint.effect in BLOCKING_EFFECTS
        and not any(tolerates_taint(toleration, taint) for toleration in pod.tolerations)
    )


def tolerates(pod: Pod, taints: Iterable[Taint]) -> bool:
    return not untolerated_taints(pod, taints)


def selects_pod(term: PodTerm, owner_namespace: str, pod: Pod) -> bool:
    """Whether a pod (anti-)affinity term of a pod in owner_namespace speaks of this pod."""
    if not term.all_namespaces and pod.namespace not in (term.namespaces or (owner_namespace,)):
        return False
    return matches(term.selector, pod.labels)
