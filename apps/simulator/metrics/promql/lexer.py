"""The words of a query, one after the other, and where each of them stands."""

from __future__ import annotations

import re

from apps.simulator.metrics.promql.syntax import QueryError

TOKEN = re.compile(
    r"\s+|#[^\n]*"
    r"|(?P<duration>(?:\d+(?:ms|[smhdwy]))+)(?![\w.])"
    r"|(?P<number>0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?!\w)"
    r"|(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)"
    r"|(?P<sign>==|!=|=~|!~|<=|>=|[-+*/%^<>=(){}\[\],@])"
)


class Tokens:
    """kind: name, number, duration, string, sign or end. token: its text."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.start = text, 0, 0
        self.kind, self.token = "", ""
        self.step()

    def wrong(self, why: str) -> QueryError:
        line = self.text.count("\n", 0, self.start) + 1
        column = self.start - (self.text.rfind("\n", 0, self.start) + 1) + 1
        return QueryError(f"{line}:{column}: parse error: {why}")

    def told(self) -> str:
        return "end of input" if self.kind == "end" else f'"{self.token}"'

    def step(self) -> str:
        """To the next token; answers the one that is left behind."""
        left = self.token
        while True:
            self.start = self.place
            if self.place >= len(self.text):
                self.kind, self.token = "end", ""
                return left
            match = TOKEN.match(self.text, self.place)
            if match is None:
                raise self.wrong(f"unexpected character: {self.text[self.place]!r}")
            self.place = match.end()
            if match.lastgroup:
                self.kind, self.token = match.lastgroup, match.group()
                return left

    def take(self, token: str, where: str) -> None:
        if self.token != token or self.kind == "string":
            raise self.wrong(f'unexpected {self.told()} in {where}, expected "{token}"')
        self.step()

    def word(self) -> str:
        return self.token.lower() if self.kind == "name" else self.token if self.kind == "sign" else ""
