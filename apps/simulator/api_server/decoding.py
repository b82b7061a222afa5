"""From the JSON that a client sent to the object as the server's types hold it.

Nulls and empty lists go, quantities and times become canonical, unknown fields are told. Rules that
compare fields with each other are in the rooms of their kinds.
"""

from __future__ import annotations

import base64
import datetime
import json
import re
from copy import deepcopy
from typing import Any

from apps.simulator.api_server.calls import Call
from apps.simulator.api_server.kinds import Kind
from apps.simulator.api_server.protobuf import CONTENT_TYPE, read_protobuf
from apps.simulator.api_server.quantities import canonical_quantity
from apps.simulator.api_server.statuses import ApiError, DecodeError, bad_request

QUANTITY_MAPS = frozenset(("capacity", "allocatable", "limits", "requests", "hard", "used", "overhead"))
TEXT_MAPS = frozenset(("labels", "annotations", "nodeSelector", "matchLabels"))
EMPTY_MAPS = QUANTITY_MAPS | TEXT_MAPS | {"data", "binaryData", "disruptedPods"}
DROPPED_IF_FALSE = frozenset(("unschedulable", "hostNetwork", "hostPID", "hostIPC", "readOnly", "paused"))
DROPPED_IF_EMPTY = frozenset(
    (
        "nodeName",
        "nominatedNodeName",
        "generateName",
        "namespace",
        "providerID",
        "podCIDR",
        "priorityClassName",
    )
)
SCHEMA = "openAPIV3Schema"
KEPT_LISTS = frozenset(("rules", "items", "command", "args"))
TIMES = frozenset(
    (
        "lastHeartbeatTime", "lastTransitionTime", "lastProbeTime", "startTime", "startedAt", "finishedAt",
        "creationTimestamp", "deletionTimestamp", "timeAdded", "firstTimestamp", "lastTimestamp",
        "completionTime", "lastUpdateTime",
    )
)  # fmt: skip
MICRO_TIMES = frozenset(("eventTime", "renewTime", "acquireTime", "lastObservedTime"))
LISTS = frozenset(
    (
        "containers", "initContainers", "volumes", "tolerations", "taints", "conditions", "schedulingGates",
        "ownerReferences", "volumeMounts", "env",
    )
)  # fmt: skip
MAPS = frozenset(("labels", "annotations", "nodeSelector", "matchLabels", "affinity"))
CHECKED = TIMES | MICRO_TIMES | LISTS | MAPS  # fields whose values are looked at even when they are text
TIME = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)$")
METADATA = frozenset(
    (
        "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
        "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations",
        "ownerReferences", "finalizers", "managedFields",
    )
)  # fmt: skip
BODY_LIMIT = 3 * 1024 * 1024


def read_json(call: Call, *, what: str = "") -> Any:
    """The body as plain JSON, whatever it was written in."""
    if call.content_type == CONTENT_TYPE:
        return read_protobuf(call.body)
    try:
        return json.loads(call.body)
    except ValueError as error:
        shown = call.body[:200].decode(errors="replace")
        where = "unexpected end of JSON input" if len(call.body) < 2 else str(error)
        raise bad_request(
            f"the object provided is unrecognized (must be of type {what or call.kind.kind}): "
            f"couldn't get version/kind; json parse error: {where} ({shown})"
        ) from None


def read_object(call: Call, *, what: str = "") -> dict[str, Any]:
    body = read_json(call, what=what)
    if not isinstance(body, dict):
        raise bad_request(f"the body must be a JSON object of kind {what or call.kind.kind}")
    return body


def decode_object(call: Call) -> dict[str, Any]:
    """The object of a POST or PUT: of the right kind, tidy, without kind and apiVersion."""
    if call.content_type not in ("", "application/json", CONTENT_TYPE):
        raise ApiError(415, "the body of the request was in an unknown format", "UnsupportedMediaType")
    raw, kind = read_object(call), call.kind
    check_kind(kind, raw)
    try:
        obj = tidy_object(kind, raw)
    except DecodeError as error:
        raise _unfit(kind, str(error)) from None
    tell_unknown_fields(call, raw, obj)
    return obj


def _need_kind(kind: Kind, raw: dict[str, Any]) -> None:
    """Unlike a built-in one, a custom object must name its kind and version itself."""
    if not raw.get("kind"):
        text = json.dumps(raw)
        shown = json.dumps(f"{text[:44]} ...")[1:-1]
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): "
            f"Object 'Kind' is missing in '{text}' ({shown})"
        )
    if not raw.get("apiVersion"):
        raise bad_request(
            f"the API version in the data () does not match the expected API version ({kind.api_version})"
        )


def check_kind(kind: Kind, raw: dict[str, Any]) -> None:
    if kind.custom:
        _need_kind(kind, raw)
    sent, version = raw.get("kind") or kind.kind, raw.get("apiVersion") or kind.api_version
    if sent == kind.kind and version == kind.api_version:
        return
    if kind.custom:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({kind.api_version})"
            if sent == kind.kind
            else f"the kind in the data ({sent}) does not match the expected kind ({kind.kind})"
        )
    if sent == kind.kind:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({kind.api_version})"
        )
    short, internal = version.rpartition("/")[2], kind.group.partition(".")[0] or "core"
    raise _unfit(
        kind,
        f"converting ({short}.{sent}) to ({internal}.{kind.kind}): unknown conversion",
        sent=sent,
        version=version,
    )


def _unfit(kind: Kind, why: str, *, sent: str = "", version: str = "") -> ApiError:
    return bad_request(
        f'{sent or kind.kind} in version "{version or kind.version}" '
        f"cannot be handled as a {kind.kind}: {why}"
    )


