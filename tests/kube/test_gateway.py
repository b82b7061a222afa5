"""The gateway over real HTTPS: what it asks, and how every refusal comes out."""

import socket
import threading

import pytest

from apps.kube import errors
from apps.kube.gateway import BUDGETS, NAMESPACES, NODES, POD_GROUPS, PODS, Kind
from apps.kube.kubernetes_gateway import PAGE, KubernetesGateway
from apps.simulator.api_server.access import User
from apps.wire.lines import is_link_local
from tests.kube.objects import node, owned, pod

CONFIG_MAPS = Kind("", "v1", "configmaps", True)


@pytest.fixture
def gateway(api_server):
    found = api_server.gateway()
    yield found
    found.close()


def uid_of(api, path):
    return api.ask("GET", path)["metadata"]["uid"]


def test_it_says_version_and_identity(api_server, gateway):
    assert gateway.version() == "v1.36.2"
    assert gateway.cluster_uid() == uid_of(api_server, "/api/v1/namespaces/kube-system")


def test_it_introduces_itself(api_server, gateway):
    gateway.version()
    assert api_server.requests(path="/version")[-1].user_agent == "gpu-defrag-console"


def test_a_long_list_comes_whole_page_by_page(api_server, gateway):
    api_server.seed(*(node(f"node-{number}") for number in range(PAGE + 3)))
    listed = gateway.list_objects(NODES)
    assert len(listed.objects) == PAGE + 3
    assert int(listed.resource_version) > 0
    assert len(api_server.requests("GET", "/api/v1/nodes")) == 2


def test_selectors_narrow_a_list(api_server, gateway):
    api_server.seed(node(), pod("one", on="node-a"), pod("two", on="node-b", labels={"app": "x"}))
    by_field = gateway.list_objects(PODS, field_selector="spec.nodeName=node-a")
    by_label = gateway.list_objects(PODS, namespace="team-a", label_selector="app=x")
    assert [found["metadata"]["name"] for found in by_field.objects] == ["one"]
    assert [found["metadata"]["name"] for found in by_label.objects] == ["two"]


def test_a_missing_object_is_none_and_a_missing_kind_is_not_found(gateway):
    assert gateway.get_object(NODES, "nowhere") is None
    with pytest.raises(errors.NotFound):
        gateway.list_objects(Kind("nobody.example", "v1", "things", True))


def test_a_guarded_patch_on_a_changed_object_is_a_conflict(api_server, gateway):
    api_server.seed(node())
    old = gateway.get_object(NODES, "node-a")["metadata"]["resourceVersion"]
    gateway.patch_object(NODES, "node-a", {"metadata": {"labels": {"changed": "yes"}}})
    with pytest.raises(errors.Conflict, match="modified") as caught:
        gateway.patch_object(NODES, "node-a", {"metadata": {"resourceVersion": old, "labels": {"a": "b"}}})
    assert caught.value.status == 409


def test_a_patch_guarded_by_another_uid_is_a_conflict(api_server, gateway):
    api_server.seed(node())
    with pytest.raises(errors.Conflict):
        gateway.patch_object(NODES, "node-a", {"metadata": {"uid": "someone-else", "labels": {"a": "b"}}})


def test_creating_twice_says_already_exists(gateway):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "twice"}}
    gateway.create_object(CONFIG_MAPS, body, namespace="default")
    with pytest.raises(errors.AlreadyExists):
        gateway.create_object(CONFIG_MAPS, body, namespace="default")


def test_a_dry_run_stores_nothing(gateway):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dry"}}
    assert gateway.create_object(CONFIG_MAPS, body, namespace="default", dry_run=True)["metadata"]["uid"]
    assert gateway.get_object(CONFIG_MAPS, "dry", namespace="default") is None


