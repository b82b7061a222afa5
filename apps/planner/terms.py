"""The terms in which pods and nodes state their wishes: taints, selectors, affinity, spread.

Frozen facts as Kubernetes words them; the rules that read them are in `selectors` and `constraints`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Toleration:
    """As in Kubernetes: an empty key with operator Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One matchExpression. operator: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; no requirements at all selects everything."""

    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One nodeSelectorTerm: labels and fields (metadata.name) are ANDed; terms are ORed by their owner."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class PodTerm:
    """One required pod (anti-)affinity term. namespaces: () means the pod's own namespace;
    all_namespaces is set by an empty namespaceSelector. selector None matches no pod."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    all_namespaces: bool = False


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topologySpreadConstraint with whenUnsatisfiable DoNotSchedule (others are not kept)."""

    topology_key: str
    max_skew: int
    selector: LabelSelector | None
    min_domains: int | None = None
