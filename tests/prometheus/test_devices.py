"""From series to devices: whose, in which unit, measured or not. Small texts in the real formats."""

import json

import pytest

from apps.prometheus.answer import answer_of
from apps.prometheus.errors import BadMetrics, Refused
from apps.prometheus.reading import read_metrics

USED, FREE, RESERVED = (f"DCGM_FI_DEV_FB_{word}" for word in ("USED", "FREE", "RESERVED"))
UTIL, ENGINE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
POWER = "DCGM_FI_DEV_POWER_USAGE"


def line(name, value, uuid="GPU-1", gpu="0", host="n1", **labels):
    told = {"gpu": gpu, "UUID": uuid, "Hostname": host, **labels}
    inside = ",".join(f'{key}="{text}"' for key, text in told.items() if text is not None)
    return f"{name}{{{inside}}} {value}"


def read(*lines):
    return read_metrics("a scrape", "\n".join(lines))


def only(*lines):
    (device,) = read(*lines).devices
    return device


def unit(*lines):
    (found,) = only(*lines).units
    return found


def vector(*rows):
    result = [
        {"metric": {"__name__": name, **labels}, "value": [1767225600.5, value]}
        for name, value, labels in rows
    ]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})


def test_the_total_is_used_and_free_and_reserved():
    found = unit(line(USED, 450), line(FREE, 80559), line(RESERVED, 550))
    assert (found.total_mib, found.total_note) == (81559, "")
    without = unit(line(USED, 450), line(FREE, 80559))
    assert without.total_mib == 81009
    assert "reserves" in without.total_note


@pytest.mark.parametrize(
    "blank", ["2147483632", "2147483646", "9223372036854775794", "140737488355328", "NaN", "+Inf", "-3"]
)
def test_a_blank_is_not_measured_and_says_so(blank):
    found = unit(line(USED, blank), line(UTIL, blank))
    assert (found.used_mib, found.utilisation) == (None, None)
    assert found.missing["used_mib"].startswith("told as")


def test_in_mig_mode_only_the_engines_activity_counts():
    mig = {"GPU_I_ID": "1", "GPU_I_PROFILE": "1g.10gb"}
    found = unit(line(UTIL, 0, **mig), line(ENGINE, 0.87, **mig))
    assert (found.utilisation, found.utilisation_metric) == (87.0, ENGINE)
    untold = unit(line(UTIL, 0, **mig), line(USED, 5, **mig))
    assert untold.utilisation is None
    assert "MIG mode" in untold.missing["utilisation"]


def test_a_utilisation_of_0_beside_a_busy_engine_says_nothing():
    assert unit(line(UTIL, 0), line(ENGINE, 0.5)).utilisation == 50.0
    assert unit(line(UTIL, 0), line(ENGINE, 0.000033)).utilisation == 0.0


def test_instances_share_a_uuid_and_power_is_never_summed():
    lines = [
        line(name, value + number, GPU_I_ID=str(number), GPU_I_PROFILE="1g.5gb")
        for number in (7, 8, 9)
        for name, value in ((USED, 100), (POWER, 110.0))
    ]
    device = only(*lines, line(ENGINE, 0.42, GPU_I_ID="12", GPU_I_PROFILE="1g.10gb"))
    assert [(one.instance, one.used_mib) for one in device.units] == [
        ("7", 107),
        ("8", 108),
        ("9", 109),
        ("12", None),
    ]
    assert device.power_watts == 119.0
    assert device.units[3].utilisation == 42.0
    assert device.units[3].workload is None


def test_mig_without_instances_has_unknown_memory():
    answer = answer_of(read(line(ENGINE, 0.000033), line(POWER, 75)))
    assert (answer["fb_mib"], answer["gpu_instances"], answer["has_gpu_util"]) == ({}, [], False)
    assert answer["physical_gpus"] == 1


