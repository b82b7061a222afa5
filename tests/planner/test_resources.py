import pytest

from apps.planner.inventory import Pod
from apps.planner.outcome import wants_device
from apps.planner.resources import asks_gpu, demand_of, effective_requests, parse_quantity, scale_text


@pytest.mark.parametrize(
    ("text", "resource", "amount"),
    [
        ("2", "cpu", 2000),
        ("1500m", "cpu", 1500),
        ("0.1", "cpu", 100),
        ("1n", "cpu", 1),
        ("64Gi", "memory", 64 * 2**30),
        ("64G", "memory", 64 * 10**9),
        ("1e3", "memory", 1000),
        ("128974848000m", "memory", 128974848),
        ("0.5Ki", "memory", 512),
        ("8", "nvidia.com/gpu", 8),
        (".5", "cpu", 500),
        (110, "pods", 110),
    ],
)
def test_a_quantity_reads_as_kubernetes_reads_it(text, resource, amount):
    assert parse_quantity(text, resource) == amount


@pytest.mark.parametrize("text", ["", "1,5", "five", "1KB", "1e", "Gi", "1e9999", "NaN"])
def test_what_is_no_quantity_is_refused_with_its_resource(text):
    with pytest.raises(ValueError, match="memory"):
        parse_quantity(text, "memory")


def test_init_containers_are_not_summed_with_the_containers():
    assert effective_requests([{"cpu": 500}, {"cpu": 700}], [({"cpu": 1000}, False)]) == {"cpu": 1200}
    assert effective_requests([{"cpu": 500}], [({"cpu": 2000}, False)]) == {"cpu": 2000}


def test_a_sidecar_runs_beside_every_init_container_after_it():
    inits = [({"cpu": 900}, False), ({"cpu": 300}, True), ({"cpu": 800}, False)]

    assert effective_requests([{"cpu": 500}], inits) == {"cpu": 1100}


def test_a_sidecar_counts_beside_the_containers_and_overhead_on_top():
    found = effective_requests([{"cpu": 500}, {"memory": 10}], [({"cpu": 300}, True)], {"cpu": 50})

    assert found == {"cpu": 850, "memory": 10}


def test_a_share_of_a_gpu_is_one_device_however_the_pod_asks_for_it():
    told = Pod("u", "n", "p", requests={"nvidia.com/gpu": 1, "cpu": 100}, gpu_milli=300)
    annotated = Pod("u", "n", "p", requests={"cpu": 100}, gpu_milli=300)

    assert demand_of(told) == demand_of(annotated)
    assert demand_of(annotated).gpu_milli == 300


@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/gpu.shared",
        "huawei.com/Ascend910B3",
        "koordinator.sh/gpu.shared",
        "volcano.sh/vgpu-number",
        "aliyun.com/gpu-mem",
        "habana.ai/gaudi",
        "google.com/tpu",
        "acme.example/npu-x1",
    ],
)
def test_every_form_of_an_accelerator_makes_a_gpu_pod(name):
    pod = Pod("u", "n", "p", requests={name: 1})

    assert asks_gpu(pod)
    assert wants_device(pod)


@pytest.mark.parametrize(
    "name",
    [
        "rdma/hca",
        "nvidia.com/hostdev",
        "nvidia.com/rdma_shared",
        "nvidia.com/mlnxnics",
        "gpu.intel.com/i915_monitoring",
        "a.io/input",
    ],
)
def test_network_cards_and_monitoring_make_no_gpu_pod(name):
    pod = Pod("u", "n", "p", requests={"cpu": 1, name: 1, "nvidia.com/gpu": 0})

    assert not asks_gpu(pod)
    assert not wants_device(pod)


def test_a_whole_device_of_a_vendor_never_heard_of_is_a_gpu_in_every_sum():
    assert demand_of(Pod("u", "n", "p", requests={"habana.ai/gaudi": 8})).gpu_milli == 8000
    assert demand_of(Pod("u", "n", "p", requests={"aliyun.com/gpu-mem": 8})).gpus == 0


def test_amounts_are_written_as_people_write_them():
    assert scale_text(1500, "cpu") == "1.5 cores"
    assert scale_text(64 * 2**30, "memory") == "64 GiB"
    assert scale_text(3, "nvidia.com/gpu") == "3"
