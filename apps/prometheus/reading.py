"""Reads any text about devices' metrics: tells the dialects apart and hands each to its reader."""

from __future__ import annotations

from dataclasses import dataclass, field

from apps.prometheus.api_answers import read_api_text
from apps.prometheus.assembling import devices_of
from apps.prometheus.errors import BadMetrics
from apps.prometheus.exposition import read_exposition
from apps.prometheus.readings import Device
from apps.prometheus.series import Collection
from apps.prometheus.smi_csv import SmiTable, looks_headless, looks_like_smi, read_smi_csv

SMI = "nvidia-smi-csv"


@dataclass(slots=True)
class Metrics:
    """dialect: "exposition", "prometheus-api" or "nvidia-smi-csv". collection: without one for CSV."""

    dialect: str
    devices: tuple[Device, ...]
    collection: Collection | None = None
    table: SmiTable | None = None
    warnings: list[str] = field(default_factory=list)


def read_metrics(name: str, text: str) -> Metrics:
    """name: of the source, for errors. Raises BadMetrics, or Refused for an answer that is a refusal."""
    start = text.lstrip()[:1]
    if not start:
        raise BadMetrics(
            f"{name} is empty. Give an exporter's text, an answer of Prometheus or nvidia-smi's CSV."
        )
    if start in ("{", "[") and not text.lstrip().startswith('{"') or _is_json_object(text):
        collection = read_api_text(name, text)
    elif looks_like_smi(text):
        table = read_smi_csv(name, text)
        return Metrics(SMI, table.devices, table=table, warnings=table.warnings)
    else:
        collection = read_exposition(text)
        if not collection.series:
            _refuse(name, text, collection)
    metrics = Metrics(collection.dialect, devices_of(collection), collection, warnings=collection.warnings)
    if not metrics.devices:
        metrics.warnings.append("no series in it speaks of a GPU or another accelerator")
    return metrics


def _is_json_object(text: str) -> bool:
    """`{"a.b", c="d"} 1` is a sample of the newer text format, `{"a": …` an object."""
    head = text.lstrip()[:2000]
    if not head.startswith('{"'):
        return False
    after = head[2:].partition('"')[2].lstrip()
    return after.startswith(":")


def _refuse(name: str, text: str, collection: Collection) -> None:
    if looks_headless(text):
        raise BadMetrics(
            f"{name} has no header, so which column is which cannot be told: print it without noheader."
        )
    why = f" ({collection.warnings[0]})" if collection.warnings else ""
    raise BadMetrics(
        f"{name} holds no metrics{why}. Give an exporter's text, an answer of Prometheus or nvidia-smi's CSV."
    )
