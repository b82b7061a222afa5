"""Less GPU memory for what has waited long: who is offered how much, who is not, and what it would change."""

from dataclasses import replace

import pytest

from apps.planner.fallback import FallbackLimits, list_candidates, plan_lowering
from apps.planner.inventory import Gpu, Node, Pod, Workload
from apps.planner.plan import Goal
from apps.planner.plan_json import plan_from_dict, plan_to_dict
from apps.planner.queues import GpuRequest
from apps.planner.snapshot import Snapshot
from apps.planner.staleness import what_changed
from apps.planner.verification import check_plan

MEM = "aliyun.com/gpu-mem"
NOW = 10_000.0


def never() -> bool:
    """A deadline that does not come."""
    return False


def share_node(name="share-1"):
    offers = {"cpu": 16_000, "memory": 2**36, "pods": 110, MEM: 16, "aliyun.com/gpu-count": 1}
    return Node(
        name, uid=f"uid-{name}", hostname=name, allocatable=offers, capacity=offers, vendor="nvidia",
        model="Tesla-T4", gpu_resource="aliyun.com/gpu-count", gpus=(Gpu(0, memory_mib=16_384),),
    )  # fmt: skip


def share(name, amount, *, on="", workload="uid-rs", waited=600, kind="ReplicaSet", **facts):
    return Pod(
        f"uid-{name}", "ml", name, requests={"cpu": 1000, MEM: amount}, workload=workload,
        owner_kind=kind, node_name=on, phase="Running" if on else "Pending", ready=bool(on),
        created_at=NOW - waited, **facts,
    )  # fmt: skip


OWNERS = (
    Workload("uid-web", "Deployment", "ml", "web", replicas=1),
    Workload("uid-rs", "ReplicaSet", "ml", "web-5d", parent="uid-web", display="web"),
    Workload("uid-sts", "StatefulSet", "ml", "tuner"),
    Workload("uid-job", "Job", "ml", "batch"),
    Workload("uid-lws", "StatefulSet", "ml", "llm", parent="uid-elsewhere"),
)


def seen(*pods, nodes=("share-1",)):
    return Snapshot(
        "east",
        NOW,
        nodes={name: share_node(name) for name in nodes},
        pods={pod.uid: pod for pod in pods},
        workloads={one.uid: one for one in OWNERS},
    )


BUSY = share("busy", 10, on="share-1", workload="uid-sts", kind="StatefulSet")


def plan_for(snapshot, key="ml/web-1", **limits):
    return plan_lowering(snapshot, key, limits=FallbackLimits(**limits), deadline=never)


def test_it_is_offered_a_step_less_with_what_that_changes():
    snapshot = seen(BUSY, share("web-1", 7))
    plan = plan_for(snapshot)
    (one,) = plan.lowerings
    assert plan.goal is Goal.LOWER_MEMORY
    assert (one.owner_kind, one.owner, one.owner_uid) == ("Deployment", "ml/web", "uid-web")
    assert (one.resource, one.before, one.after, one.before_mib, one.after_mib) == (MEM, 7, 6, 7168, 6144)
    assert (one.starts, one.nodes, one.renews) == (1, ("share-1",), False)
    assert plan.sentence == "It asks for 7,168 MiB; with 6,144 MiB it could start now, on share-1."
    assert check_plan(snapshot, plan) == []
    assert plan_from_dict(plan_to_dict(plan)) == plan


def test_the_effect_is_told_where_it_would_not_start_either():
    plan = plan_for(seen(BUSY, share("web-1", 9)))
    assert plan.lowerings[0].starts == 0
    assert plan.sentence == "It asks for 9,216 MiB; with 8,192 MiB it could not start now either."


def test_a_search_that_was_cut_short_says_so_and_not_that_nothing_would_start():
    snapshot = seen(BUSY, share("web-1", 7), share("web-2", 7))
    plan = plan_lowering(snapshot, "ml/web-1", deadline=lambda: True)
    assert (
        plan.sentence
        == "It asks for 7,168 MiB; with 6,144 MiB it might start now: there was no time to find out."
    )


def test_what_is_stated_in_mib_is_lowered_by_exactly_the_step():
    pod = replace(share("web-1", 0), requests={"cpu": 1000}, gpu_memory_mib=6000)
    (one,) = plan_for(seen(BUSY, pod)).lowerings
    assert (one.resource, one.before, one.after) == ("", 6000, 5000)


RUNS = share("web-0", 7, on="share-1")


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        ([share("web-1", 7, waited=200)], "It has waited for 200 s; less is offered after 300 s."),
        ([share("web-1", 3)], "It asks for 3,072 MiB; less is offered above 4,000 MiB only."),
        ([share("web-1", 7), RUNS], "ml/web-0 of the same Deployment runs, and would be restarted."),
        ([share("web-1", 7, workload="uid-job", kind="Job")], "a Job, whose template is immutable"),
        ([share("web-1", 7, workload="", kind="")], "It has no owner"),
        ([share("web-1", 7, workload="uid-lws", kind="StatefulSet")], "which would set it back"),
        ([share("web-1", 7), share("web-2", 8)], "Pods of Deployment web ask for different amounts."),
        ([replace(share("web-1", 0), requests={"cpu": 1})], "It asks for no GPU memory in MiB"),
        ([], "No pending workload has this name."),
    ],
)
def test_who_is_not_offered_less_is_told_why(pods, said):
    plan = plan_for(seen(*pods))
    assert not plan.lowerings
    assert said in plan.sentence


