"""Bodies in Kubernetes' protobuf, for the few kinds that kubectl sends so; all else must come as JSON.

Only what is sent to the server is read here. Answers are always JSON, which every client takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.simulator.api_server.statuses import ApiError, bad_request

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"

# field number to (name, sort); a sort is text, flag, number, texts, map, bytes-map, or a message's name
Fields = dict[int, tuple[str, str]]
MESSAGES: dict[str, Fields] = {
    "Unknown": {1: ("type", "TypeMeta"), 2: ("raw", "bytes")},
    "TypeMeta": {1: ("apiVersion", "text"), 2: ("kind", "text")},
    "ObjectMeta": {
        1: ("name", "text"),
        2: ("generateName", "text"),
        3: ("namespace", "text"),
        5: ("uid", "text"),
        6: ("resourceVersion", "text"),
        11: ("labels", "map"),
        12: ("annotations", "map"),
        14: ("finalizers", "texts"),
    },
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "number"),
        2: ("preconditions", "Preconditions"),
        3: ("orphanDependents", "flag"),
        4: ("propagationPolicy", "text"),
        5: ("dryRun", "texts"),
    },
    "Preconditions": {1: ("uid", "text"), 2: ("resourceVersion", "text")},
    "Eviction": {1: ("metadata", "ObjectMeta"), 2: ("deleteOptions", "DeleteOptions")},
    "ConfigMap": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "map"),
        4: ("immutable", "flag"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta")},
    "SelfSubjectAccessReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "AccessSpec")},
    "SelfSubjectRulesReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "RulesSpec")},
    "SelfSubjectReview": {1: ("metadata", "ObjectMeta")},
    "RulesSpec": {1: ("namespace", "text")},
    "AccessSpec": {1: ("resourceAttributes", "Resource"), 2: ("nonResourceAttributes", "NonResource")},
    "Resource": {
        1: ("namespace", "text"),
        2: ("verb", "text"),
        3: ("group", "text"),
        4: ("version", "text"),
        5: ("resource", "text"),
        6: ("subresource", "text"),
        7: ("name", "text"),
    },
    "NonResource": {1: ("path", "text"), 2: ("verb", "text")},
}
TOP = (
    "DeleteOptions", "Eviction", "ConfigMap", "Namespace", "SelfSubjectAccessReview",
    "SelfSubjectRulesReview", "SelfSubjectReview",
)  # fmt: skip


def read_protobuf(body: bytes) -> dict[str, Any]:
    """The object in a protobuf body; 415 for kinds that are not read here."""
    if not body.startswith(MAGIC):
        raise bad_request("the body is said to be protobuf, but does not begin as Kubernetes' protobuf does")
    try:
        envelope = _message("Unknown", body[len(MAGIC) :])
        sort = envelope.get("type", {})
        if sort.get("kind") not in TOP:
            message = f"{sort.get('kind')} is not read as protobuf here; send it as application/json"
            raise ApiError(415, message, "UnsupportedMediaType")
        return {**sort, **_message(sort["kind"], envelope.get("raw", b""))}
    except (IndexError, UnicodeDecodeError) as error:
        raise bad_request(f"the protobuf body ends too early or is damaged: {error}") from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            return value, at
        shift += 7


def _parts(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif wire == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise IndexError("length beyond the end")
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            at += 8 if wire == 1 else 4


def _message(name: str, data: bytes) -> dict[str, Any]:
    fields = MESSAGES[name]
    found: dict[str, Any] = {}
    for number, value in _parts(data):
        if number in fields:
            _put(found, *fields[number], value)
    return found


def _put(found: dict[str, Any], name: str, sort: str, value: int | bytes) -> None:
    if isinstance(value, int):
        signed = value - (1 << 64) if value >> 63 else value
        found[name] = bool(value) if sort == "flag" else signed
    elif sort == "text":
        if value:
            found[name] = value.decode()
    elif sort == "texts":
        found.setdefault(name, []).append(value.decode())
    elif sort == "map":
        pair = dict(_parts(value))
        key, text = pair.get(1, b""), pair.get(2, b"")
        if isinstance(key, bytes) and isinstance(text, bytes):
            found.setdefault(name, {})[key.decode()] = text.decode()
    elif sort == "bytes":
        found[name] = value
    else:
        found[name] = _message(sort, value)
