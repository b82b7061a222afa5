"""Nodes as labels, capacity and annotations tell them, and what is said when these disagree."""

import json

import pytest

from apps.kube.gateway import NODES, PODS
from apps.kube.translate import build_snapshot
from tests.kube.objects import node, pod

TAKEN_AT = 1_780_000_000.0
OBSERVED = "2026-05-28T00:00:00Z"


def read(raw, *pods, taken_at=TAKEN_AT):
    snapshot = build_snapshot("lab", {NODES: [raw], PODS: pods}, taken_at)
    assert snapshot.problems == ()
    return snapshot.nodes[raw["metadata"]["name"]]


def matrix(gpus=2, **changes):
    document = {
        "version": 1,
        "observed_at": OBSERVED,
        "source": "nvml",
        "gpus": [
            {"index": n, "uuid": f"GPU-{n}", "numa": n // 4, "pcie_switch": f"sw{n // 2}", "bus_id": f"0:{n}"}
            for n in range(gpus)
        ],
        "links": [["X" if a == b else "NV18" for b in range(gpus)] for a in range(gpus)],
        "nics": [{"name": "mlx5_0", "numa": 0}],
        "nic_links": [["PIX"] for _ in range(gpus)],
        **changes,
    }
    return {"topology.gpu.internal/matrix": json.dumps(document)}


def holders(devices, observed_at=OBSERVED):
    document = {"version": 1, "observed_at": observed_at, "devices": devices}
    return {"topology.gpu.internal/holders": json.dumps(document)}


def test_a_plain_node():
    found = read(node(labels={"nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81920"}))
    assert (found.vendor, found.model, found.gpu_resource) == ("nvidia", "A100-SXM4-80GB", "nvidia.com/gpu")
    assert [gpu.memory_mib for gpu in found.gpus] == [81920] * 8
    assert (found.sharing, found.shares_per_gpu, found.holdings) == ("", 1, None)
    assert found.capacity["cpu"] == 64_000
    assert found.capacity["memory"] == 512 * 2**30
    assert (found.ready, found.stale_since, found.warnings) == (True, None, ())


def test_the_topology_annotation_gives_devices_and_links():
    layout = {"GPU-1": [{"profile": "3g.40gb", "start": 4, "uuid": "MIG-1"}]}
    found = read(node(gpus=2, annotations=matrix(2, mig=layout)))
    assert [(gpu.uuid, gpu.numa, gpu.pcie_switch) for gpu in found.gpus] == [
        ("GPU-0", 0, "sw0"),
        ("GPU-1", 0, "sw0"),
    ]
    assert found.topology.links == (("X", "NV18"), ("NV18", "X"))
    assert found.topology.nics == (("mlx5_0", 0),)
    assert found.topology.nic_links == (("PIX",), ("PIX",))
    (instance,) = found.gpus[1].instances
    assert (instance.profile, instance.start_slice, instance.uuid) == ("3g.40gb", 4, "MIG-1")


NVIDIA_SMI = """
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tPXB\t0-31\t0\t\tN/A
GPU1\tNV12\t X \tSYS\t32-63\t1\t\tN/A
NIC0\tPXB\tSYS\t X

Legend:

  X    = Self

NIC Legend:

  NIC0: mlx5_0
"""


def test_the_text_of_nvidia_smi_is_read_too():
    found = read(node(gpus=2, annotations={"topology.gpu.internal/matrix": NVIDIA_SMI}))
    assert found.topology.links == (("X", "NV12"), ("NV12", "X"))
    assert [gpu.numa for gpu in found.gpus] == [0, 1]
    assert found.topology.nics == (("mlx5_0", None),)
    assert found.topology.source == "text"


ROCM = """
==== Weight between two GPUs ====
       GPU0         GPU1
GPU0   0            15
GPU1   15           0

==== Link Type between two GPUs ====
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0

==== Numa Nodes ====
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[1]\t\t: (Topology) Numa Node: 3
==== End of ROCm SMI Log ====
"""


def test_rocms_table_of_link_types_is_read_and_not_its_weights():
    found = read(node(gpus=2, annotations={"topology.gpu.internal/matrix": ROCM}))
    assert found.topology.links == (("X", "XGMI"), ("XGMI", "X"))
    assert [gpu.numa for gpu in found.gpus] == [0, 3]


WEIGHTS = ROCM.partition("==== Link Type")[0]
CAPABILITIES = "\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n"


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (WEIGHTS, "tells no links between the GPUs"),
        (CAPABILITIES, "p2p capability"),
        ("GPU0 GPU1\nGPU0 X X\nGPU1 X X", "tied to another as to itself"),
        ("no json at all", "no topology"),
        ("{broken", "is no JSON"),
        ('{"version": 2}', "not of version 1"),
        ('{"version": 1, "gpus": 5}', "does not list GPUs 0, 1, 2"),
        ('{"version": 1, "gpus": [{"index": 1}]}', "does not list GPUs 0, 1, 2"),
        (json.dumps({"version": 1, "gpus": [{"index": 0, "uuid": "a"}, {"index": 1, "uuid": "a"}]}), "twice"),
        ("[" * 50_000, "is none"),
        ("{" * 50_000, "is no JSON"),
    ],
)
def test_a_garbage_topology_is_a_warning_and_the_rest_stays(annotation, says):
    found = read(node(gpus=2, annotations={"topology.gpu.internal/matrix": annotation}))
    assert found.topology is None
    assert len(found.gpus) == 2
    assert any(says in warning for warning in found.warnings)


