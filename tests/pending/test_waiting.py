"""What waits, and why, as the planner says it; remembered for the picture that was asked about."""

import pytest

from apps.clusters.models import Cluster
from apps.clusters.queries import open_snapshot
from apps.clusters.services import record_snapshot
from apps.kube.gateway import NODES, PODS
from apps.kube.translate import build_snapshot
from apps.pending import queries
from tests.kube.objects import node, pod


def picture(*pods):
    return build_snapshot("lab", {NODES: [node("node-a"), node("node-b")], PODS: pods}, 1.0)


def test_a_pod_that_fits_nowhere_is_explained():
    snapshot = picture(
        pod("a", gpus=4, on="node-a"),
        pod("b", gpus=4, on="node-b"),
        pod("waits", gpus=8),
        pod("runs", gpus=0, on="node-a"),
    )
    (waiting,) = queries.waiting_workloads(snapshot)
    assert (waiting.key, waiting.gpus_per_pod) == ("team-a/waits", 8)
    assert waiting.reason_code == "gpus-scattered"
    assert queries.waiting_workload(snapshot, "team-a/waits") == waiting
    assert queries.waiting_workload(snapshot, "team-a/runs") is None


@pytest.mark.django_db
def test_the_answer_is_remembered_while_the_picture_is_open():
    cluster = Cluster.objects.create(name="lab")
    row = record_snapshot(cluster_id=cluster.pk, snapshot=picture(pod("waits", gpus=16)))
    first = open_snapshot(row)
    assert queries.waiting_workloads(first) is queries.waiting_workloads(first)
    second = record_snapshot(cluster_id=cluster.pk, snapshot=picture())
    assert queries.waiting_workloads(open_snapshot(second)) == ()
