"""Faults that can be switched on while the server runs: refusals, delays, broken connections, lost watches.

A fault matches requests by method, path and user agent and acts a number of times. The paths under
/_sim/ are never hit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Protocol

ACTIONS = (
    "status", "delay", "reset", "act-then-reset", "truncate-watch", "expire-watches", "silence-watches",
    "lagging-read",
)  # fmt: skip


@dataclass
class Fault:
    """One fault. `times` None means until it is removed; `skip` lets the first so many matches pass.
    `answers`: of a lagging read, what each address said when it was first asked."""

    name: str
    action: str
    method: str = ""
    path: re.Pattern[str] = field(default_factory=lambda: re.compile(""))
    agent: re.Pattern[str] = field(default_factory=lambda: re.compile(""))
    times: int | None = None
    skip: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    hits: int = 0
    answers: dict[str, Any] = field(default_factory=dict)

    def matches(self, method: str, path: str, agent: str) -> bool:
        if self.method and self.method != method:
            return False
        return bool(self.path.search(path) and self.agent.search(agent))

    def as_json(self) -> dict[str, Any]:
        match = {
            "method": self.method,
            "path_regex": self.path.pattern,
            "user_agent_regex": self.agent.pattern,
        }
        return {
            "name": self.name,
            "action": self.action,
            "match": match,
            "times": self.times,
            "skip": self.skip,
            "hits": self.hits,
            **self.settings,
        }


def fault_from_json(data: dict[str, Any], *, number: int) -> Fault:
    """ValueError says what is wrong with the description."""
    if data.get("action") not in ACTIONS:
        raise ValueError(f"action is {data.get('action')!r}; it must be one of {', '.join(ACTIONS)}")
    match = data.get("match") or {}
    known = ("name", "action", "match", "times", "skip", "remove")
    times = data.get("times")
    try:
        return Fault(
            str(data.get("name") or f"fault-{number}"),
            data["action"],
            str(match.get("method", "")).upper(),
            re.compile(match.get("path_regex", "")),
            re.compile(match.get("user_agent_regex", "")),
            None if times is None else int(times),
            int(data.get("skip", 0)),
            {key: value for key, value in data.items() if key not in known},
        )
    except (re.error, TypeError, ValueError) as error:
        raise ValueError(f"match, times and skip must be regular expressions and numbers: {error}") from None


class NamedFaults(Protocol):
    """Faults of the machines behind the API, by name. The server only passes the requests on."""

    def knows(self, data: dict[str, Any]) -> bool: ...

    async def change(self, data: dict[str, Any]) -> dict[str, Any]:
        """Sets or removes one. ValueError says what is wrong."""

    async def clear(self) -> None: ...

    def listed(self) -> list[dict[str, Any]]: ...


class Faults:
    """The faults that are switched on, in the order in which they came."""

    def __init__(self) -> None:
        self.active: dict[str, Fault] = {}
        self._number = 0

    def add(self, data: dict[str, Any]) -> Fault:
        self._number += 1
        fault = fault_from_json(data, number=self._number)
        self.active[fault.name] = fault
        return fault

    def remove(self, name: str) -> bool:
        return self.active.pop(name, None) is not None

    def clear(self) -> None:
        self.active.clear()

    def take(self, method: str, path: str, agent: str) -> Fault | None:
        """The first fault that hits this request; it is used up when its times are over."""
        for fault in self.active.values():
            if not fault.matches(method, path, agent):
                continue
            if fault.skip > 0:
                fault.skip -= 1
                continue
            fault.hits += 1
            if fault.times is not None and fault.hits >= fault.times:
                del self.active[fault.name]
            return fault
        return None
