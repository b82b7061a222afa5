"""Gangs of four schedulers, companies that fall together, and pods that share what they should not."""

import pytest

from apps.kube.gateway import (
    KAI_POD_GROUPS,
    NATIVE_POD_GROUPS,
    NATIVE_WORKLOADS,
    POD_GROUPS,
    PODS,
    REPLICASETS,
    VOLCANO_POD_GROUPS,
)
from apps.kube.object_store import KeptObject
from apps.kube.translate import Translator, build_snapshot
from apps.kube.trimming import trim_object
from apps.planner.movability import movability
from apps.planner.waiting import explain_pending
from tests.kube.objects import owned, pod

MINE = {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}
OF_VOLCANO = {"annotations": {"scheduling.k8s.io/group-name": "train"}}
OF_KAI = {"annotations": {"pod-group-name": "train"}}
# As the controllers of LeaderWorkerSet and JobSet write them.
LEADER = {
    "leaderworkerset.sigs.k8s.io/name": "serve",
    "leaderworkerset.sigs.k8s.io/group-index": "0",
    "leaderworkerset.sigs.k8s.io/group-key": "689ad3a7e8ed1b4ba2f35b7ac5ba0e6f8e3fcd1b",
    "leaderworkerset.sigs.k8s.io/worker-index": "0",
    "leaderworkerset.sigs.k8s.io/template-revision-hash": "6b8f4f9c6d",
    "apps.kubernetes.io/pod-index": "0",
    "statefulset.kubernetes.io/pod-name": "serve-0",
}
WORKER = {
    **LEADER,
    "leaderworkerset.sigs.k8s.io/worker-index": "2",
    "apps.kubernetes.io/pod-index": "2",
    "statefulset.kubernetes.io/pod-name": "serve-0-2",
}
OF_JOBSET = {
    "jobset.sigs.k8s.io/jobset-name": "js",
    "jobset.sigs.k8s.io/replicatedjob-name": "workers",
    "jobset.sigs.k8s.io/job-index": "1",
    "jobset.sigs.k8s.io/job-key": "2d0b3f0c4f6d1b0f8c3a5d0f6c7e8a9b1c2d3e4f",
    "jobset.sigs.k8s.io/restart-attempt": "0",
    "batch.kubernetes.io/job-name": "js-workers-1",
    "batch.kubernetes.io/job-completion-index": "3",
}


def group(kind, name="train", **spec):
    return owned("PodGroup", name, api=kind.api_version, spec=spec, status=spec.pop("status", {}))


def test_kubernetes_own_groups_are_gangs_by_the_pods_spec():
    grouped = {"schedulingGroup": {"podGroupName": "train"}}
    loose = {"schedulingGroup": {"podGroupName": "loose"}}
    older = {"workloadRef": {"name": "job", "podGroup": "workers"}}
    replica = {"workloadRef": {**older["workloadRef"], "podGroupReplicaKey": "7"}}
    specs = {"a": grouped, "b": loose, "c": older, "d": replica}
    policy = {"gang": {"minCount": 3}}
    workload = owned("Workload", "job", spec={"podGroups": [{"name": "workers", "policy": policy}]})
    objects = {
        PODS: [pod(name, spec=spec) for name, spec in specs.items()],
        NATIVE_POD_GROUPS: [
            group(NATIVE_POD_GROUPS, schedulingPolicy=policy),
            group(NATIVE_POD_GROUPS, "loose", schedulingPolicy={"basic": {}}),
        ],
        NATIVE_WORKLOADS: [workload],
    }
    kept = {kind: [KeptObject(trim_object(kind, raw)) for raw in raws] for kind, raws in objects.items()}
    found = build_snapshot("lab", kept, 1.0)
    by_pod = {name: found.gangs[found.pods[f"uid-{name}"].gang] for name in specs}
    assert [(one.key, one.min_members) for one in by_pod.values()] == [
        ("team-a/train", 3),
        ("team-a/loose", 1),
        ("team-a/job-workers", 3),
        ("team-a/job-workers-7", 1),
    ]


def test_groups_of_one_name_in_three_apis_are_three_gangs():
    objects = {
        PODS: [pod("a", **MINE), pod("b", **OF_VOLCANO), pod("c", **OF_KAI)],
        POD_GROUPS: [group(POD_GROUPS, minMember=2)],
        VOLCANO_POD_GROUPS: [group(VOLCANO_POD_GROUPS, minMember=5, queue="q", status={"phase": "Inqueue"})],
        KAI_POD_GROUPS: [
            group(KAI_POD_GROUPS, subGroups=[{"name": "x", "minMember": 3}, {"name": "y", "minMember": 1}])
        ],
    }
    found = build_snapshot("lab", objects, 1.0)
    by_pod = {name: found.gangs[found.pods[f"uid-{name}"].gang] for name in "abc"}
    assert [by_pod[name].min_members for name in "abc"] == [2, 5, 4]
    assert by_pod["a"].key == "team-a/train"
    assert by_pod["b"].key == "team-a/train@scheduling.volcano.sh"
    assert (by_pod["b"].phase, by_pod["b"].queue) == ("Inqueue", "q")
    assert by_pod["c"].subgroups == (("x", 3), ("y", 1))


