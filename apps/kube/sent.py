"""What a caller is told of each request that went out, if it asks to be: no header, no body, no watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from apps.kube.connection import Request

OF_PAGING = ("continue", "limit")


@dataclass(frozen=True, slots=True)
class Sent:
    """at: when its answer came, by this machine's clock. path: with the selectors that it named. status: the
    HTTP status, 0 where no answer came; note: then why."""

    at: datetime
    method: str
    path: str
    status: int
    note: str = ""


Observer = Callable[[Sent], None]


def tell(observer: Observer | None, request: Request, status: int, note: str = "") -> None:
    if observer is None:
        return
    query = {key: value for key, value in request.query.items() if key not in OF_PAGING}
    path = f"{request.path}?{urlencode(query, safe='=,')}" if query else request.path
    observer(Sent(datetime.now(UTC), request.method, path, status, note))