def test_every_host_may_call_its_gpu_0():
    metrics = read(
        line(USED, 1, uuid="GPU-a", host="n1"),
        line(USED, 2, uuid="GPU-b", host="n1"),
        line(USED, 3, uuid=None, host="n2"),
        line(USED, 4, uuid=None, host="n3"),
    )
    assert [one.units[0].used_mib for one in metrics.devices] == [1, 2, 3, 4]
    assert len(answer_of(metrics)["fb_mib"]) == 4


def test_a_blanked_out_uuid_does_not_merge_cards():
    null = "GPU-00000000-0000-0000-0000-000000000000"
    assert len(read(line(USED, 1, uuid=null), line(USED, 2, uuid=null, gpu="1")).devices) == 2


def test_old_names_mean_todays():
    pod = "dcgm-exporter-x7k2p"
    answer = answer_of(
        read(
            line("dcgm_fb_used", 12, host=pod, pod="", namespace=""),
            line("dcgm_fb_free", 15000, host=pod, pod="", namespace=""),
            line("dcgm_gpu_utilization", 7, host=pod, pod="", namespace=""),
        )
    )
    assert answer["aliases"]["dcgm_fb_used"] == USED
    assert (answer["fb_used_mib"], answer["util"], answer["has_gpu_util"]) == (12, 7, True)
    assert answer["node_from_hostname"] is False


def test_empty_labels_name_nobody_and_a_reservation_is_a_placeholder():
    assert unit(line(UTIL, 90, pod="", namespace="")).workload is None
    held = unit(
        line(UTIL, 3, pod="gpu-reservation-n1-abcde", namespace="kai-resource-reservation", container="r")
    )
    assert (held.workloads, held.placeholder) == ((), "kai-resource-reservation/gpu-reservation-n1-abcde")
    assert unit(line(UTIL, 3, pod="train-0", namespace="team")).workload.key == "team/train-0"
    assert unit(line(UTIL, 3, pod="dcgm-exporter-abcde", namespace="gpu-operator")).workload is None


def test_the_exporters_own_pod_is_never_a_holder():
    scraped = {"pod": "metrics-x1", "namespace": "watch", "job": "dcgm", "instance": "192.0.2.1:9400"}
    named = {**scraped, "exported_pod": "job-1-0", "exported_namespace": "team-a"}
    text = vector(
        (UTIL, "97", {**named, "UUID": "GPU-1", "gpu": "0"}),
        (UTIL, "0", {**scraped, "UUID": "GPU-2", "gpu": "1"}),
    )
    answer = answer_of(read_metrics("answer", text))
    assert answer["by_gpu"] == {
        "0": {"namespace": "team-a", "pod": "job-1-0", "util": 97.0},
        "1": {"namespace": None, "pod": None, "util": 0.0},
    }
    assert answer["pods"] == ["job-1-0"]
    alone = vector((UTIL, "5", {**scraped, "UUID": "GPU-1", "gpu": "0"}))
    assert answer_of(read_metrics("answer", alone))["pods"] == []


def test_labels_kept_by_honor_labels_are_holders():
    rows = [
        (UTIL, "5", {"pod": pod, "namespace": "t", "job": "j", "instance": "i:9400", "UUID": f"GPU-{pod}"})
        for pod in ("train-0", "train-1")
    ]
    assert answer_of(read_metrics("answer", vector(*rows)))["pods"] == ["train-0", "train-1"]


def test_what_a_scheduler_dealt_out_is_not_what_is_used():
    uuid = 'deviceuuid="GPU-9",nodeid="n1",zone="vGPU"'
    answer = answer_of(
        read(
            f'GPUDeviceMemoryAllocated{{devicecores="0",deviceidx="3",{uuid}}} 5.24288e+09',
            f'GPUDeviceMemoryAllocated{{devicecores="30",deviceidx="3",{uuid}}} 1.048576e+10',
            f'GPUDeviceCoreLimit{{deviceidx="3",{uuid}}} 100',
        )
    )
    assert (answer["alloc_mib"], answer["core_limit"], answer["fb_mib"]) == ({"3": 10000.0}, {"3": 100.0}, {})


