"""How busy each unit was over a range of time, from the matrices that Prometheus answers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apps.prometheus.api_answers import as_number
from apps.prometheus.identity import identity_of
from apps.prometheus.measures import measured
from apps.prometheus.metric_names import meaning_of
from apps.prometheus.readings import unit_key
from apps.prometheus.series import Series, clean

BUSY = ("util", "engine")
"""Quantities that say how busy a unit is; the first counts for a whole GPU, the second for an instance."""
Past = dict[str, list[tuple[float, float]]]


def use_of(rows: Mapping[str, list[Any]]) -> Past:
    """rows: by metric, the entries of a matrix. Unit -> (time, percent), for what is told as a number."""
    found: dict[str, Past] = {quantity: {} for quantity in BUSY}
    for name, entries in rows.items():
        meaning = meaning_of(name)
        if meaning is None or meaning.quantity not in found:
            continue
        for entry in entries:
            labels = entry.get("metric") if isinstance(entry, dict) else None
            if not isinstance(labels, dict):
                continue
            told = {clean(key): clean(text) for key, text in labels.items() if isinstance(text, str)}
            identity = identity_of(Series(name, told, 0.0))
            if identity is None:
                continue
            key = unit_key(identity.host, identity.uuid, identity.name, identity.instance, identity.profile)
            pairs = [(at, measured(value, meaning)[0]) for at, value in _samples(entry)]
            found[meaning.quantity].setdefault(key, []).extend(
                (at, percent) for at, percent in pairs if percent is not None
            )
    return {**found["engine"], **found["util"]}


def _samples(entry: dict[str, Any]) -> Iterator[tuple[float, float]]:
    values = entry.get("values")
    for sample in values if isinstance(values, list) else ():
        if isinstance(sample, list) and len(sample) == 2:
            at, value = as_number(sample[0]), as_number(sample[1])
            if at is not None and value is not None:
                yield at, value
