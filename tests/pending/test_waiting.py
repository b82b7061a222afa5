"""What waits, and why, as the planner says it; remembered for the picture that was asked about."""

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


def test_the_answer_is_remembered_for_its_picture_only():
    first, second = picture(pod("waits", gpus=16)), picture()
    assert queries.waiting_workloads(first) is queries.waiting_workloads(first)
    assert queries.waiting_workloads(second) == ()


def test_only_the_last_pictures_are_kept():
    for number in range(queries.REMEMBERED * 3):
        queries.waiting_workloads(picture(pod(f"waits-{number}", gpus=16)))
    assert len(queries._answers) == queries.REMEMBERED
