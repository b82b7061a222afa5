"""GET and LIST: selectors, pages, resource versions, and the shapes a client may ask for."""

from __future__ import annotations

import asyncio
import base64
import json
from bisect import bisect_right
from typing import Any

from apps.simulator.api_server.calls import Answer, Call, read_number, read_revision
from apps.simulator.api_server.cluster import Cluster
from apps.simulator.api_server.events import to_wire
from apps.simulator.api_server.kinds import Kind
from apps.simulator.api_server.selectors import Selection, selection_of
from apps.simulator.api_server.statuses import (
    bad_request,
    expired,
    forbidden_value,
    invalid_options,
    not_found,
    too_large_version,
)
from apps.simulator.api_server.store import Key, Snapshot, Stored, TooOld, encode
from apps.simulator.api_server.tables import as_partial, as_table, wanted_shape

FUTURE_SECONDS = 3.0
LAST = "\U0010ffff"  # sorts after every name
TOKEN_VERSION = "meta.k8s.io/v1"
LIST_TOO_OLD = "The resourceVersion for the provided list is too old."
CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


def wire_body(kind: Kind, stored: Stored) -> bytes:
    """The JSON of an object without kind and apiVersion, as this version of its kind shows it."""
    if kind.group == "events.k8s.io":
        return encode(to_wire(kind, stored.obj))
    return stored.body


def whole_body(kind: Kind, stored: Stored) -> bytes:
    return kind.prefix + wire_body(kind, stored)[1:]


def answer_object(call: Call, stored: Stored, *, code: int = 200) -> Answer:
    headers = {"Warning": ", ".join(f'299 - "{_quoted(w)}"' for w in call.warnings)} if call.warnings else {}
    shape = wanted_shape(call.headers.get("Accept", ""))
    if shape == "table":
        return Answer(code, encode(as_table(call.kind, [stored], call.query)), headers)
    if shape == "partial":
        return Answer(code, encode(as_partial(call.kind, stored)), headers)
    return Answer(code, whole_body(call.kind, stored), headers)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


async def get(cluster: Cluster, call: Call) -> Answer:
    await wait_for_revision(cluster, call)
    stored = cluster.get(call.kind, call.namespace, call.name)
    if stored is None:
        raise not_found(call.kind, call.name)
    return answer_object(call, stored)


async def wait_for_revision(cluster: Cluster, call: Call) -> int | None:
    """The asked revision; waits a while for one that is not there yet, then gives up with 504."""
    asked = read_revision(call.query, minor=cluster.minor)
    if asked is not None and asked > cluster.store.revision:
        await asyncio.sleep(FUTURE_SECONDS)
        if asked > cluster.store.revision:
            raise too_large_version(asked, cluster.store.revision)
    return asked


async def list_objects(cluster: Cluster, call: Call) -> Answer:
    selection = selection_of(call.kind, call.namespace, call.query)
    _check_list_options(call)
    asked = await wait_for_revision(cluster, call)
    exact = call.query.get("resourceVersionMatch") == "Exact"
    limit = read_number(call.query, "limit", 0)
    token = call.query.get("continue", "")
    if asked == 0 and not token:
        limit = 0  # served from the watch cache, which does not page
    if token:
        revision, start = _open_token(call, token)
        snapshot, revision = _continue_at(cluster, call, revision, start)
    else:
        start = None
        revision = asked if exact and asked else cluster.store.revision
        snapshot = _at_revision(cluster, call, revision)
    page, remaining = _select(cluster, call, selection, snapshot, start, limit)
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if remaining:
        metadata["continue"] = _make_token(call, revision, page[-1][0])
        if not selection.selects:
            metadata["remainingItemCount"] = remaining
    return answer_list(call, [stored for _, stored in page], metadata)


def _check_list_options(call: Call) -> None:
    query = call.query
    if query.get("continue") and query.get("resourceVersion", "") not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    match = query.get("resourceVersionMatch", "")
    if not match:
        return
    field = "resourceVersionMatch"
    if query.get("continue"):
        raise invalid_options(
            "ListOptions",
            forbidden_value(field, "resourceVersionMatch is forbidden when continue is provided"),
        )
    if not query.get("resourceVersion"):
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise invalid_options("ListOptions", forbidden_value(field, why))
    if match == "Exact" and query["resourceVersion"] == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise invalid_options("ListOptions", forbidden_value(field, why))


def _at_revision(cluster: Cluster, call: Call, revision: int) -> Snapshot:
    try:
        return cluster.store.snapshot(call.kind.storage, revision)
    except TooOld:
        raise expired(LIST_TOO_OLD) from None


def _continue_at(cluster: Cluster, call: Call, revision: int, start: Key) -> tuple[Snapshot, int]:
    """The table for the next page. A negative revision in a token means: go on with what is there now."""
    if revision < 0:
        revision = cluster.store.revision
    try:
        return cluster.store.snapshot(call.kind.storage, revision), revision
    except TooOld:
        error = expired(CONTINUE_TOO_OLD)
        error.continue_token = _make_token(call, -1, start)
        raise error from None


def _select(
    cluster: Cluster, call: Call, selection: Selection, snapshot: Snapshot, start: Key | None, limit: int
) -> tuple[list[tuple[Key, Stored]], int]:
    """A page, and how many objects lie after it (with a selector only whether any do)."""
    order, objects = snapshot
    node = selection.pinned("spec.nodeName") if call.kind.storage == "pods" else None
    if node and objects is cluster.store.table("pods").objects:
        order = sorted(cluster.store.table("pods").by_node.get(node, {}))
    low = bisect_right(order, (selection.namespace, "")) if selection.namespace else 0
    high = bisect_right(order, (selection.namespace, LAST)) if selection.namespace else len(order)
    if start is not None:
        low = max(low, bisect_right(order, start))
    if not selection.selects:
        end = min(high, low + limit) if limit else high
        return [(key, objects[key]) for key in order[low:end]], high - end
    page: list[tuple[Key, Stored]] = []
    for key in order[low:high]:
        if selection.matches(objects[key].obj):
            if limit and len(page) == limit:
                return page, 1
            page.append((key, objects[key]))
    return page, 0


def _make_token(call: Call, revision: int, last: Key) -> str:
    namespace, name = last
    place = f"/{name}\0" if call.namespace or not call.kind.namespaced else f"/{namespace}/{name}\0"
    text = json.dumps({"v": TOKEN_VERSION, "rv": revision, "start": place}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _open_token(call: Call, token: str) -> tuple[int, Key]:
    """The revision and the last key of the page before."""
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        content = json.loads(raw)
        parts = content["start"].strip("/\0").split("/")
        revision = int(content["rv"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    if len(parts) == 1:
        return revision, (call.namespace, parts[0])
    return revision, (parts[0], parts[1])


def answer_list(call: Call, items: list[Stored], metadata: dict[str, Any]) -> Answer:
    kind, shape = call.kind, wanted_shape(call.headers.get("Accept", ""))
    if shape == "table":
        table = as_table(kind, items, call.query)
        table["metadata"] = metadata
        return Answer(200, encode(table))
    if shape == "partial":
        parts = [encode(as_partial(kind, stored)) for stored in items]
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    else:
        encoded = whole_body if kind.custom else wire_body
        parts = [encoded(kind, stored) for stored in items]
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata}
    return Answer(200, b"".join((encode(head)[:-1], b',"items":[', b",".join(parts), b"]}")))
