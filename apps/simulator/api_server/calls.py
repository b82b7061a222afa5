"""One request as the rooms behind the URL table see it, and what they answer."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from apps.simulator.api_server.access import User
from apps.simulator.api_server.kinds import Kind
from apps.simulator.api_server.statuses import ApiError


@dataclass
class Call:
    """A parsed request on a resource. `verb` is Kubernetes' word (get, list, watch, create, …)."""

    method: str
    verb: str
    kind: Kind
    namespace: str
    name: str
    subresource: str
    query: dict[str, str]
    headers: Any
    body: bytes
    user: User
    warnings: list[str] = field(default_factory=list)

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"

    @property
    def manager(self) -> str:
        """Who writes, as managedFields names him."""
        agent = self.headers.get("User-Agent", "unknown")
        return self.query.get("fieldManager") or agent.partition("/")[0]

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip()


@dataclass
class Answer:
    """What to send back: a whole JSON body, or parts of a long one."""

    code: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


def now_text(*, after_seconds: float = 0) -> str:
    """Now as metav1.Time writes it: UTC, whole seconds."""
    return _second_text(int(time.time() + after_seconds))


@lru_cache(maxsize=64)
def _second_text(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


def shift_time(text: str, seconds: int) -> str:
    moment = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    return (moment + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_number(query: dict[str, str], name: str, default: int) -> int:
    """A whole number of the query, such as limit or timeoutSeconds."""
    text = query.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        message = f'strconv.ParseInt: parsing "{text}": invalid syntax ({name} must be a whole number)'
        raise ApiError(400, message, "BadRequest") from None


def read_revision(query: dict[str, str], *, minor: int) -> int | None:
    """The resourceVersion parameter; None where it is absent or empty."""
    text = query.get("resourceVersion", "")
    if not text:
        return None
    if not text.isdigit():
        message = (
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
        raise ApiError(400, message, "BadRequest") if minor > 28 else ApiError(500, message)
    return int(text)
