"""The control endpoints: faults on demand, the request log, and objects seeded past admission."""

import asyncio
import json
import time

import aiohttp
import pytest

from tests.simulator.api_server.conftest import NS, node, pod

PODS = f"{NS}/pods"


def add(api, **fault):
    reply = api.post("/_sim/faults", fault)
    assert reply.code == 200, reply.text
    return reply.json


def test_a_status_fault_hits_what_it_matches_as_often_as_it_says(api):
    add(
        api,
        action="status",
        match={"method": "POST", "path_regex": "/eviction$"},
        times=1,
        code=429,
        reason="TooManyRequests",
        message="slow down",
        retry_after=3,
    )
    assert api.get(PODS).code == 200
    reply = api.post(f"{PODS}/p/eviction", {})
    assert (reply.code, reply.reason, reply.headers["Retry-After"]) == (429, "TooManyRequests", "3")
    assert api.post(f"{PODS}/p/eviction", {}).code == 404


def test_a_fault_may_let_the_first_ones_pass_and_is_removed_by_name(api):
    add(api, name="later", action="status", skip=1, code=503)
    assert [api.get(PODS).code for _ in range(3)] == [200, 503, 503]
    assert api.get("/_sim/faults").json["faults"][0]["hits"] == 2
    assert api.post("/_sim/faults", {"remove": "later"}).json == {"removed": True}
    assert api.get(PODS).code == 200


def test_a_delay(api):
    add(api, action="delay", seconds=0.3, times=1)
    began = time.monotonic()
    assert api.get(PODS).code == 200
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize(("action", "code"), [("reset", 404), ("act-then-reset", 200)])
def test_a_broken_connection_before_or_after_the_deed(api, action, code):
    add(api, action=action, match={"method": "POST"}, times=1)
    with pytest.raises(aiohttp.ClientError):
        api.post(f"{NS}/configmaps", {"metadata": {"name": "a"}})
    assert api.get(f"{NS}/configmaps/a").code == code


def test_a_watch_that_is_cut_in_the_middle_of_a_line(api):
    for name in ("a", "b", "c"):
        api.post(f"{NS}/configmaps", {"metadata": {"name": name}})
    add(api, action="truncate-watch", match={"path_regex": "/configmaps$"}, after_events=1, times=1)

    async def read():
        seen = b""
        async with aiohttp.ClientSession(headers={"Authorization": "Bearer admin-token"}) as session:
            url = f"{api.server.url}{NS}/configmaps"
            async with session.get(url, params={"watch": "1"}, ssl=api.context) as response:
                try:
                    async for chunk in response.content.iter_any():
                        seen += chunk
                except aiohttp.ClientError:
                    pass
        return seen

    first, rest = api.loop.run_until_complete(asyncio.wait_for(read(), 10)).split(b"\n")
    assert json.loads(first)["type"] == "ADDED"
    assert rest.startswith(b'{"type":"ADDED"')
    with pytest.raises(ValueError, match="Unterminated|Expecting|delimiter"):
        json.loads(rest)


def test_open_watches_are_expired_and_cannot_go_on(api):
    version = api.post(f"{NS}/configmaps", {"metadata": {"name": "a"}}).version
    expire = ("POST", "/_sim/faults", {"action": "expire-watches", "match": {"path_regex": "configmaps"}})
    change = ("POST", f"{NS}/configmaps", {"metadata": {"name": "b"}})
    events = api.watch(f"{NS}/configmaps", resourceVersion=str(version), while_watching=[change, expire])
    assert [e["type"] for e in events] == ["ADDED", "ERROR"]
    assert events[-1]["object"]["code"] == 410
    assert [e["type"] for e in api.watch(f"{NS}/configmaps", resourceVersion=str(version))] == ["ERROR"]


