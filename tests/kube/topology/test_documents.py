"""The forms that programs write: tools' JSON and CSV, annotations, objects of Kubernetes."""

import json

import pytest

from apps.kube.topology.documents import read_topology
from apps.kube.topology.hami import link_of

ROCM_TEXT = """
================ ROCm System Management Interface ================
==================== Weight between two GPUs =====================
       GPU0         GPU1         GPU2
GPU0   0            15           40
GPU1   15           0            40
GPU2   40           40           0

===================== Hops between two GPUs ======================
       GPU0         GPU1         GPU2
GPU0   0            1            2
GPU1   1            0            2
GPU2   2            2            0

=================== Link Type between two GPUs ===================
       GPU0         GPU1         GPU2
GPU0   0            XGMI         PCIE
GPU1   XGMI         0            PCIE
GPU2   PCIE         PCIE         0

=========================== Numa Nodes ===========================
GPU[0]\t\t: (Topology) Numa Node: 1
GPU[0]\t\t: (Topology) Numa Affinity: 1
GPU[1]\t\t: (Topology) Numa Node: 1
GPU[2]\t\t: (Topology) Numa Node: -1
====================== End of ROCm SMI Log =======================
"""
XGMI = (("X", "XGMI", "PCIE"), ("XGMI", "X", "PCIE"), ("PCIE", "PCIE", "X"))


def test_rocms_blocks():
    found = read_topology(ROCM_TEXT)
    assert (found.vendor, found.gpus, found.links, found.complete) == ("amd", 3, XGMI, True)
    assert found.numa == (1, 1, None)
    assert found.weights[0] == (0, 15, 40)
    assert found.hops[2] == (2, 2, 0)


def test_rocms_blocks_cut_before_the_links_tell_the_gpus_and_no_links():
    found = read_topology(ROCM_TEXT.partition("=================== Link Type")[0])
    assert (found.gpus, found.links, found.complete, found.error) == (3, None, False, "")


@pytest.mark.parametrize("word", ["HCU", "DCU"])
def test_numa_lines_alone_are_no_links(word):
    found = read_topology("".join(f"{word}[{at}]\t: (Topology) Numa Node {at // 2}\n" for at in range(4)))
    assert (found.vendor, found.gpus, found.links) == ("hygon", 4, None)
    assert (found.numa, found.nics, found.complete) == ((0, 0, 1, 1), 0, False)


def test_cards_of_json_in_any_order():
    cards = {f"card{at}": {"(Topology) Numa Node": str(at % 2)} for at in (2, 0, 3, 1)}
    found = read_topology(json.dumps(cards))
    assert (found.gpus, found.numa, found.links, found.complete) == (4, (0, 1, 0, 1), None, False)


def test_pairs_of_json_are_told_once_for_both_directions():
    name = "(Topology) Link type between DRM devices {} and {}"
    told = {"system": {name.format(0, 1): "XGMI", name.format(0, 2): "PCIE", name.format(1, 2): "PCIE"}}
    cards = {f"card{at}": {"(Topology) Numa Node": "0"} for at in range(3)}
    found = read_topology(json.dumps(told | cards))
    assert (found.vendor, found.links, found.complete) == ("amd", XGMI, True)
    del told["system"][name.format(1, 2)]
    found = read_topology(json.dumps(told | cards))
    assert (found.links[1][2], found.complete) == ("", False)


def test_csv_of_cards():
    found = read_topology("device,(Topology) Numa Node,(Topology) Numa Affinity\ncard0,1,1\ncard1,0,0\n")
    assert (found.gpus, found.numa, found.links) == (2, (1, 0), None)


AMD_TEXT = """
ACCESS TABLE:
             0000:05:00.0 0000:26:00.0
0000:05:00.0 ENABLED      ENABLED
0000:26:00.0 ENABLED      ENABLED
WEIGHT TABLE:
             0000:05:00.0 0000:26:00.0
0000:05:00.0 0            15
0000:26:00.0 15           0
LINK TYPE TABLE:
             0000:05:00.0 0000:26:00.0
0000:05:00.0 SELF         XGMI
0000:26:00.0 XGMI         SELF
NUMA BW TABLE:
             0000:05:00.0 0000:26:00.0
0000:05:00.0 N/A          50000-100000
0000:26:00.0 50000-100000 N/A
Legend:
  SELF = Current GPU
"""


