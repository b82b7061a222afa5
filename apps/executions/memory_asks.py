"""Where a pod template states how much GPU memory it asks for, and the patch that changes just that. Pure.

Known are gpushare's and HAMi's resources, KAI's annotation and our own kind GPURequest. Not in here: whether
less may be asked for, and whose template it is (planner.fallback).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apps.executions.sightings import uid, version
from apps.planner.resources import parse_quantity

Json = dict[str, Any]
KAI_ANNOTATION = "gpu-memory"
GPU_REQUEST, GPU_MEMORY = "GPURequest", "gpuMem"
HAMI = ("nvidia.com/gpumem",)
PARTS = ("limits", "requests")


@dataclass(frozen=True, slots=True)
class Statement:
    """One place. container: its name, "" for the annotation. key: resource or annotation. raw: part of the
    resources ("limits", "requests") or "annotations" -> the value exactly as it stands there."""

    container: str
    key: str
    raw: Mapping[str, Any]

    @property
    def amounts(self) -> set[int]:
        return {_amount(value) for value in self.raw.values()}


def find_statements(owner: Json, resource: str) -> list[Statement]:
    """resource: by which it is asked; "" for all that state MiB. A GPURequest states it in its spec."""
    if owner.get("kind") == GPU_REQUEST:
        value = (owner.get("spec") or {}).get("gpuMem")
        return [] if value is None else [Statement("", GPU_MEMORY, {"spec": value})]
    template = (owner.get("spec") or {}).get("template") or {}
    keys = (resource,) if resource else HAMI
    found = list(_of_containers(template, keys))
    value = ((template.get("metadata") or {}).get("annotations") or {}).get(KAI_ANNOTATION)
    if not resource and value is not None:
        found.append(Statement("", KAI_ANNOTATION, {"annotations": value}))
    return found


def _of_containers(template: Json, keys: tuple[str, ...]) -> Iterator[Statement]:
    spec = template.get("spec") or {}
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or []:
            held = container.get("resources") or {}
            for key in keys:
                raw = {part: held[part][key] for part in PARTS if key in (held.get(part) or {})}
                if raw:
                    yield Statement(f"{kind}/{container.get('name', '')}", key, raw)


def the_statement(owner: Json, resource: str) -> Statement | None:
    """The one place that states it; None where there is none or several: then it is the owner's to say."""
    found = find_statements(owner, resource)
    return found[0] if len(found) == 1 else None


def patch_of(owner: Json, statement: Statement, values: Mapping[str, Any]) -> Json:
    """A merge patch (a strategic one of a template), guarded by what was looked at. values: as
    `Statement.raw`, the new ones."""
    guard = {"uid": uid(owner), "resourceVersion": version(owner)}
    if statement.key == GPU_MEMORY:
        return {"metadata": guard, "spec": {GPU_MEMORY: values["spec"]}}
    if not statement.container:
        template: Json = {"metadata": {"annotations": {statement.key: values["annotations"]}}}
    else:
        kind, _, name = statement.container.partition("/")
        resources = {part: {statement.key: value} for part, value in values.items()}
        template = {"spec": {kind: [{"name": name, "resources": resources}]}}
    return {"metadata": guard, "spec": {"template": template}}


def with_amount(statement: Statement, amount: int) -> dict[str, Any]:
    return {part: amount if part == "spec" else str(amount) for part in statement.raw}


def _amount(value: object) -> int:
    """-1 for what is no whole amount."""
    try:
        return parse_quantity(str(value), "")
    except ValueError:
        return -1
