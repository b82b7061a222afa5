"""DELETE: preconditions, grace, finalizers and propagation, for one object or a collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.simulator.api_server.calls import Answer, Call, now_text, shift_time
from apps.simulator.api_server.cluster import Cluster
from apps.simulator.api_server.decoding import read_object
from apps.simulator.api_server.kinds import Kind
from apps.simulator.api_server.reading import answer_list, answer_object
from apps.simulator.api_server.selectors import selection_of
from apps.simulator.api_server.statuses import bad_request, conflict, details_of, not_found, success
from apps.simulator.api_server.store import Stored, encode

GC_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


@dataclass(frozen=True)
class DeleteOptions:
    """How to delete. A grace of None means: the object's own."""

    grace_seconds: int | None = None
    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    dry_run: bool = False


def read_options(query: dict[str, str], body: dict[str, Any]) -> DeleteOptions:
    """Options from a DELETE body or an Eviction's deleteOptions, and from the query."""
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy", "")
    orphans = body.get("orphanDependents", query.get("orphanDependents"))
    if orphans in (True, "true"):
        propagation = "Orphan"
    try:
        seconds = None if grace is None else int(grace)
    except (TypeError, ValueError):
        raise bad_request(f"gracePeriodSeconds must be a number, not {grace!r}") from None
    return DeleteOptions(
        seconds,
        preconditions.get("uid") or "",
        preconditions.get("resourceVersion") or "",
        propagation,
        query.get("dryRun") == "All" or "All" in (body.get("dryRun") or ()),
    )


def read_delete_body(call: Call) -> DeleteOptions:
    body = read_object(call, what="DeleteOptions") if call.body.strip() else {}
    return read_options(call.query, body)


async def delete(cluster: Cluster, call: Call) -> Answer:
    current = cluster.get(call.kind, call.namespace, call.name)
    if current is None:
        raise not_found(call.kind, call.name)
    last, gone = remove(cluster, call.kind, current, read_delete_body(call))
    if not gone or call.kind.returns_deleted:
        return answer_object(call, last)
    details = {**details_of(call.kind, call.name), "uid": current.obj["metadata"]["uid"]}
    return Answer(200, encode(success(details=details)))


async def delete_collection(cluster: Cluster, call: Call) -> Answer:
    selection, options = selection_of(call.kind, call.namespace, call.query), read_delete_body(call)
    table = cluster.store.table(call.kind.storage)
    chosen = [table.objects[key] for key in table.order if selection.matches(table.objects[key].obj)]
    removed = [remove(cluster, call.kind, stored, options)[0] for stored in chosen]
    return answer_list(call, removed, {"resourceVersion": str(cluster.store.revision)})


def check_preconditions(kind: Kind, current: Stored, options: DeleteOptions) -> None:
    metadata = current.obj["metadata"]
    if options.uid and options.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated"
        )
        raise conflict(kind, metadata["name"], why, by_kind=True)
    if options.resource_version and options.resource_version != str(current.revision):
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({current.revision}). The object might have been modified"
        )
        raise conflict(kind, metadata["name"], why, by_kind=True)


def remove(cluster: Cluster, kind: Kind, current: Stored, options: DeleteOptions) -> tuple[Stored, bool]:
    """Deletes or marks an object; answers its last state and whether it is gone."""
    check_preconditions(kind, current, options)
    obj = current.copy()
    metadata = obj["metadata"]
    graceful = kind.resource == "pods"
    if metadata.get("deletionTimestamp"):
        if not graceful or not _shorten(metadata, options):
            if graceful or metadata.get("finalizers") or _holds(kind, obj):
                return current, False
            return _drop(cluster, kind, current, options, None), True
    else:
        _mark_for_collector(kind, metadata, options)
        stays = metadata.get("finalizers") or _holds(kind, obj)
        if not graceful and not stays:
            return _drop(cluster, kind, current, options, None), True
        grace = _pod_grace(obj, options) if graceful else 0
        metadata["deletionTimestamp"] = now_text(after_seconds=grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
        if kind.resource == "namespaces":
            obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
            metadata.pop("deletionGracePeriodSeconds")
    marked = Stored(obj, 0) if options.dry_run else cluster.store.put(kind.storage, obj)
    if metadata.get("finalizers") or _holds(kind, obj) or metadata.get("deletionGracePeriodSeconds"):
        return marked, False
    return _drop(cluster, kind, marked, options, marked), True


def _mark_for_collector(kind: Kind, metadata: dict[str, Any], options: DeleteOptions) -> None:
    """The finalizer by which the garbage collector learns what becomes of the dependents."""
    # A Job deleted without a word leaves its pods behind; every other kind takes them along.
    propagation = options.propagation or ("Orphan" if (kind.group, kind.plural) == ("batch", "jobs") else "")
    finalizer = GC_FINALIZERS.get(propagation)
    if finalizer and finalizer not in metadata.setdefault("finalizers", []):
        metadata["finalizers"].append(finalizer)


def _drop(
    cluster: Cluster, kind: Kind, current: Stored, options: DeleteOptions, shown: Stored | None
) -> Stored:
    metadata = current.obj["metadata"]
    if options.dry_run:
        return current
    last = cluster.store.drop(kind.storage, (metadata.get("namespace", ""), metadata["name"]))
    return shown or last


def _holds(kind: Kind, obj: dict[str, Any]) -> bool:
    """A namespace waits for its content to be cleared away, whatever its metadata says."""
    return kind.resource == "namespaces" and bool(obj.get("spec", {}).get("finalizers"))


def _pod_grace(pod: dict[str, Any], options: DeleteOptions) -> int:
    own = pod["spec"].get("terminationGracePeriodSeconds", 30)
    grace = own if options.grace_seconds is None else options.grace_seconds
    if grace < 0:
        grace = 1
    unbound = not pod["spec"].get("nodeName")
    finished = pod["status"].get("phase") in ("Succeeded", "Failed")
    return 0 if unbound or finished else grace


def _shorten(metadata: dict[str, Any], options: DeleteOptions) -> bool:
    """A pod that is terminating already may only be given less time."""
    known, wanted = metadata.get("deletionGracePeriodSeconds", 0), options.grace_seconds
    if wanted is None:
        return False
    wanted = 1 if wanted < 0 else wanted
    if wanted >= known:
        return False
    metadata["deletionTimestamp"] = shift_time(metadata["deletionTimestamp"], wanted - known)
    metadata["deletionGracePeriodSeconds"] = wanted
    return True
