"""What `read_dump` answers: whole dumps, pieces of them, and what people paste from a terminal."""

import io
import json

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from apps.kube.describe_text import read_description
from tests.kube.objects import node, pod

HAMI = "hami.io/node-nvidia-register"
CARDS = "GPU-a,4,24564,100,NVIDIA-NVIDIA L4,0,true:GPU-b,4,24564,100,NVIDIA-NVIDIA L4,1,true:"


def ask(tmp_path, *texts, as_json=True):
    files = []
    for number, text in enumerate(texts):
        file = tmp_path / f"file-{number}"
        file.write_text(text if isinstance(text, str) else json.dumps(text))
        files.append(str(file))
    printed = io.StringIO()
    call_command("read_dump", *files, json=as_json, stdout=printed)
    return json.loads(printed.getvalue()) if as_json else printed.getvalue()


def only_node(answer):
    (found,) = answer["nodes"]
    return found


def test_a_plain_node_and_who_says_what(tmp_path):
    labels = {
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gfd.timestamp": "1767225600",
    }
    beat = "2026-01-01T01:00:00Z"
    found = only_node(ask(tmp_path, node(labels=labels, ready={"lastHeartbeatTime": beat})))
    told = {
        key: found[key] for key in ("vendor", "product", "physical_gpus", "memory_mib", "sharing", "ready")
    }
    assert told == {
        "vendor": "nvidia",
        "product": "A100-SXM4-80GB",
        "physical_gpus": 8,
        "memory_mib": 81559,
        "sharing": "none",
        "ready": True,
    }
    assert (found["whole_gpus_allocatable"], found["replicas"], found["mig"]) == (8, 1, {})
    assert found["sources"]["physical_gpus"] == {
        "source": "label nvidia.com/gpu.count",
        "observed_at": "2026-01-01T00:00:00Z",
        "age_seconds": 3600,
    }
    assert found["sources"]["schedulable_units"]["age_seconds"] == 0


def test_what_nobody_tells_is_null_and_never_zero(tmp_path):
    raw = node(gpus=1, labels={"node.kubernetes.io/instance-type": "Standard_NC6", "agentpool": "gpu"})
    del raw["metadata"]["labels"]["nvidia.com/gpu.product"]
    raw["status"]["conditions"] = []
    found = only_node(ask(tmp_path, raw))
    assert (found["product"], found["memory_mib"], found["ready"], found["schedulable"]) == (None,) * 4
    assert (found["physical_gpus"], found["instance_type"], found["pool"]) == (1, "Standard_NC6", "gpu")


def test_slots_are_no_gpus_and_no_whole_ones(tmp_path):
    labels = {
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.replicas": "6",
        "nvidia.com/gpu.sharing-strategy": "mps",
        "nvidia.com/gpu.memory": "23034",
    }
    found = only_node(
        ask(tmp_path, node(labels=labels, product="L4-SHARED", capacity={"nvidia.com/gpu": "12"}))
    )
    assert (found["physical_gpus"], found["schedulable_units"], found["replicas"]) == (2, 12, 6)
    assert (found["whole_gpus_allocatable"], found["sharing"], found["total_memory_mib"]) == (0, "mps", 46068)


def test_mig_counts_what_is_handed_out_and_names_what_is_left_over(tmp_path):
    capacity = {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "3", "nvidia.com/mig-2g.20gb": "2"}
    allocatable = {"nvidia.com/mig-2g.20gb": "0", "nvidia.com/mig-7g.80gb": "0"}
    labels = {"nvidia.com/gpu.count": "1", "nvidia.com/mig.strategy": "mixed"}
    found = only_node(ask(tmp_path, node(labels=labels, capacity=capacity, allocatable=allocatable)))
    assert (found["mig"], found["mig_slices_used"], found["mig_slices_total"]) == ({"1g.10gb": 3}, 3, 7)
    assert found["stale_capacity"] == {"nvidia.com/mig-2g.20gb": 2}
    assert found["stale_zero_resources"] == ["nvidia.com/mig-7g.80gb"]
    assert (found["unhealthy_gpus"], found["whole_gpus_allocatable"]) == (0, 0)


def test_allocated_comes_from_the_pods_that_hold(tmp_path):
    dump = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            node(gpus=4),
            pod("one", gpus=2, on="node-a"),
            pod("done", gpus=1, on="node-a", status={"phase": "Succeeded"}),
        ],
    }
    found = only_node(ask(tmp_path, dump))
    assert (found["physical"], found["schedulable_gpus"], found["allocated"]) == (4, 4, 2.0)