def test_a_containers_view_is_a_share_and_the_device_says_what_is_free():
    where = 'deviceidx="0",deviceuuid="GPU-9",zone="vGPU"'
    pod = 'ctrname="main",podname="infer-0",podnamespace="team",vdeviceid="0"'
    mib = 2**20
    found = unit(
        f"HostGPUMemoryUsage{{{where}}} {30000 * mib}",
        f"vGPU_device_memory_usage_in_bytes{{{where},{pod}}} {29000 * mib}",
        f"vGPU_device_memory_limit_in_bytes{{{where},{pod}}} {32000 * mib}",
        'DCGM_FI_DEV_FB_TOTAL{gpu="0",UUID="GPU-9"} 40960',
    )
    (share,) = found.shares
    assert (share.workload.key, share.used_mib, share.limit_mib) == ("team/infer-0", 29000, 32000)
    assert (found.used_mib, found.free_mib_most) == (30000, 10960)


@pytest.mark.parametrize(
    ("vendor", "lines", "used", "total", "busy"),
    [
        ("hygon", ['dcu_usedmemory_bytes{device_id="TX9",minor_number="1"} 1.073741824e+09',
                   'dcu_memorycap_bytes{device_id="TX9",minor_number="1"} 6.8719476736e+10',
                   'dcu_utilizationrate{device_id="TX9",minor_number="1"} 30'], 1024, 65536, 30),
        ("cambricon", ['mlu_memory_used{uuid="u-1",slot="2",model="MLU590"} 2048',
                       'mlu_memory_total{uuid="u-1",slot="2",model="MLU590"} 81920'], 2048, 81920, None),
        ("ascend", ['npu_chip_info_hbm_used_memory{id="3",vdie_id="V-1"} 4096',
                    'npu_chip_info_hbm_total_memory{id="3",vdie_id="V-1"} 65536',
                    'npu_chip_info_total_memory{id="3",vdie_id="V-1"} 15171',
                    'npu_chip_info_utilization{id="3",vdie_id="V-1"} 55'], 4096, 65536, 55),
        ("amd", ['gpu_used_vram{gpu_id="0",gpu_partition_id="0",hostname="n"} 300',
                 'gpu_total_vram{gpu_id="0",gpu_partition_id="0",hostname="n"} 196288',
                 'gpu_gfx_activity{gpu_id="0",gpu_partition_id="0",hostname="n"} 98'], 300, 196288, 98),
        ("intel", ['xpum_memory_used_bytes{uuid="x-1",dev_file="card1"} 2.68435456e+08',
                   'xpum_engine_ratio{uuid="x-1",dev_file="card1"} 0.25'], 256, None, 25),
        ("", ['gcu_memory_used_bytes{uuid="q-1",gcu="0"} 1048576',
              'gcu_utilization{uuid="q-1",gcu="0"} 9'], 1, None, 9),
    ],
)  # fmt: skip
def test_exporters_of_other_vendors(vendor, lines, used, total, busy):
    device = only(*lines)
    (found,) = device.units
    assert (device.vendor, found.used_mib, found.total_mib, found.utilisation) == (vendor, used, total, busy)


def test_an_unknown_accelerator_is_a_row_and_other_series_are_none():
    device = only('biren_gpu_fan_rpm{uuid="b-1"} 900', 'node_load1{instance="x"} 3')
    assert (device.uuid, dict(device.other)) == ("b-1", {"biren_gpu_fan_rpm": 900.0})
    assert read("node_load1 3").warnings == ["no series in it speaks of a GPU or another accelerator"]


def test_a_uuid_without_its_beginning_and_a_device_file_name_the_same_card():
    uuid = "0a1b2c3d-1111-2222-3333-444455556666"
    device = only(
        f'nvidia_smi_memory_used_bytes{{uuid="{uuid}"}} 1048576',
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="nvidia3",UUID="GPU-{uuid}"}} 9',
    )
    assert (device.index, device.units[0].used_mib, device.units[0].utilisation) == ("3", 1, 9)


