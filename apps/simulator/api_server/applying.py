"""PATCH by its content type: server-side apply here, all other patches in writing."""

from __future__ import annotations

from apps.simulator.api_server.calls import Answer, Call
from apps.simulator.api_server.cluster import Cluster
from apps.simulator.api_server.decoding import check_kind, tidy_object
from apps.simulator.api_server.reading import answer_object
from apps.simulator.api_server.server_side_apply import (
    begin_owners,
    check_force,
    merge_applied,
    read_apply_body,
)
from apps.simulator.api_server.statuses import DecodeError, bad_request
from apps.simulator.api_server.writing import (
    APPLY_PATCH,
    admit_creation,
    change,
    check_version,
    patch_once_more,
    store_new,
)


async def patch(cluster: Cluster, call: Call) -> Answer:
    if call.content_type == APPLY_PATCH:
        return await apply(cluster, call)
    check_force(call)
    return await patch_once_more(cluster, call)


async def apply(cluster: Cluster, call: Call) -> Answer:
    """Creates the object, or merges what this manager wants into it."""
    body = read_apply_body(call)
    check_kind(call.kind, body)
    try:
        wanted = tidy_object(call.kind, body)
    except DecodeError as error:
        raise bad_request(f"failed to create typed patch object: {error}") from None
    while True:
        current = cluster.get(call.kind, call.namespace, call.name)
        if current is None:
            obj = await admit_creation(cluster, call, tidy_object(call.kind, body))
            begin_owners(call, obj, wanted)
            return answer_object(call, store_new(cluster, call, obj), code=201)
        check_version(call, current, wanted["metadata"].get("resourceVersion", ""))
        merged = merge_applied(call, current.copy(), wanted)
        merged = tidy_object(call.kind, merged)
        stored = await change(cluster, call, current, merged)
        if stored is not None:
            return answer_object(call, stored)
