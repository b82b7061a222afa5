"""Working out an expression at one moment. Samples come from whoever holds them (`Source`)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Protocol

from apps.simulator.metrics.promql.parser import is_scalar
from apps.simulator.metrics.promql.syntax import (
    COMPARISONS,
    OVER_TIME,
    SETS,
    Aggregation,
    Binary,
    Call,
    Expression,
    Matcher,
    Number,
    QueryError,
    Selector,
)

Labels = dict[str, str]
Key = frozenset[tuple[str, str]]
Vector = list[tuple[Labels, float]]
MOST_SAMPLES = 5_000_000


class Source(Protocol):
    def instant(self, matchers: tuple[Matcher, ...], moment: float) -> Vector: ...

    def samples(
        self, matchers: tuple[Matcher, ...], after: float, until: float
    ) -> Iterable[tuple[Labels, list[tuple[float, float]]]]: ...


OVER: dict[str, Callable[[list[float]], float]] = {
    "avg": lambda values: math.fsum(values) / len(values),
    "sum": math.fsum,
    "max": max,
    "min": min,
    "count": lambda values: float(len(values)),
    "group": lambda values: 1.0,
    "last": lambda values: values[-1],
}
ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ROUNDING: dict[str, Callable[[float], float]] = {
    "abs": abs,
    "ceil": lambda value: float(math.ceil(value)),
    "floor": lambda value: float(math.floor(value)),
    "round": lambda value: float(math.floor(value + 0.5)),
}


class Evaluator:
    """One query. Counts the samples that it looks at, so that none can take all memory."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.seen = 0

    def vector(self, expression: Expression, moment: float) -> Vector:
        if isinstance(expression, Selector):
            found = self.source.instant(expression.matchers, moment - expression.offset)
            self._count(len(found))
            return found
        if isinstance(expression, Aggregation):
            return self._aggregate(expression, moment)
        if isinstance(expression, Call):
            return self._call(expression, moment)
        assert isinstance(expression, Binary)
        return self._binary(expression, moment)

    def scalar(self, expression: Expression, moment: float) -> float:
        if isinstance(expression, Number):
            return expression.value
        if isinstance(expression, Call):
            if expression.function == "time":
                return moment
            found = self.vector(expression.arguments[0], moment)
            return found[0][1] if len(found) == 1 else math.nan
        assert isinstance(expression, Binary)
        left, right = self.scalar(expression.left, moment), self.scalar(expression.right, moment)
        if expression.operator in COMPARISONS:
            return float(COMPARE[expression.operator](left, right))
        return calculate(expression.operator, left, right)

    def matrix(self, selector: Selector, moment: float) -> list[tuple[Labels, list[tuple[float, float]]]]:
        until = moment - selector.offset
        found = list(self.source.samples(selector.matchers, until - selector.seconds, until))
        self._count(sum(len(samples) for _, samples in found))
        return found

    def _count(self, samples: int) -> None:
        self.seen += samples
        if self.seen > MOST_SAMPLES:
            why = "query processing would load too many samples into memory in query execution"
            raise QueryError(why, "execution")

    def _aggregate(self, expression: Aggregation, moment: float) -> Vector:
        groups: dict[Key, tuple[Labels, list[float]]] = {}
        wanted = frozenset(expression.labels)
        for labels, value in self.vector(expression.inner, moment):
            kept = {
                name: text
                for name, text in labels.items()
                if name != "__name__" and (name in wanted) is not expression.without
            }
            groups.setdefault(frozenset(kept.items()), (kept, []))[1].append(value)
        return [(labels, OVER[expression.operator](values)) for labels, values in groups.values()]

    def _call(self, expression: Call, moment: float) -> Vector:
        function, argument = expression.function, expression.arguments[0]
        if function == "vector":
            return [({}, self.scalar(argument, moment))]
        if function in OVER_TIME:
            assert isinstance(argument, Selector)
            work = OVER[function.removesuffix("_over_time")]
            keeps = function == "last_over_time"
            return [
                (labels if keeps else nameless(labels), work([value for _, value in samples]))
                for labels, samples in self.matrix(argument, moment)
                if samples
            ]
        found = self.vector(argument, moment)
        if function == "absent":
            return [] if found else [(_told_labels(argument), 1.0)]
        work_one = ROUNDING[function]
        return [
            (nameless(labels), work_one(value) if math.isfinite(value) else value) for labels, value in found
        ]

    def _binary(self, expression: Binary, moment: float) -> Vector:
        left, right = expression.left, expression.right
        if is_scalar(left):
            number = self.scalar(left, moment)
            pairs = [(labels, number, value, value) for labels, value in self.vector(right, moment)]
        elif is_scalar(right):
            number = self.scalar(right, moment)
            pairs = [(labels, value, number, value) for labels, value in self.vector(left, moment)]
        elif expression.operator in SETS:
            return _combine(expression.operator, self.vector(left, moment), self.vector(right, moment))
        else:
            others = _by_labels(self.vector(right, moment), "right")
            pairs = [
                (labels, value, others[key][1], value)
                for key, (labels, value) in _by_labels(self.vector(left, moment), "left").items()
                if key in others
            ]
        if expression.operator not in COMPARISONS:
            work = expression.operator
            return [(nameless(labels), calculate(work, one, two)) for labels, one, two, _ in pairs]
        compare = COMPARE[expression.operator]
        if expression.returns_bool:
            return [(nameless(labels), float(compare(one, two))) for labels, one, two, _ in pairs]
        return [(labels, shown) for labels, one, two, shown in pairs if compare(one, two)]


def nameless(labels: Labels) -> Labels:
    return {name: text for name, text in labels.items() if name != "__name__"}


def calculate(work: str, left: float, right: float) -> float:
    """As IEEE numbers: division by zero is infinite or not a number."""
    try:
        if work in ARITHMETIC:
            return ARITHMETIC[work](left, right)
        if work == "^":
            return float(left**right)
        if work == "%":
            return math.fmod(left, right)
        return left / right
    except ZeroDivisionError:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)
    except (ValueError, OverflowError, TypeError):
        return math.nan


def _by_labels(vector: Vector, side: str) -> dict[Key, tuple[Labels, float]]:
    found: dict[Key, tuple[Labels, float]] = {}
    for labels, value in vector:
        key = frozenset(nameless(labels).items())
        if key in found:
            why = f"found duplicate series for the match group on the {side} hand-side of the operation"
            raise QueryError(why, "execution")
        found[key] = (labels, value)
    return found


def _combine(word: str, left: Vector, right: Vector) -> Vector:
    def keys(vector: Vector) -> list[Key]:
        return [frozenset(nameless(labels).items()) for labels, _ in vector]

    here, there = keys(left), keys(right)
    if word == "or":
        known = set(here)
        return left + [each for each, key in zip(right, there, strict=True) if key not in known]
    others = set(there)
    return [each for each, key in zip(left, here, strict=True) if (key in others) is (word == "and")]


def _told_labels(expression: Expression) -> Labels:
    if not isinstance(expression, Selector):
        return {}
    told = {each.label: each.value for each in expression.matchers if each.operator == "="}
    return nameless(told)
