"""Nodes of every vendor and every way of sharing: each physical card once, whatever it is offered as."""

import json

import pytest

from apps.kube.gateway import NODES
from apps.kube.translate import Translator, build_snapshot
from apps.planner.mig.use import single_profile
from tests.kube.objects import node

TAKEN_AT = 1_780_000_000.0
HAMI_NVIDIA = "hami.io/node-nvidia-register"


def raw_node(amounts, labels=None, annotations=None, allocatable=None):
    """A Ready node that offers just that, without NVIDIA's label."""
    raw = node(annotations=annotations or {})
    raw["metadata"]["labels"] = labels or {}
    for key, changes in (("capacity", {}), ("allocatable", allocatable or {})):
        raw["status"][key] = {"cpu": "8", "pods": "110", **amounts, **changes}
    return raw


def read(raw, taken_at=TAKEN_AT):
    return build_snapshot("lab", {NODES: [raw]}, taken_at).nodes[raw["metadata"]["name"]]


def facts(found):
    memory = {gpu.memory_mib for gpu in found.gpus}
    return (
        found.vendor,
        found.gpu_resource,
        len(found.gpus),
        found.shares_per_gpu,
        found.sharing,
        memory.pop() if len(memory) == 1 else memory,
    )


MANY_UNITS = {
    "aws, whole devices beside their cores": (
        {"aws.amazon.com/neuron": "4", "aws.amazon.com/neuroncore": "8", "aws.amazon.com/neurondevice": "4"},
        {},
        ("aws", "aws.amazon.com/neuron", 4, 1, "", None),
    ),
    "tpu": ({"google.com/tpu": "4"}, {}, ("google", "google.com/tpu", 4, 1, "", None)),
    "gaudi": ({"habana.ai/gaudi": "8"}, {}, ("habana", "habana.ai/gaudi", 8, 1, "", None)),
    "intel, shared ten ways, with its monitoring": (
        {"gpu.intel.com/i915": "20", "gpu.intel.com/i915_monitoring": "1"},
        {"gpu.intel.com/device-id.0380-0bda.count": "2"},
        ("intel", "gpu.intel.com/i915", 2, 10, "shared-dev", None),
    ),
    "intel, cards by name and memory in all": (
        {"gpu.intel.com/xe": "2", "gpu.intel.com/tiles": "4", "gpu.intel.com/memory.max": "34359738368"},
        {"gpu.intel.com/cards": "card0.card1"},
        ("intel", "gpu.intel.com/xe", 2, 1, "", 16384),
    ),
    "amd, cut in eight, each piece offered as a card": (
        {"amd.com/gpu": "32"},
        {
            "amd.com/compute-memory-partition": "cpx_nps1",
            "amd.com/gpu.product-name": "AMD_Instinct_MI325X",
            "amd.com/gpu.vram": "256G",
        },
        ("amd", "amd.com/gpu", 4, 8, "shared", 262144),
    ),
    "koordinator, by its first names": (
        {
            "kubernetes.io/gpu": "200",
            "kubernetes.io/gpu-core": "200",
            "kubernetes.io/gpu-memory": "48Gi",
            "kubernetes.io/gpu-memory-ratio": "200",
        },
        {},
        ("nvidia", "kubernetes.io/gpu", 2, 100, "koordinator", 24576),
    ),
    "tencent, hundredths of cores and memory in GiB": (
        {"tke.cloud.tencent.com/qgpu-core": "200", "tke.cloud.tencent.com/qgpu-memory": "64"},
        {},
        ("nvidia", "tke.cloud.tencent.com/qgpu-core", 2, 100, "qgpu", 32768),
    ),
    "turns on a mig instance": (
        {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb.shared": "6"},
        {
            "nvidia.com/gpu.count": "1",
            "nvidia.com/mig.strategy": "mixed",
            "nvidia.com/mig-1g.5gb.sharing-strategy": "time-slicing",
        },
        ("nvidia", "nvidia.com/gpu", 1, 1, "time-slicing", None),
    ),
    "amd, counted by its older labels": (
        {"amd.com/gpu": "4"},
        {"beta.amd.com/gpu.vram.64G": "4", "beta.amd.com/gpu.cu-count.110": "4"},
        ("amd", "amd.com/gpu", 4, 1, "", 65536),
    ),
    "amd, each card cut in eight": (
        {"amd.com/cpx_nps1": "16"},
        {"amd.com/gpu.product-name": "AMD_Instinct_MI325X", "amd.com/gpu.vram": "256G"},
        ("amd", "amd.com/cpx_nps1", 2, 8, "shared", 262144),
    ),
    "huawei's own plugin": (
        {"huawei.com/Ascend910": "8"},
        {"accelerator": "huawei-Ascend910"},
        ("ascend", "huawei.com/Ascend910", 8, 1, "", None),
    ),
    "cambricon, shares by cores and blocks of memory": (
        {"cambricon.com/mlu370.smlu.vcore": "200", "cambricon.com/mlu370.smlu.vmemory": "192"},
        {},
        ("cambricon", "cambricon.com/mlu370.smlu.vcore", 2, 100, "shared", 24576),
    ),
    "moore threads": (
        {"mthreads.com/vgpu": "32", "mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"},
        {},
        ("mthreads", "mthreads.com/vgpu", 2, 16, "sgpu", 49152),
    ),
    "metax, by its own labels": (
        {"metax-tech.com/gpu": "8"},
        {"metax-tech.com/gpu.product": "MXC500", "metax-tech.com/gpu.memory": "64GB"},
        ("metax", "metax-tech.com/gpu", 8, 1, "", 65536),
    ),
    "hygon, whole": (
        {"hygon.com/dcu": "8"},
        {"hygon.com/dcu.name": "K100_AI", "hygon.com/dcu.vram": "64G"},
        ("hygon", "hygon.com/dcu", 8, 1, "", 65536),
    ),
    "gpushare, memory in GiB": (
        {"aliyun.com/gpu-mem": "48", "aliyun.com/gpu-count": "2"},
        {},
        ("nvidia", "aliyun.com/gpu-count", 2, 1, "gpushare", 24576),
    ),
    "alibaba's thousandths": (
        {"alibabacloud.com/gpu-milli": "4000", "alibabacloud.com/gpu-count": "4"},
        {"alibabacloud.com/gpu-card-model": "P100"},
        ("nvidia", "alibabacloud.com/gpu-count", 4, 1, "gpushare", None),
    ),
    "koordinator, hundredths of everything": (
        {
            "koordinator.sh/gpu": "200",
            "koordinator.sh/gpu-core": "200",
            "koordinator.sh/gpu-memory": "48Gi",
            "koordinator.sh/gpu-memory-ratio": "200",
        },
        {},
        ("nvidia", "koordinator.sh/gpu", 2, 100, "koordinator", 24576),
    ),
    "koordinator over another vendor's cards": (
        {"koordinator.sh/gpu-core": "400", "koordinator.sh/gpu-memory": "256Gi"},
        {"node.koordinator.sh/gpu-vendor": "huawei"},
        ("ascend", "koordinator.sh/gpu-core", 4, 100, "koordinator", 65536),
    ),
    "gke, MIG by its own label": (
        {"nvidia.com/gpu": "14"},
        {"cloud.google.com/gke-accelerator-count": "2", "cloud.google.com/gke-gpu-partition-size": "1g.10gb"},
        ("nvidia", "nvidia.com/gpu", 2, 1, "", None),
    ),
    "cards passed through to virtual machines, beside a leftover": (
        {"nvidia.com/GA102GL_A10": "2", "nvidia.com/gpu": "0"},
        {},
        ("nvidia", "nvidia.com/GA102GL_A10", 2, 1, "", None),
    ),
}


@pytest.mark.parametrize("case", MANY_UNITS)
def test_each_card_is_counted_once(case):
    amounts, labels, expected = MANY_UNITS[case]
    found = read(raw_node(amounts, labels))
    assert facts(found) == expected
    assert (found.others, found.warnings) == ((), ())


def test_a_name_that_only_the_capacity_still_has_is_left_over_and_no_lost_gpu():
    labels = {"nvidia.com/gpu.replicas": "5", "nvidia.com/gpu.sharing-strategy": "mps"}
    amounts = {"nvidia.com/gpu": "2", "nvidia.com/gpu.shared": "10"}
    found = read(raw_node(amounts, labels, allocatable={"nvidia.com/gpu": "0"}))
    assert facts(found) == ("nvidia", "nvidia.com/gpu.shared", 2, 5, "mps", None)
    assert found.warnings == ()


def test_two_names_over_the_same_cards_are_said_and_counted_once():
    labels = {"nvidia.com/gpu.count": "4"}
    found = read(raw_node({"nvidia.com/gpu": "4", "nvidia.com/gpu.shared": "16"}, labels))
    assert (len(found.gpus), found.others) == (4, ())
    assert any("offered over the same GPUs" in warning for warning in found.warnings)


def test_whole_gpus_beside_mig_are_other_cards_of_the_same_count():
    amounts = {"nvidia.com/gpu": "2", "nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-3g.40gb": "2"}
    found = read(raw_node(amounts))
    assert len(found.gpus) == 4  # 7 + 6 compute slices need two cards, whoever counts them
    labelled = read(raw_node(amounts, {"nvidia.com/gpu.count": "5", "nvidia.com/mig.strategy": "mixed"}))
    assert (len(labelled.gpus), labelled.warnings) == (5, ())


def test_under_mig_single_a_large_instance_is_a_larger_part_of_its_card():
    labels = {
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.20gb",
        "nvidia.com/gpu.memory": "19968",
        "nvidia.com/mig.strategy": "single",
    }
    found = read(raw_node({"nvidia.com/gpu": "8"}, labels))
    # Four 1g.20gb fill a card's memory, though it has seven compute slices; the model's table tells how much.
    assert (len(found.gpus), found.gpus[0].memory_mib, found.mig_strategy) == (2, 81920, "single")


def test_an_invalid_mig_layout_leaves_its_gpus_standing():
    labels = {
        "nvidia.com/gpu.count": "0",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-INVALID",
        "nvidia.com/mig.strategy": "single",
    }
    found = read(raw_node({"nvidia.com/gpu": "0"}, labels))
    assert (len(found.gpus), found.allocatable["nvidia.com/gpu"]) == (1, 0)
    assert any("at least one" in warning for warning in found.warnings)


def test_run_ais_annotations_say_where_instances_begin():
    uuids = "eyIyIjogeyIwIjogIk1JRy1hIiwgIjQiOiAiTUlHLWIifX0="  # {"2": {"0": "MIG-a", "4": "MIG-b"}}
    config = "version: v1\nmig-configs:\n  selected:\n  - devices: [0]\n    mig-devices:\n"
    config += "      0: 3g.40gb\n      4: 1g.10gb\n"
    annotations = {"run.ai/mig.config": config, "run.ai/mig-mapping": uuids}
    amounts = {"nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-1g.10gb": "1"}
    labels = {"nvidia.com/gpu.count": "1"}
    (gpu,) = read(raw_node(amounts, labels, annotations)).gpus
    assert [(one.profile, one.start_slice, one.uuid) for one in gpu.instances] == [
        ("3g.40gb", 0, "MIG-a"),
        ("1g.10gb", 4, "MIG-b"),
    ]
    other = read(raw_node({"nvidia.com/mig-7g.80gb": "1"}, labels, annotations))
    assert [one.start_slice for one in other.gpus[0].instances] == [None]
    assert any("starts are unknown" in warning for warning in other.warnings)


def test_registered_cards_stand_in_the_order_of_their_index():
    text = "GPU-b,5,24000,100,NVIDIA-NVIDIA A10,1,true,1,hami-core:"
    text += "GPU-a,5,24000,100,NVIDIA-NVIDIA A10,0,false,0,mps:"
    found = read(raw_node({"nvidia.com/gpu": "10"}, annotations={HAMI_NVIDIA: text}))
    assert found.model == "NVIDIA-A10"
    assert [(gpu.index, gpu.uuid, gpu.numa, gpu.healthy, gpu.mode, gpu.units) for gpu in found.gpus] == [
        (0, "GPU-a", 0, False, "mps", 5),
        (1, "GPU-b", 1, True, "hami-core", 5),
    ]


def test_memory_that_is_sold_twice_is_said():
    text = "GPU-a,5,163840,200,NVIDIA-NVIDIA A100-SXM4-80GB,0,true,0,hami-core:"
    found = read(raw_node({"nvidia.com/gpu": "5"}, annotations={HAMI_NVIDIA: text}))
    assert (found.gpus[0].memory_mib, found.gpus[0].cores) == (163840, 200)
    assert any("sold 2 times" in warning for warning in found.warnings)
    labels = {"nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "81920"}
    again = read(raw_node({"nvidia.com/gpu": "5"}, labels, {HAMI_NVIDIA: text}))
    assert any("nvidia.com/gpu.memory says about 81920" in warning for warning in again.warnings)


@pytest.mark.parametrize(
    ("text", "labels", "memory"),
    [
        ("GPU-a,4,8192,NVIDIA-NVIDIA A100-SXM4-80GB,true,hami-core:", {}, 81920),
        ("GPU-a,4,2303,NVIDIA-NVIDIA A10,true,hami-core:", {"nvidia.com/gpu.memory": "23028"}, 23030),
        ("GPU-a,4,1536,NVIDIA-Some Card,true,hami-core:", {}, None),
        ("GPU-a,4,15360,NVIDIA-Some Card,true,hami-core:", {}, 15360),
    ],
)
def test_volcanos_blocks_of_memory_are_no_mib(text, labels, memory):
    annotations = {"volcano.sh/node-vgpu-register": text}
    found = read(raw_node({"volcano.sh/vgpu-number": "4"}, labels, annotations))
    assert (found.gpu_resource, found.sharing, found.shares_per_gpu) == (
        "volcano.sh/vgpu-number",
        "volcano-vgpu",
        4,
    )
    assert found.gpus[0].memory_mib == memory
    assert any("blocks" in warning for warning in found.warnings) is (memory is None)


def test_the_agent_and_the_register_are_held_against_each_other():
    document = {
        "version": 1,
        "observed_at": "2026-05-28T00:00:00Z",
        "gpus": [{"index": 0, "uuid": "GPU-a"}, {"index": 1, "uuid": "GPU-c", "healthy": False}],
        "links": [["X", "SYS"], ["SYS", "X"]],
    }
    register = "GPU-a,4,24564,100,NVIDIA-NVIDIA L4,0,false:GPU-b,4,24564,100,NVIDIA-NVIDIA L4,0,true:"
    annotations = {"topology.gpu.internal/matrix": json.dumps(document), HAMI_NVIDIA: register}
    found = read(raw_node({"nvidia.com/gpu": "8"}, annotations=annotations))
    assert [(gpu.uuid, gpu.healthy, gpu.memory_mib) for gpu in found.gpus][0] == ("GPU-a", False, 24564)
    told = " ".join(found.warnings)
    assert f"{HAMI_NVIDIA} names GPU-b, which the node agent does not see" in told
    assert f"sees GPU-c, which the annotation {HAMI_NVIDIA} does not name" in told
    assert f"{HAMI_NVIDIA} calls GPU-a unhealthy" in told


def test_a_card_that_is_not_registered_is_there_and_not_to_be_had():
    labels = {"nvidia.com/gpu.count": "3"}
    text = "GPU-a,4,24564,100,NVIDIA-NVIDIA L4,0,true:GPU-b,4,24564,100,NVIDIA-NVIDIA L4,0,true:"
    found = read(raw_node({"nvidia.com/gpu": "8"}, labels, {HAMI_NVIDIA: text}))
    assert [gpu.healthy for gpu in found.gpus] == [True, True, False]
    assert any("says 3 GPUs" in one and "lists 2" in one for one in found.warnings)


def test_two_vendors_on_one_node_stand_beside_each_other():
    annotations = {
        HAMI_NVIDIA: "GPU-a,4,24564,100,NVIDIA-NVIDIA L4,0,true:",
        "hami.io/node-dcu-register": "DCU-1,3,32752,100,DCU-Z100,0,true:DCU-2,3,32752,100,DCU-Z100,0,true:",
        "hami.io/node-handshake-dcu": "Requesting_2026-05-01 00:00:00",
    }
    found = read(raw_node({"nvidia.com/gpu": "4", "hygon.com/dcunum": "6"}, annotations=annotations))
    assert facts(found)[:4] == ("nvidia", "nvidia.com/gpu", 1, 4)
    (group,) = found.others
    assert (group.vendor, group.resource, group.model, len(group.gpus), group.shares_per_gpu) == (
        "hygon",
        "hygon.com/dcunum",
        "Z100",
        2,
        3,
    )
    # Its plugin is gone; that of the main cards is not, so the node itself may be planned on.
    assert (group.alive, found.stale_since) == (False, None)


def test_two_chips_of_one_vendor_are_two_kinds_of_cards():
    found = read(raw_node({"huawei.com/Ascend910B4": "2", "huawei.com/Ascend310P": "3"}))
    assert [(found.gpu_resource, len(found.gpus))] + [
        (group.resource, len(group.gpus)) for group in found.others
    ] == [("huawei.com/Ascend310P", 3), ("huawei.com/Ascend910B4", 2)]


def test_a_question_to_the_plugin_turns_stale_while_nothing_changes():
    annotations = {
        HAMI_NVIDIA: "GPU-a,4,24564,100,NVIDIA-NVIDIA L4,0,true:",
        "hami.io/node-handshake": "Requesting_2026-05-28 20:26:40",
    }
    raw, translator = raw_node({"nvidia.com/gpu": "4"}, annotations=annotations), Translator()

    def at(seconds):
        return translator.build("lab", {NODES: [raw]}, taken_at=TAKEN_AT + seconds).nodes["node-a"]

    first = at(10)
    assert first.stale_since is None
    assert at(20) is first
    assert at(600).stale_since == TAKEN_AT


def test_a_node_that_was_made_anew_is_read_anew():
    translator = Translator()
    old = raw_node({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    new = raw_node({"amd.com/gpu": "4"})
    new["metadata"]["uid"] = "another-uid"
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    before = translator.build("lab", {NODES: [old]}, taken_at=TAKEN_AT).nodes["node-a"]
    after = translator.build("lab", {NODES: [new]}, taken_at=TAKEN_AT).nodes["node-a"]
    assert (before.vendor, len(before.gpus)) == ("nvidia", 8)
    assert (after.uid, after.vendor, len(after.gpus), after.model) == ("another-uid", "amd", 4, "")


def test_turns_on_an_instance_are_no_instances():
    labels = {"nvidia.com/gpu.count": "1", "nvidia.com/mig-2g.20gb.replicas": "4"}
    (gpu,) = read(raw_node({"nvidia.com/gpu": "0", "nvidia.com/mig-2g.20gb.shared": "12"}, labels)).gpus
    assert [one.profile for one in gpu.instances] == ["2g.20gb"] * 3


def test_huaweis_plugin_names_the_cards_that_are_unhealthy():
    annotations = {
        "huawei.com/Ascend910-Unhealthy": "Ascend910-2",
        "huawei.com/Ascend910-NetworkUnhealthy": "",
    }
    found = read(raw_node({"huawei.com/Ascend910": "4"}, annotations=annotations))
    assert [gpu.healthy for gpu in found.gpus] == [True, True, False, True]
    assert any("lists Ascend910-2" in warning for warning in found.warnings)


def test_cores_and_memory_that_hami_offers_tell_of_the_cards_behind_its_units():
    amounts = {"nvidia.com/gpu": "20", "nvidia.com/gpucores": "200", "nvidia.com/gpumem": "49128"}
    found = read(raw_node(amounts))
    assert facts(found)[2:5] == (2, 10, "hami")
    assert {gpu.memory_mib for gpu in found.gpus} == {24564}


def test_koordinator_deals_out_the_cards_of_the_plugin_beside_it():
    amounts = {
        "koordinator.sh/gpu-core": "200",
        "koordinator.sh/gpu-memory": "128Gi",
        "koordinator.sh/gpu.shared": "200",
        "metax-tech.com/sgpu": "32",
    }
    found = read(raw_node(amounts))
    assert (found.vendor, len(found.gpus), found.others) == ("metax", 2, ())
    assert {gpu.memory_mib for gpu in found.gpus} == {65536}


@pytest.mark.parametrize(
    "labels",
    [
        {"cloud.google.com/gke-gpu-partition-size": "2g.10gb"},
        {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb-SHARED"},
    ],
)
def test_the_planner_knows_the_one_profile_of_a_node(labels):
    assert single_profile(read(raw_node({"nvidia.com/gpu": "3"}, labels))) == "2g.10gb"


def test_whole_cards_beside_one_that_is_dealt_out_in_turns_under_another_name():
    labels = {"nvidia.com/gpu.count": "4", "nvidia.com/gpu.replicas": "6"}
    found = read(raw_node({"nvidia.com/gpu": "3", "nvidia.com/gpu.20gb": "6"}, labels))
    assert facts(found)[:4] == ("nvidia", "nvidia.com/gpu", 4, 1)
    (beside,) = found.others
    assert (beside.resource, len(beside.gpus), beside.shares_per_gpu) == ("nvidia.com/gpu.20gb", 1, 6)


def test_a_makers_name_is_no_model():
    noted = {"hami.io/node-amd-register": '[{"id":"A-1","count":1,"devmem":4096,"devcore":100,"type":"amd"}]'}
    assert read(raw_node({"amd.com/gpu": "1"}, annotations=noted)).model == ""
    labels = {"k8s.amazonaws.com/accelerator": "vgpu"}
    assert read(raw_node({"k8s.amazonaws.com/vgpu": "8"}, labels)).model == ""
