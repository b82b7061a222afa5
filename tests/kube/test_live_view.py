"""A view that follows a cluster: what it answers from memory, and when it says that it does not know."""

import pytest

from apps.kube import errors
from apps.kube.doubts import Doubt, is_gone_or_leaving, never
from apps.kube.gateway import BUDGETS, NODES, PODS, WatchEvent
from apps.kube.live_view import (
    LiveStore,
    LiveView,
    StaleView,
    by_namespace,
    by_node,
    by_owner,
)
from tests.cluster_fixtures import wait_until

POD = "/api/v1/namespaces/team-a/pods/web"


def pod(name="web", *, node="node-a", revision=None, **metadata):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs-1", "controller": True}
    known = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "ownerReferences": [owner]}
    if revision is not None:
        known["resourceVersion"] = str(revision)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**known, **metadata},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "web"}]},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def seen(api_server):
    api_server.seed(pod(), pod("other", node=""))
    gateway = api_server.gateway()
    view = LiveView(gateway, kinds=(PODS,), silence_seconds=5)
    yield view
    view.stop()
    gateway.close()
    view.join()


def label(api_server, value):
    api_server.ask("PATCH", POD, {"metadata": {"labels": {"n": value}}})


def label_seen(view):
    return view.get_object(PODS, "web", namespace="team-a")["metadata"].get("labels", {}).get("n")


def names(found):
    return sorted(one["metadata"]["name"] for one in found)


def test_looks_cost_one_request_however_many_there_are(api_server, seen):
    for _ in range(20):
        assert seen.get_object(PODS, "web", namespace="team-a")["metadata"]["uid"]
        assert seen.get_object(PODS, "nobody", namespace="team-a") is None
    assert names(seen.list_objects(PODS, by_namespace("team-a"))) == ["other", "web"]
    assert names(seen.list_objects(PODS, by_node("node-a"))) == ["web"]
    assert names(seen.list_objects(PODS, by_node(""))) == ["other"]
    assert names(seen.list_objects(PODS, by_owner("rs-1"))) == ["other", "web"]
    assert len(api_server.requests("GET", "/pods")) == 1


def test_before_1_34_it_lists_and_then_watches(new_api_server):
    api_server = new_api_server(version="v1.33.1")
    api_server.seed(pod())
    gateway = api_server.gateway()
    view = LiveView(gateway, kinds=(PODS,))
    assert view.get_object(PODS, "web", namespace="team-a") is not None
    label(api_server, "1")
    wait_until(lambda: label_seen(view) == "1")
    view.stop()
    gateway.close()


def test_a_change_wakes_whoever_waits_and_nothing_else_does(api_server, seen):
    assert label_seen(seen) is None
    seen.wait(0)
    assert not seen.wait(0)
    label(api_server, "1")
    assert seen.wait(10)
    assert label_seen(seen) == "1"


def test_changes_of_no_interest_let_it_sleep(api_server):
    api_server.seed(pod(), pod("other"))
    gateway = api_server.gateway()
    view = LiveView(
        gateway, kinds=(PODS,), wakes=lambda kind, found: found is not None and found.name == "other"
    )
    assert view.get_object(PODS, "web", namespace="team-a") is not None
    label(api_server, "1")
    wait_until(lambda: label_seen(view) == "1")
    assert not view.wait(0)
    api_server.ask("PATCH", "/api/v1/namespaces/team-a/pods/other", {"metadata": {"labels": {"n": "1"}}})
    assert view.wait(10)
    view.stop()
    gateway.close()


@pytest.mark.parametrize("fault", ["expire-watches", "truncate-watch"])
def test_after_a_broken_watch_it_lists_again_and_misses_nothing(api_server, seen, fault):
    assert label_seen(seen) is None
    api_server.fault(action=fault, match={"path_regex": "/pods"}, times=1)
    label(api_server, "1")
    label(api_server, "2")

    def is_up_to_date():
        try:
            return label_seen(seen) == "2"
        except StaleView:
            return False

    wait_until(is_up_to_date)


def test_a_silent_watch_is_not_believed(api_server):
    api_server.seed(pod())
    gateway = api_server.gateway()
    view = LiveView(gateway, kinds=(PODS,), silence_seconds=0.3)
    assert view.get_object(PODS, "web", namespace="team-a") is not None
    assert view.age(PODS) < 10
    api_server.fault(action="silence-watches", match={"path_regex": "/pods"})
    label(api_server, "1")

    def is_refused():
        try:
            view.get_object(PODS, "web", namespace="team-a")
        except StaleView:
            return True
        return False

    wait_until(is_refused)
    view.stop()
    gateway.close()


