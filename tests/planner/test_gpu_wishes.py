"""A GPURequest counts in placing, is shown, and a bad one is told with its reason."""

import pytest

from apps.kube.gateway import GPU_REQUESTS
from apps.kube.translate import build_snapshot
from apps.planner.defrag import plan_unlock
from apps.planner.fitting import Fitting, Reason
from apps.planner.gpu_wishes import REQUEST_LABEL
from apps.planner.inventory import Gpu, Node, Pod
from apps.planner.placement import Board
from apps.planner.preemption import PreemptionSearch
from apps.planner.queues import GpuRequest
from apps.planner.rooms import free_room
from apps.planner.snapshot import Snapshot
from apps.planner.waiting import explain_pending

GPU = "nvidia.com/gpu"


def node(name, model, memory_mib):
    gpus = tuple(Gpu(index=at, uuid=f"{name}-{at}", memory_mib=memory_mib) for at in range(2))
    room = {GPU: 2, "pods": 110, "cpu": 64000, "memory": 2**39}
    return Node(name, gpu_resource=GPU, vendor="nvidia", model=model, gpus=gpus, allocatable=room)


def pod(name="p", request="big", **facts):
    labels = {REQUEST_LABEL: request} if request else {}
    return Pod(f"uid-{name}", "ml", name, labels=labels, requests={GPU: 1}, **facts)


def scene(*requests, pods=(), **changes):
    nodes = [node("small", "A100-SXM4-40GB", 40960), node("large", "A100-SXM4-80GB", 81920)]
    nodes += [node("other", "H100-SXM5-80GB", 81920), Node("plain", allocatable={"pods": 110})]
    return Snapshot(
        "c1",
        1000.0,
        nodes={one.name: one for one in nodes},
        pods={one.uid: one for one in (*pods, pod())},
        gpu_requests={one.key: one for one in requests},
        **changes,
    )


@pytest.mark.parametrize(
    ("wish", "homes"),
    [
        ({}, {"small", "large", "other"}),
        ({"model": "A100"}, {"small", "large"}),
        ({"memory_mib": 60000}, {"large", "other"}),
        ({"model": "a100-sxm4-80gb", "memory_mib": 60000}, {"large"}),
    ],
)
def test_model_and_memory_decide_where_a_pod_may_go(wish, homes):
    snapshot = scene(GpuRequest("ml/big", **wish))
    fitting = Fitting(free_room(snapshot))
    assert {name for name in snapshot.nodes if fitting.can_run(pod(), name)} == homes
    (found,) = explain_pending(snapshot)
    assert found.nodes_that_fit == len(homes)


def test_the_reasons_are_the_usual_ones():
    snapshot = scene(GpuRequest("ml/big", memory_mib=60000, model="A100"))
    fitting = Fitting(free_room(snapshot))
    reasons = {name: fitting.static_reasons(pod(), one) for name, one in snapshot.nodes.items()}
    assert reasons["small"] == (Reason.GPU_MEMORY,)
    assert reasons["other"] == reasons["plain"] == (Reason.NO_SUCH_GPU,)
    (found,) = explain_pending(snapshot)
    assert found.gpu_wish == "60,000 MiB of A100"


def test_two_pods_with_other_wishes_get_other_answers():
    snapshot = scene(
        GpuRequest("ml/big", memory_mib=60000), GpuRequest("ml/tiny", memory_mib=1), pods=[pod("q", "tiny")]
    )
    found = {one.key: one.nodes_that_fit for one in explain_pending(snapshot)}
    assert found == {"ml/p": 2, "ml/q": 3}


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ([], "There is no GPURequest ml/big, which its label names"),
        (
            [GpuRequest("ml/big", problem="its gpuMem is -5 MiB, and takes 1 to 1048576")],
            "Its GPURequest ml/big cannot be honoured: its gpuMem is -5 MiB",
        ),
        ([GpuRequest("ml/big", model="H900")], "No node has GPUs of the type H900"),
        ([GpuRequest("other/big")], "There is no GPURequest ml/big"),
    ],
)
def test_a_bad_request_is_the_reason_and_no_plan_is_made(requests, said):
    snapshot = scene(*requests)
    (found,) = explain_pending(snapshot)
    assert found.reason_code == "gpu-request"
    assert found.sentence.startswith(said)
    plan = plan_unlock(snapshot, workload="ml/p", max_moves=3, deadline=lambda: False)
    assert (plan.unlocked, plan.sentence) == ((), found.sentence)


def test_where_requests_cannot_be_read_nothing_is_said_of_them():
    snapshot = scene(problems=("gpurequests cannot be read: apply the reader role",))
    assert explain_pending(snapshot)[0].reason_code == "fits"


def test_who_is_not_preemptible_does_not_give_way():
    guest = pod("guest", "firm", node_name="large", phase="Running", workload="rs", owner_kind="ReplicaSet")
    for preemptible in (True, False):
        snapshot = scene(GpuRequest("ml/firm", preemptible=preemptible), pods=[guest])
        urgent = pod("urgent", "", priority=10)
        search = PreemptionSearch(Board(snapshot), [urgent], 1, lambda: False)
        assert search._may_give_way(guest, urgent) is preemptible


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"gpuMem": 20000, "gpuType": "A100", "preemptible": True}, ""),
        ({}, ""),
        ({"gpuMem": -5}, "its gpuMem is -5 MiB, and takes 1 to 1048576"),
        ({"gpuMem": 0}, "its gpuMem is 0 MiB, and takes 1 to 1048576"),
        ({"gpuMem": "20Gi"}, "its gpuMem 20Gi is no whole number of MiB"),
        ({"gpuMem": True}, "its gpuMem True is no whole number of MiB"),
        ({"gpuType": 80}, "its gpuType 80 is no text"),
        ({"preemptible": "no"}, "its preemptible no is neither true nor false"),
    ],
)
def test_the_object_is_read_and_what_is_wrong_with_it_told(spec, problem):
    raw = {"metadata": {"namespace": "ml", "name": "big", "uid": "u1"}, "spec": spec}
    found = build_snapshot("c1", {GPU_REQUESTS: [raw]}, taken_at=1.0).gpu_requests["ml/big"]
    assert found.problem == problem
    if problem:
        assert found.memory_mib is None