def test_a_plugin_that_owes_an_answer_is_gone_and_its_cards_are_not_schedulable(tmp_path):
    annotations = {"hami.io/node-handshake": "Requesting_2026-01-01 09:00:00", HAMI: CARDS}
    beat = {"lastHeartbeatTime": "2026-01-01T12:00:00Z"}
    raw = node(annotations=annotations, capacity={"nvidia.com/gpu": "8"}, ready=beat)
    found = only_node(ask(tmp_path, raw))
    assert (found["physical_gpus"], found["ready"], found["schedulable"]) == (2, True, False)
    assert "plugin is not alive" in found["why_not_schedulable"]
    assert found["handshakes"]["nvidia"]["age_seconds"] == 3 * 3600
    assert (found["families_alive"], found["families_silent"]) == ([], ["nvidia"])
    assert (found["schedulable_gpus"], found["whole_gpus_allocatable"]) == (0, 0)
    assert found["stale_since"] == "2026-01-01T09:00:00Z"


DESCRIBED = """
$ kubectl describe node gpu-7
Name:               gpu-7
Roles:              worker
Labels:             kubernetes.io/hostname=gpu-7
                    nvidia.com/gpu.product=NVIDIA-L4
Annotations:        hami.io/node-handshake: Reported 2026-01-01 10:00:00
                    hami.io/node-nvidia-register:
                      GPU-a,4,24564,100,NVIDIA-NVIDIA L4,0,true:GPU-b,4,24...
                    volumes.kubernetes.io/controller-managed-attach-detach: true
CreationTimestamp:  Thu, 01 Jan 2026 12:00:00 +0800
Taints:             nvidia.com/gpu=present:NoSchedule
                    other:NoExecute
Unschedulable:      true
Conditions:
  Type             Status  LastHeartbeatTime                 LastTransitionTime                Reason
  ----             ------  -----------------                 ------------------                ------
  MemoryPressure   False   Thu, 01 Jan 2026 18:00:00 +0800   Thu, 01 Jan 2026 12:00:00 +0800   KubeletOk
  Ready            True    Thu, 01 Jan 2026 18:00:00 +0800   Thu, 01 Jan 2026 12:00:00 +0800   KubeletReady
Capacity:
  cpu:             16
  nvidia.com/gpu:  8
Allocatable:
  cpu:             15800m
  nvidia.com/gpu:  8
System Info:
  Machine ID:  x
"""


def test_a_description_in_a_terminal_is_read_and_its_cut_value_is_not(tmp_path):
    found = only_node(ask(tmp_path, DESCRIBED))
    assert (found["name"], found["product"], found["ready"]) == ("gpu-7", "NVIDIA-L4", True)
    assert (found["schedulable"], found["why_not_schedulable"]) == (False, "cordoned")
    assert found["truncated"] is True
    assert found["physical_gpus_at_least"] == 2
    assert [(one.get("id"), one["complete"], one.get("devmem")) for one in found["registered"]] == [
        ("GPU-a", True, 24564),
        ("GPU-b", False, None),
    ]
    assert [one["healthy"] for one in found["gpus"]] == [True, False]
    assert any("its end is cut off" in warning for warning in found["warnings"])
    assert found["sources"]["schedulable_units"]["observed_at"] == "2026-01-01T10:00:00Z"


@given(st.data())
def test_a_description_cut_anywhere_is_read_or_refused(data):
    start, end = data.draw(st.integers(0, 60)), data.draw(st.integers(0, len(DESCRIBED)))
    gap = data.draw(st.integers(0, len(DESCRIBED)))
    for text in (DESCRIBED[:end], DESCRIBED[:gap] + DESCRIBED[gap + start :]):
        for one in read_description(text):
            assert isinstance(one["metadata"]["name"], str)


@pytest.mark.parametrize(
    "text",
    [
        {"metadata": {"annotations": {HAMI: CARDS}}},
        {"annotations": {HAMI: CARDS}},
        {HAMI: CARDS},
        f"annotations:\n  {HAMI}: '{CARDS}'\n",
    ],
)
def test_a_piece_of_a_node_with_a_register_is_known_by_what_stands_in_it(tmp_path, text):
    found = only_node(ask(tmp_path, text))
    assert (found["vendor"], found["physical_gpus"], found["scheduler"]) == ("nvidia", 2, "hami")
    assert (found["schedulable_units"], found["ready"]) == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        {"status": {"capacity": {"amd.com/gpu": "4"}, "allocatable": {"amd.com/gpu": "4"}}},
        "capacity:\n  amd.com/gpu: 4\n  cpu: 8\n",
        {"amd.com/gpu": "4", "cpu": "8"},
        {
            "metadata": {"labels": {"kubernetes.io/hostname": "x"}},
            "status": {"capacity": {"amd.com/gpu": "4"}},
        },
    ],
)
def test_a_piece_of_a_node_with_amounts(tmp_path, text):
    found = only_node(ask(tmp_path, text))
    assert (found["vendor"], found["physical_gpus"]) == ("amd", 4)


