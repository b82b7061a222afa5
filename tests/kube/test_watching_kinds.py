"""Kinds that a cluster may lack, or may serve in an older version only."""

from urllib.error import HTTPError

from apps.kube.gateway import (
    DRA,
    KAI_POD_GROUPS,
    KOORDINATOR_DEVICES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    VOLCANO_POD_GROUPS,
    Kind,
)
from apps.kube.object_store import list_kept
from apps.kube.watching import OPTIONAL, ClusterWatch
from apps.simulator.api_server.access import User
from tests.cluster_fixtures import wait_until
from tests.kube.objects import node, owned
from tests.kube.test_claims import gpu, slice_of

OF_OTHERS = (VOLCANO_POD_GROUPS, KAI_POD_GROUPS, KOORDINATOR_DEVICES)


def watch_of(gateway, *kinds):
    watch = ClusterWatch(gateway, on_change=lambda: None, kinds=(NODES, PODS, *kinds), retry_seconds=0.3)
    watch.start()
    return watch


def kept(watch, kind):
    return [one.open() for one in watch.objects()[kind]]


def is_served(api, path):
    """A definition is served a moment after it is made."""
    try:
        api.ask("GET", path)
    except HTTPError:
        return False
    return True


def test_devices_by_claims_are_followed_and_missing_schedulers_do_no_harm(api_server):
    claim = owned("ResourceClaim", "c", api="resource.k8s.io/v1", spec={"devices": {"requests": []}})
    template = owned("ResourceClaimTemplate", "t", api="resource.k8s.io/v1", spec={"spec": {"devices": {}}})
    api_server.seed(node(), slice_of(gpu(0)), claim, template)
    watch = watch_of(api_server.gateway(), *DRA, *OF_OTHERS)
    try:
        wait_until(lambda: watch.is_ready)
        assert [one["metadata"]["name"] for one in kept(watch, DRA[2])] == ["t"]
        (slice_,) = kept(watch, RESOURCE_SLICES)
        assert "driverVersion" not in slice_["spec"]["devices"][0]["attributes"]
        allocation = {"devices": {"results": [{"driver": "d", "pool": "p", "device": "gpu-0"}]}}
        path = "/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims/c/status"
        api_server.ask("PATCH", path, {"status": {"allocation": allocation}})
        wait_until(lambda: kept(watch, RESOURCE_CLAIMS)[0]["status"].get("allocation") == allocation)
        assert [watch.objects()[kind] for kind in OF_OTHERS] == [[], [], []]
        assert watch.problems() == ()
    finally:
        watch.stop()


def test_a_missing_right_is_told(new_api_server):
    reader = User("reader", denied=(("*", "resourceclaims"),))
    api = new_api_server(extra_tokens={"reader-token": reader})
    watch = watch_of(api.gateway(token="reader-token"), *DRA)
    try:
        wait_until(lambda: watch.problems())
        assert [kind for kind, _sentence in watch.problems()] == ["resourceclaims"]
        assert set(DRA) <= set(OPTIONAL)
    finally:
        watch.stop()


def test_an_older_version_is_asked_for_where_the_newer_is_not_served(api_server):
    old = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "cards", "singular": "card", "kind": "Card", "listKind": "CardList"}
    spec = {"group": "lab.example", "scope": "Cluster", "names": names, "versions": [old]}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "cards.lab.example"},
        "spec": spec,
    }
    api_server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    kind = Kind("lab.example", "v3", "cards", False, older=("v2", "v1"))

    def make(name):
        card = {"apiVersion": "lab.example/v1", "kind": "Card", "metadata": {"name": name}}
        return api_server.ask("POST", "/apis/lab.example/v1/cards", card)

    wait_until(lambda: is_served(api_server, "/apis/lab.example/v1/cards"))
    make("a")
    watch = watch_of(api_server.gateway(), kind)
    try:
        wait_until(lambda: [one.name for one in watch.objects().get(kind, [])] == ["a"])
        make("b")
        wait_until(lambda: len(watch.objects()[kind]) == 2)
        assert watch.problems() == ()
        before = []
        found = list_kept(api_server.gateway(), kind, before_each=lambda: before.append(1))
        assert (len(found), len(before)) == (2, 3)
    finally:
        watch.stop()
