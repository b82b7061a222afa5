"""What the console asks a Prometheus: which metrics of accelerators there are, and each of them once.

One request per metric, however many devices there are. A metric that is refused is told and left out; the
rest stands.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apps.prometheus.api_answers import read_api_text, rows_of
from apps.prometheus.assembling import devices_of
from apps.prometheus.connection import Connection
from apps.prometheus.errors import BadMetrics, MetricsError, Refused, Unreachable
from apps.prometheus.metric_names import KNOWN, is_accelerators, meaning_of, today
from apps.prometheus.past import BUSY, use_of
from apps.prometheus.readings import Device
from apps.prometheus.series import Collection, clean

MOST_METRICS = 40
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


@dataclass(frozen=True, slots=True)
class Reading:
    """All devices at one moment. metrics: what was asked. warnings: what was refused."""

    at: float
    devices: tuple[Device, ...]
    metrics: tuple[str, ...]
    warnings: tuple[str, ...]


class Client:
    """budget_seconds: after so long, from its making on, nothing more is asked for readings."""

    def __init__(self, connection: Connection, *, budget_seconds: float = 30.0) -> None:
        self._connection = connection
        self._budget = budget_seconds
        self._until = time.monotonic() + budget_seconds

    def check(self) -> None:
        """Raises Unreachable or Refused where nobody answers as Prometheus does."""
        self._ask("/api/v1/query", {"query": "1"})

    def read(self) -> Reading:
        """Raises MetricsError if nothing could be read at all."""
        now = time.time()
        names, warnings = self.metrics(), []
        found = Collection("prometheus-api")
        failure: MetricsError | None = None
        for name in names:
            if time.monotonic() > self._until:
                warnings.append(
                    f"reading took longer than {self._budget:g} s: {name} and what follows is left out"
                )
                break
            try:
                one = read_api_text(name, self._ask("/api/v1/query", {"query": name, "time": f"{now:.3f}"}))
            except MetricsError as error:
                failure = error
                warnings.append(str(error))
                if isinstance(error, Unreachable):
                    break
                continue
            found.series += one.series
        if failure is not None and not found.series:
            raise failure
        return Reading(now, devices_of(found), tuple(names), tuple(warnings))

    def close(self) -> None:
        self._connection.close()

    def metrics(self) -> list[str]:
        """The names that Prometheus knows and that speak of accelerators, those we know first."""
        path = "/api/v1/label/__name__/values"
        since = f"{time.time() - 300:.0f}"
        text = self._ask(path, {"start": since})
        try:
            told = json.loads(text).get("data")
        except (ValueError, AttributeError, RecursionError) as error:
            raise BadMetrics(f"Prometheus on {self._connection.host} lists no metrics' names.") from error
        names = [name for name in told if isinstance(name, str) and NAME.fullmatch(name)] if told else []
        known = sorted(name for name in names if today(name) in KNOWN)
        read = {name for name in names if is_accelerators(name) and meaning_of(name)}
        others = sorted(read - set(known))
        return [*known, *others][:MOST_METRICS]

    def past_use(
        self, names: Iterable[str], *, since: float, until: float, step: float
    ) -> dict[str, list[tuple[float, float]]]:
        """Use over a range that lies behind: unit -> (time, percent). What is refused fills itself."""
        rows: dict[str, list[Any]] = {}
        for name in names:
            meaning = meaning_of(name)
            if meaning is None or meaning.quantity not in BUSY or time.monotonic() > self._until:
                continue
            query = {"query": name, "start": f"{since:.3f}", "end": f"{until:.3f}", "step": f"{step:g}"}
            try:
                rows[name] = rows_of(json.loads(self._ask("/api/v1/query_range", query)), name)
            except (MetricsError, ValueError, RecursionError):
                continue
        return use_of(rows)

    def _ask(self, path: str, query: dict[str, Any]) -> str:
        status, body = self._connection.get(path, query)
        where = f"Prometheus on {self._connection.host}"
        if status in (401, 403):
            raise Refused(f"{where}: it refuses us ({status}). Check the token.")
        if status in (301, 302, 307, 308):
            raise Refused(
                f"{where}: it sends us elsewhere ({status}), which is not followed. Give that address."
            )
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise Refused(f"{where}: it answers with no text ({status}).") from None
        if status != 200 or not text.lstrip().startswith("{"):
            raise Refused(f"{where}: it answers {status} {_why(text)} to {path}. Is it a Prometheus?")
        return text


def _why(text: str) -> str:
    try:
        return clean(str(json.loads(text).get("error", "")), 200)
    except (ValueError, AttributeError, RecursionError):
        return ""