def test_a_cut_table_keeps_what_can_be_read_and_says_that_it_is_cut():
    cut = NVIDIA_SMI.replace("GPU1\tNV12\t X \tSYS\t32-63\t1\t\tN/A", "GPU1\tNV12")
    found = read(node(gpus=2, annotations={"topology.gpu.internal/matrix": cut}))
    assert found.topology.links == (("X", "NV12"), ("NV12", ""))
    assert not found.topology.complete
    assert [gpu.numa for gpu in found.gpus] == [0, None]
    assert any("rows of GPU1 are cut" in warning for warning in found.warnings)


@pytest.mark.parametrize("links", [None, [], [["X"]], [["X", "NV1"], ["NV1"]], [["X", 5], [5, "X"]]])
def test_a_bad_matrix_leaves_links_unknown_but_keeps_the_devices(links):
    found = read(node(gpus=2, annotations=matrix(2, links=links)))
    assert found.topology is None
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-0", "GPU-1"]
    assert any("2 × 2 matrix" in warning for warning in found.warnings)


def test_holders_tell_who_holds_which_device():
    facts = {
        "GPU-1": [{"namespace": "team-a", "pod": "web", "uid": "uid-web", "container": "main", "milli": 500}]
    }
    raw = node(gpus=2, annotations={**matrix(2), **holders(facts)})
    found = read(raw, pod("web", on="node-a"))
    (holding,) = found.holdings
    assert (holding.pod_uid, holding.device, holding.milli) == ("uid-web", "GPU-1", 500)


def test_a_holder_that_is_gone_or_finished_holds_nothing():
    facts = {
        f"GPU-{number}": [{"namespace": "team-a", "pod": name, "uid": f"uid-{name}", "container": "main"}]
        for number, name in enumerate(("gone", "done", "moved", "here"))
    }
    found = read(
        node(gpus=4, annotations={**matrix(4), **holders(facts)}),
        pod("done", on="node-a", status={"phase": "Succeeded"}),
        pod("moved", on="node-b"),
        pod("here", on="node-a"),
    )
    assert [holding.pod_uid for holding in found.holdings] == ["uid-here"]


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (holders({}, observed_at="yesterday"), "readable observed_at"),
        (holders({}, observed_at="2026-05-01T00:00:00Z"), "older than 24 hours"),
        (holders({"GPU-0": [{"pod": "web"}]}), "bad holder"),
        (holders({"GPU-0": [{"uid": "u", "milli": 0}]}), "bad holder"),
        ({"topology.gpu.internal/holders": "nonsense"}, "is no JSON"),
        (
            {"topology.gpu.internal/holders": '{"version": 1, "observed_at": "' + OBSERVED + '"}'},
            "lacks devices",
        ),
    ],
)
def test_holders_that_cannot_be_relied_on_are_unknown_not_none(annotation, says):
    found = read(node(gpus=2, annotations=annotation))
    assert found.holdings is None
    assert any(says in warning for warning in found.warnings)


