"""The watch of a cluster over real HTTPS, and what it does when streams, rights and servers fail."""

import time

import pytest

from apps.kube.gateway import BUDGETS, CLUSTER_QUEUES, GPU_REQUESTS, NODES, POD_GROUPS, PODS
from apps.kube.kubernetes_gateway import KubernetesGateway
from apps.kube.watching import ClusterWatch
from apps.simulator.api_server.access import User
from tests.cluster_fixtures import wait_until
from tests.kube.objects import node, pod

KINDS = (NODES, PODS, BUDGETS, POD_GROUPS)


@pytest.fixture
def watching():
    """Starts a watch of some kinds and counts its calls; ends it afterwards."""
    started = []

    def start(gateway, *, kinds=KINDS, **options):
        calls = []
        options = {"pulse_seconds": 0.2, "retry_seconds": 0.3, **options}
        watch = ClusterWatch(
            gateway, on_change=lambda: calls.append(time.monotonic()), kinds=kinds, **options
        )
        watch.calls = calls
        started.append(watch)
        watch.start()
        return watch

    yield start
    for watch in started:
        watch.stop()


def names(watch, kind):
    return sorted(one.name for one in watch.objects().get(kind, []))


def lists_of(api, path):
    return [record for record in api.requests("GET", path) if "watch" not in record.query]


def label(api, name, value):
    return api.ask("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": {"n": value}}})


def labels_of(watch):
    return {one.name: one.open()["metadata"]["labels"].get("n") for one in watch.objects()[NODES]}


def test_it_follows_what_comes_changes_and_goes(api_server, watching):
    api_server.seed(node(), pod(on="node-a"))
    watch = watching(api_server.gateway())
    wait_until(lambda: watch.is_ready)
    assert (names(watch, NODES), names(watch, PODS)) == (["node-a"], ["pod-a"])
    calls = len(watch.calls)
    label(api_server, "node-a", "1")
    wait_until(lambda: labels_of(watch) == {"node-a": "1"})
    api_server.ask("DELETE", "/api/v1/nodes/node-a")
    wait_until(lambda: names(watch, NODES) == [])
    assert len(watch.calls) >= calls + 2
    assert len(lists_of(api_server, "/api/v1/nodes")) == 1
    assert watch.problems() == ()