def test_a_list_of_labels_is_a_node_and_a_list_of_patterns_is_not(tmp_path):
    labels = "nvidia.com/gpu.count=2\nnvidia.com/gpu.product=NVIDIA-A30\nnvidia.com/gpu.memory=24576\n"
    found = only_node(ask(tmp_path, labels))
    assert (found["product"], found["physical_gpus"], found["schedulable_units"]) == ("NVIDIA-A30", 2, None)
    patterns = "nvidia\\.com\\/gpu\\.count=[0-9]+\nnvidia\\.com\\/gpu\\.mode=[compute]\n"
    answer = ask(tmp_path, patterns)
    assert answer["label_keys"] == ["nvidia.com/gpu.count", "nvidia.com/gpu.mode"]
    assert answer["nodes"] == []


DEVICE = """
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Device
metadata:
  name: koord-1
  labels:
    node.koordinator.sh/gpu-model: NVIDIA-L20
    node.koordinator.sh/gpu-partition-policy: Honor
  annotations:
    scheduling.koordinator.sh/gpu-partitions: |
      {"1": [{"minors": [0]}, {"minors": [1]}], "2": [], "4": [{"minors": [0, 1, 2, 3], "gpuLinkType": "X"}]}
spec:
  devices:
  - {id: GPU-k0, minor: 0, health: true, type: gpu, resources: {koordinator.sh/gpu-memory: 46068Mi}}
  - {id: GPU-k1, minor: 1, health: false, type: gpu, resources: {koordinator.sh/gpu-memory: 46068Mi}}
  - {id: "0000:01:00.0", minor: 0, health: true, type: rdma}
"""


def test_koordinators_device_tells_of_its_node_and_of_the_groups_it_allows(tmp_path):
    found = only_node(ask(tmp_path, DEVICE))
    assert (found["name"], found["product"], found["memory_mib"]) == ("koord-1", "NVIDIA-L20", 46068)
    assert [(gpu["uuid"], gpu["healthy"]) for gpu in found["gpus"]] == [("GPU-k0", True), ("GPU-k1", False)]
    assert found["partitions"] == {"1": [[0], [1]], "2": [], "4": [[0, 1, 2, 3]]}
    assert found["sizes_without_partition"] == [2]
    assert "fits nowhere" in found["partition_note"]


def test_groups_alone_are_read_too(tmp_path):
    groups = {"1": [{"minors": [0]}], "2": [{"NVLINK": {"minors": [0, 1], "gpuLinkType": "NVLink"}}]}
    answer = ask(tmp_path, groups)
    assert (answer["partitions"], answer["nodes"]) == ({"1": [[0]], "2": [[0, 1]]}, [])
    assert answer["partition_links"]["2"] == ["NVLink"]


def test_several_files_are_one_cluster_and_other_kinds_are_named(tmp_path):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    answer = ask(tmp_path, [node("b"), service], node("a"))
    assert [one["name"] for one in answer["nodes"]] == ["a", "b"]
    assert any("1 Service" in warning for warning in answer["warnings"])


def test_a_dump_of_pods_alone_is_no_fault(tmp_path):
    assert ask(tmp_path, pod())["nodes"] == []


def test_no_device_is_hidden(tmp_path):
    raw = node(gpus=0, capacity={"acme.example/npu-x": "2", "never.example/thing": "3"})
    raw["status"]["allocatable"]["acme.example/npu-x"] = "1"
    found = only_node(ask(tmp_path, raw))
    assert (found["vendor"], found["physical_gpus"], found["unhealthy_gpus"]) == ("acme.example", 2, 1)
    assert found["accelerator_resources"]["acme.example/npu-x"]["allocatable"] == 1
    assert found["accelerator_resources"]["never.example/thing"]["form"] == "not known to be a device"


def test_cards_of_which_only_shares_are_told_are_at_least_one(tmp_path):
    raw = node(gpus=0, capacity={"k8s.amazonaws.com/vgpu": "20"})
    found = only_node(ask(tmp_path, raw))
    assert (found["physical_gpus"], found["physical_gpus_at_least"]) == (None, 1)
    assert found["schedulable_units"] == 20