def test_a_silent_watch_stays_open_and_says_nothing(api):
    add(api, action="silence-watches", match={"path_regex": "configmaps"}, times=1)
    change = ("POST", f"{NS}/configmaps", {"metadata": {"name": "b"}})
    version = str(api.server.store.revision)
    assert api.watch(f"{NS}/configmaps", resourceVersion=version, while_watching=[change]) == []
    assert len(api.watch(f"{NS}/configmaps", resourceVersion=version)) == 1


@pytest.mark.parametrize(
    "fault",
    [
        {"action": "explode"},
        {},
        {"action": "delay", "match": {"path_regex": "("}},
        {"action": "delay", "times": "x"},
    ],
)
def test_a_fault_that_makes_no_sense_is_refused_with_a_reason(api, fault):
    reply = api.post("/_sim/faults", fault)
    assert reply.code == 400
    assert reply.message.startswith("/_sim/faults: ")


def test_a_request_log_asked_for_by_a_bad_expression_is_refused_with_a_reason(api):
    reply = api.get("/_sim/requests", user_agent_regex="(")
    assert reply.code == 400
    assert reply.message.startswith("/_sim/requests: ")


def test_the_request_log_tells_who_did_what(api):
    began = time.time()
    api.post(f"{NS}/configmaps", {"metadata": {"name": "a"}}, dryRun="All")
    (record,) = api.get("/_sim/requests", since=str(began), user_agent_regex="^tests/").json["requests"][:1]
    assert (record["method"], record["path"], record["status"]) == ("POST", f"{NS}/configmaps", 201)
    assert (record["user"], record["user_agent"]) == ("kubernetes-admin", "tests/1")
    assert record["query"] == {"dryRun": "All"}
    assert json.loads(record["body"]) == {"metadata": {"name": "a"}}


def test_seeded_objects_keep_what_they_say(api, server_thread):
    running = {
        **pod("seeded", nodeName="n1"),
        "apiVersion": "v1",
        "kind": "Pod",
        "status": {"phase": "Running"},
    }
    running["metadata"] |= {"namespace": "scene", "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "things", "kind": "Thing"},
            "scope": "Cluster",
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": 1}}
    server_thread.call(
        api.server.seed, [{**node("n1"), "apiVersion": "v1", "kind": "Node"}, running, crd, thing]
    )
    stored = api.get("/api/v1/namespaces/scene/pods/seeded").json
    assert (stored["metadata"]["uid"], stored["status"]["phase"]) == ("u-1", "Running")
    assert stored["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert "taints" not in api.get("/api/v1/nodes/n1").json["spec"]
    assert api.get("/apis/example.com/v1/things/t").json["spec"] == {"a": 1}
    with pytest.raises(ValueError, match="no such kind"):
        server_thread.call(api.server.seed, [{"apiVersion": "x/v1", "kind": "Y", "metadata": {"name": "y"}}])


def test_a_caller_may_ask_what_he_may_do(api):
    def allowed(token):
        asked = {
            "spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "eviction"}}
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        reply = api.post(path, asked, token=token)
        return reply.code, reply.json.get("status", {})

    assert allowed("admin-token") == (201, {"allowed": True})
    rules = {"token": "t", "user": "evictless", "denied": [["create", "pods/eviction"]]}
    assert api.post("/_sim/tokens", rules).code == 200
    assert allowed("t") == (201, {"allowed": False})
    assert api.post(f"{NS}/pods/p/eviction", {}, token="t").code == 403
    assert api.get(f"{NS}/pods", token="t").code == 200


def test_only_the_administrator_sets_faults_and_makes_tokens(api):
    rules = {"token": "mine", "user": "root", "groups": ["system:masters"]}
    for token in ("nobody-token", "t"):
        if token == "t":
            assert api.post("/_sim/tokens", {"token": token, "user": "ada"}).code == 200
        assert api.post("/_sim/tokens", rules, token=token).code == 403
        assert api.get("/_sim/requests", token=token).code == 403
    assert api.get(f"{NS}/pods", token="mine").code == 401
