"""JSON patch, JSON merge patch and strategic merge patch on plain JSON.

Strategic merge follows the merge keys that the Kubernetes types declare; lists without one (taints,
tolerations, container args) are replaced whole. Server-side apply is elsewhere.
"""

from __future__ import annotations

import copy
from typing import Any

MERGE_KEYS: dict[str, str] = {
    "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "volumes": "name",
    "env": "name", "volumeMounts": "mountPath", "volumeDevices": "devicePath", "imagePullSecrets": "name",
    "hostAliases": "ip", "topologySpreadConstraints": "topologyKey", "schedulingGates": "name",
    "resourceClaims": "name", "conditions": "type", "addresses": "type", "ownerReferences": "uid",
    "podIPs": "ip", "secrets": "name", "webhooks": "name", "matchConditions": "name",
}  # fmt: skip
PRIMITIVE_SETS = ("finalizers",)


class PatchRefused(Exception):
    """The patch does not apply: a failed test, an absent path, a malformed directive."""


# --- JSON merge patch (RFC 7386)


def merge_patch(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


# --- JSON patch (RFC 6902)


def json_patch(document: Any, operations: Any) -> Any:
    if not isinstance(operations, list):
        raise PatchRefused("a JSON patch is a list of operations")
    document = copy.deepcopy(document)
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise PatchRefused("an operation needs op and path")
        document = _operate(document, operation)
    return document


def _operate(document: Any, operation: dict[str, Any]) -> Any:
    op, path = operation.get("op"), _steps(operation["path"])
    if op == "test":
        if _look(document, path) != operation.get("value"):
            raise PatchRefused("test failed")
        return document
    if op in ("move", "copy"):
        source = _steps(str(operation.get("from", "")))
        value = copy.deepcopy(_look(document, source))
        if op == "move":
            document = _remove(document, source)
        return _add(document, path, value)
    if op == "remove":
        return _remove(document, path)
    if op == "replace":
        _look(document, path)
        return _add(document, path, operation.get("value"), replace=True)
    if op == "add":
        return _add(document, path, operation.get("value"))
    raise PatchRefused(f"unknown operation {op!r}")


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise PatchRefused(f"{pointer!r} is no JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _position(where: list[Any], step: str, *, end: int) -> int:
    if not step.isdigit() or int(step) >= end:
        raise PatchRefused(f"no index {step!r}")
    return int(step)


def _look(document: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(document, list):
            document = document[_position(document, step, end=len(document))]
        elif isinstance(document, dict) and step in document:
            document = document[step]
        else:
            raise PatchRefused(f"no {step!r}")
    return document


def _remove(document: Any, path: list[str]) -> Any:
    _look(document, path)
    where = _look(document, path[:-1])
    if isinstance(where, list):
        del where[int(path[-1])]
    else:
        del where[path[-1]]
    return document


def _add(document: Any, path: list[str], value: Any, *, replace: bool = False) -> Any:
    if not path:
        return value
    where, step = _look(document, path[:-1]), path[-1]
    if isinstance(where, dict):
        where[step] = value
    elif isinstance(where, list) and replace:
        where[_position(where, step, end=len(where))] = value
    elif isinstance(where, list):
        where.insert(len(where) if step == "-" else _position(where, step, end=len(where) + 1), value)
    else:
        raise PatchRefused(f"nothing at {step!r}")
    return document


# --- strategic merge patch


def strategic_merge(target: Any, patch: Any) -> Any:
    """The target with a strategic merge patch applied; both are left as they were."""
    if not isinstance(patch, dict) or not isinstance(target, dict):
        return _without_directives(patch)
    directive = patch.get("$patch")
    if directive == "replace":
        return _without_directives({k: v for k, v in patch.items() if k != "$patch"})
    if directive == "delete":
        return {}
    merged = dict(target)
    for key, value in patch.items():
        if key == "$patch" or key.startswith(("$setElementOrder/", "$deleteFromPrimitiveList/")):
            continue
        if key == "$retainKeys":
            merged = {k: v for k, v in merged.items() if k in value}
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, list):
            merged[key] = _merge_list(key, merged.get(key), value, patch.get(f"$setElementOrder/{key}"))
        else:
            merged[key] = strategic_merge(merged.get(key), value)
    return _without_primitives(merged, patch)


def _without_primitives(merged: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    for key, gone in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            merged[name] = [v for v in merged.get(name) or [] if v not in gone]
    return merged


def _without_directives(patch: Any) -> Any:
    if isinstance(patch, dict):
        if patch.get("$patch") == "delete":
            return {}
        return {
            k: _without_directives(v) for k, v in patch.items() if not k.startswith("$") and v is not None
        }
    if isinstance(patch, list):
        kept = [v for v in patch if not (isinstance(v, dict) and v.get("$patch") in ("delete", "replace"))]
        return [_without_directives(v) for v in kept]
    return patch


def _merge_key(name: str, *lists: list[Any]) -> str:
    if name == "ports":  # a container's ports merge by containerPort, a service's by port
        first = next((v for entries in lists for v in entries if isinstance(v, dict)), {})
        return "containerPort" if "containerPort" in first else "port"
    return MERGE_KEYS.get(name, "")


def _merge_list(name: str, target: Any, patch: list[Any], wanted_order: Any) -> list[Any]:
    target = target if isinstance(target, list) else []
    if name in PRIMITIVE_SETS:
        return [*target, *(v for v in patch if v not in target)]
    key = _merge_key(name, target, patch)
    if not key:
        return _without_directives(patch)
    if any(isinstance(v, dict) and v.get("$patch") == "replace" for v in patch):
        return _without_directives(patch)
    if any(not isinstance(v, dict) or key not in v for v in patch):
        raise PatchRefused(f"map: does not contain declared merge key: {key}")
    gone = [v[key] for v in patch if v.get("$patch") == "delete"]
    live = {v.get(key): v for v in target if v.get(key) not in gone}
    patched: dict[Any, Any] = {}
    for value in patch:
        if value.get("$patch") != "delete":
            patched[value[key]] = strategic_merge(live.get(value[key], {}), value)
    ordered = list(patched)
    if isinstance(wanted_order, list):
        order = [v.get(key) for v in wanted_order if isinstance(v, dict)]
        patched = {k: patched[k] if k in patched else live[k] for k in order if k in patched or k in live}
        ordered = list(patched)
    server_order = [v.get(key) for v in target]
    rest = [k for k in live if k not in patched]
    return [patched[k] if k in patched else live[k] for k in _interleave(rest, ordered, server_order)]


def _interleave(left: list[Any], right: list[Any], order: list[Any]) -> list[Any]:
    """Puts entries that only the server has between the patch's, by the live order where it is known."""
    merged: list[Any] = []
    left, right = list(left), list(right)
    while left and right:
        known = left[0] in order and right[0] in order
        first = known and order.index(left[0]) < order.index(right[0])
        merged.append(left.pop(0) if first else right.pop(0))
    return merged + left + right
