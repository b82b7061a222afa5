"""Small subresources and reviews: scale, log, finalize, SelfSubjectAccessReview and its like."""

from __future__ import annotations

from typing import Any

from apps.simulator.api_server.calls import Answer, Call
from apps.simulator.api_server.cluster import Cluster
from apps.simulator.api_server.decoding import read_json, read_object
from apps.simulator.api_server.patches import json_patch, merge_patch, strategic_merge
from apps.simulator.api_server.statuses import ApiError, bad_request, modified, not_found
from apps.simulator.api_server.store import Stored, encode
from apps.simulator.api_server.writing import JSON_PATCH, MERGE_PATCH, change, commit


def _current(cluster: Cluster, call: Call) -> Stored:
    stored = cluster.get(call.kind, call.namespace, call.name)
    if stored is None:
        raise not_found(call.kind, call.name)
    return stored


def _scale_of(stored: Stored) -> dict[str, Any]:
    obj, metadata = stored.obj, stored.obj["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    labels = (obj.get("spec", {}).get("selector") or {}).get("matchLabels", {})
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in shown if key in metadata},
        "spec": {"replicas": obj.get("spec", {}).get("replicas", 0)},
        "status": {
            "replicas": obj.get("status", {}).get("replicas", 0),
            "selector": ",".join(f"{k}={v}" for k, v in sorted(labels.items())),
        },
    }


async def scale(cluster: Cluster, call: Call) -> Answer:
    current = _current(cluster, call)
    if call.method == "GET":
        return Answer(200, encode(_scale_of(current)))
    while True:
        wanted = _wanted_scale(call, _scale_of(current))
        version = wanted.get("metadata", {}).get("resourceVersion", "")
        if version and version != str(current.revision):
            raise modified(call.kind, call.name)
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
            raise bad_request(f"spec.replicas must be a whole number of 0 or more, not {replicas!r}")
        new = current.copy()
        new["spec"]["replicas"] = replicas
        stored = await change(cluster, call, current, new)
        if stored is not None:
            return Answer(200, encode(_scale_of(stored)))
        current = _current(cluster, call)


def _wanted_scale(call: Call, before: dict[str, Any]) -> dict[str, Any]:
    body = read_json(call, what="Scale")
    if call.method == "PUT":
        return body
    if call.content_type == JSON_PATCH:
        return json_patch(before, body)
    return merge_patch(before, body) if call.content_type == MERGE_PATCH else strategic_merge(before, body)


async def finalize(cluster: Cluster, call: Call) -> Answer:
    """PUT namespaces/x/finalize: takes the namespace's own finalizers; without any it goes."""
    current, body = _current(cluster, call), read_object(call)
    new = current.copy()
    finalizers = (body.get("spec") or {}).get("finalizers") or []
    new["spec"] = {**new.get("spec", {}), "finalizers": finalizers}
    if not finalizers:
        del new["spec"]["finalizers"]
    stored = commit(cluster, call, current, new)
    return Answer(200, call.kind.prefix + stored.body[1:])


async def log(cluster: Cluster, call: Call) -> Answer:
    """No kubelet listens: a log ends as a real server's question to one that cannot be reached."""
    pod = _current(cluster, call).obj
    name = pod["spec"].get("nodeName")
    if not name:
        return Answer(200, b"", content_type="text/plain")
    node = cluster.store.get("nodes", "", name)
    if node is None:
        raise not_found(call.kind, name)  # a real server says "pods", too
    addresses = node.obj["status"].get("addresses", ())
    if not addresses:
        raise ApiError(500, "no preferred addresses found; known addresses: []")
    place = f"{addresses[0].get('address')}:10250"
    container = call.query.get("container") or pod["spec"]["containers"][0]["name"]
    raise ApiError(
        500,
        f'Get "https://{place}/containerLogs/{call.namespace}/{call.name}/{container}": '
        f"dial tcp {place}: connect: connection refused",
    )


async def review(cluster: Cluster, call: Call) -> Answer:
    """Answers a question about the caller's own rights."""
    kind, body = call.kind, read_object(call)
    head = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {}}
    if kind.plural == "selfsubjectreviews":
        info = {"username": call.user.name, "groups": list(call.user.groups)}
        return Answer(201, encode({**head, "status": {"userInfo": info}}))
    spec = body.get("spec") or {}
    if kind.plural == "selfsubjectrulesreviews":
        granted, is_complete = call.user.granted_in(str(spec.get("namespace", "")))
        rules = [{"verbs": [verb], "apiGroups": ["*"], "resources": [what]} for verb, what in granted]
        status = {"resourceRules": rules, "nonResourceRules": [], "incomplete": not is_complete}
        return Answer(201, encode({**head, "spec": spec, "status": status}))
    asked = spec.get("resourceAttributes")
    if asked is None:
        return Answer(201, encode({**head, "spec": spec, "status": {"allowed": True}}))
    resource = asked.get("resource", "")
    if asked.get("subresource"):
        resource = f"{resource}/{asked['subresource']}"
    allowed = call.user.may(asked.get("verb", ""), resource, asked.get("namespace", ""))
    return Answer(201, encode({**head, "spec": spec, "status": {"allowed": allowed}}))
