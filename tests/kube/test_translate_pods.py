"""Pods: what they ask for, whom they belong to, and why they may not be moved."""

import pytest

from apps.kube.gateway import (
    BUDGETS,
    CLAIMS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    VOLUMES,
)
from apps.kube.translate import build_snapshot
from apps.planner.inventory import LinkClass, Tie
from tests.kube.objects import namespace, owned, pod


def snapshot(**kinds):
    named = {
        "pods": PODS,
        "namespaces": NAMESPACES,
        "replicasets": REPLICASETS,
        "deployments": DEPLOYMENTS,
        "statefulsets": STATEFULSETS,
        "jobs": JOBS,
        "budgets": BUDGETS,
        "groups": POD_GROUPS,
        "claims": CLAIMS,
        "volumes": VOLUMES,
    }
    return build_snapshot("lab", {named[name]: objects for name, objects in kinds.items()}, 1.0)


def read(raw, **kinds):
    return snapshot(pods=[raw], **kinds).pods[raw["metadata"]["uid"]]


def container(**requests):
    amounts = {name.replace("gpu", "nvidia.com/gpu"): value for name, value in requests.items()}
    return {"name": "c", "resources": {"requests": amounts}}


def test_init_containers_and_sidecars_count_by_the_greatest_moment():
    spec = {
        "initContainers": [
            container(gpu="4", cpu="1"),
            {**container(cpu="2"), "restartPolicy": "Always"},
            container(cpu="7"),
        ],
        "containers": [container(gpu="1", cpu="3"), container(gpu="1", cpu="1500m")],
    }
    assert read(pod(spec=spec)).requests == {"nvidia.com/gpu": 4, "cpu": 9000}


def test_limits_stand_in_where_only_they_are_given():
    spec = {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}
    assert read(pod(spec=spec)).requests == {"nvidia.com/gpu": 2}


@pytest.mark.parametrize("amount", ["9223372036854775807", "1e30", "8E"])
def test_more_than_anybody_has_is_still_asked_for(amount):
    """Left out, the pod would fit on any node."""
    asked = read(pod(spec={"containers": [container(gpu=amount)]})).requests["nvidia.com/gpu"]
    assert 10**15 < asked < 2**60


def test_overhead_is_added_and_resources_of_the_whole_pod_win():
    spec = {
        "overhead": {"cpu": "250m"},
        "resources": {"requests": {"cpu": "8"}},
        "containers": [container(cpu="1", gpu="1")],
    }
    assert read(pod(spec=spec)).requests == {"cpu": 8250, "nvidia.com/gpu": 1}


@pytest.mark.parametrize(
    ("phase", "deleted", "holds"),
    [
        ("Running", False, True),
        ("Running", True, True),
        ("Pending", False, True),
        ("Unknown", False, True),
        ("Succeeded", False, False),
        ("Failed", False, False),
        ("Weird", False, True),
    ],
)
def test_finished_pods_hold_nothing_and_terminating_ones_still_do(phase, deleted, holds):
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    found = read(pod(on="node-a", status={"phase": phase}, metadata=metadata))
    assert found.is_holding is holds
    assert found.terminating is deleted