def test_it_deletes_only_what_is_its_own(gateway):
    for name, labels in (("ours", {"defrag.gpu.internal/owned": "7"}), ("theirs", {})):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}
        gateway.create_object(CONFIG_MAPS, body, namespace="default")
    ours, theirs = (
        gateway.get_object(CONFIG_MAPS, name, namespace="default")["metadata"]["uid"]
        for name in ("ours", "theirs")
    )
    with pytest.raises(errors.Forbidden, match="does not carry the label"):
        gateway.delete_own_object(CONFIG_MAPS, "theirs", uid=theirs, namespace="default")
    with pytest.raises(errors.Conflict, match="UID"):
        gateway.delete_own_object(CONFIG_MAPS, "ours", uid=theirs, namespace="default")
    assert gateway.get_object(CONFIG_MAPS, "ours", namespace="default") is not None
    gateway.delete_own_object(CONFIG_MAPS, "ours", uid=ours, namespace="default")
    gateway.delete_own_object(CONFIG_MAPS, "ours", uid=ours, namespace="default")
    assert gateway.get_object(CONFIG_MAPS, "ours", namespace="default") is None


def budget(name, allowed, **status):
    return owned(
        "PodDisruptionBudget",
        name,
        api="policy/v1",
        spec={"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1},
        status={
            "disruptionsAllowed": allowed,
            "currentHealthy": 1 + allowed,
            "desiredHealthy": 1,
            "expectedPods": 1 + allowed,
            "observedGeneration": 1,
            **status,
        },
    )


READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def test_an_eviction_within_its_budget_carries_the_uid(api_server, gateway):
    api_server.seed(node(), budget("pdb", 1), pod("web", on="node-a", labels={"app": "x"}, status=READY))
    gateway.evict_pod("team-a", "web", uid="uid-web", dry_run=True)
    assert "deletionTimestamp" not in gateway.get_object(PODS, "web", namespace="team-a")["metadata"]
    gateway.evict_pod("team-a", "web", uid="uid-web")
    assert "deletionTimestamp" in gateway.get_object(PODS, "web", namespace="team-a")["metadata"]
    sent = api_server.requests("POST", "/eviction")[-1].body
    assert b'"preconditions": {"uid": "uid-web"}' in sent
    assert b"gracePeriodSeconds" not in sent


def test_a_used_up_budget_and_a_busy_server_are_told_apart(api_server, gateway):
    api_server.seed(node(), budget("pdb", 0), pod("web", on="node-a", labels={"app": "x"}, status=READY))
    with pytest.raises(errors.BudgetExhausted, match="The disruption budget pdb needs 1 healthy pods"):
        gateway.evict_pod("team-a", "web", uid="uid-web")
    api_server.fault(
        action="status",
        code=429,
        message="Too many requests, please try again later.",
        reason="TooManyRequests",
        retry_after=1,
        times=1,
        match={"path_regex": "/eviction"},
    )
    with pytest.raises(errors.TooManyRequests) as caught:
        gateway.evict_pod("team-a", "web", uid="uid-web")
    assert not isinstance(caught.value, errors.BudgetExhausted)
    assert caught.value.retry_after == 1


def test_a_budget_whose_status_lags_is_exhausted_with_a_time_to_wait(api_server, gateway):
    api_server.seed(
        node(),
        budget("pdb", 1, observedGeneration=0),
        pod("web", on="node-a", labels={"app": "x"}, status=READY),
    )
    with pytest.raises(errors.BudgetExhausted) as caught:
        gateway.evict_pod("team-a", "web", uid="uid-web")
    assert caught.value.retry_after == 10


def test_two_budgets_on_one_pod_have_an_error_of_their_own(api_server, gateway):
    api_server.seed(
        node(), budget("one", 1), budget("two", 1), pod("web", on="node-a", labels={"app": "x"}, status=READY)
    )
    with pytest.raises(errors.SeveralBudgets):
        gateway.evict_pod("team-a", "web", uid="uid-web")


def test_evictions_of_another_or_a_missing_pod_are_refused(api_server, gateway):
    api_server.seed(node(), pod("web", on="node-a", status=READY))
    with pytest.raises(errors.Conflict):
        gateway.evict_pod("team-a", "web", uid="another")
    with pytest.raises(errors.Conflict):
        gateway.evict_pod("team-a", "web", uid="uid-web", version="0")
    assert "deletionTimestamp" not in gateway.get_object(PODS, "web", namespace="team-a")["metadata"]
    with pytest.raises(errors.NotFound):
        gateway.evict_pod("team-a", "gone", uid="uid-gone")


@pytest.mark.parametrize(("uid", "grace"), [("", None), ("uid-web", 0), ("uid-web", -1)])
def test_an_eviction_without_uid_or_grace_is_not_even_sent(api_server, gateway, uid, grace):
    with pytest.raises(errors.Invalid, match="refused"):
        gateway.evict_pod("team-a", "web", uid=uid, grace_seconds=grace)
    assert api_server.requests("POST") == []


def test_it_knows_what_it_may_do(new_api_server):
    reader = User("reader", denied=(("create", "pods/eviction"), ("list", "poddisruptionbudgets")))
    api = new_api_server(extra_tokens={"reader-token": reader})
    gateway = api.gateway(token="reader-token")
    assert gateway.may("list", PODS)
    assert not gateway.may("create", PODS, namespace="team-a", subresource="eviction")
    with pytest.raises(errors.Forbidden, match="cannot list resource") as caught:
        gateway.list_objects(BUDGETS)
    assert caught.value.status == 403


def test_a_refused_credential_says_what_to_do(api_server):
    gateway = api_server.gateway(token="wrong-token")
    with pytest.raises(errors.Unauthorized, match="register the cluster again") as caught:
        gateway.list_objects(NODES)
    assert "wrong-token" not in str(caught.value)


def test_another_certificate_authority_is_untrusted(api_server, new_api_server):
    other = new_api_server()
    gateway = KubernetesGateway(server=api_server.url, ca=other.server.ca_pem, token=api_server.server.token)
    with pytest.raises(errors.Untrusted, match="Check that the CA certificate"):
        gateway.version()


def test_a_certificate_for_another_name_is_untrusted(api_server):
    gateway = KubernetesGateway(
        server=api_server.url,
        ca=api_server.server.ca_pem,
        token=api_server.server.token,
        tls_server_name="elsewhere.example",
    )
    with pytest.raises(errors.Untrusted):
        gateway.version()


def test_nobody_there_is_unreachable(api_server):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    gateway = KubernetesGateway(server=f"https://127.0.0.1:{port}", ca=api_server.server.ca_pem, token="t")
    with pytest.raises(errors.Unreachable, match="refused"):
        gateway.version()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("169.254.169.254", True),
        ("::ffff:169.254.169.254", True),
        ("fe80::1%eth0", True),
        ("10.0.0.1", False),
        ("127.0.0.1", False),
        ("2001:db8::1", False),
    ],
)
def test_a_metadata_service_is_no_api_server(address, expected):
    assert is_link_local(address) is expected


