"""Server-side apply: who owns which field, conflicts between appliers, fields that go when nobody wants them.

Ownership is tracked from the first apply of an object on; earlier writers of it are not known. Lists with
a merge key are merged entry by entry, all other lists are one field.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import yaml

from apps.simulator.api_server.calls import Call, now_text
from apps.simulator.api_server.kinds import Kind
from apps.simulator.api_server.patches import MERGE_KEYS
from apps.simulator.api_server.statuses import (
    ApiError,
    bad_request,
    forbidden_value,
    invalid_options,
    required,
)

Path = tuple[str, ...]  # "f:name" for a field, 'k:{"name":"x"}' for an entry of a keyed list
Owners = dict[tuple[str, str], set[Path]]  # (manager, operation) to the fields owned


def read_apply_body(call: Call) -> dict[str, Any]:
    if not call.query.get("fieldManager"):
        raise invalid_options("PatchOptions", required("fieldManager", "is required for apply patch"))
    try:
        body = yaml.safe_load(call.body)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(body, dict):
        raise bad_request("an apply patch must be one object")
    metadata = body.setdefault("metadata", {})
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    if metadata.get("name", call.name) != call.name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({call.name})"
        )
    metadata["name"] = call.name
    return body


def check_force(call: Call) -> None:
    if call.query.get("force"):
        cause = forbidden_value("force", "may not be specified for non-apply patch")
        raise invalid_options("PatchOptions", cause)


def leaves(value: Any, name: str = "", at: Path = ()) -> dict[Path, Any]:
    """Every owned field of an object with its value."""
    if isinstance(value, dict) and (value or not at):
        found: dict[Path, Any] = {}
        for key, entry in value.items():
            found.update(leaves(entry, key, (*at, f"f:{key}")))
        return found
    key = MERGE_KEYS.get(name, "")
    if key and isinstance(value, list) and value and all(isinstance(v, dict) and key in v for v in value):
        found = {}
        for entry in value:
            step = "k:" + json.dumps({key: entry[key]}, separators=(",", ":"))
            found.update(leaves(entry, "", (*at, step)))
        return found
    return {at: value} if at else {}


def owned_leaves(obj: dict[str, Any]) -> dict[Path, Any]:
    shown = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    metadata = shown.pop("metadata", {})
    wanted = ("labels", "annotations", "finalizers", "ownerReferences")
    kept = {key: metadata[key] for key in wanted if metadata.get(key)}
    return leaves({"metadata": kept, **shown} if kept else shown)


def merge_applied(call: Call, live: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The live object with the applied fields set and the dropped ones gone; 409 on a conflict."""
    manager = (call.query["fieldManager"], "Apply")
    owners, fields = read_owners(live), owned_leaves(wanted)
    now = owned_leaves(live)
    conflicts = [
        (other, path)
        for other, paths in owners.items()
        if other != manager
        for path in sorted(paths & fields.keys())
        if now.get(path) != fields[path]
    ]
    if conflicts and call.query.get("force") not in ("true", "1"):
        raise _conflict(call.kind, conflicts)
    for other, path in conflicts:
        owners[other].discard(path)
    result = copy.deepcopy(live)
    dropped = owners.get(manager, set()) - fields.keys()
    held = set().union(*(paths for other, paths in owners.items() if other != manager))
    for path in sorted(dropped - held, reverse=True):
        _erase(result, path)
    for path, value in fields.items():
        _write(result, path, value)
    owners[manager] = set(fields)
    write_owners(call.kind, result, owners, live)
    return result


def note_update(call: Call, old: dict[str, Any], new: dict[str, Any]) -> None:
    """An ordinary write takes the fields that it changes from their appliers."""
    if not old["metadata"].get("managedFields"):
        return
    owners, before, after = read_owners(old), owned_leaves(old), owned_leaves(new)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    for paths in owners.values():
        paths -= changed
    owners.setdefault((call.manager, "Update"), set()).update(changed & after.keys())
    write_owners(call.kind, new, owners, old)


def begin_owners(call: Call, obj: dict[str, Any], wanted: dict[str, Any]) -> None:
    write_owners(call.kind, obj, {(call.query["fieldManager"], "Apply"): set(owned_leaves(wanted))}, {})


def _conflict(kind: Kind, conflicts: list[tuple[tuple[str, str], Path]]) -> ApiError:
    def shown(owner: tuple[str, str]) -> str:
        return f'conflict with "{owner[0]}"' + (f" using {kind.api_version}" if owner[1] == "Update" else "")

    count = len(conflicts)
    sentences = [f"{shown(owner)}: {_dotted(path)}" for owner, path in conflicts]
    causes = [
        {"reason": "FieldManagerConflict", "message": shown(owner), "field": _dotted(path)}
        for owner, path in conflicts
    ]
    message = f"Apply failed with {count} conflict{'s' if count > 1 else ''}: {', '.join(sentences)}"
    return ApiError(409, message, "Conflict", {"causes": causes})


def _dotted(path: Path) -> str:
    return "".join(f".{step[2:]}" if step.startswith("f:") else f"[{_key_text(step)}]" for step in path)


def _key_text(step: str) -> str:
    return ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(step[2:]).items())


def _entry(where: list[Any], step: str) -> dict[str, Any] | None:
    key, value = next(iter(json.loads(step[2:]).items()))
    return next((entry for entry in where if isinstance(entry, dict) and entry.get(key) == value), None)


def _write(obj: dict[str, Any], path: Path, value: Any) -> None:
    where: Any = obj
    for step, following in zip(path, path[1:], strict=False):
        if step.startswith("k:"):
            entry = _entry(where, step)
            if entry is None:
                entry = json.loads(step[2:])
                where.append(entry)
            where = entry
        else:
            empty: Any = [] if following.startswith("k:") else {}
            if not isinstance(where.get(step[2:]), type(empty)):
                where[step[2:]] = empty
            where = where[step[2:]]
    where[path[-1][2:]] = copy.deepcopy(value)


def _erase(obj: dict[str, Any], path: Path) -> None:
    where: Any = obj
    for step in path[:-1]:
        where = _entry(where, step) if step.startswith("k:") else where.get(step[2:])
        if where is None:
            return
    if isinstance(where, dict):
        where.pop(path[-1][2:], None)


# --- managedFields


def read_owners(obj: dict[str, Any]) -> Owners:
    return {
        (entry["manager"], entry["operation"]): set(_unfold(entry.get("fieldsV1") or {}, ()))
        for entry in obj["metadata"].get("managedFields", ())
    }


def write_owners(kind: Kind, obj: dict[str, Any], owners: Owners, before: dict[str, Any]) -> None:
    known = {(e["manager"], e["operation"]): e for e in before.get("metadata", {}).get("managedFields", ())}
    entries = []
    for (manager, operation), paths in owners.items():
        if not paths and operation == "Update":
            continue
        entry = {
            "manager": manager,
            "operation": operation,
            "apiVersion": kind.api_version,
            "time": now_text(),
            "fieldsType": "FieldsV1",
            "fieldsV1": _fold(paths),
        }
        old = known.get((manager, operation))
        same = old is not None and old.get("fieldsV1") == entry["fieldsV1"]
        entries.append(old if same else entry)
    obj["metadata"]["managedFields"] = entries


def _fold(paths: set[Path]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        where = tree
        for step in path:
            where = where.setdefault(step, {})
    return tree


def _unfold(tree: dict[str, Any], at: Path) -> list[Path]:
    if not tree:
        return [at] if at else []
    return [path for step, below in tree.items() if step != "." for path in _unfold(below, (*at, step))]