@pytest.mark.parametrize(
    ("annotations", "requests", "milli", "memory"),
    [
        ({"gpu-fraction": "0.5"}, {}, 500, None),
        ({"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}, {"nvidia.com/gpu": 2}, 250, None),
        ({"gpu-fraction": "lots"}, {"nvidia.com/gpu": 1}, 1000, None),
        ({"gpu-memory": "2000"}, {}, 0, 2000),
    ],
)
def test_kai_fractions(annotations, requests, milli, memory):
    found = read(pod(gpus=0, annotations=annotations))
    assert (found.requests, found.gpu_milli, found.gpu_memory_mib) == (requests, milli, memory)


def test_hami_shares_are_no_plain_resources():
    amounts = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "30"}
    found = read(pod(spec={"containers": [{"name": "c", "resources": {"limits": amounts}}]}))
    assert (found.requests, found.gpu_milli, found.gpu_memory_mib) == ({"nvidia.com/gpu": 1}, 300, 4000)


def test_a_hami_share_is_of_each_device_and_not_divided_among_them():
    two = {"nvidia.com/gpu": "2", "nvidia.com/gpumem-percentage": "50"}
    one = {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "30"}

    def share(*limits):
        containers = [{"name": f"c{at}", "resources": {"limits": found}} for at, found in enumerate(limits)]
        return read(pod(spec={"containers": containers}))

    assert share(two).gpu_milli == 500
    assert (share(one, one).gpu_milli, share(one, one).requests) == (300, {"nvidia.com/gpu": 2})


@pytest.mark.parametrize(
    ("milli", "requests", "share"), [("500", {}, 500), ("lots", {"nvidia.com/gpu": 1}, 1000)]
)
def test_a_share_in_milli_by_annotation(milli, requests, share):
    found = read(pod(gpus=0, annotations={"alibabacloud.com/gpu-milli": milli}))
    assert (found.requests, found.gpu_milli) == (requests, share)


def test_reservation_pods_are_no_load_beside_their_shares_and_one_card_without_any():
    keeps = pod("keeps", namespace="kai-resource-reservation", on="node-a", labels={"runai-gpu-group": "g"})
    facts = {"labels": {"runai-gpu-group": "g"}, "annotations": {"gpu-fraction": "0.5"}}
    pods = snapshot(pods=[keeps, pod("half", gpus=0, on="node-a", **facts)]).pods
    assert (pods["uid-keeps"].reservation, pods["uid-keeps"].requests) == (True, {})
    elsewhere = snapshot(pods=[keeps, pod("half", gpus=0, on="node-b", **facts)]).pods
    assert elsewhere["uid-keeps"].requests == {"nvidia.com/gpu": 1}
    assert read(keeps).requests == {"nvidia.com/gpu": 1}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"owner": None}, "no controller owns it"),
        ({"owner": ("DaemonSet", "exporter")}, "belongs to the DaemonSet exporter"),
        ({"owner": ("Node", "node-a")}, "static pod"),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, "static pod"),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "karpenter.sh/do-not-disrupt is true"),
        ({"spec": {"resourceClaims": [{"name": "gpu"}]}}, "resource claims (DRA)"),
        (
            {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
            "safe-to-evict is false",
        ),
        (
            {"annotations": {"defrag.gpu.internal/protect": "true"}},
            "its annotation defrag.gpu.internal/protect",
        ),
        ({"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}, "Kueue's topology-aware"),
        ({"labels": {"app.kubernetes.io/component": "notebook"}}, "interactive notebook"),
        ({"labels": {"notebook-name": "ana"}}, "interactive notebook"),
        ({"spec": {"containers": [{"name": "x", "stdin": True, "tty": True}]}}, "keeps a terminal open"),
        ({"spec": {"priority": 2_000_001_000, "containers": []}}, "critical to the system"),
        ({"spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]}}, "scratch (emptyDir) would be lost"),
        ({"spec": {"volumes": [{"name": "data", "hostPath": {"path": "/data"}}]}}, "data lies on the node"),
    ],
)
def test_each_reason_not_to_move_is_one_sentence(changes, says):
    (sentence,) = read(pod(on="node-a", **changes)).protections
    assert says in sentence


@pytest.mark.parametrize(
    ("changes", "ties"),
    [
        ({}, ()),
        ({"owner": None}, (Tie.NO_OWNER,)),
        ({"owner": ("DaemonSet", "exporter")}, ()),
        ({"owner": None, "annotations": {"kubernetes.io/config.mirror": "x"}}, ()),
        ({"spec": {"resourceClaims": [{"name": "gpu"}]}}, (Tie.CLAIMS,)),
    ],
)
def test_reasons_that_rules_ask_about_are_facts_and_no_words(changes, ties):
    assert read(pod(on="node-a", **changes)).ties == ties


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"spec": {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}},
        {
            "spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]},
            "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "other, scratch"},
        },
        {
            "spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]},
            "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
        },
        {"annotations": {"defrag.gpu.internal/protect": "false"}},
        {"spec": {"containers": [{"name": "x", "stdin": True}]}},
    ],
)
def test_an_ordinary_pod_has_no_protection(changes):
    assert read(pod(on="node-a", **changes)).protections == ()


