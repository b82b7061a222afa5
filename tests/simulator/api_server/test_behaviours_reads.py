"""Reads and watches: behaviours 43 to 52 of a real API server, each named by its number."""

import base64
import json

import pytest

from tests.simulator.api_server.conftest import NS, deployment, node, pod

SECRETS = f"{NS}/secrets"


@pytest.fixture
def secrets(api):
    for i in range(5):
        api.post(SECRETS, {"metadata": {"name": f"s{i}", "labels": {"k": "v"}}})


def shown(events):
    return [(e["type"], e["object"]["metadata"].get("name")) for e in events]


def test_behaviour_43_a_version_from_the_future_times_out_in_a_list_and_is_silence_in_a_watch(api, secrets):
    reply = api.get(SECRETS, resourceVersion="99999999")
    assert (reply.code, reply.reason, reply.headers["Retry-After"]) == (504, "Timeout", "1")
    assert reply.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert api.watch(SECRETS, resourceVersion="99999999") == []
    soon, first, second = api.get(SECRETS).version + 1, *({"metadata": {"name": n}} for n in ("a", "b"))
    steps = [("POST", SECRETS, first), ("POST", SECRETS, second)]
    assert shown(api.watch(SECRETS, resourceVersion=str(soon), while_watching=steps)) == [("ADDED", "b")]


def test_behaviour_43_wrong_versions(api):
    assert api.get(SECRETS, resourceVersion="abc").code == 400
    reply = api.get(SECRETS, resourceVersionMatch="Exact")
    assert (reply.code, reply.json["details"]["kind"]) == (422, "ListOptions")


