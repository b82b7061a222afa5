"""What users of other tools were told wrongly about how many GPUs there are, and what is right."""

from __future__ import annotations

import pytest

from apps.clusters.dumps import CLUSTER
from apps.kube.gateway import NODES, PODS
from apps.kube.translate.picture import Translator
from apps.planner.counting import count_gpus
from apps.planner.defrag import plan_unlock
from apps.planner.ledger import node_ledger
from apps.planner.ledger_rows import Flag
from apps.planner.waiting import explain_pending
from tests.cases.reading import HOLDERS, MATRIX, holders, ledger, matrix, only_unit, read
from tests.kube.objects import node, pod

SHARED = {
    "nvidia.com/gpu.count": "1",
    "nvidia.com/gpu.replicas": "12",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
    "nvidia.com/gpu.product": "NVIDIA-A10-SHARED",
}


def test_one_gpu_in_twelve_turns_is_one_gpu_with_twelve_slots():
    guests = [pod(f"p{number}", on="node-a") for number in range(5)]
    main = ledger(read(node(gpus=12, labels=SHARED), *guests)).main
    assert (main.physical, main.units_offered, main.units_used, main.units_free) == (1, 12, 5, 7)
    assert main.shares_per_gpu == 12


@pytest.mark.parametrize(("replicas", "is_flagged"), [("6", False), ("4", True), ("many", True)])
def test_a_label_of_replicas_that_the_kubelet_contradicts_divides_nothing_and_is_flagged(
    replicas, is_flagged
):
    labels = {**SHARED, "nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": replicas}
    snapshot = read(node(gpus=12, labels=labels))
    main = ledger(snapshot).main
    assert (main.physical, main.units_offered) == (2, 12)
    told = snapshot.nodes["node-a"].warnings
    assert any("do not fit 4 per GPU" in one or "replicas is no number" in one for one in told) is is_flagged


def test_a_terminating_pod_keeps_its_gpu_until_it_is_gone():
    leaving = pod("leaves", gpus=3, on="node-a", metadata={"deletionTimestamp": "2026-01-02T01:00:00Z"})
    assert ledger(read(node(gpus=4), leaving)).free == 1
    assert ledger(read(node(gpus=4))).free == 4


def test_a_deleted_pod_counts_no_more_and_its_successor_of_the_same_name_counts_once():
    translator, there = Translator(), node(gpus=4)
    first = pod("worker-0", gpus=2, on="node-a", metadata={"uid": "first"})
    second = pod("worker-0", gpus=2, on="node-a", metadata={"uid": "second"})
    used = []
    for pods in ([first], [], [second]):
        found = translator.build(CLUSTER, {NODES: [there], PODS: pods}, taken_at=1e9)
        used.append(node_ledger(found, found.nodes["node-a"]).main.units_used)
    assert used == [2, 0, 2]


def shares(container, **amounts):
    limits = {f"nvidia.com/{name}": str(amount) for name, amount in amounts.items()}
    return {"name": container, "resources": {"limits": limits, "requests": limits}}


def test_init_containers_are_a_maximum_and_no_sum():
    spec = {
        "initContainers": [shares("fetch", gpu=1, gpumem=4000)],
        "containers": [shares("serve", gpu=1, gpumem=3000)],
    }
    [found] = read(node(), pod(gpus=0, on="node-a", spec=spec)).pods.values()
    assert (found.requests["nvidia.com/gpu"], found.gpu_memory_mib) == (1, 4000)


def test_a_sidecar_stays_beside_the_containers_and_is_added():
    spec = {
        "initContainers": [
            {**shares("proxy", gpu=1), "restartPolicy": "Always"},
            shares("warm", gpu=2),
        ],
        "containers": [shares("serve", gpu=1)],
    }
    [found] = read(node(), pod(gpus=0, on="node-a", spec=spec)).pods.values()
    assert found.requests["nvidia.com/gpu"] == 3  # proxy + warm, more than proxy + serve


HAMI = {
    "hami.io/node-handshake": "Reported 2026-01-02 00:00:00",
    "hami.io/node-nvidia-register": "GPU-7,10,24576,100,NVIDIA-NVIDIA A10,0,true:",
}


