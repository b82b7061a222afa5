"""The other shapes of an answer: Table (what kubectl prints) and PartialObjectMetadata."""

from __future__ import annotations

from typing import Any

from apps.simulator.api_server.columns import columns_of
from apps.simulator.api_server.kinds import Kind
from apps.simulator.api_server.store import Stored


def wanted_shape(accept: str) -> str:
    """ "table", "partial" or "" by the first media type that asks for one."""
    for part in accept.split(","):
        if "as=Table" in part:
            return "table"
        if "as=PartialObjectMetadata" in part:
            return "partial"
        if part.strip().startswith("application/json") and "as=" not in part:
            return ""
    return ""


def as_partial(kind: Kind, stored: Stored) -> dict[str, Any]:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": stored.obj["metadata"],
    }


def as_table(kind: Kind, items: list[Stored], query: dict[str, str]) -> dict[str, Any]:
    columns, cells = columns_of(kind)
    include = query.get("includeObject", "Metadata")
    rows = []
    for stored in items:
        row: dict[str, Any] = {"cells": cells(stored.obj)}
        if include == "Object":
            row["object"] = {"kind": kind.kind, "apiVersion": kind.api_version, **stored.obj}
        elif include != "None":
            row["object"] = as_partial(kind, stored)
        rows.append(row)
    definitions = [
        {
            "name": name,
            "type": "string",
            "format": "name" if name == "Name" else "",
            "description": "",
            "priority": int(wide),
        }
        for name, wide in columns
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": definitions,
        "rows": rows,
    }
