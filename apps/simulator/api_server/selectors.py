"""Label and field selectors: of queries (text) and of objects (matchLabels, matchExpressions)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apps.simulator.api_server.kinds import Kind
from apps.simulator.api_server.statuses import bad_request

Requirement = tuple[str, str, frozenset[str]]  # key, operator, values

TOKEN = re.compile(r"\s*(==|!=|=|>|<|\(|\)|,|!|[^\s=!,()<>]+)")

FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "jobs.batch": ("status.successful",),
    "resourceslices.resource.k8s.io": ("spec.nodeName", "spec.driver"),
    "events": (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
        "reason", "reportingComponent", "source", "type",
    ),
}  # fmt: skip
BOOLEAN_FIELDS = ("spec.unschedulable", "spec.hostNetwork")


class _Tokens:
    def __init__(self, text: str) -> None:
        self.all = TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.all[self.at] if self.at < len(self.all) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, wanted: str) -> None:
        token = self.take()
        if token != wanted:
            raise bad_request(f"unable to parse requirement: found '{token}' expected: '{wanted}'")


def _word(token: str) -> str:
    if not token or token in "(),=!<>" or token in ("==", "!="):
        raise bad_request(f"unable to parse requirement: found '{token}', expected: identifier")
    return token


def _values(tokens: _Tokens) -> frozenset[str]:
    tokens.expect("(")
    values = set()
    while tokens.peek() != ")":
        values.add("" if tokens.peek() == "," else _word(tokens.take()))
        if tokens.peek() == ",":
            tokens.take()
    tokens.expect(")")
    return frozenset(values)


def _requirement(tokens: _Tokens) -> Requirement:
    if tokens.peek() == "!":
        tokens.take()
        return _word(tokens.take()), "!", frozenset()
    key, operator = _word(tokens.take()), tokens.peek()
    if operator in ("", ","):
        return key, "exists", frozenset()
    tokens.take()
    if operator in ("in", "notin"):
        return key, operator, _values(tokens)
    if operator not in ("=", "==", "!=", "<", ">"):
        raise bad_request(
            f"unable to parse requirement: found '{operator}', expected: in, notin, =, ==, !=, gt, lt"
        )
    value = "" if tokens.peek() in ("", ",") else _word(tokens.take())
    return key, {"=": "in", "==": "in", "!=": "notin"}.get(operator, operator), frozenset((value,))


def parse_label_selector(text: str) -> tuple[Requirement, ...]:
    tokens, requirements = _Tokens(text), []
    while tokens.peek():
        requirements.append(_requirement(tokens))
        if tokens.peek():
            tokens.expect(",")
    return tuple(requirements)


def labels_match(requirements: tuple[Requirement, ...], labels: dict[str, str]) -> bool:
    return all(_holds(labels.get(key), operator, values) for key, operator, values in requirements)


def _holds(value: str | None, operator: str, values: frozenset[str]) -> bool:
    if operator == "exists":
        return value is not None
    if operator == "!":
        return value is None
    if operator == "in":
        return value in values
    if operator == "notin":
        return value not in values
    return _compares(value, operator, values)


def _compares(value: str | None, operator: str, values: frozenset[str]) -> bool:
    try:
        left, right = int(value or ""), int(next(iter(values)))
    except ValueError:
        return False
    return left > right if operator == ">" else left < right


def selector_matches(selector: dict[str, Any] | None, labels: dict[str, str] | None) -> bool:
    """A metav1.LabelSelector: none matches nothing, an empty one everything."""
    if selector is None:
        return False
    labels = labels or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    return all(
        _holds(labels.get(e["key"]), operators[e["operator"]], frozenset(e.get("values") or ()))
        for e in selector.get("matchExpressions") or ()
    )


def _reader(field: str) -> Callable[[dict[str, Any]], str]:
    steps = tuple(field.split("."))

    def read(obj: dict[str, Any]) -> str:
        value: Any = obj
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        if field in BOOLEAN_FIELDS:
            return "true" if value else "false"
        return "" if value is None else str(value)

    return read


def parse_field_selector(text: str, kind: Kind) -> tuple[tuple[str, Callable[[Any], str], bool, str], ...]:
    """(field, how to read it, equal or unequal, value) for each term."""
    allowed = ("metadata.name", "metadata.namespace", *FIELDS.get(kind.storage, ()))
    terms = []
    for term in filter(None, (part.strip() for part in text.split(","))):
        match = re.match(r"^([^=!]+)(==|!=|=)(.*)$", term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if match[1] not in allowed:
            raise bad_request(f"field label not supported: {match[1]}")
        terms.append((match[1], _reader(match[1]), match[2] != "!=", match[3]))
    return tuple(terms)


@dataclass(frozen=True)
class Selection:
    """Which objects of a kind a request means."""

    namespace: str = ""
    labels: tuple[Requirement, ...] = ()
    fields: tuple[tuple[str, Callable[[Any], str], bool, str], ...] = ()

    @property
    def selects(self) -> bool:
        """Whether a selector narrows it, besides the namespace."""
        return bool(self.labels or self.fields)

    def pinned(self, field: str) -> str | None:
        """The value that a field must have, if one is demanded."""
        for name, _, equal, value in self.fields:
            if name == field and equal:
                return value
        return None

    def matches(self, obj: dict[str, Any]) -> bool:
        metadata = obj["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self.labels and not labels_match(self.labels, metadata.get("labels") or {}):
            return False
        return all((read(obj) == value) is equal for _, read, equal, value in self.fields)


def selection_of(kind: Kind, namespace: str, query: dict[str, str]) -> Selection:
    return Selection(
        namespace,
        parse_label_selector(query.get("labelSelector", "")),
        parse_field_selector(query.get("fieldSelector", ""), kind),
    )