def test_no_holder_at_all_is_known():
    assert read(node(annotations=holders({}))).holdings == ()


@pytest.mark.parametrize(
    ("labels", "capacity", "physical", "shares", "model", "sharing"),
    [
        (
            {
                "nvidia.com/gpu.count": "1",
                "nvidia.com/gpu.replicas": "12",
                "nvidia.com/gpu.product": "T4-SHARED",
            },
            {"nvidia.com/gpu": "12"},
            1,
            12,
            "T4",
            "time-slicing",
        ),
        (
            {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps"},
            {"nvidia.com/gpu": "8"},
            2,
            4,
            "A100-SXM4-80GB",
            "mps",
        ),
        (
            {
                "cloud.google.com/gke-max-shared-clients-per-gpu": "2",
                "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
            },
            {"nvidia.com/gpu": "2"},
            1,
            2,
            "A100-SXM4-80GB",
            "time-sharing",
        ),
    ],
)
def test_shared_gpus_are_counted_once(labels, capacity, physical, shares, model, sharing):
    found = read(node(labels=labels, capacity=capacity))
    assert (len(found.gpus), found.shares_per_gpu, found.model, found.sharing) == (
        physical,
        shares,
        model,
        sharing,
    )
    assert found.warnings == ()


HAMI_NVIDIA = "hami.io/node-nvidia-register"
JSON_REGISTER = json.dumps([{"id": "A-0", "count": 4}, {"id": "A-1", "index": 1, "count": 4}])


@pytest.mark.parametrize(
    ("resource", "annotations", "physical", "shares"),
    [
        (
            "nvidia.com/gpu",
            {"hami.io/node-nvidia-register": "GPU-a,10,32768,100,V100,0,true:GPU-b,10,1,1,V,0,true:"},
            2,
            10,
        ),
        ("huawei.com/Ascend910B4", {"hami.io/node-register-Ascend910B4": JSON_REGISTER}, 2, 4),
        ("nvidia.com/gpu", {"hami.io/node-nvidia-register": "["}, 20, 1),
    ],
)
def test_cards_that_hami_deals_out_in_units_are_counted_once(resource, annotations, physical, shares):
    raw = node(annotations=annotations)
    units = str(physical * shares)
    for amounts in (raw["status"]["capacity"], raw["status"]["allocatable"]):
        del amounts["nvidia.com/gpu"]
        amounts[resource] = units
    found = read(raw)
    assert (len(found.gpus), found.shares_per_gpu) == (physical, shares)
    assert found.sharing == ("hami" if shares > 1 else "")


def test_a_cut_record_of_hamis_register_is_a_card_that_is_not_healthy():
    found = read(
        node(gpus=10, annotations={"hami.io/node-nvidia-register": "GPU-a,10,1,100,V,0,true:GPU-b,10,4096"})
    )
    assert [(gpu.uuid, gpu.healthy, gpu.memory_mib) for gpu in found.gpus] == [
        ("GPU-a", True, 1),
        ("GPU-b", False, None),
    ]
    assert any("1 records that cannot be read" in warning for warning in found.warnings)


def test_a_plugin_of_hami_that_left_while_its_units_are_offered_is_named():
    handshake = {"hami.io/node-handshake": "Deleted_2026-01-01 00:00:00"}
    found = read(node(gpus=10, annotations={**handshake, HAMI_NVIDIA: "GPU-a,10,1,100,V,0,true:"}))
    assert len(found.gpus) == 1
    assert found.stale_since == 1_767_225_600.0
    assert any("not alive" in one and "nvidia.com/gpu is still offered" in one for one in found.warnings)


def test_network_cards_of_a_gpu_vendor_are_no_gpus():
    raw = node()
    for amounts in (raw["status"]["capacity"], raw["status"]["allocatable"]):
        del amounts["nvidia.com/gpu"]
        amounts["nvidia.com/hostdev"] = "8"
    assert read(raw).gpus == ()


def test_a_replicas_label_that_does_not_fit_is_flagged_and_capacity_wins():
    labels = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "3"}
    found = read(node(labels=labels, capacity={"nvidia.com/gpu": "8"}))
    assert (len(found.gpus), found.shares_per_gpu) == (2, 4)
    assert any("do not fit 3 per GPU" in warning for warning in found.warnings)


