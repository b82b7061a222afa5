"""What a credential may do: the bodies of the two reviews that tell it, and how their answers are read.

SelfSubjectAccessReview answers one question for certain. SelfSubjectRulesReview lists all that is granted in
a namespace, as far as the server's authorizers can list it (`Rules.is_complete`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apps.kube.gateway import Json, Kind

GROUP = "authorization.k8s.io"
ACCESS = Kind(GROUP, "v1", "selfsubjectaccessreviews", False)
RULES = Kind(GROUP, "v1", "selfsubjectrulesreviews", False)
ANY = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """names: of single objects, () where all are granted."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]

    def grants(self, verb: str, group: str, resource: str, name: str) -> bool:
        """resource: "pods" or "pods/eviction". name: "" asks for all objects."""
        of_all_kinds = {resource, ANY}
        if "/" in resource:
            of_all_kinds.add(f"{ANY}/{resource.partition('/')[2]}")
        return (
            not self.verbs.isdisjoint((verb, ANY))
            and not self.groups.isdisjoint((group, ANY))
            and not self.resources.isdisjoint(of_all_kinds)
            and (not self.names or name in self.names)
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """is_complete: False where an authorizer of the cluster cannot list what it grants or refuses."""

    rules: tuple[Rule, ...] = ()
    is_complete: bool = False

    def grant(self, verb: str, kind: Kind, *, subresource: str = "", name: str = "") -> bool:
        """Only what is certain: an incomplete list grants nothing."""
        resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
        return self.is_complete and any(one.grants(verb, kind.group, resource, name) for one in self.rules)


def access_review(verb: str, kind: Kind, *, namespace: str, subresource: str, name: str) -> Json:
    attributes = {
        "verb": verb,
        "group": kind.group,
        "version": kind.version,
        "resource": kind.plural,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    asked = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    return {"apiVersion": ACCESS.api_version, "kind": "SelfSubjectAccessReview", "spec": asked}


def is_allowed(review: Json) -> bool:
    return (review.get("status") or {}).get("allowed") is True


def rules_review(namespace: str) -> Json:
    asked = {"namespace": namespace}
    return {"apiVersion": RULES.api_version, "kind": "SelfSubjectRulesReview", "spec": asked}


def read_rules(review: Json) -> Rules:
    """What cannot be read grants nothing."""
    status = review.get("status") or {}
    listed = status.get("resourceRules")
    rules = tuple(_rule(raw) for raw in (listed if isinstance(listed, list) else ()) if isinstance(raw, dict))
    is_complete = status.get("incomplete") is False and not status.get("evaluationError")
    return Rules(rules, is_complete)


def _rule(raw: dict[str, Any]) -> Rule:
    return Rule(
        _words(raw.get("verbs")),
        _words(raw.get("apiGroups")),
        _words(raw.get("resources")),
        _words(raw.get("resourceNames")),
    )


def _words(found: Iterable[Any] | None) -> frozenset[str]:
    return frozenset(one for one in (found if isinstance(found, list) else ()) if isinstance(one, str))