def test_amd_smis_tables_by_bus_address():
    found = read_topology(AMD_TEXT)
    assert (found.vendor, found.links) == ("amd", (("X", "XGMI"), ("XGMI", "X")))
    assert found.bus_ids == ("0000:05:00.0", "0000:26:00.0")
    assert (found.weights, found.complete) == (((0, 15), (15, 0)), True)


def test_amd_smis_json():
    gpus = [
        {
            "gpu": at,
            "bdf": f"0000:0{at}:00.0",
            "links": [
                {
                    "gpu": to,
                    "bdf": f"0000:0{to}:00.0",
                    "weight": 0 if to == at else 15,
                    "link_type": "SELF" if to == at else "XGMI",
                    "num_hops": 0 if to == at else 1,
                }
                for to in range(2)
            ],
        }
        for at in range(2)
    ]
    found = read_topology(json.dumps(gpus))
    assert (found.vendor, found.links, found.complete) == ("amd", (("X", "XGMI"), ("XGMI", "X")), True)
    assert found.hops == ((0, 1), (1, 0))
    del gpus[1]
    found = read_topology(json.dumps(gpus))
    assert (found.gpus, found.links[0], found.complete) == (2, ("X", "XGMI"), False)


def annotation(**changes):
    document = {
        "version": 1,
        "observed_at": "2026-02-03T04:05:06Z",
        "source": "nvml",
        "gpus": [{"index": at, "uuid": f"GPU-{at}", "numa": at, "pcie_switch": f"s{at}"} for at in range(2)],
        "links": [["X", "NV4"], ["NV4", "X"]],
        "nics": [{"name": "mlx5_0", "numa": 1}],
        "nic_links": [["SYS"], ["PIX"]],
    }
    return document | changes


def test_our_own_annotation():
    found = read_topology(json.dumps(annotation()))
    assert (found.source, found.observed_at) == ("nvml", 1770091506.0)
    assert (found.gpus, found.numa, found.uuids) == (2, (0, 1), ("GPU-0", "GPU-1"))
    assert (found.links, found.complete) == ((("X", "NV4"), ("NV4", "X")), True)
    assert (found.nic_names, found.nic_numa, found.nic_links) == (("mlx5_0",), (1,), (("SYS",), ("PIX",)))


def test_our_own_annotation_with_a_link_left_out():
    found = read_topology(json.dumps(annotation(links=[["X", None], ["NV4", "X"]])))
    assert (found.links, found.complete) == ((("X", ""), ("NV4", "X")), False)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"gpus": [{"index": 1}]},
        {"gpus": [{"index": 0, "uuid": "a"}, {"index": 1, "uuid": "a"}]},
    ],
)
def test_our_own_annotation_that_cannot_be_used(changes):
    assert read_topology(json.dumps(annotation(**changes))).error


def test_a_node_carries_the_annotation_in_its_own_object():
    node = {
        "kind": "Node",
        "metadata": {"annotations": {"topology.gpu.internal/matrix": json.dumps(annotation())}},
    }
    assert read_topology(json.dumps({"kind": "List", "items": [node]})).gpus == 2


SCORES = [
    {"uuid": "GPU-a", "score": {"GPU-b": 210, "GPU-c": 40, "GPU-d": 10}},
    {"uuid": "GPU-b", "score": {"GPU-a": 210, "GPU-c": 30}},
    {"uuid": "GPU-c", "score": {"GPU-a": 40, "GPU-b": 30, "GPU-d": 50}},
    {"uuid": "GPU-d", "score": {"GPU-a": 10, "GPU-c": 50}},
]


def test_hamis_scores():
    found = read_topology(json.dumps(SCORES))
    assert found.links == (
        ("X", "NV2", "PXB", "SYS"),
        ("NV2", "X", "PHB", ""),
        ("PXB", "PHB", "X", "PIX"),
        ("SYS", "", "PIX", "X"),
    )
    assert (found.source, found.complete) == ("hami", False)


@pytest.mark.parametrize("score", [0, -10, None, True, "50", 7, 10**9, 1.5])
def test_a_score_that_hami_would_not_give_is_no_link(score):
    assert link_of(score) == ""