def test_the_table_for_people(tmp_path):
    annotations = {"hami.io/node-handshake-mlu": "Deleted_2026-01-01 00:00:00", HAMI: CARDS}
    annotations["hami.io/node-mlu-register"] = "MLU-1,2,24576,0,MLU-MLU370-X8,0,true:"
    shown = ask(tmp_path, node(annotations=annotations, capacity={"nvidia.com/gpu": "8"}), as_json=False)
    head, row, *rest = shown.splitlines()
    assert head.split()[:3] == ["NODE", "GPUS", "PRODUCT"]
    assert row.split()[:4] == ["node-a", "2", "A100-SXM4-80GB", "24564"]
    assert any("1 x MLU370-X8 (cambricon), 1 healthy, NOT ALIVE" in line for line in rest)


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "empty"), ("just words", "kind"), ({"some": "map"}, "no Kubernetes object"), ("{", "JSON")],
)
def test_what_is_no_dump_is_refused_in_one_line(tmp_path, text, says):
    with pytest.raises(CommandError) as refusal:
        ask(tmp_path, text)
    assert refusal.value.returncode == 2
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("labels", [{}, {"nvidia.com/gpu.count": "2"}])
def test_gpus_that_only_a_resource_slice_tells_of_are_the_nodes(tmp_path, labels):
    raw = node(gpus=0, labels=labels)
    del raw["metadata"]["labels"]["nvidia.com/gpu.product"]
    for amounts in (raw["status"]["capacity"], raw["status"]["allocatable"]):
        del amounts["nvidia.com/gpu"]
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"uuid": {"string": f"GPU-{number}"}, "productName": {"string": "NVIDIA L40S"}},
            "capacity": {"memory": {"value": "46068Mi"}},
        }
        for number in range(2)
    ]
    pool = {"name": "node-a", "generation": 3, "resourceSliceCount": 1}
    piece = {"spec": {"driver": "gpu.nvidia.com", "nodeName": "node-a", "pool": pool, "devices": devices}}
    found = only_node(ask(tmp_path, raw, piece))
    assert (found["vendor"], found["physical_gpus"], found["product"]) == ("nvidia", 2, "NVIDIA-L40S")
    # They are given out by claims: the node offers no units of them, which is not the same as none.
    assert (found["memory_mib"], found["schedulable_units"]) == (46068, None)
    assert (found["schedulable_gpus"], found["stranded"], found["unhealthy_gpus"]) == (2, 0.0, 0)


def test_a_pool_of_which_slices_are_missing_is_no_node_without_gpus(tmp_path):
    raw = node(gpus=0)
    del raw["metadata"]["labels"]["nvidia.com/gpu.product"]
    for amounts in (raw["status"]["capacity"], raw["status"]["allocatable"]):
        del amounts["nvidia.com/gpu"]
    pool = {"name": "node-a", "generation": 4, "resourceSliceCount": 2}
    devices = [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}]
    piece = {"spec": {"driver": "gpu.nvidia.com", "nodeName": "node-a", "pool": pool, "devices": devices}}
    found = only_node(ask(tmp_path, raw, piece))
    assert (found["physical_gpus"], found["whole_gpus_allocatable"]) == (None, None)
    assert any("1 of the 2 slices" in warning for warning in found["warnings"])


@pytest.mark.parametrize(
    ("capacity", "allocatable", "labels", "unhealthy"),
    [
        (4, 3, {}, 1),
        (16, 0, {}, 16),
        (7, 7, {"nvidia.com/gpu.count": "8"}, 1),  # one fell off the bus, and the plugin no longer has it
        (6, 6, {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "3"}, 0),
        (6, 3, {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "3"}, 1),
    ],
)
def test_cards_that_stand_and_are_not_offered_are_unhealthy(
    tmp_path, capacity, allocatable, labels, unhealthy
):
    offered = {"nvidia.com/gpu": str(allocatable)}
    found = only_node(ask(tmp_path, node(gpus=capacity, labels=labels, allocatable=offered)))
    assert found["unhealthy_gpus"] == unhealthy


def test_instances_that_are_shared_in_time_are_counted_once(tmp_path):
    labels = {
        "nvidia.com/gpu.count": "7",
        "nvidia.com/gpu.replicas": "2",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED",
        "nvidia.com/mig.strategy": "single",
    }
    found = only_node(ask(tmp_path, node(gpus=14, labels=labels)))
    assert (found["physical_gpus"], found["schedulable_units"], found["replicas"]) == (1, 14, 2)
    assert (found["mig"], found["product"]) == ({"1g.5gb": 7}, "NVIDIA-A100-SXM4-40GB")
