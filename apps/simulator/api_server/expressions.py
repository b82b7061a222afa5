"""A small evaluator for the part of CEL that admission match conditions use here.

Literals, names, fields (plain `.x` and optional `.?x`), indexes, operators, `has`, `size`, `string`,
`int`, the macros `exists`, `exists_one`, `all`, `filter`, `map`, and the usual string and optional
methods. Anything else is refused when it is parsed, never guessed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from apps.simulator.api_server.evaluation import (
    Node,
    call_function,
    call_method,
    elements_of,
    field,
    has_value,
    index,
    operation,
    optional_field,
    optional_index,
    run_macro,
    truth,
)

TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>\d+\.\d+|\d+)
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<name>[A-Za-z_]\w*)
    | (?P<mark>\.\?|\[\?|&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])
    )""",
    re.VERBOSE,
)
BINARY = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
MACROS = frozenset(("exists", "exists_one", "all", "filter", "map"))
METHODS = {
    "orValue": 1, "hasValue": 0, "value": 0, "startsWith": 1, "endsWith": 1, "contains": 1, "matches": 1,
    "size": 0, "lowerAscii": 0,
}  # fmt: skip
FUNCTIONS = {"size": 1, "string": 1, "int": 1, "has": 1}
CONSTANTS = {"true": True, "false": False, "null": None}


class UnsupportedExpression(Exception):
    """The expression is wrong, or uses a part of CEL that is not evaluated here."""


@lru_cache(maxsize=512)
def compile_expression(text: str, names: frozenset[str]) -> Node:
    """The expression as a function of a scope; `names` are the variables that exist."""
    return _Parser(text, names).parse()


def _tokenise(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise UnsupportedExpression(f"cannot read {text[at:].strip()[:20]!r}")
        tokens.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return tokens


class _Parser:
    def __init__(self, text: str, names: frozenset[str]) -> None:
        self.tokens, self.at = _tokenise(text), 0
        self.names = set(names)

    def parse(self) -> Node:
        node = self.ternary()
        if self.at < len(self.tokens):
            raise UnsupportedExpression(f"unexpected {self.peek()!r}")
        return node

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise UnsupportedExpression("the expression ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, mark: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at] == ("mark", mark):
            self.at += 1
            return True
        return False

    def expect(self, mark: str) -> None:
        if not self.accept(mark):
            raise UnsupportedExpression(f"expected {mark!r}, found {self.peek()!r}")

    def ternary(self) -> Node:
        condition = self.binary(0)
        if not self.accept("?"):
            return condition
        yes = self.ternary()
        self.expect(":")
        no = self.ternary()
        return lambda scope: yes(scope) if truth(condition(scope)) else no(scope)

    def binary(self, level: int) -> Node:
        if level == len(BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in BINARY[level] and self.tokens[self.at][0] != "text":
            operator = self.take()[1]
            left = operation(operator, left, self.binary(level + 1))
        return left

    def unary(self) -> Node:
        if self.accept("!"):
            inner = self.unary()
            return lambda scope: not truth(inner(scope))
        if self.accept("-"):
            inner = self.unary()
            return lambda scope: -inner(scope)
        return self.postfix()

    def postfix(self) -> Node:
        node = self.primary()
        while True:
            if self.accept(".?"):
                node = optional_field(node, self.take()[1])
            elif self.accept("[?"):
                node = optional_index(node, self.ternary())
                self.expect("]")
            elif self.accept("["):
                node = index(node, self.ternary())
                self.expect("]")
            elif self.accept("."):
                node = self.member(node)
            else:
                return node

    def member(self, target: Node) -> Node:
        sort, name = self.take()
        if sort != "name":
            raise UnsupportedExpression(f"expected a field name, found {name!r}")
        if not self.accept("("):
            return field(target, name)
        if name in MACROS:
            return self.macro(target, name)
        if name not in METHODS:
            raise UnsupportedExpression(f"the function {name!r} is not supported")
        arguments = self.arguments()
        if len(arguments) != METHODS[name]:
            raise UnsupportedExpression(f"{name} takes {METHODS[name]} arguments")
        return lambda scope: call_method(name, target(scope), [argument(scope) for argument in arguments])

    def macro(self, target: Node, name: str) -> Node:
        sort, variable = self.take()
        if sort != "name":
            raise UnsupportedExpression(f"{name} needs a variable name first")
        self.expect(",")
        known = variable in self.names
        self.names.add(variable)
        body = self.ternary()
        if not known:
            self.names.discard(variable)
        self.expect(")")
        return lambda scope: run_macro(name, elements_of(target(scope)), variable, body, scope)

    def arguments(self) -> list[Node]:
        found: list[Node] = []
        while not self.accept(")"):
            found.append(self.ternary())
            if self.peek() != ")":
                self.expect(",")
        return found

    def primary(self) -> Node:
        if self.accept("("):
            node = self.ternary()
            self.expect(")")
            return node
        if self.accept("["):
            return self.list_literal()
        if self.accept("{"):
            return self.map_literal()
        sort, text = self.take()
        if sort == "text":
            value: Any = re.sub(r"\\(.)", r"\1", text[1:-1])
            return lambda scope: value
        if sort == "number":
            number = float(text) if "." in text else int(text)
            return lambda scope: number
        if sort != "name":
            raise UnsupportedExpression(f"unexpected {text!r}")
        return self.named(text)

    def named(self, name: str) -> Node:
        if name in CONSTANTS:
            return lambda scope: CONSTANTS[name]
        if self.peek() == "(":
            return self.function(name)
        if name not in self.names:
            raise UnsupportedExpression(f"undeclared reference to {name!r}")
        return lambda scope: scope[name]

    def function(self, name: str) -> Node:
        if name not in FUNCTIONS:
            raise UnsupportedExpression(f"the function {name!r} is not supported")
        self.expect("(")
        arguments = self.arguments()
        if len(arguments) != FUNCTIONS[name]:
            raise UnsupportedExpression(f"{name} takes {FUNCTIONS[name]} argument")
        argument = arguments[0]
        if name == "has":
            return lambda scope: has_value(argument, scope)
        return lambda scope: call_function(name, argument(scope))

    def list_literal(self) -> Node:
        parts: list[Node] = []
        while not self.accept("]"):
            parts.append(self.ternary())
            if self.peek() != "]":
                self.expect(",")
        return lambda scope: [part(scope) for part in parts]

    def map_literal(self) -> Node:
        pairs: list[tuple[Node, Node]] = []
        while not self.accept("}"):
            key = self.ternary()
            self.expect(":")
            pairs.append((key, self.ternary()))
            if self.peek() != "}":
                self.expect(",")
        return lambda scope: {key(scope): value(scope) for key, value in pairs}
