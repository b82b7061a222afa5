"""What is remembered of nodes: over restarts, per UID, and until a person accepts how a node is."""

from dataclasses import replace

import pytest

from apps.accounts.errors import Denied
from apps.accounts.models import Role, RoleGrant, User
from apps.audit.models import AuditEntry
from apps.clusters import expectations
from apps.clusters.accepting import accept_drift
from apps.clusters.expectations import Expectations
from apps.clusters.models import Cluster, NodeExpectation
from apps.planner.inventory import Gpu, Node
from apps.planner.snapshot import Snapshot

SETTLED = {"nvidia.com/mig.config.state": "success"}
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cluster():
    return Cluster.objects.create(name="east", server="https://127.0.0.1:1")


def picture(*nodes, problems=()):
    return Snapshot(
        cluster="east", taken_at=1.0, nodes={node.name: node for node in nodes}, problems=problems
    )


def node(count, uid="u1", name="n1"):
    return Node(name, uid=uid, gpus=tuple(Gpu(index) for index in range(count)))


def test_a_loss_is_told_by_a_watcher_that_has_never_seen_the_node_whole(cluster):
    Expectations(cluster.pk).judge(picture(node(8)))
    judged = Expectations(cluster.pk).judge(picture(node(7)))
    assert judged.nodes["n1"].drift == ("8 healthy GPUs were seen here, now there are 7",)
    assert judged.nodes["n1"].warnings[0] == judged.nodes["n1"].drift[0]


def test_a_node_created_anew_under_its_name_starts_afresh(cluster):
    watched = Expectations(cluster.pk)
    watched.judge(picture(node(8)))
    assert watched.judge(picture(node(4, uid="u2"))).nodes["n1"].drift == ()
    assert list(NodeExpectation.objects.values_list("node_uid", flat=True)) == ["u2"]


def test_a_picture_with_problems_makes_nobody_forgotten(cluster):
    watched = Expectations(cluster.pk)
    watched.judge(picture(node(8)))
    watched.judge(picture(problems=("nodes cannot be read",)))
    assert watched.judge(picture(node(7))).nodes["n1"].drift != ()


def test_an_unchanged_node_stays_the_same_object(cluster):
    """The digest of the next snapshot costs what has changed."""
    watched, kept = Expectations(cluster.pk), node(8)
    watched.judge(picture(kept))
    worse = replace(kept, gpus=kept.gpus[:7])
    first = watched.judge(picture(worse)).nodes["n1"]
    assert watched.judge(picture(worse)).nodes["n1"] is first


def test_what_a_person_accepts_is_expected_from_then_on(cluster):
    watched = Expectations(cluster.pk)
    watched.judge(picture(node(8)))
    assert not watched.read_again()
    with pytest.raises(Denied):
        accept_drift(actor=User.objects.create_user("eve"), cluster_id=cluster.pk, node_uid="u1", node="n1")
    operator = User.objects.create_user("ann")
    RoleGrant.objects.create(user=operator, role=Role.OPERATOR, cluster=cluster)
    accept_drift(actor=operator, cluster_id=cluster.pk, node_uid="u1", node="n1")
    assert watched.read_again()
    assert watched.judge(picture(node(7))).nodes["n1"].drift == ()
    assert watched.judge(picture(node(6))).nodes["n1"].drift != ()
    assert AuditEntry.objects.get(action="node.drift-accepted").detail["expected"]["gpus"] == 8


def test_what_is_accepted_while_the_watcher_judges_is_not_written_back(cluster, monkeypatch):
    """It learned a layout on top of the 8 GPUs that a person lets go just before it writes."""
    Expectations(cluster.pk).judge(picture(node(8)))
    operator = User.objects.create_user("ann")
    RoleGrant.objects.create(user=operator, role=Role.OPERATOR, cluster=cluster)
    watcher = Expectations(cluster.pk)
    keep, tries = expectations.keep_expectations, []

    def accept_first(**facts):
        tries.append(facts["accepted_at"])
        if len(tries) == 1:
            accept_drift(actor=operator, cluster_id=cluster.pk, node_uid="u1", node="n1")
        return keep(**facts)

    monkeypatch.setattr(expectations, "keep_expectations", accept_first)
    linked = replace(node(7), labels={"nvidia.com/mig.config": "all-1g.10gb", **SETTLED})
    judged = watcher.judge(picture(linked))
    assert judged.nodes["n1"].drift == ()
    assert NodeExpectation.objects.get().facts["gpus"] == 7
    assert len(tries) == 2
    assert tries[0] is None
    assert not watcher.read_again()
