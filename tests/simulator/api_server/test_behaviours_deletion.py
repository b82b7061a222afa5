"""Deletion: behaviours 33 to 37 of a real API server, each named by its number."""

import datetime

import pytest

from tests.simulator.api_server.conftest import NS, deployment, pod

PODS = f"{NS}/pods"
WRONG_UID = "11111111-2222-3333-4444-555555555555"


def seconds_from_now(text):
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (moment - datetime.datetime.now(datetime.UTC)).total_seconds()


@pytest.fixture
def bound(api):
    return api.post(PODS, pod(nodeName="n1")).json


def test_behaviour_33_an_unbound_pod_is_gone_at_once_and_is_the_answer(api):
    api.post(PODS, pod())
    assert api.delete(f"{PODS}/p").json["kind"] == "Pod"
    assert api.get(f"{PODS}/p").code == 404


def test_behaviour_33_a_bound_pod_ends_in_the_future_and_its_grace_only_shrinks(api, bound):
    marked = api.delete(f"{PODS}/p")
    assert 25 < seconds_from_now(marked.json["metadata"]["deletionTimestamp"]) <= 30
    assert marked.json["metadata"]["generation"] == bound["metadata"]["generation"] + 1
    assert api.delete(f"{PODS}/p").version == marked.version
    assert api.delete(f"{PODS}/p", {"gracePeriodSeconds": 300}).version == marked.version
    shorter = api.delete(f"{PODS}/p", {"gracePeriodSeconds": 5}).json["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert seconds_from_now(shorter["deletionTimestamp"]) <= 5


def test_behaviour_33_other_kinds_answer_with_a_status(api):
    made = api.post(f"{NS}/configmaps", {"metadata": {"name": "a"}}).json
    reply = api.delete(f"{NS}/configmaps/a").json
    assert (reply["kind"], reply["status"]) == ("Status", "Success")
    assert reply["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}


def test_behaviour_34_grace_zero_on_a_terminating_pod_is_two_events(api, bound):
    version = api.delete(f"{PODS}/p").version
    kill = ("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    events = api.watch(PODS, resourceVersion=str(version), while_watching=[kill])
    assert [e["type"] for e in events] == ["MODIFIED", "DELETED"]
    assert [int(e["object"]["metadata"]["resourceVersion"]) for e in events] == [version + 1, version + 2]
    assert events[0]["object"]["metadata"]["deletionGracePeriodSeconds"] == 0


def test_behaviour_34_negative_grace_is_a_second_and_a_finished_pod_goes_at_once(api, bound):
    assert (
        api.delete(f"{PODS}/p", {"gracePeriodSeconds": -5}).json["metadata"]["deletionGracePeriodSeconds"]
        == 1
    )
    api.delete(f"{PODS}/p", gracePeriodSeconds="0")
    assert api.get(f"{PODS}/p").code == 404
    api.post(PODS, pod("done", nodeName="n1"))
    api.patch(f"{PODS}/done/status", {"status": {"phase": "Succeeded"}})
    api.delete(f"{PODS}/done")
    assert api.get(f"{PODS}/done").code == 404


def test_behaviour_35_preconditions_conflict_by_kind(api, bound):
    for wrong, words in (
        ({"uid": WRONG_UID}, f"the UID in the precondition ({WRONG_UID}) does not match the UID in record"),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1) does not match"),
    ):
        reply = api.delete(f"{PODS}/p", {"preconditions": wrong})
        assert (reply.code, reply.json["details"]) == (409, {"name": "p", "kind": "Pod"})
        assert words in reply.message


def test_behaviour_36_a_finalizer_keeps_a_pod_and_the_last_one_takes_it_along(api):
    api.post(PODS, pod(nodeName="n1", metadata={"finalizers": ["example.com/f"]}))
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert api.get(f"{PODS}/p").code == 200
    more = api.patch(f"{PODS}/p", {"metadata": {"finalizers": ["example.com/f", "example.com/g"]}})
    assert more.code == 422
    assert "no new finalizers can be added" in more.message
    assert api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}}).json["kind"] == "Pod"
    assert api.get(f"{PODS}/p").code == 404


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
def test_behaviour_37_propagation_is_left_to_the_garbage_collector_by_a_finalizer(api, policy, finalizer):
    path = "/apis/apps/v1/namespaces/default/deployments"
    assert api.post(path, deployment("d", 0)).code == 201
    reply = api.delete(f"{path}/d", {"propagationPolicy": policy}).json
    assert (reply["kind"], reply["metadata"]["finalizers"]) == ("Deployment", [finalizer])
    api.patch(f"{path}/d", {"metadata": {"finalizers": None}})
    assert api.get(f"{path}/d").code == 404
    assert api.post(path, deployment("d", 0)).code == 201
    assert api.delete(f"{path}/d").json["kind"] == "Status"


def test_behaviour_37_a_job_deleted_without_a_word_leaves_its_pods_behind(api):
    path = "/apis/batch/v1/namespaces/default/jobs"
    container = {"name": "c", "image": "i"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    api.post(path, {"metadata": {"name": "j"}, "spec": {"template": template}})
    reply = api.delete(f"{path}/j")
    assert reply.json["metadata"].get("finalizers") == ["orphan"], reply.json
    api.patch(f"{path}/j", {"metadata": {"finalizers": None}})
    api.post(path, {"metadata": {"name": "j"}, "spec": {"template": template}})
    assert api.delete(f"{path}/j", {"propagationPolicy": "Background"}).json["kind"] == "Status"


def test_behaviour_37_a_namespace_stays_terminating_until_it_is_finalized(api):
    api.post("/api/v1/namespaces", {"metadata": {"name": "ending"}})
    api.post("/api/v1/namespaces/ending/configmaps", {"metadata": {"name": "a"}})
    ended = api.delete("/api/v1/namespaces/ending").json
    assert ended["status"]["phase"] == "Terminating"
    late = api.post("/api/v1/namespaces/ending/configmaps", {"metadata": {"name": "late"}})
    assert (late.code, late.json["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    ended["spec"]["finalizers"] = []
    assert api.put("/api/v1/namespaces/ending/finalize", ended).code == 200
    assert api.get("/api/v1/namespaces/ending").code == 404


def test_a_collection_is_deleted_by_its_selector(api):
    for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
        api.post(f"{NS}/configmaps", {"metadata": {"name": name, "labels": {"l": label}}})
    assert api.delete(f"{NS}/configmaps", labelSelector="l=x").names == ["a", "b"]
    assert api.get(f"{NS}/configmaps", labelSelector="l").names == ["c"]
