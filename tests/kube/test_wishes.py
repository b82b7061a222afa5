"""What pods ask of devices: counts, and parts of one in each scheduler's own units."""

import pytest

from apps.kube.gateway import PODS
from apps.kube.translate import build_snapshot
from tests.kube.objects import pod


def asking(*limits, inits=(), **changes):
    def containers(amounts):
        return [{"name": f"c{at}", "resources": {"limits": one}} for at, one in enumerate(amounts)]

    raw = pod(spec={"containers": containers(limits), "initContainers": containers(inits)}, **changes)
    (found,) = build_snapshot("lab", {PODS: [raw]}, 1.0).pods.values()
    return found


@pytest.mark.parametrize(
    ("limits", "milli", "memory"),
    [
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": "7k", "nvidia.com/gpucores": 35}, 350, 7000),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 60, "nvidia.com/gpucores": 20}, 600, None),
        (
            {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 4500, "volcano.sh/vgpu-cores": 10},
            100,
            4500,
        ),
        ({"hygon.com/dcunum": 1, "hygon.com/dcumem": 8000, "hygon.com/dcucores": 45}, 450, 8000),
        ({"metax-tech.com/sgpu": 1, "metax-tech.com/vmemory": 4, "metax-tech.com/vcore": 15}, 150, 4096),
        ({"metax-tech.com/sgpu": 1, "metax-tech.com/vmemory": "1536Mi"}, 0, 1536),
        ({"kubernetes.io/gpu-core": 20, "kubernetes.io/gpu-memory": "2Gi"}, 200, 2048),
        ({"tke.cloud.tencent.com/qgpu-core": 40, "tke.cloud.tencent.com/qgpu-memory": 6}, 400, 6144),
        ({"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vmemory": 20}, 0, 5120),
        ({"iluvatar.ai/BI-V150-vgpu": 1, "iluvatar.ai/BI-V150.vCore": 50}, 500, None),
        ({"koordinator.sh/gpu": 30}, 300, None),
        ({"koordinator.sh/gpu-core": 70, "koordinator.sh/gpu-memory": "9Gi"}, 700, 9216),
        ({"koordinator.sh/gpu.shared": 1, "koordinator.sh/gpu-memory-ratio": 25}, 250, None),
        ({"koordinator.sh/gpu-shared": 2, "koordinator.sh/gpu-core": 100}, 500, None),
        ({"mthreads.com/vgpu": 1, "mthreads.com/sgpu-core": 4, "mthreads.com/sgpu-memory": 8}, 250, 4096),
        ({"alibabacloud.com/gpu-milli": 450}, 450, None),
        ({"nvidia.com/gpu": 2}, 1000, None),
    ],
)
def test_parts_of_a_device(limits, milli, memory):
    found = asking(limits)
    assert (found.gpu_milli, found.gpu_memory_mib) == (milli, memory)
    assert found.warnings == ()


def test_what_only_an_extender_deals_out_is_no_plain_resource():
    found = asking({"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 16384, "cpu": "2"})
    assert found.requests == {"huawei.com/Ascend910B3": 1, "cpu": 2000}
    assert found.gpu_memory_mib == 16384


@pytest.mark.parametrize(("percent", "cards"), [("200", 2), ("100", 1)])
def test_hundred_percent_of_koordinator_are_a_whole_device(percent, cards):
    found = asking({"koordinator.sh/gpu": percent})
    assert (found.requests["nvidia.com/gpu"], found.gpu_milli) == (cards, 1000)


@pytest.mark.parametrize(
    ("text", "told", "meant"), [("4Gi", 4294967296, "4096 meant"), ("9000000", 9000000, "")]
)
def test_an_amount_in_the_wrong_unit_is_told(text, told, meant):
    found = asking({"nvidia.com/gpu": 1, "nvidia.com/gpumem": text})
    assert found.gpu_memory_mib == told
    (warning,) = found.warnings
    assert "no device has that much" in warning
    assert meant in warning


@pytest.mark.parametrize(
    ("amount", "gpus"), [("2e1", 20), ("1k", 1000), ("0", None), ("-3", None), ("1e999", None)]
)
def test_amounts_of_gpus(amount, gpus):
    assert asking({"nvidia.com/gpu": amount}).requests.get("nvidia.com/gpu") == gpus


def test_the_largest_moment_of_each_resource_counts():
    found = asking({"nvidia.com/gpu": 1}, {"nvidia.com/mig-2g.20gb": 1}, inits=[{"nvidia.com/gpu": 6}])
    assert found.requests == {"nvidia.com/gpu": 6, "nvidia.com/mig-2g.20gb": 1}


@pytest.mark.parametrize(
    ("annotations", "requests", "milli"),
    [
        ({"alibabacloud.com/gpu-milli": "300", "alibabacloud.com/gpu-count": "1"}, {}, 300),
        (
            {"alibabacloud.com/gpu-milli": "1000", "alibabacloud.com/gpu-count": "4"},
            {"nvidia.com/gpu": 4},
            1000,
        ),
        ({"gpu-fraction": "0.3", "runai-allocated-gpu-memory": "24000"}, {}, 300),
        ({"gpu-fraction": "nan"}, {"nvidia.com/gpu": 1}, 1000),
        ({"nvidia.com/mig-3g.40gb": "2"}, {"nvidia.com/mig-3g.40gb": 2}, 1000),
    ],
)
def test_what_stands_only_in_annotations(annotations, requests, milli):
    found = asking(annotations=annotations)
    assert (found.requests, found.gpu_milli) == (requests, milli)