def test_a_gpu_that_fell_off_is_named():
    labels = {"nvidia.com/gpu.count": "8"}
    found = read(node(labels=labels, capacity={"nvidia.com/gpu": "7"}, annotations=matrix(8)))
    assert len(found.gpus) == 8
    assert any("8 GPUs, the kubelet offers 7" in warning for warning in found.warnings)
    sick = read(node(allocatable={"nvidia.com/gpu": "7"}))
    assert any("1 of 8 nvidia.com/gpu are not offered" in warning for warning in sick.warnings)


def test_labels_that_drift_from_the_agent_are_named():
    found = read(node(gpus=4, labels={"nvidia.com/gpu.count": "8"}, annotations=matrix(4)))
    assert len(found.gpus) == 4
    assert any("says 8 GPUs, the node agent sees 4" in warning for warning in found.warnings)


def test_mig_mixed_keeps_the_card():
    capacity = {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "2", "nvidia.com/mig-3g.20gb": "1"}
    labels = {"nvidia.com/gpu.count": "1", "nvidia.com/mig.strategy": "mixed"}
    found = read(node(labels=labels, capacity=capacity))
    assert (found.gpu_resource, found.mig_strategy) == ("nvidia.com/gpu", "mixed")
    (gpu,) = found.gpus
    assert [instance.profile for instance in gpu.instances] == ["1g.5gb", "1g.5gb", "3g.20gb"]
    assert {instance.start_slice for instance in gpu.instances} == {None}
    assert found.warnings == ()


def test_a_profile_of_an_earlier_layout_that_only_capacity_still_names_is_not_there():
    capacity = {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "2", "nvidia.com/mig-3g.20gb": "1"}
    raw = node(capacity=capacity, labels={"nvidia.com/gpu.count": "1"})
    raw["status"]["allocatable"]["nvidia.com/mig-3g.20gb"] = "0"
    assert [instance.profile for instance in read(raw).gpus[0].instances] == ["1g.5gb", "1g.5gb"]


def test_mig_single_counts_cards_not_instances():
    labels = {"nvidia.com/gpu.count": "14", "nvidia.com/mig.strategy": "single"}
    found = read(node(labels=labels, product="H100-80GB-MIG-1g.10gb", capacity={"nvidia.com/gpu": "14"}))
    assert (len(found.gpus), found.model, found.shares_per_gpu) == (2, "H100-80GB", 1)


@pytest.mark.parametrize(
    ("product", "whole"),
    [("H100-80GB-MIG-1g.10gb", 81920), ("H100-80GB-MIG-1g.12gb", None), ("X9-MIG-1g.5gb", None)],
)
def test_mig_single_tells_the_memory_of_an_instance_not_of_the_card(product, whole):
    labels = {
        "nvidia.com/gpu.count": "7",
        "nvidia.com/gpu.memory": "9856",
        "nvidia.com/mig.strategy": "single",
    }
    found = read(node(labels=labels, product=product, capacity={"nvidia.com/gpu": "7"}))
    assert [gpu.memory_mib for gpu in found.gpus] == [whole]


def test_an_invalid_mig_layout_is_named():
    found = read(node(product="H100-80GB-MIG-INVALID", labels={"nvidia.com/gpu.count": "2"}))
    assert found.model == "H100-80GB"
    assert any("MIG-INVALID" in warning for warning in found.warnings)


