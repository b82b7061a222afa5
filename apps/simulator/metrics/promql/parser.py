"""From the text of a query to its parts. What Prometheus knows and this does not is refused by name."""

from __future__ import annotations

import math
import re

from apps.simulator.metrics.promql.lexer import Tokens
from apps.simulator.metrics.promql.syntax import (
    AGGREGATIONS,
    COMPARISONS,
    OVER_TIME,
    SETS,
    SIMPLE,
    Aggregation,
    Binary,
    Call,
    Expression,
    Matcher,
    Number,
    QueryError,
    Selector,
    has_range,
)

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
LEVELS = (("or",), ("and", "unless"), COMPARISONS, ("+", "-"), ("*", "/", "%"))
DEEPEST = 50
MOST_OPERATIONS = 200


def parse_query(text: str) -> Expression:
    """Raises QueryError with line and column, as Prometheus does."""
    parser = _Parser(text)
    expression = parser.binary(0)
    if parser.kind != "end":
        raise parser.wrong(f"unexpected {parser.told()}")
    return expression


def parse_selector(text: str) -> Selector:
    """Of the parameter match[]."""
    expression = parse_query(text)
    if not isinstance(expression, Selector) or expression.seconds or expression.offset:
        raise QueryError(f"1:1: parse error: {text!r} is not a series selector")
    return expression


def parse_duration(text: str) -> float:
    parts = re.findall(r"(\d+)(ms|[smhdwy])", text)
    return float(sum(int(count) * UNITS[unit] for count, unit in parts))