def test_a_slow_answer_is_unreachable_in_time(api_server):
    api_server.fault(action="delay", seconds=5, match={"path_regex": "/api/v1/nodes"})
    gateway = api_server.gateway(read_seconds=0.3)
    with pytest.raises(errors.Unreachable, match=r"no answer within 0\.3 s\.$"):
        gateway.list_objects(NODES)
    with pytest.raises(errors.Unreachable, match="Whether it took effect is not known"):
        gateway.patch_object(NODES, "n1", {"metadata": {"labels": {"a": "b"}}})


def test_a_request_that_broke_is_sent_once_only(api_server, gateway):
    api_server.fault(action="act-then-reset", match={"method": "POST", "path_regex": "/configmaps"}, times=1)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "once"}}
    with pytest.raises(errors.Unreachable):
        gateway.create_object(CONFIG_MAPS, body, namespace="default")
    assert len(api_server.requests("POST", "/configmaps")) == 1
    assert gateway.get_object(CONFIG_MAPS, "once", namespace="default") is not None


@pytest.mark.parametrize(
    ("code", "kind"), [(500, errors.ServerFailed), (503, errors.ServerFailed), (410, errors.Expired)]
)
def test_other_refusals_have_their_class(api_server, gateway, code, kind):
    api_server.fault(action="status", code=code, match={"path_regex": "/nodes/node-a"})
    with pytest.raises(kind) as caught:
        gateway.patch_object(NODES, "node-a", {})
    assert caught.value.status == code


