"""What dashboards showed wrongly: sums that were none, zeros that were no data, pages with holes."""

from __future__ import annotations

import json

import pytest

from apps.accounts.models import Role
from apps.clusters.services import register_dump
from apps.prometheus.answer import answer_of
from tests.cases.reading import HOLDERS, MATRIX, ledger, measured, only_unit, read
from tests.dashboard.conftest import log_in, make_person
from tests.kube.objects import node, owned, pod

ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def slice_of(gpu, instance, **labels):
    told = {"gpu": gpu, "UUID": f"GPU-{gpu}", "GPU_I_ID": instance, "GPU_I_PROFILE": "2g.12gb", **labels}
    return "{" + ",".join(f'{name}="{value}"' for name, value in told.items()) + "}"


def test_power_repeated_for_each_instance_is_the_gpus_own_once():
    [device] = measured(
        *(f"DCGM_FI_DEV_POWER_USAGE{slice_of(0, number)} {watts}" for number, watts in ((1, 150.5), (2, 151)))
    ).devices
    assert device.power_watts == 151
    assert len(device.units) == 2


def test_gpus_of_two_hosts_with_one_number_are_two_gpus():
    found = measured(
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="left"} 10',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-b",Hostname="right"} 30',
    )
    answer = answer_of(found)
    assert answer["physical_gpus"] == 2
    assert sorted(answer["by_gpu"][key]["util"] for key in answer["by_gpu"]) == [10, 30]


def test_the_exporters_own_pod_holds_no_gpu():
    labels = 'gpu="0",UUID="GPU-a",pod="dcgm-exporter-x",namespace="monitoring"'
    unit = only_unit(f'DCGM_FI_DEV_GPU_UTIL{{{labels},exported_pod="train-0",exported_namespace="ml"}} 55')
    assert (unit.workload.namespace, unit.workload.pod) == ("ml", "train-0")
    free = measured(
        f'DCGM_FI_DEV_GPU_UTIL{{{labels},exported_pod="train-0",exported_namespace="ml"}} 55',
        'DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",pod="dcgm-exporter-x",namespace="monitoring"} 0',
    ).devices[1]
    assert free.units[0].workloads == ()


def prometheus(*rows):
    result = [{"metric": labels, "value": [at, value]} for labels, at, value in rows]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})


def test_a_gpu_that_fell_silent_has_no_data_since_and_is_not_idle():
    def used(uuid, at, value):
        return ({"__name__": "DCGM_FI_DEV_FB_USED", "gpu": uuid[-1], "UUID": uuid}, at, value)

    silent, speaking = measured(
        prometheus(used("GPU-0", 1_770_000_000.0, "812"), used("GPU-1", 1_770_003_600.0, "90"))
    ).devices
    assert silent.silent_since == 1_770_000_000.0
    assert speaking.silent_since is None
    assert silent.units[0].utilisation is None


def test_an_instance_without_memory_series_has_unknown_memory_and_its_activity():
    unit = only_unit(f"{ACTIVE}{slice_of(0, 4)} 0.25")
    assert (unit.used_mib, unit.free_mib, unit.utilisation) == (None, None, 25)


def test_what_is_dealt_out_and_what_is_used_are_two_numbers():
    unit = only_unit(
        'GPUDeviceMemoryAllocated{deviceuuid="GPU-1",deviceidx="0",nodeid="a"} 1.048576e+10',
        'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1"} 812',
    )
    assert (unit.allocated_mib, unit.used_mib) == (10_000, 812)


@pytest.mark.parametrize(
    ("resource", "labels", "vendor"),
    [
        ("hygon.com/dcunum", {}, "hygon"),
        ("cambricon.com/mlu", {}, "cambricon"),
        ("huawei.com/Ascend910", {}, "ascend"),
        ("acme.example/npu", {}, None),
    ],
)
def test_cards_of_any_vendor_are_counted_by_name(resource, labels, vendor):
    other = node("odd", gpus=0, labels=labels, product="", capacity={"nvidia.com/gpu": "0", resource: "4"})
    asked = {"resources": {"limits": {resource: "1"}, "requests": {resource: "1"}}, "name": "main"}
    guest = pod("guest", gpus=0, on="odd", spec={"containers": [asked]})
    found = ledger(read(other, guest), "odd")
    groups = [group for group in (found.main, *found.others) if group.resource == resource]
    assert [(group.physical, group.units_used) for group in groups] == [(4, 1)]
    assert vendor is None or groups[0].vendor == vendor


POD_GROUPS = [
    ("scheduling.x-k8s.io/v1alpha1", {"phase": "Scheduling", "scheduled": 1}),
    ("scheduling.volcano.sh/v1beta1", {"phase": "Inqueue", "running": 1}),
    ("scheduling.run.ai/v2alpha2", {"phase": "Pending"}),
]


@pytest.mark.parametrize(("api", "status"), POD_GROUPS)
def test_fields_of_foreign_objects_are_those_their_definitions_have(api, status):
    """`spec.minMember` is where all three have it; a field that nobody has would read as unknown."""
    group = owned("PodGroup", "train", api=api, spec={"minMember": 3}, status=status)
    [gang] = read(node(), group).gangs.values()
    assert gang.min_members == 3


@pytest.mark.django_db
def test_one_broken_node_among_a_thousand_spoils_neither_the_grid_nor_the_others(tmp_path):
    broken = node("broken", gpus=8, annotations={MATRIX: '{"version": 1, "gpus": [[[', HOLDERS: "\u202e]"})
    broken["metadata"]["labels"] = ["no", "map"]
    broken["status"] |= {"allocatable": {"cpu": {"a": 1}, "memory": "NaN"}, "conditions": "x"}
    nodes = [node(f"n{number:04}", gpus=8) for number in range(999)]
    guests = [pod(f"p{number}", gpus=3, on=f"n{number:04}") for number in range(0, 999, 9)]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [*nodes, broken, *guests]}))
    register_dump(actor=None, name="wide", paths=[("dump.json", path)])
    client = log_in(make_person("ada", Role.VIEWER))
    page = client.get("/clusters/wide/")
    assert page.status_code == 200
    assert "8,000" in page.content.decode()
    drawn = client.get("/clusters/wide/picture.json").content.decode()  # what the dense grid is drawn from
    assert [name for name in ("n0000", "n0500", "n0998", "broken") if name not in drawn] == []
    told = client.get("/clusters/wide/nodes/broken/").content.decode()
    assert "NaN" in told
    assert "\u202e" not in told


@pytest.mark.django_db
def test_cards_of_an_unknown_vendor_have_a_row_on_their_nodes_page(tmp_path):
    other = node("odd", gpus=0, product="", capacity={"nvidia.com/gpu": "0", "acme.example/npu": "4"})
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [other]}))
    register_dump(actor=None, name="odd-cards", paths=[("dump.json", path)])
    client = log_in(make_person("ada", Role.VIEWER))
    text = client.get("/clusters/odd-cards/nodes/odd/").content.decode()
    assert "acme.example/npu" in text