def test_it_keeps_no_environment_and_no_managed_fields(api_server, watching):
    secret = pod(on="node-a")
    secret["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
    secret["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    secret["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}
    api_server.seed(secret)
    watch = watching(api_server.gateway())
    wait_until(lambda: watch.is_ready)
    kept = repr([one.open() for one in watch.objects()[PODS]])
    assert "hunter2" not in kept
    assert "managedFields" not in kept


def test_an_expired_watch_lists_again(api_server, watching):
    api_server.seed(node())
    watch = watching(api_server.gateway())
    wait_until(lambda: watch.is_ready)
    wait_until(lambda: any("watch" in record.query for record in api_server.requests("GET", "/api/v1/nodes")))
    api_server.fault(action="expire-watches", match={"path_regex": "/api/v1/nodes"})
    wait_until(lambda: len(lists_of(api_server, "/api/v1/nodes")) == 2)
    label(api_server, "node-a", "after")
    wait_until(lambda: labels_of(watch) == {"node-a": "after"})
    assert watch.problems() == ()


def test_a_truncated_line_lists_again_and_misses_nothing(api_server, watching):
    api_server.seed(node(), node("node-b"))
    api_server.fault(
        action="truncate-watch", after_events=0, skip=1, times=1, match={"path_regex": "/api/v1/nodes"}
    )
    watch = watching(api_server.gateway())
    wait_until(lambda: watch.is_ready)
    wait_until(lambda: any("watch" in record.query for record in api_server.requests("GET", "/api/v1/nodes")))
    label(api_server, "node-a", "1")
    label(api_server, "node-b", "2")
    wait_until(lambda: labels_of(watch) == {"node-a": "1", "node-b": "2"})
    assert len(lists_of(api_server, "/api/v1/nodes")) == 2


def test_a_silent_watch_lists_again(api_server, watching):
    api_server.seed(node())
    api_server.fault(action="silence-watches", skip=1, times=1, match={"path_regex": "/api/v1/nodes"})
    watch = watching(api_server.gateway(watch_silence_seconds=1))
    wait_until(lambda: watch.is_ready)
    wait_until(lambda: any("watch" in record.query for record in api_server.requests("GET", "/api/v1/nodes")))
    label(api_server, "node-a", "unheard")
    wait_until(lambda: labels_of(watch) == {"node-a": "unheard"})


def test_a_watch_that_ends_in_order_goes_on_without_listing(api_server, watching):
    api_server.seed(node())
    watch = watching(api_server.gateway(), kinds=(NODES, PODS), watch_seconds=1)
    wait_until(lambda: watch.is_ready)
    wait_until(lambda: len([r for r in api_server.requests("GET", "/nodes") if "watch" in r.query]) >= 3)
    label(api_server, "node-a", "still-here")
    wait_until(lambda: labels_of(watch) == {"node-a": "still-here"})
    assert len(lists_of(api_server, "/api/v1/nodes")) == 1


def test_no_permission_for_one_kind_leaves_the_rest(new_api_server, watching):
    reader = User("reader", denied=(("*", "poddisruptionbudgets"),))
    api = new_api_server(extra_tokens={"reader-token": reader})
    api.seed(node())
    watch = watching(api.gateway(token="reader-token"))
    wait_until(lambda: watch.is_ready and watch.fresh_at() is not None)
    assert names(watch, NODES) == ["node-a"]
    assert BUDGETS not in watch.objects()
    ((kind, sentence),) = watch.problems()
    assert kind == "poddisruptionbudgets"
    assert 'User "reader" cannot list resource "poddisruptionbudgets"' in sentence
    assert watch.fresh_at() == pytest.approx(time.time(), abs=2)


def test_a_kind_that_is_always_refused_does_not_hold_up_the_rest(api_server, watching):
    api_server.seed(node())
    api_server.fault(action="status", code=500, match={"path_regex": "/poddisruptionbudgets"})
    watch = watching(api_server.gateway())
    wait_until(lambda: watch.is_ready)
    ((kind, sentence),) = watch.problems()
    assert kind == "poddisruptionbudgets"
    assert sentence.startswith("poddisruptionbudgets cannot be read: ")


def test_a_hiccup_is_not_worth_a_word(api_server, watching):
    api_server.seed(node())
    watch = watching(api_server.gateway())
    wait_until(lambda: watch.is_ready)
    api_server.fault(action="status", code=503, times=1, match={"path_regex": "/api/v1/nodes"})
    api_server.fault(action="expire-watches", match={"path_regex": "/api/v1/nodes"})
    wait_until(lambda: len(lists_of(api_server, "/api/v1/nodes")) >= 3)
    assert watch.problems() == ()
    label(api_server, "node-a", "on")
    wait_until(lambda: labels_of(watch) == {"node-a": "on"})


def test_a_right_that_is_granted_later_is_noticed(new_api_server, watching):
    api = new_api_server(extra_tokens={"reader-token": User("reader", denied=(("*", "nodes"),))})
    api.seed(node())
    watch = watching(api.gateway(token="reader-token"))
    wait_until(lambda: watch.problems() and watch.missing == (NODES,))
    assert not watch.is_ready
    api.server.tokens["reader-token"] = User("reader")
    wait_until(lambda: watch.is_ready)
    assert watch.problems() == ()


def test_a_cluster_without_pod_groups_is_in_order(api_server, watching):
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api_server.ask("DELETE", f"{crds}/podgroups.scheduling.x-k8s.io")
    watch = watching(api_server.gateway())
    wait_until(lambda: watch.is_ready)
    assert watch.problems() == ()
    assert watch.objects()[POD_GROUPS] == []


def test_of_kinds_that_may_not_be_read_only_those_that_are_there_are_told(new_api_server, watching):
    api = new_api_server(extra_tokens={"reader-token": User("reader", denied=(("*", "gpurequests"),))})
    # A real server refuses a kind that nobody may read before it looks whether there is such a kind.
    refused = {"method": "GET", "path_regex": "^/apis/kueue.x-k8s.io/[^/]+/clusterqueues"}
    api.fault(action="status", code=403, reason="Forbidden", match=refused)
    kinds = (NODES, PODS, CLUSTER_QUEUES, GPU_REQUESTS)
    watch = watching(api.gateway(token="reader-token"), kinds=kinds)
    wait_until(lambda: watch.is_ready and watch.problems())
    assert [kind for kind, _ in watch.problems()] == ["gpurequests"]
    assert watch.objects()[CLUSTER_QUEUES] == []  # Kueue is not installed


def test_a_server_that_goes_away_is_told_and_its_return_is_noticed(new_api_server, watching):
    first = new_api_server()
    first.seed(node())
    watch = watching(first.gateway(connect_seconds=0.5, read_seconds=1))
    wait_until(lambda: watch.is_ready and watch.fresh_at())
    first.fault(action="reset", name="down", match={"user_agent_regex": "gpu-defrag-console"})
    first.fault(action="expire-watches")
    wait_until(lambda: "the connection broke" in watch.error)
    frozen = watch.fresh_at()
    time.sleep(0.5)
    assert watch.fresh_at() == frozen
    assert names(watch, NODES) == ["node-a"]
    first.ask("POST", "/_sim/faults", {"remove": "down"})
    label(first, "node-a", "back")
    wait_until(lambda: watch.error == "" and labels_of(watch) == {"node-a": "back"}, seconds=15)
    assert watch.fresh_at() > frozen


def test_a_wrong_certificate_authority_is_told(api_server, new_api_server, watching):
    other = new_api_server()
    gateway = KubernetesGateway(server=api_server.url, ca=other.server.ca_pem, token=api_server.server.token)
    watch = watching(gateway)
    wait_until(lambda: "Check that the CA certificate" in watch.error)
    assert not watch.is_ready
    assert watch.fresh_at() is None


def test_another_cluster_behind_the_same_address_is_never_read(new_api_server, watching):
    first = new_api_server()
    first.seed(node("of-the-first"))
    pinned = first.gateway().cluster_uid()
    watch = watching(first.gateway(pinned_uid=pinned))
    wait_until(lambda: watch.is_ready and watch.fresh_at())
    port = first.server.port
    first._await(first.server.stop())
    second = new_api_server(port=port)
    second.server.certificate = first.server.certificate
    second._await(second.server.stop())
    second._await(second.server.start())
    second.seed(node("of-the-second"))
    wait_until(lambda: "Another cluster answers" in watch.error)
    time.sleep(0.5)
    assert names(watch, NODES) == ["of-the-first"]
    assert {record.path for record in second.requests()} == {"/api/v1/namespaces/kube-system"}