@pytest.mark.parametrize(
    ("membership", "kind"), [(MINE, POD_GROUPS), (OF_VOLCANO, VOLCANO_POD_GROUPS), (OF_KAI, KAI_POD_GROUPS)]
)
def test_a_group_alone_of_its_name_has_the_plain_key(membership, kind):
    found = build_snapshot("lab", {PODS: [pod("a", **membership)], kind: [group(kind, minMember=3)]}, 1.0)
    assert found.gangs["team-a/train"].min_members == 3
    assert found.gangs["team-a/train"].api_version == kind.api_version


@pytest.mark.parametrize(("least", "may_move"), [(2, False), (1, True)])
def test_a_pod_whose_move_would_break_its_gang_stays(least, may_move):
    pods = [pod(name, on="node-a", **OF_VOLCANO) for name in ("a", "b")]
    found = build_snapshot(
        "lab", {PODS: pods, VOLCANO_POD_GROUPS: [group(VOLCANO_POD_GROUPS, minMember=least)]}, 1.0
    )
    reasons = movability(found, found.pods["uid-a"]).reasons
    assert any("gangs move whole" in reason for reason in reasons) is not may_move


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({"ray.io/node-type": "head", "ray.io/cluster": "rc"}, "head of the Ray cluster rc"),
        (LEADER, "LeaderWorkerSet serve, which restarts its whole group"),
        (WORKER, "LeaderWorkerSet serve, which restarts its whole group"),
        (OF_JOBSET, "JobSet js, which restarts or fails as a whole"),
        ({"ray.io/node-type": "worker", "ray.io/cluster": "rc"}, None),
    ],
)
def test_pods_whose_loss_takes_others_along_are_protected(labels, says):
    (only,) = build_snapshot("lab", {PODS: [pod("a", labels=labels)]}, 1.0).pods.values()
    assert [says in sentence for sentence in only.protections] == ([True] if says else [])


@pytest.mark.parametrize("kind", ["RayCluster", "PyTorchJob", "StatefulSet", "Job"])
def test_pods_of_a_group_wait_under_their_owner_and_as_a_gang_only_where_one_was_made_for_them(kind):
    """Of a LeaderWorkerSet the pods belong to StatefulSets, of a JobSet to Jobs."""
    waits = {"owner": (kind, "big"), "gpus": 8, "status": {"phase": "Pending"}}
    alone = [pod(f"w{at}", **waits) for at in range(2)]
    found = explain_pending(build_snapshot("lab", {PODS: alone}, 1.0))
    assert [(one.display, one.pod_count, one.gpus_per_pod) for one in found] == [("big", 1, 8)] * 2
    grouped = [pod(f"w{at}", **waits, **OF_VOLCANO) for at in range(2)]
    made = [group(VOLCANO_POD_GROUPS, minMember=2)]
    (gang,) = explain_pending(build_snapshot("lab", {PODS: grouped, VOLCANO_POD_GROUPS: made}, 1.0))
    assert (gang.key, gang.pod_count, gang.gpus) == ("team-a/train", 2, 16)


def test_two_pods_with_one_uid_are_both_there():
    reader = Translator()
    raws = [pod("a", on="node-a"), pod("b", gpus=3, on="node-a")]
    for raw in raws:
        raw["metadata"] |= {"uid": "one-uid", "resourceVersion": "7"}
    for at in (1.0, 2.0):
        found = reader.build("lab", {PODS: raws}, taken_at=at)
        assert sorted((one.name, one.requests["nvidia.com/gpu"]) for one in found.pods.values()) == [
            ("a", 1),
            ("b", 3),
        ]
        assert any("team-a/a and team-a/b have one UID" in problem for problem in found.problems)


def test_owners_in_a_circle_end():
    sets = [
        owned("ReplicaSet", name, owner=("ReplicaSet", other))
        for name, other in (("rs-a", "x"), ("x", "rs-a"))
    ]
    found = build_snapshot("lab", {PODS: [pod("a")], REPLICASETS: sets}, 1.0)
    assert found.workload_name(found.pods["uid-a"]) == "x"
