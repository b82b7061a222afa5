"""What the parts of a parsed match condition do when they run: operators, fields, optionals, macros.

CEL's rules for absent fields hold: reading one is an error, `?.`-style access gives an empty optional.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Scope = Mapping[str, Any]
Node = Callable[[Scope], Any]


class EvaluationError(Exception):
    """A field was absent or a value had the wrong type while the expression ran."""


@dataclass(frozen=True)
class Optional:
    """CEL's optional value."""

    value: Any = None
    present: bool = False


def truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(f"expected a bool, found {type(value).__name__}")
    return value


def operation(operator: str, left: Node, right: Node) -> Node:
    if operator in ("&&", "||"):
        return _logic(operator == "||", left, right)
    compare: dict[str, Callable[[Any, Any], Any]] = {
        "==": lambda a, b: a == b,
        "!=": lambda a, b: a != b,
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
        "in": lambda a, b: a in b,
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a // b,
        "%": lambda a, b: a % b,
    }
    act = compare[operator]

    def run(scope: Scope) -> Any:
        try:
            return act(left(scope), right(scope))
        except (TypeError, ZeroDivisionError) as error:
            raise EvaluationError(str(error)) from None

    return run


def _logic(decides: bool, left: Node, right: Node) -> Node:
    """&& and ||: the deciding side wins even where the other side fails."""

    def run(scope: Scope) -> bool:
        try:
            if truth(left(scope)) is decides:
                return decides
        except EvaluationError:
            if truth(right(scope)) is decides:
                return decides
            raise
        return truth(right(scope))

    return run


def field(target: Node, name: str) -> Node:
    def run(scope: Scope) -> Any:
        value = target(scope)
        if isinstance(value, Optional):
            return _pick(value, name)
        if not isinstance(value, dict) or name not in value:
            raise EvaluationError(f"no such key: {name}")
        return value[name]

    return run


def _pick(value: Any, key: Any) -> Optional:
    if isinstance(value, Optional):
        value = value.value if value.present else None
    if isinstance(value, dict) and key in value:
        return Optional(value[key], True)
    if isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
        return Optional(value[key], True)
    return Optional()


def optional_field(target: Node, name: str) -> Node:
    return lambda scope: _pick(target(scope), name)


def optional_index(target: Node, key: Node) -> Node:
    return lambda scope: _pick(target(scope), key(scope))


def index(target: Node, key: Node) -> Node:
    def run(scope: Scope) -> Any:
        try:
            return target(scope)[key(scope)]
        except (KeyError, IndexError, TypeError) as error:
            raise EvaluationError(f"no such key: {error}") from None

    return run


def has_value(argument: Node, scope: Scope) -> bool:
    try:
        value = argument(scope)
    except EvaluationError:
        return False
    return value.present if isinstance(value, Optional) else value is not None


def call_function(name: str, value: Any) -> Any:
    try:
        if name == "size":
            return len(value)
        if name == "int":
            return int(value)
    except (TypeError, ValueError) as error:
        raise EvaluationError(str(error)) from None
    return str(value).lower() if isinstance(value, bool) else str(value)


def call_method(name: str, target: Any, arguments: list[Any]) -> Any:
    if isinstance(target, Optional):
        if name == "orValue":
            return target.value if target.present else arguments[0]
        if name == "hasValue":
            return target.present
        if name == "value" and target.present:
            return target.value
        raise EvaluationError(f"{name} of an optional without a value")
    if name == "size":
        return call_function("size", target)
    if not isinstance(target, str) or not all(isinstance(argument, str) for argument in arguments):
        raise EvaluationError(f"{name} needs strings")
    if name == "matches":
        return re.search(arguments[0], target) is not None
    if name == "contains":
        return arguments[0] in target
    if name == "lowerAscii":
        return target.lower()
    return target.startswith(arguments[0]) if name == "startsWith" else target.endswith(arguments[0])


def elements_of(value: Any) -> list[Any]:
    if isinstance(value, list | dict):
        return list(value)
    raise EvaluationError(f"expected a list or a map, found {type(value).__name__}")


def run_macro(name: str, elements: list[Any], variable: str, body: Node, scope: Scope) -> Any:
    results = [body({**scope, variable: element}) for element in elements]
    if name == "map":
        return results
    truths = [truth(result) for result in results]
    if name == "filter":
        return [element for element, holds in zip(elements, truths, strict=True) if holds]
    if name == "all":
        return all(truths)
    return any(truths) if name == "exists" else sum(truths) == 1
