"""The answer of `read_dump` as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from apps.clusters.pod_table import lines_beside, pod_rows

NODE_HEADS = ("NODE", "GPUS", "PRODUCT", "MEMORY EACH", "SHARING", "UNITS", "TAKEN", "STATE")
UNKNOWN = "unknown"


def as_table(answer: dict[str, Any]) -> str:
    lines: list[str] = []
    if answer["nodes"]:
        lines += _aligned([NODE_HEADS, *(_node_row(node) for node in answer["nodes"])])
    for node in answer["nodes"]:
        lines += [f"{node['name']}: {text}" for text in (*_beside(node), *node["warnings"])]
    lines += _aligned(rows) if (rows := pod_rows(answer)) else []
    lines += lines_beside(answer)
    if answer.get("label_keys"):
        lines += [f"{len(answer['label_keys'])} labels:", *(f"  {key}" for key in answer["label_keys"])]
    if answer.get("partitions"):
        lines += [f"groups of {size}: {groups}" for size, groups in answer["partitions"].items()]
        lines += [answer["partition_note"]] if answer["partition_note"] else []
    lines += answer["warnings"]
    return "\n".join(lines) or "Nothing to show."


def _node_row(node: dict[str, Any]) -> tuple[str, ...]:
    physical = node["physical_gpus"]
    least = node.get("physical_gpus_at_least")
    sharing = node["sharing"] or "-"
    if node["replicas"] and node["replicas"] > 1:
        sharing += f" x{node['replicas']}"
    if node["mig"]:
        sharing = "MIG " + ", ".join(f"{amount} x {name}" for name, amount in node["mig"].items())
    units = node["schedulable_units"]
    return (
        node["name"],
        f"at least {least}" if least is not None else UNKNOWN if physical is None else str(physical),
        node["product"] or (UNKNOWN if physical else "-"),
        f"{node['memory_mib']} MiB" if node["memory_mib"] is not None else UNKNOWN if physical else "-",
        sharing,
        UNKNOWN if units is None else str(units),
        f"{node['allocated']:g}" if physical else "-",
        _state(node),
    )


def _state(node: dict[str, Any]) -> str:
    if node["why_not_schedulable"]:
        return str(node["why_not_schedulable"])
    state = {True: "ready", False: "not Ready", None: "readiness unknown"}[node["ready"]]
    return f"{state}, {node['unhealthy_gpus']} unhealthy" if node["unhealthy_gpus"] else state


def _beside(node: dict[str, Any]) -> Iterator[str]:
    for group in node["others"]:
        alive = {True: "alive", False: "NOT ALIVE", None: "not known to be alive"}[group["alive"]]
        what = group["product"] or group["resource"] or "device"
        yield f"beside: {group['physical']} x {what} ({group['vendor']}), {group['healthy']} healthy, {alive}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
