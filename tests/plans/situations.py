"""Small clusters, people and plans that the tests of plans and of the API share."""

import time
from dataclasses import replace

from django.utils import timezone

from apps.accounts.models import RoleGrant, User
from apps.clusters.models import Cluster
from apps.clusters.services import record_snapshot
from apps.planner.inventory import Gpu, Node, Pod, Topology, Workload
from apps.planner.plan import Goal, Move, Plan
from apps.planner.snapshot import Snapshot
from apps.plans import services
from apps.plans.titles import title_of_plan

GIB = 1024**3


def person(name, *roles, cluster=None):
    user = User.objects.create(username=name)
    for role in roles:
        RoleGrant.objects.create(user=user, role=role, cluster=cluster)
    return user


def make_cluster(name="east"):
    return Cluster.objects.create(name=name, server="https://127.0.0.1:1", watched_at=timezone.now())


def node(name, **facts):
    room = {"cpu": 64_000, "memory": 512 * GIB, "pods": 110, "nvidia.com/gpu": 8}
    known = {
        "uid": f"uid-{name}",
        "hostname": name,
        "labels": {"kubernetes.io/hostname": name},
        "capacity": room,
        "allocatable": room,
        "vendor": "nvidia",
        "model": "A100-SXM4-80GB",
        "gpu_resource": "nvidia.com/gpu",
        "gpus": tuple(Gpu(index=number, uuid=f"GPU-{name}-{number}") for number in range(8)),
    }
    return Node(name=name, **{**known, **facts})


def pod(name, where, gpus, **facts):
    known = {
        "uid": f"uid-{name}",
        "namespace": "ml",
        "node_name": where,
        "phase": "Running",
        "ready": True,
        "labels": {"app": name},
        "requests": {"cpu": 1000, "memory": GIB, "nvidia.com/gpu": gpus},
        "workload": f"rs-{name}",
        "owner_kind": "ReplicaSet",
        "started_at": time.time() - 600,
    }
    return Pod(name=name, **{**known, **facts})


def picture(*, nodes=None, pods=None, cluster="east", **facts):
    """By default: node-a holds one small pod, node-b has one GPU left, node-c is full."""
    nodes = nodes or [node("node-a"), node("node-b"), node("node-c")]
    if pods is None:
        pods = [pod("lora", "node-a", 1), pod("train", "node-b", 7), pod("serve", "node-c", 8)]
    owners = {
        one.workload: Workload(
            uid=one.workload, kind="ReplicaSet", namespace=one.namespace, name=one.name, replicas=1
        )
        for one in pods
        if one.workload
    }
    return Snapshot(
        cluster=cluster,
        taken_at=time.time(),
        nodes={one.name: one for one in nodes},
        pods={one.uid: one for one in pods},
        workloads=owners,
        **facts,
    )


def see(cluster, snapshot=None):
    """The watcher's part: store what the cluster looks like now."""
    return record_snapshot(
        cluster_id=cluster.pk, snapshot=replace(snapshot or picture(), cluster=cluster.name)
    )


def plan_of_one_move(**facts):
    move = Move(
        order=1,
        wave=1,
        pod_uid="uid-lora",
        pod="ml/lora",
        source="node-a",
        target="node-b",
        gpus=1,
        cost=60.0,
        reason="node-a is freed",
        workload_uid="rs-lora",
        source_uid="uid-node-a",
        target_uid="uid-node-b",
    )
    known = {"goal": Goal.FREE_NODES, "moves": (move,), "freed_nodes": ("node-a",), "cost": 60.0}
    return Plan(**{**known, "lower_bound": 1.0, **facts})


def draft(cluster, author, found=None):
    """A draft whose version is there, as the worker leaves it."""
    row = see(cluster)
    plan = services.request_plan(actor=author, cluster=cluster, goal="free-nodes")
    attach(plan, row, found or plan_of_one_move())
    plan.refresh_from_db()
    return plan


def attach(plan, row, found):
    return services.attach_version(
        plan_id=plan.pk,
        number=plan.version_number,
        snapshot=row,
        found=found,
        title=title_of_plan(found, plan.request, picture()),
    )


def proposed(cluster, author):
    return services.propose_plan(plan_id=draft(cluster, author).pk, actor=author)


def approve(plan, approver, **facts):
    version = plan.versions.get(number=plan.version_number)
    known = {"digest": version.digest, "comment": "looks safe", "logged_in_at": timezone.now()}
    return services.approve_plan(plan_id=plan.pk, approver=approver, **{**known, **facts})


def topology(size=8):
    return Topology(
        links=tuple(tuple("X" if a == b else "NV12" for b in range(size)) for a in range(size)), source="nvml"
    )