DEVICE = """
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Device
metadata:
  name: worker-3
spec:
  devices:
  - {type: gpu, minor: 1, id: GPU-b, health: true, topology: {socketID: 0, nodeID: 0, pcieID: "pci0000:17", busID: "0000:18:00.0"}}
  - {type: gpu, minor: 0, id: GPU-a, health: true, topology: {socketID: 0, nodeID: 0, pcieID: "pci0000:17", busID: "0000:17:00.0"}}
  - {type: gpu, minor: 2, id: GPU-c, health: true, topology: {socketID: 0, nodeID: 0, pcieID: "pci0000:3a", busID: "0000:3a:00.0"}}
  - {type: gpu, minor: 3, id: GPU-d, health: true, topology: {socketID: 1, nodeID: 1, pcieID: "pci0000:85", busID: "0000:85:00.0"}}
  - {type: rdma, minor: 0, id: "0000:19:00.0", topology: {socketID: 0, nodeID: 0, pcieID: "pci0000:17"}}
"""  # noqa: E501


def test_koordinators_device_tells_places_and_no_link_between_them():
    found = read_topology(DEVICE)
    assert (found.source, found.gpus, found.numa) == ("koordinator", 4, (0, 0, 0, 1))
    assert found.links[0] == ("X", "PIX", "NODE", "")
    assert (found.links[3], found.complete) == (("", "", "", "X"), False)
    assert found.uuids == ("GPU-a", "GPU-b", "GPU-c", "GPU-d")


def test_koordinators_device_with_links_between_peers():
    npu = {"type": "xpu", "topology": {"nodeID": 0, "p2pLinks": [{"peerMinor": "0,1", "type": "HCCS"}]}}
    device = {"kind": "Device", "spec": {"devices": [npu | {"minor": 0}, npu | {"minor": 1}]}}
    found = read_topology(json.dumps(device))
    assert (found.links, found.complete) == ((("X", "HCCS"), ("HCCS", "X")), True)


def resource_slice(generation, devices, count=1, name="s"):
    pool = {"name": "worker-4", "generation": generation, "resourceSliceCount": count}
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": "worker-4", "pool": pool, "devices": devices},
    }


def sliced(name, root, numa=None, **attributes):
    told = {"type": {"string": "gpu"}, "resource.kubernetes.io/pcieRoot": {"string": root}}
    if numa is not None:
        told["resource.kubernetes.io/numaNode"] = {"int": numa}
    return {"name": name, "attributes": told | attributes}


def test_dras_slices_tell_roots_and_nodes_of_the_newest_generation():
    old = resource_slice(3, [sliced(f"gpu-{at}", "pci0000:00") for at in range(8)], name="old")
    part = {"name": "gpu-0-mig-1g.10gb-19-0", "attributes": {"type": {"string": "mig"}}}
    new = [
        sliced("gpu-0", "pci0000:15", 0),
        sliced("gpu-1", "pci0000:15", 0),
        sliced("gpu-2", "pci0000:97", 1),
        part,
    ]
    found = read_topology(json.dumps({"kind": "List", "items": [old, resource_slice(4, new)]}))
    assert (found.source, found.gpus, found.numa) == ("dra", 3, (0, 0, 1))
    assert found.pcie_switches == ("pci0000:15", "pci0000:15", "pci0000:97")
    assert found.links == (("X", "PHB", ""), ("PHB", "X", ""), ("", "", "X"))
    assert not found.complete


def test_a_pool_whose_newest_generation_is_not_whole_tells_nothing():
    found = read_topology(json.dumps(resource_slice(4, [sliced("gpu-0", "pci0000:15")], count=2)))
    assert found.error


@pytest.mark.parametrize(
    "text",
    ["[" * 60_000, '{"a":' * 60_000, "[NaN]", "null", "{}", '{"version": 1e999}', '"' + "x" * 9000, "[[]]",
     '{"kind": "Device"}', '{"card0": {"(Topology) Numa Node": "9999999999"}, "card99999": {}}',
     '[{"uuid": 1, "score": 2}]', '{"topology": {"topology": {"topology": {"topology": {"topology": {}}}}}}',
     "kind: Device\nspec: &a [*a]\n", "device,\n" * 500],
)  # fmt: skip
def test_json_of_any_kind_is_answered(text):
    found = read_topology(text)
    assert found.error
    assert found.links is None
