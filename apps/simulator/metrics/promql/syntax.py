"""The parts of an expression, and the two ways in which a query can be wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass


class QueryError(Exception):
    """kind: "bad_data" for what cannot be read, "execution" for what cannot be worked out."""

    def __init__(self, message: str, kind: str = "bad_data") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Matcher:
    label: str
    operator: str
    value: str
    pattern: re.Pattern[str] | None = None

    def fits(self, text: str) -> bool:
        if self.pattern is not None:
            return bool(self.pattern.fullmatch(text)) is (self.operator == "=~")
        return (text == self.value) is (self.operator == "=")


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Selector:
    """seconds: 0 for an instant vector, else the length of a range. offset: into the past."""

    matchers: tuple[Matcher, ...]
    seconds: float = 0.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Aggregation:
    operator: str
    inner: Expression
    labels: tuple[str, ...] = ()
    without: bool = False


@dataclass(frozen=True, slots=True)
class Binary:
    """returns_bool: of a comparison, 0 or 1 in the place of filtering."""

    operator: str
    left: Expression
    right: Expression
    returns_bool: bool = False


Expression = Number | Selector | Call | Aggregation | Binary

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
SETS = ("and", "or", "unless")
AGGREGATIONS = ("sum", "avg", "max", "min", "count", "group")
OVER_TIME = tuple(f"{name}_over_time" for name in ("avg", "max", "min", "sum", "count", "last"))
SIMPLE = ("abs", "ceil", "floor", "round", "scalar", "vector", "time", "absent")


def has_range(expression: Expression) -> bool:
    return isinstance(expression, Selector) and expression.seconds > 0
