"""POST, PUT and PATCH: read the body, admit, check, store. Subresources that act (binding, eviction)
and deletion are rooms of their own."""

from __future__ import annotations

from typing import Any

from apps.simulator.api_server.admission import admit_new, charge_quota, check_namespace
from apps.simulator.api_server.calls import Answer, Call
from apps.simulator.api_server.cluster import Cluster
from apps.simulator.api_server.custom_kinds import check_schema, fill_defaults, prune
from apps.simulator.api_server.decoding import decode_object, read_json, tidy_object
from apps.simulator.api_server.events import from_wire, to_wire
from apps.simulator.api_server.patches import PatchRefused, json_patch, merge_patch, strategic_merge
from apps.simulator.api_server.pod_defaults import random_suffix
from apps.simulator.api_server.pod_rules import check_new_pod
from apps.simulator.api_server.reading import answer_object
from apps.simulator.api_server.server_side_apply import note_update
from apps.simulator.api_server.statuses import (
    ApiError,
    Cause,
    DecodeError,
    already_exists,
    bad_request,
    bad_value,
    conflict,
    invalid,
    invalid_patch,
    modified,
    not_found,
    required,
)
from apps.simulator.api_server.store import Stored, encode
from apps.simulator.api_server.strategies import (
    begin_object,
    begin_status,
    bump_generation,
    carry_over,
    check_object,
    check_update,
    same_content,
)
from apps.simulator.api_server.webhooks import mutate

JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC_PATCH, APPLY_PATCH = "application/strategic-merge-patch+json", "application/apply-patch+yaml"


async def create(cluster: Cluster, call: Call) -> Answer:
    kind = call.kind
    obj = from_wire(kind, decode_object(call))
    obj = await admit_creation(cluster, call, obj)
    stored = store_new(cluster, call, obj)
    return answer_object(call, stored, code=201)


async def admit_creation(cluster: Cluster, call: Call, obj: dict[str, Any]) -> dict[str, Any]:
    """The object as it will be stored, after naming, defaults, admission and checks."""
    kind, metadata = call.kind, obj["metadata"]
    if metadata.get("resourceVersion"):
        raise ApiError(500, "resourceVersion should not be set on objects to be created")
    metadata.pop("resourceVersion", None)
    _place_in_namespace(call, metadata)
    unnamed = not metadata.get("name")
    if unnamed:
        if not metadata.get("generateName"):
            raise invalid(kind, "", required("metadata.name", "name or generateName is required"))
        metadata["name"] = metadata["generateName"] + random_suffix()
    if kind.namespaced:
        check_namespace(cluster, call, metadata["name"])
    begin_object(kind, obj)
    await admit_new(cluster, call, obj)
    obj = await mutate(cluster, call, obj, None, unnamed=unnamed)
    begin_status(kind, obj)
    if kind.custom:
        shape_custom(call, obj)
    check_object(kind, obj)
    if kind.resource == "pods":
        check_new_pod(kind, obj)
        charge_quota(cluster, call, obj)
    return obj


def store_new(cluster: Cluster, call: Call, obj: dict[str, Any]) -> Stored:
    kind, name = call.kind, obj["metadata"]["name"]
    if cluster.get(kind, call.namespace, name) is not None:
        raise already_exists(kind, name)
    if call.dry_run:
        return Stored(obj, 0)
    return cluster.store.put(kind.storage, obj)


def shape_custom(call: Call, obj: dict[str, Any]) -> None:
    """Prunes, defaults and checks a custom object by its schema."""
    dropped = prune(call.kind.schema, obj)
    if dropped and call.query.get("fieldValidation") == "Strict":
        unknown = ", ".join(f'unknown field "{path}"' for path in dropped)
        raise bad_request(f"{call.kind.kind} in version {call.kind.version} cannot be handled: {unknown}")
    if call.query.get("fieldValidation") != "Ignore":
        call.warnings.extend(f'unknown field "{path}"' for path in dropped)
    fill_defaults(call.kind.schema, obj)
    check_schema(call.kind, obj)


def _place_in_namespace(call: Call, metadata: dict[str, Any]) -> None:
    if not call.kind.namespaced:
        metadata.pop("namespace", None)
        return
    sent = metadata.setdefault("namespace", call.namespace)
    if sent != call.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


async def replace(cluster: Cluster, call: Call) -> Answer:
    """PUT of an object or of its status."""
    kind = call.kind
    obj = from_wire(kind, decode_object(call))
    metadata = obj["metadata"]
    if metadata.get("name", call.name) != call.name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({call.name})"
        )
    metadata["name"] = call.name
    _place_in_namespace(call, metadata)
    while True:
        current = cluster.get(kind, call.namespace, call.name)
        if current is None:
            return await _create_on_put(cluster, call, obj)
        version = metadata.get("resourceVersion", "")
        if not version and not kind.unconditional:
            zero = "0" if cluster.minor > 28 else "0x0"
            why = f"Invalid value: {zero}: must be specified for an update"
            cause = Cause("metadata.resourceVersion", "FieldValueInvalid", why)
            raise invalid(kind, call.name, cause, by_plural=True)
        check_version(call, current, version)
        if metadata.get("uid") and metadata["uid"] != current.obj["metadata"]["uid"]:
            raise conflict(kind, call.name, _uid_mismatch(call, metadata["uid"], current))
        stored = await change(cluster, call, current, Stored(obj, 0).copy())
        if stored is not None:
            return answer_object(call, stored)