def test_behaviour_44_an_expired_watch_is_an_event_and_an_expired_list_a_410(api, secrets):
    old = api.get(SECRETS).version
    token = api.get(SECRETS, limit="2").json["metadata"]["continue"]
    api.post(SECRETS, {"metadata": {"name": "s9"}})
    api.thread.forget_history()
    (event,) = api.watch(SECRETS, resourceVersion=str(old))
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"].startswith(f"too old resource version: {old} (")
    exact = api.get(SECRETS, resourceVersionMatch="Exact", resourceVersion=str(old))
    assert (exact.code, exact.reason) == (410, "Expired")
    refused = api.get(SECRETS, **{"limit": "2", "continue": token})
    assert refused.code == 410
    again = refused.json["metadata"]["continue"]
    assert api.get(SECRETS, **{"limit": "2", "continue": again}).names == ["s2", "s3"]


def test_behaviour_44_an_exact_list_shows_the_past(api, secrets):
    old = api.get(SECRETS).version
    api.delete(f"{SECRETS}/s0")
    api.post(SECRETS, {"metadata": {"name": "s9"}})
    past = api.get(SECRETS, resourceVersionMatch="Exact", resourceVersion=str(old))
    assert (past.version, past.names) == (old, ["s0", "s1", "s2", "s3", "s4"])


def test_behaviour_46_pages_show_one_moment(api, secrets):
    first = api.get(SECRETS, limit="2")
    assert (first.names, first.json["metadata"]["remainingItemCount"]) == (["s0", "s1"], 3)
    token = first.json["metadata"]["continue"]
    content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert content == {"v": "meta.k8s.io/v1", "rv": first.version, "start": "/s1\0"}
    api.post(SECRETS, {"metadata": {"name": "s10"}})
    second = api.get(SECRETS, **{"limit": "2", "continue": token})
    assert (second.version, second.names) == (first.version, ["s2", "s3"])
    assert "remainingItemCount" not in api.get(SECRETS, limit="2", labelSelector="k=v").json["metadata"]
    assert len(api.get(SECRETS, limit="2", resourceVersion="0").names) == 6
    assert api.get(SECRETS, **{"continue": token, "resourceVersion": "5"}).code == 400
    assert api.get(SECRETS, **{"continue": "xyz"}).code == 400


def test_behaviour_47_a_watch_without_version_begins_with_all_objects(api, secrets):
    expected = [("ADDED", f"s{i}") for i in range(5)]
    assert shown(api.watch(SECRETS)) == expected
    assert shown(api.watch(SECRETS, resourceVersion="0")) == expected
    plain = api.get(f"{SECRETS}/s0", watch="1")
    assert plain.json["kind"] == "Secret"
    assert shown(api.watch(SECRETS, fieldSelector="metadata.name=s0")) == [("ADDED", "s0")]
    assert shown(api.watch("/api/v1/watch/namespaces/default/secrets/s0")) == [("ADDED", "s0")]


def test_behaviour_48_leaving_a_selector_is_deleted_with_the_old_labels_and_the_new_version(api):
    made = api.post(SECRETS, {"metadata": {"name": "w", "labels": {"sel": "1"}}})
    path = f"{SECRETS}/w"
    steps = [
        ("PATCH", path, {"metadata": {"labels": {"sel": "2"}}}),
        ("PATCH", path, {"metadata": {"labels": {"sel": "1", "more": "1"}}}),
        ("DELETE", path, None),
    ]
    events = api.watch(
        SECRETS, resourceVersion=str(made.version), labelSelector="sel=1", while_watching=steps
    )
    seen = [
        (e["type"], e["object"]["metadata"]["labels"], int(e["object"]["metadata"]["resourceVersion"]))
        for e in events
    ]
    assert seen == [
        ("DELETED", {"sel": "1"}, made.version + 1),
        ("ADDED", {"sel": "1", "more": "1"}, made.version + 2),
        ("DELETED", {"sel": "1", "more": "1"}, made.version + 3),
    ]


def test_behaviour_49_bookmarks_and_the_streaming_list(api, secrets):
    streaming = {"allowWatchBookmarks": "true", "sendInitialEvents": "true"}
    events = api.watch(SECRETS, resourceVersionMatch="NotOlderThan", **streaming)
    assert [e["type"] for e in events] == ["ADDED"] * 5 + ["BOOKMARK"]
    assert events[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    events = api.watch(SECRETS, seconds=2, resourceVersion="0", allowWatchBookmarks="true")
    assert [e["type"] for e in events][:6] == ["ADDED"] * 5 + ["BOOKMARK"]
    assert events[5]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    refused = api.get(SECRETS, watch="1", **streaming)
    assert (refused.code, refused.json["details"]["kind"]) == (422, "ListOptions")
    version = str(api.get(SECRETS).version)
    step = [("POST", SECRETS, {"metadata": {"name": "later"}})]
    asked = {"resourceVersion": version, "while_watching": step, "seconds": 4}
    added, *marks = api.watch(SECRETS, allowWatchBookmarks="true", **asked)
    assert added["type"] == "ADDED"
    seen = added["object"]["metadata"]["resourceVersion"]
    assert marks
    assert marks[0] == {
        "type": "BOOKMARK",
        "object": {"kind": "Secret", "apiVersion": "v1", "metadata": {"resourceVersion": seen}},
    }
    version = str(api.get(SECRETS).version)
    assert api.watch(SECRETS, resourceVersion=version) == []


def test_behaviour_50_field_and_label_selectors(api):
    api.post("/api/v1/nodes", node("n1"))
    api.post("/api/v1/nodes", node("n2", unschedulable=True))
    api.post(f"{NS}/pods", pod("on", nodeName="n1"))
    api.post(f"{NS}/pods", pod("off"))
    assert api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=false").names == ["n1"]
    assert api.get("/api/v1/pods", fieldSelector="spec.nodeName=n1").names == ["on"]
    assert api.get(f"{NS}/pods", fieldSelector="spec.nodeName=,status.phase!=Running").names == ["off"]
    assert api.get(f"{NS}/pods", labelSelector="app in (on, x),!nosuch,app").names == ["on"]
    assert api.get(f"{NS}/pods", labelSelector="app notin (on)").names == ["off"]
    unknown = api.get(f"{NS}/pods", fieldSelector="spec.priority=0")
    assert (unknown.code, unknown.message) == (400, "field label not supported: spec.priority")
    wrong = api.get(f"{NS}/pods", labelSelector="a in b")
    assert (wrong.code, wrong.message) == (400, "unable to parse requirement: found 'b' expected: '('")


def test_behaviour_51_the_404s_differ(api):
    unknown = api.get("/api/v1/nosuch")
    assert (unknown.code, unknown.message) == (404, "the server could not find the requested resource")
    group = api.get("/apis/nosuch.io/v1/things")
    assert (group.code, group.text) == (404, "404 page not found\n")
    assert group.headers["Content-Type"].startswith("text/plain")


def test_behaviour_52_refused_callers_methods_and_sizes(api):
    for token in ("", "bad"):
        reply = api.get("/api/v1/nodes", token=token)
        assert (reply.code, reply.reason) == (401, "Unauthorized")
    reply = api.post(f"{NS}/pods/p/eviction", {}, token="nobody-token")
    assert reply.code == 403
    assert reply.message == (
        'pods "p" is forbidden: User "nobody" cannot create resource "pods/eviction" in API group "" '
        'in the namespace "default"'
    )
    assert (api.post("/api/v1/nodes/n1", {}).code, api.get("/api/v1/nodes/none").code) == (405, 404)
    big = {"metadata": {"name": "big"}, "data": {"a": "x" * (3 << 20)}}
    reply = api.post(f"{NS}/configmaps", big)
    assert (reply.code, reply.message) == (413, "Request entity too large: limit is 3145728")
    big["data"]["a"] = "x" * ((1 << 20) + 1)
    assert api.post(f"{NS}/configmaps", big).code == 422


def test_behaviour_55_events_have_two_faces(api):
    body = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "no room",
        "reason": "FailedScheduling",
        "type": "Warning",
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "x",
        "action": "Scheduling",
    }
    assert api.post("/apis/events.k8s.io/v1/namespaces/default/events", body).json["note"] == "no room"
    core = api.get(f"{NS}/events", fieldSelector="involvedObject.name=p").json["items"][0]
    assert (core["message"], core["reportingComponent"]) == ("no room", "default-scheduler")
    assert (core["firstTimestamp"], core["lastTimestamp"], core["source"]) == (None, None, {})
    assert core["eventTime"] == "2026-01-01T00:00:00.000001Z"


def test_tables_and_partial_objects_by_accept(api):
    api.post("/api/v1/nodes", node("n1", unschedulable=True))
    table = api.get("/api/v1/nodes", accept="application/json;as=Table;g=meta.k8s.io;v=v1").json
    assert table["kind"] == "Table"
    assert [c["name"] for c in table["columnDefinitions"]][:3] == ["Name", "Status", "Roles"]
    assert table["rows"][0]["cells"][:2] == ["n1", "Unknown,SchedulingDisabled"]
    partial = api.get(
        "/api/v1/nodes/n1", accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    )
    assert set(partial.json) == {"kind", "apiVersion", "metadata"}


COLUMNS = {
    "/api/v1/nodes": "Name,Status,Roles,Age,Version,Internal-IP*,External-IP*,OS-Image*,Kernel-Version*,"
    "Container-Runtime*",
    "/api/v1/pods": "Name,Ready,Status,Restarts,Age,IP*,Node*,Nominated Node*,Readiness Gates*",
    "/api/v1/namespaces": "Name,Status,Age",
    "/api/v1/events": "Last Seen,Type,Reason,Object,Subobject*,Source*,Message,First Seen*,Count*,Name*",
    "/api/v1/configmaps": "Name,Data,Age",
    "/api/v1/secrets": "Name,Type,Data,Age",
    "/api/v1/serviceaccounts": "Name,Age",
    "/api/v1/resourcequotas": "Name,Request,Limit,Age",
    "/api/v1/limitranges": "Name,Created At",
    "/apis/coordination.k8s.io/v1/leases": "Name,Holder,Age",
    "/apis/apps/v1/deployments": "Name,Ready,Up-to-date,Available,Age,Containers*,Images*,Selector*",
    "/apis/apps/v1/replicasets": "Name,Desired,Current,Ready,Age,Containers*,Images*,Selector*",
    "/apis/apps/v1/statefulsets": "Name,Ready,Age,Containers*,Images*",
    "/apis/apps/v1/daemonsets": "Name,Desired,Current,Ready,Up-to-date,Available,Node Selector,Age,"
    "Containers*,Images*,Selector*",
    "/apis/batch/v1/jobs": "Name,Status,Completions,Duration,Age,Containers*,Images*,Selector*",
    "/apis/policy/v1/poddisruptionbudgets": "Name,Min Available,Max Unavailable,Allowed Disruptions,Age",
    "/apis/scheduling.k8s.io/v1/priorityclasses": "Name,Value,Global-Default,Age,PreemptionPolicy",
    "/apis/scheduling.x-k8s.io/v1alpha1/podgroups": "Name,Age",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": "Name,Created At",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": "Name,Created At",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings": "Name,Role,Age,Users*,Groups*,ServiceAccounts*",
    "/apis/resource.k8s.io/v1/resourceslices": "Name,Node,Driver,Pool,Age",
    "/apis/resource.k8s.io/v1/resourceclaims": "Name,State,Age",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates": "Name,Age",
    "/apis/resource.k8s.io/v1/deviceclasses": "Name,Age",
}
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


def test_every_kind_has_the_columns_that_kubectl_prints(api):
    for path, wanted in COLUMNS.items():
        columns = api.get(path, accept=TABLE).json["columnDefinitions"]
        assert ",".join(c["name"] + "*" * (c["priority"] > 0) for c in columns) == wanted


def test_cells_of_workloads(api):
    path = "/apis/apps/v1/namespaces/default/deployments"
    api.post(path, deployment("d", 2))
    (row,) = api.get(path, accept=TABLE).json["rows"]
    assert [*row["cells"][:4], *row["cells"][5:]] == ["d", "0/2", 0, 0, "main", "img", "app=d"]
    body = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}}
    api.post(f"{NS}/events", {**body, "reason": "R", "message": "m", "type": "Warning"})
    (row,) = api.get(f"{NS}/events", accept=TABLE).json["rows"]
    assert row["cells"] == ["<unknown>", "Warning", "R", "pod/p", "", "", "m", "<unknown>", 1, "e"]


def test_discovery_names_what_is_served(api):
    assert api.get("/version").json["gitVersion"] == "v1.36.2"
    groups = [g["name"] for g in api.get("/apis").json["groups"]]
    assert {"apps", "policy", "scheduling.x-k8s.io", "events.k8s.io"} <= set(groups)
    names = {r["name"]: r for r in api.get("/api/v1").json["resources"]}
    assert names["pods/eviction"]["group"] == "policy"
    assert names["nodes"]["shortNames"] == ["no"]
    assert api.get("/apis/scheduling.x-k8s.io/v1alpha1").json["resources"][0]["kind"] == "PodGroup"
