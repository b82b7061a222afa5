"""Registering clusters and keeping their snapshots: who may, what is pinned, what is kept."""

import dataclasses
from datetime import UTC, datetime

import pytest
from django.core.management import CommandError, call_command

from apps.accounts.errors import Denied, NotVisible
from apps.accounts.models import User
from apps.accounts.services import grant_role
from apps.audit.models import AuditEntry
from apps.clusters import queries, services
from apps.clusters.errors import AlreadyRegistered, BadKubeconfig, BadName, ConnectionFailed, NameTaken
from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster, Snapshot
from apps.clusters.packing import Packer
from apps.clusters.pictures import pack, summarise, unpack
from apps.kube.gateway import BUDGETS, NODES, PODS
from apps.kube.translate import build_snapshot
from tests.kube.objects import node, owned, pod


@pytest.fixture
def people(db):
    admin, viewer = User.objects.create(username="admin"), User.objects.create(username="viewer")
    grant_role(user=admin, role="admin")
    return admin, viewer


def picture(*pods, taken_at=1000.0, nodes=None):
    return build_snapshot("lab", {NODES: nodes or [node()], PODS: pods}, taken_at)


@pytest.fixture
def cluster(db):
    return Cluster.objects.create(name="lab", server="https://127.0.0.1:1", kube_system_uid="uid-lab")


def test_an_admin_registers_a_cluster_and_its_credential_stays_hidden(api_server, people):
    admin, _ = people
    cluster = services.register_cluster(actor=admin, name="lab", kubeconfig=api_server.kubeconfig())
    assert cluster.kube_system_uid == api_server.gateway().cluster_uid()
    assert (cluster.server, cluster.version) == (api_server.url, "v1.36.2")
    assert api_server.server.token not in cluster.credential
    entry = AuditEntry.objects.get(action="cluster.registered")
    assert (entry.actor, entry.cluster) == (admin, "lab")
    assert api_server.server.token not in str(entry.detail)
    assert open_gateway(Cluster.objects.get(name="lab")).version() == "v1.36.2"


def test_nobody_else_registers_one(api_server, people):
    with pytest.raises(Denied):
        services.register_cluster(actor=people[1], name="lab", kubeconfig=api_server.kubeconfig())
    assert api_server.requests() == []
    assert Cluster.objects.count() == 0
    assert AuditEntry.objects.filter(action="denied").count() == 1


def test_names_and_clusters_are_registered_once(api_server, new_api_server, people):
    admin, _ = people
    services.register_cluster(actor=admin, name="lab", kubeconfig=api_server.kubeconfig())
    with pytest.raises(NameTaken):
        services.register_cluster(actor=admin, name="lab", kubeconfig=new_api_server().kubeconfig())
    with pytest.raises(AlreadyRegistered, match="as 'lab'"):
        services.register_cluster(actor=admin, name="shop", kubeconfig=api_server.kubeconfig())


@pytest.mark.parametrize("name", ["", "Lab", "a b", "x" * 64, "ümlaut", "../etc"])
def test_bad_names_are_refused(people, name):
    with pytest.raises(BadName):
        services.register_cluster(actor=people[0], name=name, kubeconfig="")


def test_bad_kubeconfigs_and_clusters_that_do_not_answer_are_refused(api_server, new_api_server, people):
    with pytest.raises(BadKubeconfig):
        services.register_cluster(actor=people[0], name="lab", kubeconfig="hello")
    wrong_token = api_server.kubeconfig(token="wrong")
    with pytest.raises(ConnectionFailed, match="credential is refused") as caught:
        services.register_cluster(actor=people[0], name="lab", kubeconfig=wrong_token)
    assert "wrong" not in str(caught.value)
    other = new_api_server()
    wrong_ca = other.kubeconfig().replace(other.url, api_server.url)
    with pytest.raises(ConnectionFailed, match="Check that the CA certificate"):
        services.register_cluster(actor=people[0], name="lab", kubeconfig=wrong_ca)
    assert Cluster.objects.count() == 0


