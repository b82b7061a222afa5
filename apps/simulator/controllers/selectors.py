"""Label selectors, node affinity and tolerations, on raw API objects. Pure rules, no state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]
Labels = Mapping[str, str]


def matches_selector(selector: Json | None, labels: Labels) -> bool:
    """A missing selector matches nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(matches_expression(each, labels) for each in selector.get("matchExpressions") or [])


def matches_expression(expression: Json, values: Labels) -> bool:
    key, operator = expression["key"], expression["operator"]
    options = expression.get("values") or []
    if operator == "Exists":
        return key in values
    if operator == "DoesNotExist":
        return key not in values
    if operator == "NotIn":
        return values.get(key) not in options
    if key not in values:
        return False
    if operator == "In":
        return values[key] in options
    return _compares(operator, values[key], options)


def _compares(operator: str, value: str, options: list[str]) -> bool:
    try:
        left, right = int(value), int(options[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


def matches_term(term: Json, name: str, labels: Labels) -> bool:
    """A nodeSelectorTerm; an empty term matches no node."""
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(matches_expression(each, labels) for each in expressions) and all(
        matches_expression(each, {"metadata.name": name}) for each in fields
    )


def matches_node(spec: Json, name: str, labels: Labels) -> bool:
    """The pod's nodeSelector and required node affinity."""
    selector = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(matches_term(term, name, labels) for term in required.get("nodeSelectorTerms") or [])


def tolerates(tolerations: Iterable[Json], taint: Json) -> bool:
    return any(tolerates_one(each, taint) for each in tolerations)


def tolerates_one(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def find_untolerated(spec: Json, taints: Iterable[Json], effects: tuple[str, ...]) -> Json | None:
    tolerations = spec.get("tolerations") or []
    for taint in taints:
        if taint.get("effect") in effects and not tolerates(tolerations, taint):
            return taint
    return None
