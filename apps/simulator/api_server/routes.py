"""From method and path to the room that answers. Kubernetes' URLs are regular: no table of them is needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from apps.simulator.api_server import applying, deletion, pod_actions, reading, subresources, writing
from apps.simulator.api_server.access import User, refuse_access
from apps.simulator.api_server.calls import Answer, Call
from apps.simulator.api_server.cluster import Cluster
from apps.simulator.api_server.kinds import KindTable
from apps.simulator.api_server.statuses import PlainNotFound, method_not_allowed, no_such_resource

Handler = Callable[[Cluster, Call], Awaitable[Answer]]
VERB_OF = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
NAMESPACE_PARTS = ("status", "finalize")


@dataclass(frozen=True)
class Place:
    """What a path names."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str
    old_watch: bool = False


def parse_path(path: str) -> Place:
    """PlainNotFound for a path that is not of a resource."""
    parts = [part for part in path.split("/") if part]
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif len(parts) > 3 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise PlainNotFound
    old_watch = rest[:1] == ["watch"]
    rest = rest[1:] if old_watch else rest
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and not (len(rest) == 3 and rest[2] in NAMESPACE_PARTS):
        namespace, rest = rest[1], rest[2:]
    if not rest or len(rest) > 3:
        raise PlainNotFound
    plural, name, subresource = (*rest, "", "")[:3]
    return Place(group, version, plural, namespace, name, subresource, old_watch)


def make_call(
    kinds: KindTable, method: str, path: str, query: dict[str, str], headers: Any, body: bytes, user: User
) -> Call:
    """Finds the kind and refuses what the user may not do, before anything is looked up."""
    place = parse_path(path)
    verb = _verb(method, place, query)
    resource = f"{place.plural}/{place.subresource}" if place.subresource else place.plural
    if not user.may(verb, resource, place.namespace):
        raise refuse_access(
            user,
            verb=verb,
            resource=resource,
            group=place.group,
            namespace=place.namespace,
            name=place.name,
        )
    kind = kinds.find(place.group, place.version, place.plural)
    if kind is None:
        known = place.group == "" or place.group in kinds.versions()
        raise no_such_resource() if known else PlainNotFound
    if place.subresource and place.subresource not in kind.subresources:
        raise no_such_resource()
    if place.namespace and not kind.namespaced:
        raise no_such_resource()
    if place.old_watch and place.name:
        query = {**query, "fieldSelector": f"metadata.name={place.name}"}
    return Call(
        method, verb, kind, place.namespace, "" if verb == "watch" else place.name, place.subresource,
        query, headers, body, user,
    )  # fmt: skip


def _verb(method: str, place: Place, query: dict[str, str]) -> str:
    if place.old_watch and method == "GET":
        return "watch"
    if method == "GET" and not place.name:
        return "watch" if query.get("watch") in ("1", "true") else "list"
    if method == "DELETE" and not place.name:
        return "deletecollection"
    return VERB_OF.get(method, method.lower())


MAIN: dict[str, Handler] = {
    "get": reading.get,
    "list": reading.list_objects,
    "create": writing.create,
    "update": writing.replace,
    "patch": applying.patch,
    "delete": deletion.delete,
    "deletecollection": deletion.delete_collection,
}
SUBRESOURCES: dict[str, dict[str, Handler]] = {
    "status": {"get": reading.get, "update": writing.replace, "patch": applying.patch},
    "scale": {"get": subresources.scale, "update": subresources.scale, "patch": subresources.scale},
    "binding": {"create": pod_actions.bind},
    "eviction": {"create": pod_actions.evict},
    "finalize": {"update": subresources.finalize},
    "log": {"get": subresources.log},
}


def handler_of(call: Call) -> Handler:
    """405 where the method makes no sense there."""
    if call.subresource:
        found = SUBRESOURCES[call.subresource].get(call.verb)
    elif not call.kind.stored:
        found = None
        if call.verb == "create" and not call.name:
            found = pod_actions.bind if call.kind.plural == "bindings" else subresources.review
    else:
        found = MAIN.get(call.verb)
        needs_name = call.verb in ("update", "patch", "delete", "get")
        if needs_name != bool(call.name):
            found = None
        if call.verb in ("create", "deletecollection") and call.kind.namespaced and not call.namespace:
            found = None
    if found is None:
        raise method_not_allowed()
    return found