def tidy_object(kind: Kind, raw: dict[str, Any]) -> dict[str, Any]:
    """A fresh object with metadata first; DecodeError where a value cannot be of its type."""
    metadata = raw.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise DecodeError("json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta")
    obj: dict[str, Any] = {"metadata": _tidy(metadata, "metadata")}
    for key, value in raw.items():
        if key in ("metadata", "kind", "apiVersion") or value is None:
            continue
        if kind.custom:
            obj[key] = value
        elif key in kind.fields:
            if key in ("spec", "status") and not isinstance(value, dict):
                raise _wrong_sort(value, key, kind.kind + key.title())
            obj[key] = _tidy(value, key)
    for key in [k for k in obj if obj[k] in ({}, []) and k in EMPTY_MAPS]:
        del obj[key]
    if kind.plural == "secrets" and "stringData" in obj:
        plain = obj.pop("stringData")
        coded = {key: base64.b64encode(str(text).encode()).decode() for key, text in plain.items()}
        obj["data"] = {**obj.get("data", {}), **coded}
    return obj


def _wrong_sort(value: Any, key: str, wanted: str) -> DecodeError:
    sort = {bool: "bool", str: "string", list: "array", dict: "object"}.get(type(value), "number")
    return DecodeError(f"json: cannot unmarshal {sort} into Go struct field .{key} of type {wanted}")


def _tidy(value: Any, key: str) -> Any:
    if key in LISTS and not (isinstance(value, list) and all(isinstance(v, dict) for v in value)):
        raise _wrong_sort(value, key, f"list of {key}")
    if key in MAPS and not isinstance(value, dict):
        raise _wrong_sort(value, key, "map")
    if isinstance(value, dict):
        if key in QUANTITY_MAPS and not any(isinstance(v, dict | list) for v in value.values()):
            return _quantities(value)
        if key in TEXT_MAPS and "nodeSelectorTerms" not in value:  # in DRA a nodeSelector is a structure
            return _texts(value, key)
        return _tidy_map(value)
    if isinstance(value, list):
        return [_tidy(entry, "") for entry in value]
    if isinstance(value, str):
        if key in TIMES:
            return canonical_time(value)
        if key in MICRO_TIMES:
            return canonical_micro_time(value)
    return value


def _tidy_map(value: dict[str, Any]) -> dict[str, Any]:
    tidy = {}
    for key, entry in value.items():
        if entry or not _is_dropped(key, entry):
            plain = entry.__class__ is str and key not in CHECKED
            # What a schema calls its properties says nothing of their kind here.
            tidy[key] = entry if plain else deepcopy(entry) if key == SCHEMA else _tidy(entry, key)
    return tidy


def _is_dropped(key: str, entry: Any) -> bool:
    """Whether a null, false or empty value is left out of the stored object."""
    if entry is None:
        return True
    if entry is False:
        return key in DROPPED_IF_FALSE
    if entry == "":
        return key in DROPPED_IF_EMPTY
    return (entry == [] and key not in KEPT_LISTS) or (entry == {} and key in EMPTY_MAPS)


def _quantities(value: dict[str, Any]) -> dict[str, str]:
    try:
        return {
            name: canonical_quantity(amount) for name, amount in sorted(value.items()) if amount is not None
        }
    except ValueError as error:
        raise DecodeError(str(error)) from None


def _texts(value: dict[str, Any], key: str) -> dict[str, str]:
    for text in value.values():
        if text is not None and not isinstance(text, str):
            raise _wrong_sort(text, f"metadata.{key}", "string")
    return {name: text for name, text in sorted(value.items()) if text is not None}


def _utc(match: re.Match[str]) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(f"{match[1]}{match[3].replace('Z', '+00:00')}")
    return moment.astimezone(datetime.UTC)


def canonical_time(text: str) -> str:
    match = TIME.match(text)
    if match is None:
        raise DecodeError(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}"')
    if match[3] == "Z":
        return f"{match[1]}Z"
    return _utc(match).strftime("%Y-%m-%dT%H:%M:%SZ")


def canonical_micro_time(text: str) -> str:
    """A metav1.MicroTime, which wants exactly six decimals."""
    match = TIME.match(text)
    if match is None or len(match[2] or "") != 7:
        layout, tail = "2006-01-02T15:04:05.000000Z07:00", text[19:] or text
        raise DecodeError(f'parsing time "{text}" as "{layout}": cannot parse "{tail}" as ".000000"')
    return f"{_utc(match).strftime('%Y-%m-%dT%H:%M:%S')}{match[2]}Z"


def tell_unknown_fields(call: Call, raw: dict[str, Any], obj: dict[str, Any]) -> None:
    """A Warning for each field that was dropped as unknown; 400 if the client asked to be strict."""
    mode = call.query.get("fieldValidation", "Warn")
    if mode == "Ignore":
        return
    unknown = [f"metadata.{name}" for name in raw.get("metadata") or {} if name not in METADATA]
    if not call.kind.custom:
        known = ("kind", "apiVersion", "metadata", *call.kind.fields)
        unknown += [name for name in raw if name not in known]
    warnings = [f'unknown field "{name}"' for name in unknown]
    for name in unknown:
        if name.startswith("metadata."):
            obj["metadata"].pop(name.removeprefix("metadata."), None)
    if warnings and mode == "Strict":
        raise _unfit(call.kind, f"strict decoding error: {', '.join(warnings)}")
    call.warnings.extend(warnings)