def test_two_exporters_of_one_card_make_one_device():
    metrics = read(
        line(USED, 5, uuid="GPU-9", host="n1"),
        'GPUDeviceSharedNum{deviceidx="0",deviceuuid="GPU-9"} 2',
        'HostCoreUtilization{deviceidx="0",deviceuuid="GPU-9"} 12',
    )
    assert [(one.host, one.units[0].utilisation) for one in metrics.devices] == [("n1", 12.0)]


def test_a_new_layout_replaces_the_old_one():
    mig = {"GPU_I_ID": "9", "GPU_I_PROFILE": "1g.5gb"}
    before = f"# TYPE {USED} gauge\n{line(USED, 40000)}\n"
    after = f"# TYPE {USED} gauge\n{line(USED, 11, **mig)}\n"
    answer = answer_of(read_metrics("scrapes", before + after))
    assert answer["fb_mib"] == {"gpu0/gi9": {"FB_USED": 11.0}}


def test_a_device_without_newer_samples_has_no_data_since():
    rows = [
        {"metric": {"__name__": USED, "UUID": uuid, "gpu": "0"}, "values": [[at, "5"] for at in times]}
        for uuid, times in (("GPU-1", (1000, 1015)), ("GPU-2", (1000, 1300)))
    ]
    text = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": rows}})
    silent, alive = read_metrics("range", text).devices
    assert (silent.silent_since, silent.units[0].used_mib, alive.units[0].used_mib) == (1015, None, 5)
    assert "no data since" in silent.units[0].missing["used_mib"]


def test_a_refused_query_says_why():
    with pytest.raises(Refused, match="bad_data: parse error"):
        read_metrics("answer", '{"status": "error", "errorType": "bad_data", "error": "parse error"}')


@pytest.mark.parametrize(
    "text", ["", "hello", "{}", "[1]", "[" * 100_000, '{"a": 1}', "apiVersion: v1\nkind: Pod\n"]
)
def test_what_holds_no_metrics_is_refused_in_one_line(text):
    with pytest.raises(BadMetrics) as refused:
        read_metrics("this file", text)
    assert str(refused.value).startswith("this file ")
    assert "\n" not in str(refused.value)


def test_a_model_is_a_name_before_a_pci_number():
    card = {"gpu": None, "uuid": "", "card_model": "0x74a5", "gpu_id": "0", "gpu_uuid": "u-7"}
    assert only(line("gpu_used_vram", 5, **card, card_series="AMD Instinct MI325X")).model == (
        "AMD Instinct MI325X"
    )
    assert only(line("gpu_used_vram", 5, **card)).model == "0x74a5"


def test_an_exporter_that_counts_the_card_in_bytes_counts_little_memory_in_bytes():
    card = {"gpu": None, "uuid": "", "slot": "0", "uuid_": None}
    used, total = line("mlu_memory_used", 3 * 2**20, **card), line("mlu_memory_total", 24 * 2**30, **card)
    found = unit(used, total)
    assert (found.used_mib, found.total_mib) == (3, 24 * 1024)
    assert unit(line("mlu_memory_used", 900, **card), line("mlu_memory_total", 24576, **card)).used_mib == 900


def test_labels_in_camel_case():
    labels = {"gpu": None, "uuid": "", "npuID": "3", "modelName": "910B4", "podName": "t-0", "namespace": "m"}
    found = only(line("npu_chip_info_hbm_used_memory", 700, **labels))
    assert (found.index, found.model) == ("3", "910B4")
    assert [one.key for one in found.units[0].workloads] == ["m/t-0"]


def test_labels_in_capital_letters():
    card = {"gpu": None, "uuid": "", "GPU_UUID": "66aa-01", "SERIAL_NUMBER": "7001"}
    assert only(line("gpu_average_package_power", 41, **card)).uuid == "66aa-01"