PROTECT = {"defrag.gpu.internal/protect": "true"}


def test_protection_comes_down_from_namespace_and_workload():
    kinds = {
        "namespaces": [namespace("team-a", defrag__x="y")],
        "deployments": [owned("Deployment", "web", annotations=PROTECT, spec={"replicas": 1})],
        "replicasets": [owned("ReplicaSet", "rs-a", owner=("Deployment", "web"), spec={"replicas": 1})],
    }
    assert read(pod(), **kinds).protections == (
        "the annotation defrag.gpu.internal/protect of its Deployment web is true",
    )
    closed = namespace("team-a")
    closed["metadata"]["annotations"] = PROTECT
    assert read(pod(), namespaces=[closed]).protections == (
        "the annotation defrag.gpu.internal/protect of its namespace team-a is true",
    )


def test_a_pod_is_known_by_its_deployment():
    found = snapshot(
        pods=[pod("web-1")],
        deployments=[owned("Deployment", "web", spec={"replicas": 2}, status={"observedGeneration": 1})],
        replicasets=[owned("ReplicaSet", "rs-a", owner=("Deployment", "web"), spec={"replicas": 2})],
    )
    only = found.pods["uid-web-1"]
    assert (only.workload, only.owner_kind) == ("uid-rs-a", "ReplicaSet")
    assert found.workload_name(only) == "web"
    assert found.workloads["uid-rs-a"].parent == "uid-web"
    assert found.workloads["uid-rs-a"].updating


def test_an_owner_of_an_unread_kind_still_has_a_name():
    found = snapshot(pods=[pod(owner=("RayCluster", "ray"))])
    assert found.workload_name(found.pods["uid-pod-a"]) == "ray"
    assert found.workloads["uid-ray"].kind == "RayCluster"


@pytest.mark.parametrize(
    ("status", "updating"),
    [
        ({"observedGeneration": 1, "updatedReplicas": 2, "replicas": 2, "readyReplicas": 2}, False),
        ({"observedGeneration": 1, "updatedReplicas": 1, "replicas": 2}, True),
        ({"observedGeneration": 1, "updatedReplicas": 2, "replicas": 3}, True),
        ({"observedGeneration": 0, "updatedReplicas": 2, "replicas": 2}, True),
    ],
)
def test_a_rollout_under_way_is_seen(status, updating):
    found = snapshot(deployments=[owned("Deployment", "web", spec={"replicas": 2}, status=status)])
    assert found.workloads["uid-web"].updating is updating


def test_a_job_tells_its_back_off_and_failures():
    raw = owned(
        "Job",
        "train",
        api="batch/v1",
        spec={"parallelism": 4, "backoffLimit": 2},
        status={"failed": 1, "ready": 3},
    )
    found = snapshot(jobs=[raw]).workloads["uid-train"]
    assert (found.replicas, found.ready_replicas, found.backoff_limit, found.failed_pods) == (4, 3, 2, 1)


def test_a_pod_group_is_a_gang():
    labels = {"scheduling.x-k8s.io/pod-group": "llama"}
    group = owned("PodGroup", "llama", api="scheduling.x-k8s.io/v1alpha1", spec={"minMember": 3})
    found = snapshot(pods=[pod("a", labels=labels), pod("b", labels=labels)], groups=[group])
    assert {one.gang for one in found.pods.values()} == {"team-a/llama"}
    assert (found.gangs["team-a/llama"].min_members, found.gangs["team-a/llama"].kind) == (3, "PodGroup")


def test_a_group_without_its_object_is_a_gang_of_all_its_pods():
    labels = {"scheduling.x-k8s.io/pod-group": "llama"}
    found = snapshot(pods=[pod("a", labels=labels), pod("b", labels=labels)])
    assert found.gangs["team-a/llama"].min_members == 2