def test_the_limits_are_the_policys():
    snapshot = seen(BUSY, share("web-1", 7, waited=100))
    (one,) = plan_for(snapshot, after_seconds=60.0, above_mib=7000, step_mib=3000).lowerings
    assert (one.after, one.after_mib) == (4, 4096)


def test_one_owner_is_listed_once_with_its_reason():
    pods = [share("web-1", 7), share("web-2", 7), share("tuner-0", 7, workload="uid-job", kind="Job")]
    found = {one.key: one for one in list_candidates(seen(*pods))}
    assert set(found) == {"ml/web-1", "ml/tuner-0"}
    assert not found["ml/web-1"].why_not
    assert "immutable" in found["ml/tuner-0"].why_not


def test_the_plan_goes_stale_when_a_pod_runs_or_nobody_waits_or_the_owner_is_another():
    snapshot = seen(BUSY, share("web-1", 7))
    plan = plan_for(snapshot)
    assert what_changed(plan, snapshot, snapshot) == []
    started = snapshot.with_pods([share("web-1", 7, on="share-1")])
    assert what_changed(plan, snapshot, started) == ["ml/web-1 of Deployment ml/web runs now (change 1)"]
    assert what_changed(plan, snapshot, seen(BUSY)) == [
        "no pod of Deployment ml/web waits any more (change 1)"
    ]
    other = replace(snapshot, workloads={})
    assert "Deployment ml/web is gone or was made anew (change 1)" in what_changed(plan, snapshot, other)


def test_the_checker_sees_what_must_not_be():
    snapshot = seen(BUSY, share("web-1", 7))
    plan = plan_for(snapshot)
    (one,) = plan.lowerings

    def faults(**changed):
        return check_plan(snapshot, replace(plan, lowerings=(replace(one, **changed),)))

    assert faults(after=8, after_mib=8192) == ["ml/web: 8192 MiB is not less than 7168 MiB, or nothing"]
    assert faults(before=9) == ["ml/web: ml/web-1 does not ask for 9"]
    assert faults(owner_uid="uid-sts") == ["ml/web: it is not the owner that is there"]
    running = snapshot.with_pods([RUNS])
    assert "ml/web: a pod of it runs" in check_plan(running, plan)


def test_a_request_of_our_own_kind_is_lowered_in_itself_and_its_pods_stay():
    labels = {"defrag.gpu.internal/request": "big"}
    pod = Pod("uid-p", "ml", "p", requests={"nvidia.com/gpu": 1, "cpu": 1000}, phase="Pending", labels=labels,
              workload="uid-job", owner_kind="Job", created_at=NOW - 600)  # fmt: skip
    offers = {"cpu": 16_000, "memory": 2**36, "pods": 110, "nvidia.com/gpu": 1}
    cards = (Gpu(0, "g0", memory_mib=24_000),)
    node = Node("n1", uid="uid-n1", hostname="n1", allocatable=offers, capacity=offers, vendor="nvidia",
                model="A30", gpu_resource="nvidia.com/gpu", gpus=cards)  # fmt: skip
    request = GpuRequest("ml/big", memory_mib=25_000, uid="uid-big")
    snapshot = replace(seen(pod), nodes={"n1": node}, gpu_requests={"ml/big": request})
    plan = plan_for(snapshot, "ml/p")
    (one,) = plan.lowerings
    assert (one.owner_kind, one.owner, one.owner_uid, one.renews) == (
        "GPURequest",
        "ml/big",
        "uid-big",
        False,
    )
    assert (one.before, one.after, one.starts, one.nodes) == (25_000, 24_000, 1, ("n1",))
    assert check_plan(snapshot, plan) == []
    assert what_changed(plan, snapshot, snapshot) == []
    runs = replace(pod, node_name="n1", phase="Running")
    assert what_changed(plan, snapshot, snapshot.with_pods([runs])) == [
        "ml/p of GPURequest ml/big runs now (change 1)"
    ]
    other = replace(snapshot, gpu_requests={"ml/big": replace(request, uid="uid-other")})
    assert what_changed(plan, snapshot, other) == ["GPURequest ml/big is gone or was made anew (change 1)"]
    assert check_plan(other, plan) == ["ml/big: it is not the owner that is there"]


class CountedPods(dict):
    looked = 0

    def values(self):
        self.looked += 1
        return super().values()


def test_the_clusters_pods_are_gone_through_as_often_for_many_who_wait_as_for_one():
    """Thousands may wait, and one question at a time is planned."""
    looked = []
    for many in (1, 40):
        owners = {f"uid-{at}": Workload(f"uid-{at}", "ReplicaSet", "ml", f"r{at}") for at in range(many)}
        waiting = [share(f"p{at}", 10, workload=f"uid-{at}") for at in range(many)]
        picture = seen(*waiting)
        picture = replace(picture, workloads=owners, pods=CountedPods(picture.pods))
        assert len([one for one in list_candidates(picture) if one.after]) == many
        looked.append(picture.pods.looked)
    assert looked[0] == looked[1]
