"""What a pod asks of the place it runs on: selectors, affinity, spread, taints it bears.

Only what the scheduler treats as binding is kept; preferences are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.kube.translate.values import Warn, child, clean, entries, text_list, whole, whole_or_none
from apps.planner.inventory import (
    LabelSelector,
    NodeTerm,
    PodTerm,
    Requirement,
    SpreadConstraint,
    Toleration,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def read_selector(found: object) -> LabelSelector | None:
    """A LabelSelector; None (selects nothing) where there is none."""
    if not isinstance(found, dict):
        return None
    labels = child(found, "matchLabels")
    equal = [Requirement(clean(key), "In", (clean(labels[key]),)) for key in labels]
    return LabelSelector((*equal, *_requirements(found, "matchExpressions")))


def read_node_terms(spec: Mapping[str, Any]) -> tuple[NodeTerm, ...]:
    """An empty term stays: it matches no node, and dropping it would widen the choice."""
    return read_required_terms(child(spec, "affinity", "nodeAffinity", REQUIRED))


def read_required_terms(required: Mapping[str, Any]) -> tuple[NodeTerm, ...]:
    """Of a node selector, as pods and volumes have it."""
    return tuple(
        NodeTerm(_requirements(term, "matchExpressions"), _requirements(term, "matchFields"))
        for term in entries(required, "nodeSelectorTerms")
    )


def read_pod_terms(spec: Mapping[str, Any], kind: str, warn: Warn) -> tuple[PodTerm, ...]:
    """kind: "podAffinity" or "podAntiAffinity"."""
    return tuple(_pod_term(term, warn) for term in entries(child(spec, "affinity", kind), REQUIRED))


def _pod_term(term: Mapping[str, Any], warn: Warn) -> PodTerm:
    everywhere = isinstance(term.get("namespaceSelector"), dict)
    namespaces = child(term, "namespaceSelector")
    if namespaces.get("matchLabels") or namespaces.get("matchExpressions"):
        warn("its pod affinity selects namespaces by label: it is read as all namespaces")
    return PodTerm(
        topology_key=clean(term.get("topologyKey"), 320),
        selector=read_selector(term.get("labelSelector")),
        namespaces=text_list(term.get("namespaces")),
        all_namespaces=everywhere,
    )


def read_spread(spec: Mapping[str, Any]) -> tuple[SpreadConstraint, ...]:
    return tuple(
        SpreadConstraint(
            topology_key=clean(constraint.get("topologyKey"), 320),
            max_skew=max(whole(constraint.get("maxSkew"), 1), 1),
            selector=read_selector(constraint.get("labelSelector")),
            min_domains=whole_or_none(constraint.get("minDomains")),
        )
        for constraint in entries(spec, "topologySpreadConstraints")
        if constraint.get("whenUnsatisfiable") != "ScheduleAnyway"
    )


def read_tolerations(spec: Mapping[str, Any]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=clean(found.get("key"), 320),
            operator=clean(found.get("operator"), 20) or "Equal",
            value=clean(found.get("value"), 100),
            effect=clean(found.get("effect"), 40),
            seconds=whole_or_none(found.get("tolerationSeconds")),
        )
        for found in entries(spec, "tolerations")
    )


def read_host_ports(spec: Mapping[str, Any]) -> tuple[int, ...]:
    ports = {
        whole(port.get("hostPort"))
        for group in ("containers", "initContainers")
        for container in entries(spec, group)
        for port in entries(container, "ports")
    }
    return tuple(sorted(port for port in ports if 0 < port < 65536))


def _requirements(found: Mapping[str, Any], key: str) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(
            clean(entry.get("key"), 320), clean(entry.get("operator"), 20), text_list(entry.get("values"))
        )
        for entry in entries(found, key)
    )