def test_a_continue_token_that_expired_starts_the_list_over(api_server, gateway):
    api_server.seed(*(node(f"node-{number}") for number in range(PAGE + 1)))
    api_server.fault(
        action="status", code=410, reason="Expired", skip=1, times=1, match={"path_regex": "/api/v1/nodes$"}
    )
    assert len(gateway.list_objects(NODES).objects) == PAGE + 1


def test_another_cluster_behind_the_same_address_gets_nothing(new_api_server):
    first = new_api_server()
    pinned = first.gateway().cluster_uid()
    second = new_api_server()
    gateway = second.gateway(pinned_uid=pinned)
    for act in (
        lambda: gateway.list_objects(NODES),
        lambda: gateway.evict_pod("team-a", "web", uid="u"),
        lambda: next(iter(gateway.watch(NODES, resource_version="1", seconds=5))),
        lambda: gateway.prove_identity(),
    ):
        with pytest.raises(errors.AnotherCluster, match="Another cluster answers"):
            act()
    assert {record.path for record in second.requests()} == {"/api/v1/namespaces/kube-system"}


def test_a_watch_gives_events_and_expires(api_server, gateway):
    api_server.seed(node())
    listed = gateway.list_objects(NODES)
    stream = gateway.watch(NODES, resource_version=listed.resource_version, seconds=20)
    gateway.patch_object(NODES, "node-a", {"metadata": {"labels": {"seen": "yes"}}})
    event = next(stream)
    assert (event.type, event.object["metadata"]["labels"]["seen"]) == ("MODIFIED", "yes")
    api_server.fault(action="expire-watches")
    with pytest.raises(errors.Expired):
        next(stream)


def test_a_truncated_line_breaks_the_stream(api_server, gateway):
    api_server.seed(node())
    revision = gateway.list_objects(NODES).resource_version
    api_server.fault(action="truncate-watch", after_events=1, match={"path_regex": "/nodes"})
    stream = gateway.watch(NODES, resource_version=revision, seconds=20)
    for value in ("1", "2"):
        api_server.ask("PATCH", "/api/v1/nodes/node-a", {"metadata": {"labels": {"n": value}}})
    assert next(stream).object["metadata"]["labels"]["n"] == "1"
    with pytest.raises(errors.BrokenStream):
        next(stream)


def test_a_silent_watch_is_given_up(api_server):
    api_server.seed(node())
    gateway = api_server.gateway(watch_silence_seconds=0.4)
    revision = gateway.list_objects(NODES).resource_version
    with pytest.raises(errors.BrokenStream, match="silent"):
        next(gateway.watch(NODES, resource_version=revision, seconds=60))


def test_closing_wakes_a_reader_up(api_server, gateway):
    revision = gateway.list_objects(NODES).resource_version
    caught = []

    def read():
        try:
            next(gateway.watch(NODES, resource_version=revision, seconds=60))
        except errors.BrokenStream as error:
            caught.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    while not gateway._streams:
        pass
    gateway.end_streams()
    reader.join(5)
    assert not reader.is_alive()
    assert caught


def test_owners_hear_of_it_by_an_event(api_server, gateway):
    involved = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "namespace": "default",
        "uid": "u",
    }
    gateway.record_event(involved, reason="MoveApproved", message="One of its pods will be moved.")
    found = api_server.ask("GET", "/api/v1/namespaces/default/events")["items"]
    assert [(event["involvedObject"]["name"], event["reason"]) for event in found] == [
        ("web", "MoveApproved")
    ]


def test_names_cannot_reach_another_path(api_server, gateway):
    api_server.seed(node("secret"))
    assert gateway.get_object(NAMESPACES, "../nodes/secret") is None
    with pytest.raises(errors.Invalid):
        gateway.get_object(PODS, "..", namespace="team-a")


def test_pod_groups_are_an_ordinary_kind(api_server, gateway):
    api_server.seed(owned("PodGroup", "gang", api="scheduling.x-k8s.io/v1alpha1", spec={"minMember": 3}))
    assert gateway.list_objects(POD_GROUPS).objects[0]["spec"]["minMember"] == 3
