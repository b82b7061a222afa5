"""Custom resources: from a CustomResourceDefinition to kinds, and an object checked against its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from apps.simulator.api_server.kinds import Kind
from apps.simulator.api_server.statuses import Cause, invalid

CRD = "customresourcedefinitions.apiextensions.k8s.io"
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def resource_of_crd(crd: dict[str, Any]) -> tuple[str, str]:
    return crd["spec"]["group"], crd["spec"]["names"]["plural"]


def kinds_of_crd(crd: dict[str, Any]) -> Iterator[Kind]:
    """One kind for each served version; all versions share one table, without conversion."""
    spec = crd["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if not version.get("served", True):
            continue
        subresources = version.get("subresources") or {}
        yield Kind(
            spec["group"],
            version["name"],
            names["kind"],
            names["plural"],
            spec.get("scope", "Namespaced") == "Namespaced",
            tuple(names.get("shortNames", ())),
            tuple(name for name in ("status", "scale") if name in subresources),
            has_generation=True,
            unconditional=False,
            returns_deleted=False,
            custom=True,
            schema=(version.get("schema") or {}).get("openAPIV3Schema"),
            columns=tuple(version.get("additionalPrinterColumns", ())),
        )


def prune(schema: dict[str, Any] | None, obj: dict[str, Any]) -> list[str]:
    """Drops the fields that the schema does not know; answers their paths. metadata is not the schema's."""
    dropped: list[str] = []
    if not schema:
        return dropped
    known = schema.get("properties", {})
    keeps_all = schema.get("x-kubernetes-preserve-unknown-fields")
    for key in [k for k in obj if k != "metadata"]:
        if key in known:
            _prune(known[key], obj[key], key, dropped)
        elif not keeps_all:
            del obj[key]
            dropped.append(key)
    return dropped


def _prune(schema: dict[str, Any], value: Any, path: str, dropped: list[str]) -> None:
    if isinstance(value, list):
        for index, entry in enumerate(value):
            _prune(schema.get("items", {}), entry, f"{path}[{index}]", dropped)
    if not isinstance(value, dict):
        return
    known, rest = schema.get("properties", {}), schema.get("additionalProperties")
    keeps_all = schema.get("x-kubernetes-preserve-unknown-fields")
    for key in list(value):
        if key in known:
            _prune(known[key], value[key], f"{path}.{key}", dropped)
        elif isinstance(rest, dict):
            _prune(rest, value[key], f"{path}.{key}", dropped)
        elif not rest and not keeps_all:
            del value[key]
            dropped.append(f"{path}.{key}")


def fill_defaults(schema: dict[str, Any] | None, value: Any) -> None:
    if not schema or not isinstance(value, dict):
        return
    for key, part in schema.get("properties", {}).items():
        if key not in value and "default" in part:
            value[key] = json.loads(json.dumps(part["default"]))
        if key in value:
            fill_defaults(part, value[key])


def check_schema(kind: Kind, obj: dict[str, Any]) -> None:
    """422 with every place where a custom object breaks its schema."""
    causes: list[Cause] = []
    for key, part in (kind.schema or {}).get("properties", {}).items():
        if key in obj and key != "metadata":
            _check(part, obj[key], key, causes)
    for key in (kind.schema or {}).get("required", ()):
        if key not in obj:
            causes.append(Cause(key, "FieldValueRequired", "Required value"))
    if causes:
        raise invalid(kind, obj["metadata"]["name"], *causes)


def _fits(value: Any, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    return isinstance(value, TYPES.get(wanted, (object,)))


def _sort(value: Any) -> str:
    return next((name for name in TYPES if _fits(value, name)), "null")


def _check(schema: dict[str, Any], value: Any, path: str, causes: list[Cause]) -> None:
    wanted = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        wanted = "string" if isinstance(value, str) else "integer"
    if value is None and schema.get("nullable"):
        return
    if wanted and not _fits(value, wanted):
        sort = _sort(value)
        shown = json.dumps(sort)
        why = f"Invalid value: {shown}: {path} in body must be of type {wanted}: {shown}"
        causes.append(Cause(path, "FieldValueTypeInvalid", why))
        return
    _check_value(schema, value, path, causes)
    _check_parts(schema, value, path, causes)


def _check_parts(schema: dict[str, Any], value: Any, path: str, causes: list[Cause]) -> None:
    if isinstance(value, dict):
        for key in schema.get("required", ()):
            if key not in value:
                causes.append(Cause(f"{path}.{key}", "FieldValueRequired", "Required value"))
        rest = schema.get("additionalProperties")
        for key, entry in value.items():
            part = schema.get("properties", {}).get(key, rest)
            if isinstance(part, dict):
                _check(part, entry, f"{path}.{key}", causes)
    if isinstance(value, list):
        for index, entry in enumerate(value):
            _check(schema.get("items", {}), entry, f"{path}[{index}]", causes)


def _check_value(schema: dict[str, Any], value: Any, path: str, causes: list[Cause]) -> None:
    if "enum" in schema and value not in schema["enum"]:
        choices = ", ".join(json.dumps(choice) for choice in schema["enum"])
        why = f"Unsupported value: {json.dumps(value)}: supported values: {choices}"
        causes.append(Cause(path, "FieldValueNotSupported", why))
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            why = f"{path} in body should be greater than or equal to {schema['minimum']}"
            causes.append(Cause(path, "FieldValueInvalid", f"Invalid value: {value}: {why}"))
        if "maximum" in schema and value > schema["maximum"]:
            why = f"{path} in body should be less than or equal to {schema['maximum']}"
            causes.append(Cause(path, "FieldValueInvalid", f"Invalid value: {value}: {why}"))