def _uid_mismatch(call: Call, uid: str, current: Stored) -> str:
    found = current.obj["metadata"]["uid"]
    key = "/".join(filter(None, ("/registry", call.kind.plural, call.namespace, call.name)))
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
    )


async def _create_on_put(cluster: Cluster, call: Call, obj: dict[str, Any]) -> Answer:
    if not call.kind.creates_on_put:
        raise not_found(call.kind, call.name)
    obj = await admit_creation(cluster, call, obj)
    return answer_object(call, store_new(cluster, call, obj), code=201)


async def patch_once_more(cluster: Cluster, call: Call) -> Answer:
    """A patch without resourceVersion is applied to the newest object, again and again until it is stored."""
    _check_patch_type(call)
    document = read_json(call, what="patch")
    while True:
        current = cluster.get(call.kind, call.namespace, call.name)
        if current is None:
            raise not_found(call.kind, call.name)
        stored = await change(cluster, call, current, patched(call, current, document))
        if stored is not None:
            return answer_object(call, stored)


def _check_patch_type(call: Call) -> None:
    accepted = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    if call.kind.custom and call.content_type == STRATEGIC_PATCH:
        raise ApiError(
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(accepted),
            "UnsupportedMediaType",
        )
    if call.content_type not in (*accepted, STRATEGIC_PATCH):
        raise ApiError(415, "415: Unsupported Media Type", "UnsupportedMediaType", {})


def patched(call: Call, current: Stored, document: Any) -> dict[str, Any]:
    """The object that the patch asks for, decoded; not yet checked against the rules of its kind."""
    kind = call.kind
    before = {"kind": kind.kind, "apiVersion": kind.api_version, **to_wire(kind, current.copy())}
    try:
        if call.content_type == JSON_PATCH:
            after = json_patch(before, document)
        elif not isinstance(document, dict):
            raise bad_request("the patch must be a JSON object")
        elif call.content_type == MERGE_PATCH:
            after = merge_patch(before, document)
        else:
            after = strategic_merge(before, document)
    except PatchRefused as refused:
        if call.content_type == JSON_PATCH:
            message = "the server rejected our request due to an error in our request"
            raise ApiError(422, message, "Invalid", {}) from None
        raise bad_request(str(refused)) from None
    try:
        obj = from_wire(kind, tidy_object(kind, after))
    except DecodeError as error:
        strategic = call.content_type == STRATEGIC_PATCH
        shown = go_text(document) if strategic else encode(after).decode()
        raise invalid_patch(shown, str(error)) from None
    _check_identity(call, current, obj)
    return obj


def go_text(value: Any) -> str:
    """A value as Go prints it, which is how a strategic patch is quoted back."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(go_text(entry) for entry in value)}]"
    if value is None or isinstance(value, bool):
        return {None: "<nil>", True: "true", False: "false"}[value]
    return str(value)


def check_version(call: Call, current: Stored, version: str) -> None:
    """Optimistic concurrency: an empty version is not checked."""
    if version and version != str(current.revision):
        raise modified(call.kind, call.name)


def _check_identity(call: Call, current: Stored, obj: dict[str, Any]) -> None:
    metadata, before = obj["metadata"], current.obj["metadata"]
    check_version(call, current, metadata.get("resourceVersion", ""))
    if metadata.get("name") != before["name"]:
        raise bad_request(
            f"the name of the object ({metadata.get('name')}) "
            f"does not match the name on the URL ({call.name})"
        )
    if metadata.get("uid", before["uid"]) != before["uid"]:
        raise invalid(call.kind, call.name, bad_value("metadata.uid", metadata["uid"], "field is immutable"))
    if metadata.get("namespace", call.namespace) != call.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


async def change(cluster: Cluster, call: Call, current: Stored, new: dict[str, Any]) -> Stored | None:
    """Stores an update of `current`; None when another writer was faster and the caller must look again."""
    kind = call.kind
    new = carry_over(kind, current.obj, new, call.subresource)
    new = await mutate(cluster, call, new, current.obj)
    if cluster.get(kind, call.namespace, call.name) is not current:
        return None
    if kind.custom:
        shape_custom(call, new)
    check_object(kind, new, updating=True)
    check_update(kind, current.obj, new, call.subresource)
    return commit(cluster, call, current, new)


def commit(cluster: Cluster, call: Call, current: Stored, new: dict[str, Any]) -> Stored:
    """The last step of every update: nothing for no change, removal when the last finalizer went."""
    kind, metadata = call.kind, new["metadata"]
    applied = call.content_type == APPLY_PATCH
    if not applied and "managedFields" in current.obj["metadata"]:
        metadata["managedFields"] = current.obj["metadata"]["managedFields"]
    if same_content(current.obj, new) and (not applied or _same_owners(current.obj, new)):
        return current
    if not applied:
        note_update(call, current.obj, new)
    bump_generation(kind, current.obj, new)
    if call.dry_run:
        return Stored(new, 0)
    ended = metadata.get("deletionTimestamp") and not metadata.get("deletionGracePeriodSeconds")
    if ended and not metadata.get("finalizers") and not _namespace_holds(kind, new):
        return cluster.store.drop(kind.storage, (call.namespace, call.name), final=new)
    return cluster.store.put(kind.storage, new)


def _same_owners(old: dict[str, Any], new: dict[str, Any]) -> bool:
    return old["metadata"].get("managedFields") == new["metadata"].get("managedFields")


def _namespace_holds(kind: Any, obj: dict[str, Any]) -> bool:
    return kind.resource == "namespaces" and bool(obj.get("spec", {}).get("finalizers"))