def test_the_count_of_zero_beside_an_invalid_layout_is_no_drift():
    labels = {"nvidia.com/gpu.count": "0", "nvidia.com/mig.strategy": "single"}
    found = read(node(product="H100-80GB-MIG-INVALID", labels=labels, annotations=matrix(2)))
    assert len(found.gpus) == 2
    assert not [warning for warning in found.warnings if "gpu.count" in warning]


@pytest.mark.parametrize(
    ("resource", "vendor"),
    [
        ("amd.com/gpu", "amd"),
        ("huawei.com/Ascend910", "ascend"),
        ("huawei.com/Ascend910B4", "ascend"),
        ("cambricon.com/mlu370", "cambricon"),
        ("hygon.com/dcunum", "hygon"),
        ("metax-tech.com/gpu", "metax"),
        ("acme.example/npu-x1", "acme.example"),
        ("habana.ai/gaudi", "habana"),
    ],
)
def test_other_vendors_are_devices_too(resource, vendor):
    raw = node()
    for amounts in (raw["status"]["capacity"], raw["status"]["allocatable"]):
        del amounts["nvidia.com/gpu"]
        amounts[resource] = "4"
    found = read(raw)
    assert (found.vendor, found.gpu_resource, len(found.gpus)) == (vendor, resource, 4)


def test_an_ascend_node_is_named_by_its_plugins_label_and_by_no_other_use_of_it():
    raw = node(labels={"accelerator": "huawei-Ascend910"})
    del raw["metadata"]["labels"]["nvidia.com/gpu.product"]
    for amounts in (raw["status"]["capacity"], raw["status"]["allocatable"]):
        del amounts["nvidia.com/gpu"]
        amounts["huawei.com/Ascend910"] = "8"
    assert read(raw).model == "Ascend910"
    raw["metadata"]["labels"]["accelerator"] = "nvidia"
    assert read(raw).model == ""


@pytest.mark.parametrize(
    "resource", ["rdma/hca", "nvidia.com/gpumem", "hugepages-2Mi", "example.com/licence"]
)
def test_what_is_no_device_is_none(resource):
    raw = node()
    for amounts in (raw["status"]["capacity"], raw["status"]["allocatable"]):
        del amounts["nvidia.com/gpu"]
        amounts[resource] = "4"
    found = read(raw)
    assert (found.gpu_resource, found.gpus) == ("", ())


def test_a_node_that_is_not_ready_is_stale_since_then():
    lost = {"status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": "2026-01-05T00:00:00Z"}
    found = read(node(ready=lost))
    assert (found.ready, found.ready_reason, found.stale_since) == (
        False,
        "NodeStatusUnknown",
        1_767_571_200.0,
    )


def test_cordon_taints_pool_and_place():
    raw = node(
        spec={"unschedulable": True, "taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        annotations={"defrag.gpu.internal/cordon": '{"execution": 7}'},
        labels={
            "eks.amazonaws.com/nodegroup": "second",
            "defrag.gpu.internal/pool": "first",
            "topology.kubernetes.io/rack": "r1",
            "topology.kubernetes.io/zone": "z1",
        },
    )
    found = read(raw)
    assert (found.unschedulable, found.cordon) == (True, '{"execution": 7}')
    assert [(taint.key, taint.value, taint.effect) for taint in found.taints] == [("gpu", "", "NoSchedule")]
    assert (found.pool, found.rack, found.zone) == ("first", "r1", "z1")


def test_amounts_that_cannot_be_read_are_left_out_with_a_warning():
    found = read(node(capacity={"cpu": "many", "memory": "-5", "nvidia.com/gpu": "9" * 30}))
    assert "cpu" not in found.capacity
    assert sum("cannot be read" in warning for warning in found.warnings) >= 3


def test_a_million_gpus_are_not_believed():
    found = read(node(labels={"nvidia.com/gpu.count": "99999"}))
    assert found.gpus == ()
    assert any("not believable" in warning for warning in found.warnings)
    claimed = read(node(capacity={"nvidia.com/gpu": "99999999"}))
    assert (claimed.gpus, claimed.allocatable["nvidia.com/gpu"]) == ((), 0)