def test_new_credentials_must_be_of_the_same_cluster(api_server, new_api_server, people):
    admin, _ = people
    cluster = services.register_cluster(actor=admin, name="lab", kubeconfig=api_server.kubeconfig())
    other = new_api_server()
    with pytest.raises(ConnectionFailed, match="Another cluster answers"):
        services.replace_credentials(actor=admin, cluster_id=cluster.pk, kubeconfig=other.kubeconfig())
    renewed = services.replace_credentials(
        actor=admin, cluster_id=cluster.pk, kubeconfig=other.kubeconfig(), rebuilt=True
    )
    assert renewed.kube_system_uid == other.gateway().cluster_uid()
    assert renewed.server == other.url


def test_a_changed_key_is_told_and_an_old_key_still_opens(api_server, people, settings):
    settings.CREDENTIAL_KEYS = ["first"]
    cluster = services.register_cluster(actor=people[0], name="lab", kubeconfig=api_server.kubeconfig())
    settings.CREDENTIAL_KEYS = ["second", "first"]
    assert open_gateway(cluster).version()
    settings.CREDENTIAL_KEYS = ["second"]
    with pytest.raises(ConnectionFailed, match="cannot be decrypted"):
        open_gateway(cluster)


def test_only_granted_clusters_are_visible(people, cluster):
    admin, viewer = people
    assert list(queries.visible_clusters(admin)) == [cluster]
    assert list(queries.visible_clusters(viewer)) == []
    with pytest.raises(NotVisible):
        queries.cluster_for(viewer, "lab")
    with pytest.raises(NotVisible):
        queries.cluster_for(admin, "nowhere")
    grant_role(user=viewer, role="viewer", cluster=cluster)
    assert queries.cluster_for(viewer, "lab") == cluster


def test_a_stored_picture_opens_as_it_was(cluster):
    whole = build_snapshot(
        "lab",
        {
            NODES: [node()],
            PODS: [pod("a", on="node-a"), pod("b")],
            BUDGETS: [owned("PodDisruptionBudget", "pdb", spec={"selector": {}})],
        },
        1000.0,
    )
    row = services.record_snapshot(cluster_id=cluster.pk, snapshot=whole)
    assert queries.open_snapshot(Snapshot.objects.get(pk=row.pk)) == whole
    assert queries.open_snapshot(row) is queries.open_snapshot(row)
    assert unpack(pack(whole)) == whole


def test_the_same_facts_only_move_the_time_on(cluster):
    raws = [node()]
    first = services.record_snapshot(cluster_id=cluster.pk, snapshot=picture(nodes=raws))
    again = services.record_snapshot(cluster_id=cluster.pk, snapshot=picture(nodes=raws, taken_at=2000.0))
    assert again.pk == first.pk
    assert queries.latest_snapshot(cluster).taken_at == datetime.fromtimestamp(2000, UTC)
    assert queries.open_snapshot(again).taken_at == 2000.0
    changed = services.record_snapshot(cluster_id=cluster.pk, snapshot=picture(pod(), taken_at=3000.0))
    assert changed.pk != first.pk


def test_a_notice_of_a_picture_is_short_however_many_nodes_drift(cluster, monkeypatch):
    told = []
    monkeypatch.setattr(services, "publish_on_commit", lambda name, topic, data: told.append(data["summary"]))
    fine = picture()
    drifted = {name: dataclasses.replace(one, drift=("less is here",)) for name, one in fine.nodes.items()}
    row = services.record_snapshot(cluster_id=cluster.pk, snapshot=dataclasses.replace(fine, nodes=drifted))
    assert set(row.summary["drifted"]) == set(fine.nodes)
    lists = ("drifted", "maintained")
    assert told == [{name: value for name, value in row.summary.items() if name not in lists}]


def test_an_older_picture_never_becomes_the_newest(cluster):
    newest = services.record_snapshot(cluster_id=cluster.pk, snapshot=picture(taken_at=2000.0))
    late = services.record_snapshot(cluster_id=cluster.pk, snapshot=picture(pod(), taken_at=1000.0))
    assert late.pk == newest.pk
    assert Snapshot.objects.count() == 1


