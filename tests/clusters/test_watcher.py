"""From a live API server into the database: what the watcher records, and what it tells when it cannot."""

import json
import threading
import time

import pytest
import redis
from django.conf import settings

from apps.audit.models import AuditEntry
from apps.clusters import services
from apps.clusters.models import Cluster, Snapshot
from apps.kube.gateway import NODES
from apps.simulator.api_server.access import User
from tests.cluster_fixtures import wait_until
from tests.clusters.looking import newest, picture_of, register
from tests.kube.objects import node, owned, pod

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("quick_pictures")]


def test_a_registered_cluster_gets_a_snapshot(api_server, watchers):
    api_server.seed(
        node(),
        owned("ReplicaSet", "rs-a", spec={"replicas": 1}),
        pod("web", gpus=2, on="node-a"),
        pod("waits", gpus=8),
    )
    cluster = register(api_server)
    picture = wait_until(lambda: picture_of(cluster))
    assert list(picture.nodes) == ["node-a"]
    assert {found.name for found in picture.pods.values()} == {"web", "waits"}
    summary = newest(cluster).summary
    assert summary["gpus"] == {"physical": 8, "schedulable": 8, "allocated": 2, "free": 6}
    assert (summary["nodes"], summary["pending"], summary["pending_gpus"]) == (1, 1, 8)
    cluster.refresh_from_db()
    assert cluster.watch_error == ""
    assert cluster.watched_at is not None


def test_a_change_is_a_new_row_and_quiet_only_moves_the_time(api_server, watchers):
    api_server.seed(node())
    cluster = register(api_server)
    first = wait_until(lambda: newest(cluster))
    wait_until(lambda: newest(cluster).taken_at > first.taken_at)
    assert Snapshot.objects.filter(cluster=cluster).count() == 1
    gateway = api_server.gateway()
    gateway.patch_object(NODES, "node-a", {"spec": {"unschedulable": True}})
    wait_until(lambda: newest(cluster).pk != first.pk)
    assert picture_of(cluster).nodes["node-a"].unschedulable
    gateway.close()


def test_a_node_heartbeat_is_no_new_picture(api_server, watchers):
    api_server.seed(node())
    cluster = register(api_server)
    first = wait_until(lambda: newest(cluster))
    for second in range(3):
        beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-01-01T00:00:0{second}Z"}
        api_server.ask("PATCH", "/api/v1/nodes/node-a/status", {"status": {"conditions": [beat]}})
    seen = newest(cluster).taken_at
    wait_until(lambda: newest(cluster).taken_at > seen)
    assert newest(cluster).pk == first.pk


def test_pages_are_told_of_a_new_snapshot(api_server, watchers):
    listener = redis.Redis.from_url(settings.REDIS_URL).pubsub(ignore_subscribe_messages=True)
    listener.subscribe("console:events")
    wait_until(lambda: listener.get_message(timeout=0.1) is None)
    api_server.seed(node())
    register(api_server)

    def told():
        message = listener.get_message(timeout=0.2)
        notice = json.loads(message["data"]) if message else {}
        return notice if notice.get("cluster") == "lab" else None

    notice = wait_until(told)
    assert notice["topic"] == "snapshot"
    assert notice["data"]["summary"]["nodes"] == 1
    listener.close()


def running():
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("watcher-"))


def test_clusters_come_and_go_while_it_runs(new_api_server, watchers):
    first, second = new_api_server(), new_api_server()
    first.seed(node("one"))
    second.seed(node("two"))
    lab = register(first, "lab")
    wait_until(lambda: newest(lab))
    shop = register(second, "shop")
    wait_until(lambda: newest(shop))
    assert list(picture_of(shop).nodes) == ["two"]
    services.set_cluster_active(actor=None, cluster_id=lab.pk, is_active=False)
    wait_until(lambda: running() == ["watcher-shop"])
    assert list(AuditEntry.objects.values_list("action", flat=True)) == [
        "cluster.registered",
        "cluster.registered",
        "cluster.deactivated",
    ]


def test_a_missing_right_is_a_problem_and_the_rest_stays(new_api_server, watchers):
    reader = User("reader", denied=(("list", "poddisruptionbudgets"),))
    api = new_api_server(extra_tokens={"reader-token": reader})
    api.seed(node())
    cluster = register(api, token="reader-token")
    wait_until(lambda: newest(cluster))
    cluster.refresh_from_db()
    assert cluster.watch_error == ""
    (problem,) = cluster.problems
    assert problem["kind"] == "poddisruptionbudgets"
    assert "cannot list" in problem["message"]
    assert picture_of(cluster).problems == (problem["message"],)


def test_without_the_right_to_see_pods_there_is_no_picture_but_a_reason(new_api_server, watchers):
    api = new_api_server(extra_tokens={"reader-token": User("reader", denied=(("list", "pods"),))})
    api.seed(node())
    cluster = register(api, token="reader-token")

    def reason():
        cluster.refresh_from_db()
        return cluster.watch_error

    assert 'cannot list resource "pods"' in wait_until(reason)
    assert newest(cluster) is None


def test_a_credential_that_is_refused_later_is_told_and_a_new_one_mends_it(new_api_server, watchers):
    api = new_api_server(extra_tokens={"old": User("reader"), "new": User("reader")})
    api.seed(node())
    cluster = register(api, token="old")
    wait_until(lambda: newest(cluster))
    del api.server.tokens["old"]

    def reason():
        cluster.refresh_from_db()
        return cluster.watch_error

    assert "the credential is refused" in wait_until(reason, seconds=15)
    frozen = newest(cluster).taken_at
    services.replace_credentials(actor=None, cluster_id=cluster.pk, kubeconfig=api.kubeconfig(token="new"))
    wait_until(lambda: not reason() and newest(cluster).taken_at > frozen, seconds=15)


def test_a_cluster_registered_unseen_is_pinned_on_first_contact(api_server, watchers):
    api_server.seed(node())
    cluster = services.register_cluster(
        actor=None, name="lab", kubeconfig=api_server.kubeconfig(), check=False
    )
    assert cluster.kube_system_uid == ""
    wait_until(lambda: newest(cluster), seconds=15)
    cluster = Cluster.objects.get(pk=cluster.pk)
    assert cluster.kube_system_uid == api_server.gateway().cluster_uid()
    assert cluster.version == "v1.36.2"


def test_another_cluster_behind_the_address_is_told_and_never_recorded(api_server, watchers):
    api_server.seed(node())
    cluster = register(api_server)
    wait_until(lambda: newest(cluster))
    Cluster.objects.filter(pk=cluster.pk).update(kube_system_uid="of-the-cluster-that-was-here")
    Snapshot.objects.all().delete()

    def reason():
        cluster.refresh_from_db()
        return cluster.watch_error

    assert "Another cluster answers" in wait_until(reason, seconds=15)
    Snapshot.objects.all().delete()
    api_server.ask("PATCH", "/api/v1/nodes/node-a", {"spec": {"unschedulable": True}})
    time.sleep(1)
    assert newest(cluster) is None
