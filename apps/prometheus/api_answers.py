"""Reads what Prometheus' HTTP API answers: instant vectors, range matrices, scalars, refusals.

Several answers may stand one after the other, in a list, or under a name each. Of a range the newest sample
is kept, with its time.
"""

from __future__ import annotations

import json
import math
from typing import Any

from apps.prometheus.errors import BadMetrics, Refused
from apps.prometheus.series import Collection, Series, clean, warn

MOST_ANSWERS = 1000
MOST_DEEP = 4


def read_api_text(name: str, text: str) -> Collection:
    """name: of the source, for errors. Raises BadMetrics or Refused."""
    found = Collection("prometheus-api")
    last: dict[tuple[str, frozenset[tuple[str, str]]], Series] = {}
    rows = [row for answer in _answers(name, text) for row in rows_of(answer, name)]
    for row in rows:
        series = _series(row, found)
        if series is None:
            continue
        found.count()
        key = (series.name, frozenset(series.labels.items()))
        before = last.get(key)
        if before is None or (series.at or 0) >= (before.at or 0):
            last[key] = series
    found.series = list(last.values())
    return found


def _answers(name: str, text: str) -> list[Any]:
    decoder, position, answers = json.JSONDecoder(), 0, []
    try:
        while position < len(text):
            answer, position = decoder.raw_decode(text, position)
            answers.append(answer)
            if len(answers) > MOST_ANSWERS:
                raise BadMetrics(f"{name} holds more than {MOST_ANSWERS} answers: give fewer at once.")
            while position < len(text) and text[position] in " \t\r\n,":
                position += 1
    except (ValueError, RecursionError) as error:
        line = text.count("\n", 0, getattr(error, "pos", 0)) + 1
        raise BadMetrics(f"{name} is no JSON that can be read (line {line}).") from error
    return answers


def rows_of(answer: Any, name: str, *, depth: int = 0) -> list[Any]:
    """The entries of one answer. Raises BadMetrics or Refused."""
    if isinstance(answer, dict) and answer.get("status") == "error":
        why = clean(f"{answer.get('errorType', 'error')}: {answer.get('error', 'no reason given')}", 300)
        raise Refused(f"{name}: Prometheus refused the query ({why}).")
    if isinstance(answer, dict):
        data = answer.get("data", answer)
        if isinstance(data, dict) and isinstance(data.get("result"), list):
            result: list[Any] = data["result"]
            return [result] if data.get("resultType") in ("scalar", "string") else result
        if isinstance(data, list):
            return data
        if depth < MOST_DEEP and any(
            isinstance(value, dict) and "data" in value for value in answer.values()
        ):
            return [row for value in answer.values() for row in rows_of(value, name, depth=depth + 1)]
    if isinstance(answer, list):
        if answer and all(isinstance(one, dict) and ("data" in one or "status" in one) for one in answer):
            nested = [row for one in answer for row in rows_of(one, name, depth=depth + 1)]
            return nested if depth < MOST_DEEP else []
        if all(isinstance(one, dict) and "metric" in one for one in answer):
            return answer
    raise BadMetrics(
        f"{name} is no answer of Prometheus' API: there is no data.result in it. "
        "Ask /api/v1/query or /api/v1/query_range."
    )


def _series(row: Any, found: Collection) -> Series | None:
    metric = row.get("metric") if isinstance(row, dict) else None
    if not isinstance(metric, dict):
        if isinstance(row, dict):
            warn(found.warnings, "an entry without labels is passed over")
        return None
    labels = {clean(key): clean(text) for key, text in metric.items() if isinstance(text, str)}
    name = labels.pop("__name__", "")
    samples = row.get("values") if isinstance(row.get("values"), list) else [row.get("value")]
    at, value = _newest(samples)
    if value is None:
        warn(found.warnings, f"{name or 'a series'}: its value cannot be read")
        return None
    return Series(name, labels, value, at)


def _newest(samples: list[Any]) -> tuple[float | None, float | None]:
    """The last sample that is one; (time, value)."""
    best: tuple[float | None, float | None] = (None, None)
    for sample in samples:
        if not isinstance(sample, list) or len(sample) != 2:
            continue
        at, value = as_number(sample[0]), as_number(sample[1])
        if value is not None and (best[1] is None or (at or 0) >= (best[0] or 0)):
            best = (at if at is not None and math.isfinite(at) else None, value)
    return best


def as_number(told: Any) -> float | None:
    """A sample's number, which the API writes as text; NaN and Inf are numbers here."""
    if isinstance(told, bool) or not isinstance(told, str | int | float):
        return None
    if isinstance(told, str) and (len(told) > 40 or "_" in told):
        return None
    try:
        return float(told)
    except (ValueError, OverflowError):
        return None
