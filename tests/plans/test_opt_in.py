"""A cluster whose policy moves offered pods only: namespaces and pods say so by annotation."""

import pytest

from apps.clusters import queries as clusters
from apps.kube.gateway import NAMESPACES, PODS
from apps.kube.translate import build_snapshot
from apps.planner.inventory import Tie
from apps.planner.movability import MovabilityRules
from apps.planner.protecting import ONLY_OFFERED, guard_namespaces
from apps.plans import services
from tests.plans.situations import make_cluster, person, picture, pod, see

MOVABLE = "defrag.gpu.internal/movable"


def test_pods_say_it_themselves_or_by_their_namespace():
    def raw(name, namespace, notes=None):
        metadata = {"name": name, "namespace": namespace, "uid": name, "annotations": notes or {}}
        return {"metadata": metadata, "spec": {"containers": []}, "status": {}}

    spaces = [
        {"metadata": {"name": "open", "annotations": {MOVABLE: "true"}}},
        {"metadata": {"name": "closed", "annotations": {MOVABLE: "yes"}}},
    ]
    pods = [raw("a", "open"), raw("b", "closed"), raw("c", "closed", {MOVABLE: "true"})]
    seen = build_snapshot("c", {NAMESPACES: spaces, PODS: pods}, 0.0).pods
    assert [Tie.OFFERED in seen[name].ties for name in "abc"] == [True, False, True]


def test_the_policy_decides_whether_it_is_asked():
    seen = picture(pods=[pod("lora", "node-a", 1, ties=(Tie.OFFERED,)), pod("train", "node-b", 7)])
    assert guard_namespaces(seen, ()) is seen
    rules = MovabilityRules(guard_namespaces(seen, [ONLY_OFFERED]))
    lora, train = (rules.snapshot.pods[f"uid-{name}"] for name in ("lora", "train"))
    assert rules.judge(lora).movable
    assert "nor its namespace ml says defrag.gpu.internal/movable: true" in " ".join(
        rules.judge(train).reasons
    )


@pytest.mark.django_db(transaction=True)
def test_a_change_of_the_policy_counts_for_every_snapshot_that_is_opened():
    cluster = make_cluster()
    row = see(cluster)
    assert not any(pod.protections for pod in clusters.open_snapshot(row).pods.values())
    admin = person("root", "admin", cluster=cluster)
    services.change_policy(actor=admin, cluster=cluster, wishes={"only_offered": True})
    assert all(pod.protections for pod in clusters.open_snapshot(row).pods.values())