def test_a_digest_stands_for_the_facts(cluster):
    found = picture(pod("a", on="node-a"))
    node_a = found.nodes["node-a"]
    prints = Packer()
    digest = prints.digest(found)
    beat = dataclasses.replace(node_a, resource_version="999", holdings_observed_at=5.0)
    assert prints.digest(dataclasses.replace(found, taken_at=9.0, nodes={"node-a": beat})) == digest
    cordoned = dataclasses.replace(node_a, unschedulable=True)
    assert prints.digest(dataclasses.replace(found, nodes={"node-a": cordoned})) != digest
    assert prints.digest(dataclasses.replace(found, problems=("x",))) != digest
    assert prints.digest(found) == digest == Packer().digest(found)


def test_old_pictures_go_except_those_that_something_refers_to(cluster, people, settings):
    from apps.plans.models import Plan, PlanVersion

    settings.SNAPSHOTS_KEPT = 3
    rows = [
        services.record_snapshot(
            cluster_id=cluster.pk, snapshot=picture(pod(f"p{number}"), taken_at=1000.0 + number)
        )
        for number in range(6)
    ]
    admin, _ = people
    plan = Plan.objects.create(cluster=cluster, title="t", created_by=admin, edited_by=admin)
    version = PlanVersion.objects.create(
        plan=plan,
        number=1,
        snapshot=rows[0],
        snapshot_taken_at=rows[0].taken_at,
        snapshot_digest=rows[0].digest,
        body={},
        digest="d",
    )
    assert services.prune_snapshots(cluster_id=cluster.pk) == 2
    kept = set(Snapshot.objects.values_list("pk", flat=True))
    assert kept == {rows[0].pk, rows[3].pk, rows[4].pk, rows[5].pk}
    version.refresh_from_db()
    assert version.snapshot_id == rows[0].pk


def test_the_summary_tells_physical_schedulable_allocated_and_free_apart():
    shared = node(
        "shared",
        labels={"nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": "4"},
        capacity={"nvidia.com/gpu": "4"},
    )
    cut = node(
        "cut",
        labels={"nvidia.com/gpu.count": "1"},
        capacity={"nvidia.com/gpu": "0", "nvidia.com/mig-3g.40gb": "2"},
    )
    cordoned = node("cordoned", gpus=4, spec={"unschedulable": True})
    mig = {"containers": [{"resources": {"limits": {"nvidia.com/mig-3g.40gb": "1"}}}]}
    found = picture(
        pod("whole", gpus=3, on="plain"),
        pod("slice", gpus=1, on="shared"),
        pod("instance", on="cut", spec={**mig, "nodeName": "cut"}),
        pod("there", gpus=2, on="cordoned"),
        pod("half", gpus=0, on="plain", annotations={"gpu-fraction": "0.5"}),
        pod("done", gpus=5, on="plain", status={"phase": "Succeeded"}),
        nodes=[node("plain", gpus=8), shared, cut, cordoned],
    )
    gpus = summarise(found)["gpus"]
    assert gpus["physical"] == 14
    assert gpus["schedulable"] == 10
    assert gpus["allocated"] == pytest.approx(3 + 0.25 + 3 / 7 + 2 + 0.5, abs=0.001)
    assert gpus["free"] == pytest.approx(4.5 + 0.75 + 4 / 7, abs=0.001)


def test_the_command_registers_and_says_so(api_server, db, tmp_path, capsys):
    path = tmp_path / "kubeconfig"
    path.write_text(api_server.kubeconfig())
    call_command("register_cluster", "lab", "--kubeconfig", str(path))
    assert "Registered lab" in capsys.readouterr().out
    with pytest.raises(CommandError, match="registered already"):
        call_command("register_cluster", "lab", "--kubeconfig", str(path))
    call_command("register_cluster", "lab", "--kubeconfig", str(path), "--replace", "--json")
    assert '"name": "lab"' in capsys.readouterr().out
    with pytest.raises(CommandError, match="cannot be read") as caught:
        call_command("register_cluster", "shop", "--kubeconfig", str(tmp_path / "missing"))
    assert caught.value.returncode == 2