def test_two_containers_of_one_pod_take_two_units_of_their_card():
    given = "GPU-7,NVIDIA,2000,20:;GPU-7,NVIDIA,6000,30:;"
    guest = pod(
        gpus=0,
        on="node-a",
        annotations={"hami.io/vgpu-devices-allocated": given},
        spec={"containers": [shares("a", gpu=1, gpumem=2000), shares("b", gpu=1, gpumem=6000)]},
    )
    found = ledger(read(node(gpus=10, annotations=HAMI), guest))
    [card] = found.devices
    assert (found.physical, found.main.units_used, card.units_used) == (1, 2, 2)
    assert (card.taken_memory_mib, card.left_memory_mib) == (8000, 16576)


def test_fewer_gpus_offered_than_given_out_is_zero_left_and_overcommitted():
    failing = node(gpus=4, allocatable={"nvidia.com/gpu": "2"})
    main = ledger(read(failing, pod("big", gpus=3, on="node-a"))).main
    assert (main.units_free, main.free, main.overcommitted) == (0, 0, 1)
    assert main.left_milli >= 0


def test_total_schedulable_and_eligible_are_three_numbers():
    cordoned = node("node-b", gpus=8, spec={"unschedulable": True})
    tainted = node("node-c", gpus=4, spec={"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]})
    snapshot = read(node(gpus=2), cordoned, tainted, pod("asks"))
    counts = count_gpus(snapshot, next(iter(snapshot.pods.values())))
    assert (counts.physical, counts.schedulable, counts.eligible) == (14, 6, 2)


@pytest.mark.parametrize("taken", [1, 2])
def test_a_fraction_is_sent_only_where_a_free_gpu_is_proved(taken):
    share = pod("half", gpus=0, annotations={"gpu-fraction": "0.5"})
    snapshot = read(node(gpus=2), pod("whole", gpus=taken, on="node-a"), share)
    [waits] = explain_pending(snapshot)
    assert (waits.reason_code == "fits") is (taken == 1)
    plan = plan_unlock(snapshot, workload="team-a/half", max_moves=3, deadline=lambda: False)
    assert bool(plan.hand_overs) is (taken == 1)


def test_memory_that_the_driver_keeps_is_nobodys_to_give():
    unit = only_unit(
        'DCGM_FI_DEV_FB_TOTAL{gpu="0",UUID="GPU-9"} 24564',
        'DCGM_FI_DEV_FB_RESERVED{gpu="0",UUID="GPU-9"} 564',
        'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-9"} 4000',
    )
    assert unit.free_mib_most == 20_000


def test_a_card_sold_by_two_names_is_one_card():
    labels = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4"}
    both = node(gpus=2, labels=labels, capacity={"nvidia.com/gpu": "2", "nvidia.com/gpu.shared": "8"})
    found = ledger(read(both, pod("whole", gpus=1, on="node-a")))
    assert found.physical == 2
    assert sum(group.physical for group in found.others) == 0


def test_a_card_that_two_pods_hold_whole_is_flagged_and_never_below_zero():
    facts = {MATRIX: matrix("GPU-1", "GPU-2"), HOLDERS: holders(GPU_1=[("uid-a", "a"), ("uid-b", "b")])}
    guests = [pod("a", on="node-a"), pod("b", on="node-a")]
    card = ledger(read(node(gpus=2, annotations=facts), *guests)).device("GPU-1")
    assert card.flags == (Flag.HELD_TWICE,)
    assert card.left_milli == 0


def test_a_node_made_anew_under_its_old_name_starts_with_nothing_held():
    translator = Translator()
    guest = pod("old", gpus=4, on="node-a")
    reborn = {**node(gpus=4)}
    reborn["metadata"] = {**reborn["metadata"], "uid": "uid-new"}
    before = translator.build(CLUSTER, {NODES: [node(gpus=4)], PODS: [guest]}, taken_at=1e9)
    after = translator.build(CLUSTER, {NODES: [reborn], PODS: []}, taken_at=1e9 + 60)
    assert node_ledger(before, before.nodes["node-a"]).free == 0
    assert (after.nodes["node-a"].uid, node_ledger(after, after.nodes["node-a"]).free) == ("uid-new", 4)
