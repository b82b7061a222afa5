"""Reports about what exporters measure: whose it is, and what nobody measured."""

from __future__ import annotations

from apps.prometheus.answer import answer_of
from tests.cases.reading import measured, only_unit

ACTIVE, UTIL = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"


def test_free_memory_is_the_cards_own_and_not_a_containers_view():
    unit = only_unit(
        'DCGM_FI_DEV_FB_USED{gpu="2",UUID="GPU-x"} 30100',
        'DCGM_FI_DEV_FB_FREE{gpu="2",UUID="GPU-x"} 2668',
        f'vGPU_device_memory_usage_in_bytes{{deviceuuid="GPU-x",podname="p"}} {29_000 * 2**20}',
    )
    assert (unit.used_mib, unit.free_mib_most) == (30_100, 2_668)
    [share] = unit.shares
    assert (share.workload.pod, share.used_mib) == ("p", 29_000)


def test_empty_labels_name_no_owner_and_the_use_stands():
    unit = only_unit(f'{UTIL}{{gpu="3",UUID="GPU-x",pod="",namespace="",container=""}} 71')
    assert (unit.workloads, unit.utilisation) == ((), 71)


def test_an_instance_without_a_pod_is_shown_with_its_use_and_no_owner():
    found = measured(
        f'{ACTIVE}{{gpu="0",UUID="GPU-x",GPU_I_ID="5",GPU_I_PROFILE="2g.20gb"}} 0.61',
        f'{UTIL}{{gpu="1",UUID="GPU-y",exported_pod="job-0",exported_namespace="ml"}} 12',
    )
    rows = {unit["key"]: unit for device in answer_of(found)["devices"] for unit in device["units"]}
    assert rows["GPU-x/5"]["utilisation_percent"] == 61
    assert rows["GPU-x/5"]["workloads"] == []
    assert rows["GPU-y"]["workloads"][0]["pod"] == "job-0"


def test_the_constant_zero_of_an_instance_is_no_idleness():
    busy = only_unit(
        f'{UTIL}{{gpu="0",UUID="GPU-x",GPU_I_ID="2"}} 0',
        f'{ACTIVE}{{gpu="0",UUID="GPU-x",GPU_I_ID="2"}} 0.93',
    )
    assert (busy.utilisation, busy.utilisation_metric) == (93, ACTIVE)
    unknown = only_unit(f'{UTIL}{{gpu="0",UUID="GPU-x",GPU_I_ID="2"}} 0')
    assert unknown.utilisation is None


def test_memory_that_no_series_tells_is_unknown_and_not_zero():
    unit = only_unit(f'{ACTIVE}{{gpu="0",UUID="GPU-x",GPU_I_ID="4",GPU_I_PROFILE="1g.12gb"}} 0.2')
    assert unit.used_mib is None
    assert unit.missing["used_mib"] == "no series tells it"
