"""A dump as a cluster: kept, read again, never watched, and nothing is carried out on it."""

import json
from datetime import UTC, datetime

import pytest

from apps.audit.models import AuditEntry
from apps.clusters.errors import BadDump, BadName, ConnectionFailed, NameTaken
from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster
from apps.clusters.queries import active_clusters, latest_snapshot, open_snapshot
from apps.clusters.services import register_dump, replace_credentials

pytestmark = pytest.mark.django_db(transaction=True)
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "uid": "u1", "creationTimestamp": "2026-03-02T10:00:00Z"},
    "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}},
}


def written(folder, *objects, name="dump.json"):
    file = folder / name
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return (name, file)


def test_a_dump_is_seen_as_a_cluster_of_its_time_and_is_not_watched(tmp_path):
    cluster = register_dump(actor=None, name="monday", paths=[written(tmp_path, NODE)])
    row = latest_snapshot(cluster)
    assert row.taken_at == datetime(2026, 3, 2, 10, tzinfo=UTC)
    assert set(open_snapshot(row).nodes) == {"n1"}
    assert cluster not in active_clusters()
    with pytest.raises(ConnectionFailed, match="known from a dump only"):
        open_gateway(cluster)
    assert AuditEntry.objects.filter(action="cluster.registered", cluster="monday").exists()


def test_the_next_dump_of_a_name_is_its_newest_snapshot_even_if_it_is_older(tmp_path):
    register_dump(actor=None, name="monday", paths=[written(tmp_path, NODE)])
    older = {
        **NODE,
        "metadata": {**NODE["metadata"], "name": "n0", "creationTimestamp": "2025-01-01T00:00:00Z"},
    }
    cluster = register_dump(actor=None, name="monday", paths=[written(tmp_path, older)])
    assert Cluster.objects.count() == 1
    assert set(open_snapshot(latest_snapshot(cluster)).nodes) == {"n0"}


def test_several_files_are_read_together(tmp_path):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "a", "uid": "p1"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "2"}}}]},
        "status": {"phase": "Pending"},
    }
    paths = [written(tmp_path, NODE), written(tmp_path, pod, name="pods.json")]
    cluster = register_dump(actor=None, name="monday", paths=paths)
    assert [each.key for each in open_snapshot(latest_snapshot(cluster)).pods.values()] == ["a/p"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff\xfe\x00", "nodes.json is not UTF-8 text"),
        (b"", "nodes.json: it is empty"),
        (b"{]", "nodes.json: neither JSON nor YAML"),
        (b'{"apiVersion": "v1", "kind": "Namespace"}', "There is no Node in it"),
    ],
)
def test_what_is_no_dump_is_refused_by_its_own_name_and_leaves_nothing(tmp_path, content, told):
    file = tmp_path / "0"
    file.write_bytes(content)
    with pytest.raises(BadDump, match=told):
        register_dump(actor=None, name="monday", paths=[("nodes.json", file)])
    assert not Cluster.objects.exists()


def test_a_dump_never_takes_the_place_of_a_connected_cluster_nor_the_other_way_round(tmp_path):
    Cluster.objects.create(name="live", server="https://127.0.0.1:1")
    with pytest.raises(NameTaken, match="'live' is a connected cluster"):
        register_dump(actor=None, name="live", paths=[written(tmp_path, NODE)])
    cluster = register_dump(actor=None, name="monday", paths=[written(tmp_path, NODE)])
    with pytest.raises(NameTaken, match="'monday' is a dump"):
        replace_credentials(actor=None, cluster_id=cluster.pk, kubeconfig="")


def test_no_file_and_no_name_are_refused(tmp_path):
    with pytest.raises(BadDump, match="no file was given"):
        register_dump(actor=None, name="monday", paths=[])
    for name in ("Mon day", "dumps"):
        with pytest.raises(BadName):
            register_dump(actor=None, name=name, paths=[written(tmp_path, NODE)])
