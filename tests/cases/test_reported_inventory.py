"""Reports about what nodes have and pods hold: registers, replicas, shares, failures."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command

from apps.planner.finished import group_finished
from tests.cases.reading import HOLDERS, MATRIX, holders, ledger, read
from tests.kube.objects import node, pod


def read_dump(tmp_path, *objects):
    path, printed = tmp_path / "dump.json", io.StringIO()
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    call_command("read_dump", str(path), json=True, stdout=printed)
    return json.loads(printed.getvalue())


def test_a_register_of_five_fields_is_read():
    records = ("GPU-a,4,2304,NVIDIA-Tesla P4,true", "GPU-b,4,2304,NVIDIA-Tesla P4,false", "")
    annotations = {"volcano.sh/node-vgpu-register": ":".join(records)}
    found = ledger(
        read(
            node(
                gpus=0,
                product="",
                annotations=annotations,
                capacity={"nvidia.com/gpu": "0", "volcano.sh/vgpu-number": "8"},
            )
        )
    )
    assert [(row.key, row.gpu.healthy) for row in found.devices] == [("GPU-a", True), ("GPU-b", False)]


@pytest.mark.parametrize("text", ["GPU-a,4,2304", "GPU-a,4,2304,T,0,true,x,y,z,more:", "{", ""])
def test_a_register_of_another_form_is_told_and_makes_no_card(text):
    snapshot = read(
        node(gpus=0, product="", capacity={"nvidia.com/gpu": "0"}, annotations={
            "hami.io/node-handshake": "Reported 2026-01-01 00:00:00",
            "hami.io/node-nvidia-register": text,
        })
    )  # fmt: skip
    healthy = [gpu for gpu in snapshot.nodes["node-a"].gpus if gpu.healthy]
    assert healthy == []
    assert not text or any("register" in one for one in snapshot.nodes["node-a"].warnings)


def test_the_price_of_a_shared_card_is_of_one_card():
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-L4-SHARED",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.replicas": "5",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }
    found = ledger(read(node(gpus=10, labels=labels), pod("one", on="node-a")))
    assert (found.physical, found.main.units_offered, found.main.units_used) == (2, 10, 1)
    assert found.main.model == "NVIDIA-L4"


@pytest.mark.parametrize(
    ("asked", "milli"),
    [
        ({"gpu": 1, "gpucores": 40}, 400),
        ({"gpu": 1, "gpucores": 20, "gpumem-percentage": 35}, 350),
        ({"gpu": 1}, 1000),
    ],
)
def test_the_share_of_a_card_is_the_larger_of_cores_and_memory(asked, milli):
    limits = {f"nvidia.com/{name}": str(amount) for name, amount in asked.items()}
    spec = {"containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}]}
    [found] = read(node(), pod(gpus=0, on="node-a", spec=spec)).pods.values()
    assert found.gpu_milli == milli


def test_a_name_that_no_table_has_is_shown_as_an_accelerator(tmp_path):
    odd = node(gpus=0, product="", capacity={"nvidia.com/gpu": "0", "k8s.amazonaws.com/vgpu": "20"})
    found = ledger(read(odd))
    assert found.main.resource == "k8s.amazonaws.com/vgpu"
    assert found.main.units_offered == 20
    assert "k8s.amazonaws.com/vgpu" in json.dumps(read_dump(tmp_path, odd)["nodes"])


def test_allocatable_does_not_shrink_so_what_pods_asked_for_is_taken_off():
    guests = [pod(f"p{number}", gpus=2, on="node-a") for number in range(3)]
    waits = pod("waits", gpus=2)
    assert ledger(read(node(gpus=9), *guests, waits)).main.units_free == 3


@pytest.mark.parametrize(("capacity", "offered"), [(6, 5), (16, 0)])
def test_what_is_not_offered_is_unhealthy_and_neither_free_nor_used(capacity, offered):
    failing = node(gpus=capacity, allocatable={"nvidia.com/gpu": str(offered)})
    main = ledger(read(failing)).main
    assert (main.physical, main.schedulable, main.units_used) == (capacity, offered, 0)
    assert main.unhealthy + main.withheld == capacity - offered
    assert main.units_free == main.free == offered


def test_thousands_of_failed_pods_hold_nothing_and_are_one_line(tmp_path):
    failed = [
        pod(f"loop-{number}", on="node-a", owner=("ReplicaSet", "loop"), status={"phase": "Failed"})
        for number in range(300)
    ]
    alone = pod("alone", on="node-a", owner=None, status={"phase": "Failed"})
    snapshot = read(node(gpus=4), *failed, alone, pod("runs", on="node-a"))
    assert ledger(snapshot).main.units_used == 1
    assert [(one.owner, one.phase, one.count) for one in group_finished(snapshot)] == [
        ("loop", "Failed", 300),
        ("", "Failed", 1),
    ]
    told = read_dump(tmp_path, node(gpus=4), *failed, alone)["finished"]
    assert [(one["owner"], one["count"]) for one in told] == [("loop", 300), (None, 1)]


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed", "reason": "UnexpectedAdmissionError"},
        {"phase": "Failed", "reason": "Evicted"},
        {"phase": "Succeeded"},
    ],
)
def test_a_finished_pod_holds_nothing_whatever_its_reason(status):
    over = pod("over", gpus=2, on="node-a", status=status)
    assert ledger(read(node(gpus=8), over, pod("runs", gpus=3, on="node-a"))).main.units_used == 3


def test_a_pod_that_is_gone_is_named_as_a_ghost(tmp_path):
    said = {HOLDERS: holders(GPU_1=[("uid-gone", "gone")], GPU_2=[("uid-here", "here")])}
    here = pod("here", gpus=1, on="node-a", metadata={"uid": "uid-here"})
    there = node(gpus=2, annotations=said)
    assert read_dump(tmp_path, there, here)["ghosts"] == [
        {"node": "node-a", "uid": "uid-gone", "devices": ["GPU-1"]}
    ]
    assert "ghosts" not in read_dump(tmp_path, node(gpus=2), here)


def test_nodes_whose_cards_lie_otherwise_than_those_of_their_kind_are_named(tmp_path):
    def cards(name, rows):
        told = {
            "version": 1,
            "observed_at": "2026-01-02T00:00:00Z",
            "gpus": [{"index": at, "uuid": f"GPU-{name}-{at}"} for at in range(2)],
            "links": [["X", "NV4"], ["NV4", "X"]],
            "nics": [{"name": "mlx5_0", "numa": 0}, {"name": "mlx5_1", "numa": 0}],
            "nic_links": rows,
        }
        return node(name, gpus=2, annotations={MATRIX: json.dumps(told)})

    near, crossed = [["PXB", "SYS"], ["SYS", "PXB"]], [["SYS", "PXB"], ["PXB", "SYS"]]
    nodes = [cards("a", near), cards("b", near), cards("c", crossed), cards("d", near)]
    assert [one["node"] for one in read_dump(tmp_path, *nodes)["odd_links"]] == ["c"]
    said = {name: one.warnings for name, one in read(*nodes).nodes.items()}
    assert said == {
        "a": (),
        "b": (),
        "c": ("its links to its network cards are not those of 3 other A100-SXM4-80GB nodes of its pool",),
        "d": (),
    }
    assert "odd_links" not in read_dump(tmp_path, *nodes[:2])
    assert "odd_links" not in read_dump(tmp_path, nodes[1], nodes[2])  # nobody says which of two is odd


def test_options_of_one_partitionable_card_are_not_added_up():
    counters = {"counters": {"memory": {"value": "80Gi"}}, "name": "gpu-0-counter-set"}

    def option(name, memory, kind):
        return {
            "name": name,
            "attributes": {
                "type": {"string": kind},
                "uuid" if kind == "gpu" else "parentUUID": {"string": "GPU-0"},
            },
            "capacity": {"memory": {"value": memory}},
            "consumesCounters": [
                {"counterSet": "gpu-0-counter-set", "counters": {"memory": {"value": memory}}}
            ],
        }

    devices = [option("gpu-0", "80Gi", "gpu")]
    devices += [option(f"gpu-0-mig-1g10gb-19-{at}", "10Gi", "mig") for at in range(7)]
    slices = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "node-a-gpu", "uid": "slice"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "node-a",
            "pool": {"name": "node-a", "generation": 2, "resourceSliceCount": 1},
            "sharedCounters": [counters],
            "devices": devices,
        },
    }
    bare = node(gpus=0)
    del bare["status"]["capacity"]["nvidia.com/gpu"], bare["status"]["allocatable"]["nvidia.com/gpu"]
    found = ledger(read(bare, slices))
    assert found.physical == 1
    assert [row.gpu.memory_mib for row in found.devices] == [80 * 1024]
