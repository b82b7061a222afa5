"""Prometheus' HTTP API under /api/v1, answered from the simulated past. Not here: connections (service)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from apps.simulator.metrics.exporter import number
from apps.simulator.metrics.history import SCRAPE_SECONDS, UP, History
from apps.simulator.metrics.promql.evaluation import Evaluator, Labels
from apps.simulator.metrics.promql.parser import is_scalar, parse_duration, parse_query, parse_selector
from apps.simulator.metrics.promql.syntax import Expression, QueryError, Selector
from apps.simulator.metrics.samples import Samples
from apps.simulator.metrics.views import HELP

Json = dict[str, Any]
Parameters = dict[str, list[str]]
MOST_POINTS = 11_000
VERSION = "3.6.0"


class PrometheusApi:
    def __init__(self, history: History, url_of_exporter: Callable[[str], str]) -> None:
        self._history = history
        self._url_of_exporter = url_of_exporter

    def answer(self, path: str, parameters: Parameters) -> tuple[int, Json]:
        """HTTP code and body. path: what follows /api/v1/."""
        try:
            return 200, {"status": "success", "data": self._data(path, parameters)}
        except QueryError as error:
            code = {"bad_data": 400, "execution": 422, "not_found": 404}[error.kind]
            return code, {"status": "error", "errorType": error.kind, "error": str(error)}

    def _data(self, path: str, parameters: Parameters) -> Any:
        actions = {
            "query": self._query,
            "query_range": self._query_range,
            "series": self._series,
            "labels": self._label_names,
            "metadata": self._metadata,
            "targets": self._targets,
            "status/buildinfo": lambda _: {"version": VERSION, "revision": "simulated"},
        }
        if path in actions:
            return actions[path](parameters)
        parts = path.split("/")
        if len(parts) == 3 and parts[0] == "label" and parts[2] == "values":
            return sorted({labels[parts[1]] for labels in self._all(parameters) if parts[1] in labels})
        raise QueryError(f"/api/v1/{path} is not simulated", "not_found")

    # --- queries

    def _query(self, parameters: Parameters) -> Json:
        moment = read_time(parameters, "time", time.time())
        expression = _read_query(parameters)
        evaluator = Evaluator(Samples(self._history))
        if is_scalar(expression):
            value = evaluator.scalar(expression, moment)
            return {"resultType": "scalar", "result": [moment, number(value)]}
        if isinstance(expression, Selector) and expression.seconds:
            rows = evaluator.matrix(expression, moment)
            return {"resultType": "matrix", "result": [_row(*row) for row in rows]}
        found = evaluator.vector(expression, moment)
        result = [{"metric": labels, "value": [moment, number(value)]} for labels, value in found]
        return {"resultType": "vector", "result": result}

    def _query_range(self, parameters: Parameters) -> Json:
        start, end = read_time(parameters, "start"), read_time(parameters, "end")
        step = _read_step(parameters)
        if end < start:
            raise QueryError('invalid parameter "end": end timestamp must not be before start time')
        if (end - start) / step > MOST_POINTS:
            raise QueryError(
                "exceeded maximum resolution of 11,000 points per timeseries. "
                "Try decreasing the query resolution (?step=XX)"
            )
        expression = _read_query(parameters)
        if isinstance(expression, Selector) and expression.seconds:
            raise QueryError(
                'invalid parameter "query": invalid expression type "range vector" for range query, '
                "must be Scalar or instant Vector"
            )
        moments = [start + step * count for count in range(int((end - start) / step) + 1)]
        return {"resultType": "matrix", "result": self._over(expression, moments)}

    def _over(self, expression: Expression, moments: list[float]) -> list[Json]:
        evaluator = Evaluator(Samples(self._history))
        if is_scalar(expression):
            return [_row({}, [(moment, evaluator.scalar(expression, moment)) for moment in moments])]
        rows: dict[frozenset[tuple[str, str]], tuple[Labels, list[tuple[float, float]]]] = {}
        for moment in moments:
            for labels, value in evaluator.vector(expression, moment):
                rows.setdefault(frozenset(labels.items()), (labels, []))[1].append((moment, value))
        return [_row(*row) for row in rows.values()]

    # --- what there is

    def _all(self, parameters: Parameters) -> Iterable[Labels]:
        texts = parameters.get("match[]") or ['{__name__!=""}']
        start = read_time(parameters, "start", self._history.began)
        end = read_time(parameters, "end", time.time())
        samples = Samples(self._history)
        for text in texts:
            yield from samples.series(parse_selector(text).matchers, start, end)

    def _series(self, parameters: Parameters) -> list[Labels]:
        if not parameters.get("match[]"):
            raise QueryError("no match[] parameter provided")
        return list({frozenset(labels.items()): labels for labels in self._all(parameters)}.values())

    def _label_names(self, parameters: Parameters) -> list[str]:
        return sorted({name for labels in self._all(parameters) for name in labels})

    def _metadata(self, parameters: Parameters) -> Json:
        wanted = (parameters.get("metric") or [""])[0]
        names = [name for name in HELP if wanted in ("", name)]
        return {name: [{"type": "gauge", "help": HELP[name], "unit": ""}] for name in names}

    def _targets(self, parameters: Parameters) -> Json:
        now = time.time()
        active = [
            self._target(node, labels, bool(series.value(now)))
            for node, past in list(self._history.nodes.items())
            for labels, series in past.at(now)
            if series.name == UP
        ]
        return {"activeTargets": active, "droppedTargets": [], "droppedTargetCounts": {}}

    def _target(self, node: str, labels: Labels, is_up: bool) -> Json:
        own = {name: text for name, text in labels.items() if name != "__name__"}
        return {
            "labels": own,
            "discoveredLabels": {},
            "scrapePool": own["job"],
            "scrapeUrl": self._url_of_exporter(node),
            "health": "up" if is_up else "down",
            "lastError": "" if is_up else "context deadline exceeded",
            "scrapeInterval": f"{SCRAPE_SECONDS:g}s",
        }


def _read_query(parameters: Parameters) -> Expression:
    text = (parameters.get("query") or [""])[0]
    try:
        return parse_query(text)
    except QueryError as error:
        raise QueryError(f'invalid parameter "query": {error}') from None


def read_time(parameters: Parameters, name: str, default: float | None = None) -> float:
    """Seconds, or a time as RFC 3339 writes it."""
    text = (parameters.get(name) or [""])[0]
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
            value = moment.timestamp() if moment.tzinfo else float("nan")
        except ValueError:
            value = float("nan")
    if not 0 <= value < 1e11:
        raise QueryError(f'invalid parameter "{name}": cannot parse "{text}" to a valid timestamp')
    return value


def _read_step(parameters: Parameters) -> float:
    text = (parameters.get("step") or [""])[0]
    try:
        step = float(text)
    except ValueError:
        step = parse_duration(text)
    if not 0 < step < 1e11:
        why = (
            "zero or negative query resolution step widths are not accepted. Try a positive integer"
            if text
            else f'cannot parse "{text}" to a valid duration'
        )
        raise QueryError(f'invalid parameter "step": {why}')
    return step


def _row(labels: Labels, samples: list[tuple[float, float]]) -> Json:
    return {"metric": labels, "values": [[moment, number(value)] for moment, value in samples]}