def test_pods_of_one_job_are_a_gang_when_they_say_so():
    job = owned("Job", "train", api="batch/v1", spec={"parallelism": 4})
    gang = {"defrag.gpu.internal/gang": "true"}
    found = snapshot(pods=[pod(owner=("Job", "train"), annotations=gang)], jobs=[job])
    assert found.pods["uid-pod-a"].gang == "team-a/train"
    assert (found.gangs["team-a/train"].min_members, found.gangs["team-a/train"].kind) == (4, "Job")
    alone = owned("Job", "train", api="batch/v1", spec={"parallelism": 1})
    assert snapshot(pods=[pod(owner=("Job", "train"), annotations=gang)], jobs=[alone]).gangs == {}
    assert snapshot(pods=[pod(owner=("Job", "train"))], jobs=[job]).gangs == {}


@pytest.mark.parametrize(
    ("wish", "link"), [("nvlink", LinkClass.NVLINK), ("numa", LinkClass.NUMA), ("magic", None)]
)
def test_the_wanted_link(wish, link):
    found = read(pod(annotations={"defrag.gpu.internal/link": wish}))
    assert found.link == link
    assert bool(found.warnings) is (link is None)


def claim(name, volume):
    return owned("PersistentVolumeClaim", name, api="v1", spec={"volumeName": volume})


def test_a_volume_with_a_place_pins_its_pod():
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": []}]}}
    volumes = [
        owned("PersistentVolume", "pinned", api="v1", spec={"nodeAffinity": affinity}),
        owned("PersistentVolume", "free", api="v1", spec={}),
    ]
    claims = [claim("one", "pinned"), claim("two", "free")]

    def uses(name):
        return pod(spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]})

    assert read(uses("one"), claims=claims, volumes=volumes).volumes_pin_node
    assert not read(uses("two"), claims=claims, volumes=volumes).volumes_pin_node
    unread = read(uses("two"))
    assert unread.volumes_pin_node
    assert any("volumes could not be read" in warning for warning in unread.warnings)


def test_where_it_may_run():
    spec = {
        "nodeSelector": {"zone": "a"},
        "tolerations": [
            {"key": "gpu", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 30}
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "model", "operator": "In", "values": ["A100"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]},
                        {},
                    ]
                }
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
                ]
            },
        },
        "topologySpreadConstraints": [
            {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}},
            {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
        ],
        "schedulingGates": [{"name": "defrag.gpu.internal/steer"}],
        "containers": [{"name": "c", "ports": [{"hostPort": 8080}, {"containerPort": 1}]}],
    }
    found = read(pod(spec=spec))
    assert found.node_selector == {"zone": "a"}
    assert found.tolerations[0].seconds == 30
    assert [len(term.labels) + len(term.fields) for term in found.node_terms] == [1, 1, 0]
    (anti,) = found.pod_anti_affinity
    assert (anti.topology_key, anti.selector.requirements[0].values) == ("kubernetes.io/hostname", ("x",))
    assert [constraint.topology_key for constraint in found.spread] == ["zone"]
    assert found.gates == ("defrag.gpu.internal/steer",)
    assert found.host_ports == (8080,)


def test_what_else_a_pod_tells():
    status = {
        "startTime": "2026-01-02T00:00:05Z",
        "nominatedNodeName": "node-c",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"},
            {"type": "Ready", "status": "True"},
        ],
    }
    labels = {"defrag.gpu.internal/hold": "7", "defrag.gpu.internal/service": "online"}
    annotations = {
        "defrag.gpu.internal/migration": "m-1",
        "defrag.gpu.internal/checkpoint-done": "2026-01-02T00:01:00Z",
    }
    found = read(pod(labels=labels, annotations=annotations, status=status))
    assert (found.hold, found.service, found.steering) == (True, "online", "m-1")
    assert found.checkpointed_at - found.started_at == 55
    assert (found.nominated_node, found.ready) == ("node-c", True)
    assert found.unschedulable_message == "0/3 nodes are available"


def test_a_budget():
    raw = owned(
        "PodDisruptionBudget",
        "pdb",
        api="policy/v1",
        spec={"selector": {}, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        status={"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3},
    )
    found = snapshot(budgets=[raw]).budgets["uid-pdb"]
    assert (found.disruptions_allowed, found.desired_healthy, found.always_allow_unhealthy) == (1, 2, True)
    assert found.selector.requirements == ()
    assert not found.observed
    raw["status"]["observedGeneration"] = 1
    assert snapshot(budgets=[raw]).budgets["uid-pdb"].observed