def test_what_may_not_be_watched_is_not_known(api_server):
    gateway = api_server.gateway(token="nobody-token")
    view = LiveView(gateway, kinds=(PODS,))
    with pytest.raises(StaleView):
        view.get_object(PODS, "web", namespace="team-a")
    with pytest.raises(StaleView):
        view.list_objects(NODES, "")
    assert view.age(PODS) == float("inf")
    view.stop()
    gateway.close()


def test_what_was_written_is_seen_at_once(api_server, seen):
    assert label_seen(seen) is None
    gateway = api_server.gateway()
    api_server.fault(action="silence-watches", match={"path_regex": "/pods"})
    written = gateway.patch_object(PODS, "web", {"metadata": {"labels": {"n": "1"}}}, namespace="team-a")
    seen.note_written(PODS, written)
    assert label_seen(seen) == "1"


def test_an_evicted_pod_is_not_taken_for_one_that_stays(api_server, seen):
    """The watch lags: the answer to the eviction is here, the pod's end is not. The server is asked."""
    uid = seen.get_object(PODS, "web", namespace="team-a")["metadata"]["uid"]
    api_server.fault(action="silence-watches", match={"path_regex": "/pods"})
    api_server.ask("DELETE", POD)
    seen.doubt(PODS, "web", Doubt(is_gone_or_leaving(uid), patience=0.05), namespace="team-a")
    found = seen.get_object(PODS, "web", namespace="team-a")
    assert found is None or found["metadata"]["deletionTimestamp"]
    assert len(api_server.requests("GET", "/pods/web")) == 1


def test_after_a_lost_answer_the_server_is_asked(api_server, seen):
    assert label_seen(seen) is None
    api_server.fault(action="silence-watches", match={"path_regex": "/pods"})
    label(api_server, "1")
    seen.doubt(PODS, "web", Doubt(never), namespace="team-a")
    assert names(seen.list_objects(PODS, by_node("node-a"))) == ["web"]
    assert label_seen(seen) == "1"
    assert len(api_server.requests("GET", "/pods/web")) == 1


def test_a_doubt_that_cannot_be_settled_is_no_answer(api_server, seen):
    assert label_seen(seen) is None
    seen.doubt(PODS, "web", Doubt(never), namespace="team-a")
    api_server.fault(action="status", code=500, match={"path_regex": "/pods/web"})
    with pytest.raises(StaleView):
        seen.get_object(PODS, "web", namespace="team-a")


def test_doubled_and_reordered_events_do_no_harm():
    told = []
    store = LiveStore(PODS, lambda kind, found: told.append(found and found.revision))
    store.replace_all([])
    told.clear()
    for kind, revision, node in [
        ("ADDED", 5, ""),
        ("MODIFIED", 7, "node-b"),
        ("MODIFIED", 7, "node-b"),
        ("MODIFIED", 6, "node-a"),
    ]:
        store.apply(WatchEvent(kind, pod(node=node, revision=revision)))
    assert told == ["5", "7"]
    assert [one.revision for one in store.find_all(by_node("node-b"))] == ["7"]
    assert store.find_all(by_node("")) == store.find_all(by_node("node-a")) == []
    store.apply(WatchEvent("DELETED", pod(node="node-b", revision=8)))
    store.apply(WatchEvent("MODIFIED", pod(node="node-b", revision=7)))
    assert store.find_all(by_node("node-b")) == store.find_all(by_owner("rs-1")) == []


def test_an_object_seen_just_before_is_deleted_without_another_look(api_server):
    labels = {"defrag.gpu.internal/owned": "7-x"}
    api_server.seed(pod("hold", node="", labels=labels))
    gateway = api_server.gateway()
    seen = gateway.get_object(PODS, "hold", namespace="team-a")
    uid = seen["metadata"]["uid"]
    older = {**seen, "metadata": {**seen["metadata"], "resourceVersion": "1"}}
    with pytest.raises(errors.Conflict):
        gateway.delete_own_object(PODS, "hold", uid=uid, namespace="team-a", seen=older)
    theirs = {**seen, "metadata": {**seen["metadata"], "labels": {}}}
    with pytest.raises(errors.Forbidden):
        gateway.delete_own_object(PODS, "hold", uid=uid, namespace="team-a", seen=theirs)
    looks = len(api_server.requests("GET", "/pods/hold"))
    gateway.delete_own_object(PODS, "hold", uid=uid, namespace="team-a", seen=seen)
    assert len(api_server.requests("GET", "/pods/hold")) == looks
    assert gateway.get_object(PODS, "hold", namespace="team-a") is None


def test_a_kind_that_is_not_followed_is_for_the_server(seen):
    with pytest.raises(StaleView):
        seen.list_objects(BUDGETS, "")