class _Parser(Tokens):
    depth = operations = 0

    # --- operators

    def binary(self, level: int) -> Expression:
        if level == len(LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.word() in LEVELS[level]:
            operator = self.word()
            self.step()
            returns_bool = self.word() == "bool"
            if returns_bool:
                if operator not in COMPARISONS:
                    raise self.wrong("bool modifier can only be used on comparison operators")
                self.step()
            if self.word() in ("on", "ignoring", "group_left", "group_right"):
                raise self.wrong(f'vector matching with "{self.token}" is not known to this simulation')
            right = self.binary(level + 1)
            left = self.joined(operator, left, right, returns_bool)
        return left

    def joined(self, operator: str, left: Expression, right: Expression, returns_bool: bool) -> Binary:
        self.operations += 1
        if self.operations > MOST_OPERATIONS:
            raise self.wrong(f"more than {MOST_OPERATIONS} operations")
        if has_range(left) or has_range(right):
            raise self.wrong("binary expression must contain only scalar and instant vector types")
        scalars = [each for each in (left, right) if is_scalar(each)]
        if operator in SETS and scalars:
            raise self.wrong(f'set operator "{operator}" not allowed in binary scalar expression')
        if operator in COMPARISONS and len(scalars) == 2 and not returns_bool:
            raise self.wrong("comparisons between scalars must use BOOL modifier")
        return Binary(operator, left, right, returns_bool)

    def unary(self) -> Expression:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.wrong(f"more than {DEEPEST} expressions inside one another")
        if self.word() in ("+", "-"):
            minus = self.step() == "-"
            inner = self.unary()
            found: Expression = Binary("*", Number(-1.0), inner) if minus else inner
        else:
            found = self.postfix()
            if self.word() == "^":
                self.step()
                found = self.joined("^", found, self.unary(), False)
        self.depth -= 1
        return found

    # --- selectors

    def postfix(self) -> Expression:
        expression = self.primary()
        if self.word() == "[":
            expression = self.ranged(expression)
        if self.word() == "offset":
            self.step()
            minus = self.word() == "-"
            if minus:
                self.step()
            seconds = self.duration("offset")
            if not isinstance(expression, Selector):
                raise self.wrong("offset modifier must be preceded by an instant or range vector selector")
            shift = -seconds if minus else seconds
            expression = Selector(expression.matchers, expression.seconds, shift)
        if self.word() == "@":
            raise self.wrong('"@" is not known to this simulation')
        return expression

    def ranged(self, expression: Expression) -> Selector:
        self.step()
        seconds = self.duration("range")
        if self.token.startswith(":"):
            raise self.wrong("subqueries are not known to this simulation")
        self.take("]", "range")
        if not isinstance(expression, Selector) or expression.seconds:
            raise self.wrong("ranges only allowed for vector selectors")
        if not seconds:
            raise self.wrong("duration must be greater than 0")
        return Selector(expression.matchers, seconds)

    def duration(self, where: str) -> float:
        if self.kind == "number":
            return float(self.step())
        if self.kind != "duration":
            raise self.wrong(f"unexpected {self.told()} in {where}, expected duration")
        return parse_duration(self.step())

    def primary(self) -> Expression:
        if self.kind == "number":
            text = self.step()
            return Number(float(int(text, 16)) if text[:2].lower() == "0x" else float(text))
        if self.word() == "(":
            self.step()
            inner = self.binary(0)
            self.take(")", "parenthesized expression")
            return inner
        if self.word() == "{":
            return self.selector("")
        if self.kind != "name":
            raise self.wrong(f"unexpected {self.told()}")
        name, low = self.token, self.token.lower()
        if low in ("inf", "nan"):
            self.step()
            return Number(math.inf if low == "inf" else math.nan)
        self.step()
        if low in AGGREGATIONS and self.word() in ("(", "by", "without"):
            return self.aggregation(low)
        return self.call(name) if self.word() == "(" else self.selector(name)

    def selector(self, name: str) -> Selector:
        matchers = [Matcher("__name__", "=", name)] if name else []
        if self.word() == "{":
            self.step()
            while self.word() != "}":
                matchers.append(self.matcher())
                if self.word() != "}":
                    self.take(",", "label matching")
            self.step()
        if all(matcher.fits("") for matcher in matchers):
            raise self.wrong("vector selector must contain at least one non-empty matcher")
        return Selector(tuple(matchers))

    def matcher(self) -> Matcher:
        if self.kind == "string":
            return Matcher("__name__", "=", self.string())
        if self.kind != "name":
            raise self.wrong(f'unexpected {self.told()} in label matching, expected identifier or "}}"')
        label, operator = self.step(), self.token
        if operator not in ("=", "!=", "=~", "!~"):
            raise self.wrong(f"unexpected {self.told()} in label matching, expected label matching operator")
        self.step()
        if self.kind != "string":
            raise self.wrong(f"unexpected {self.told()} in label matching, expected string")
        value = self.string()
        if "~" not in operator:
            return Matcher(label, operator, value)
        try:
            return Matcher(label, operator, value, re.compile(value, re.DOTALL))
        except re.error as error:
            raise self.wrong(f"error parsing regexp: {error}: `{value}`") from None

    def string(self) -> str:
        text = self.step()
        if text[0] == "`":
            return text[1:-1]
        escapes = {"n": "\n", "t": "\t", "r": "\r"}
        return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[1]), text[1:-1])

    # --- functions

    def aggregation(self, operator: str) -> Aggregation:
        grouping = self.grouping()
        self.take("(", "aggregation")
        inner = self.binary(0)
        if self.word() == ",":
            raise self.wrong(f'wrong number of arguments for aggregate expression "{operator}"')
        self.take(")", "aggregation")
        if is_scalar(inner) or has_range(inner):
            raise self.wrong("expected type instant vector in aggregation expression")
        labels, without = grouping or self.grouping() or ((), False)
        return Aggregation(operator, inner, labels, without)

    def grouping(self) -> tuple[tuple[str, ...], bool] | None:
        if self.word() not in ("by", "without"):
            return None
        without = self.step().lower() == "without"
        self.take("(", "grouping opts")
        labels = []
        while self.word() != ")":
            if self.kind != "name":
                raise self.wrong(f"unexpected {self.told()} in grouping opts, expected label")
            labels.append(self.step())
            if self.word() != ")":
                self.take(",", "grouping opts")
        self.step()
        return tuple(labels), without

    def call(self, name: str) -> Call:
        if name not in (*OVER_TIME, *SIMPLE):
            raise self.wrong(f'unknown function with name "{name}" (to this simulation)')
        self.step()
        arguments: list[Expression] = []
        while self.word() != ")":
            arguments.append(self.binary(0))
            if self.word() != ")":
                self.take(",", "function call")
        self.step()
        wanted = 0 if name == "time" else 1
        if len(arguments) != wanted:
            raise self.wrong(f'expected {wanted} argument(s) in call to "{name}", got {len(arguments)}')
        self.check_type(name, arguments)
        return Call(name, tuple(arguments))

    def check_type(self, name: str, arguments: list[Expression]) -> None:
        for each in arguments:
            sort = "range vector" if has_range(each) else "scalar" if is_scalar(each) else "instant vector"
            wanted = (
                "range vector" if name in OVER_TIME else "scalar" if name == "vector" else "instant vector"
            )
            if sort != wanted:
                raise self.wrong(f'expected type {wanted} in call to function "{name}", got {sort}')


def is_scalar(expression: Expression) -> bool:
    if isinstance(expression, Binary):
        return is_scalar(expression.left) and is_scalar(expression.right)
    if isinstance(expression, Call):
        return expression.function in ("scalar", "time")
    return isinstance(expression, Number)
