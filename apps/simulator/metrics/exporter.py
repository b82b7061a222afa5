"""The text that one node's exporter shows to a scraper. Pure."""

from __future__ import annotations

from apps.simulator.metrics.history import UP, Shown
from apps.simulator.metrics.views import HELP, Labels, Series

ORDER = (
    "gpu", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE", "GPU_I_ID", "hostname",
    "DCGM_FI_DRIVER_VERSION", "container", "namespace", "pod",
)  # fmt: skip


def exporter_text(shown: Shown, moment: float) -> str:
    by_name: dict[str, list[Series]] = {name: [] for name in HELP}
    for _, series in shown:
        if series.name != UP:
            by_name[series.name].append(series)
    lines = []
    for name, all_of_it in by_name.items():
        if all_of_it:
            lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} gauge"]
            lines += [f"{name}{_labels(each.labels)} {number(each.value(moment))}" for each in all_of_it]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Labels) -> str:
    told = ",".join(f'{name}="{_escaped(labels[name])}"' for name in ORDER if name in labels)
    return f"{{{told}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """As Go writes a float in the shortest way."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
