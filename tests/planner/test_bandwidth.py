import pytest

from apps.planner.bandwidth import bandwidth_of, generation_of, whole_nvlink


@pytest.mark.parametrize(
    ("code", "model", "both_ways"),
    [
        ("NV12", "NVIDIA A100-SXM4-80GB", 600),
        ("NV8", "A800-SXM4-80GB", 400),
        ("NV18", "NVIDIA-H100-80GB-HBM3", 900),
        ("NV8", "NVIDIA H800", 400),
        ("NV18", "NVIDIA H200", 900),
        ("NV18", "NVIDIA-B200", 1800),
        ("NV2", "Tesla-V100-SXM2-32GB", 100),
        ("NV6", "NVIDIA GH200 480GB", 300),
        ("NV12", "NVIDIA H100 NVL", 600),
        ("NV4", "NVIDIA RTX A6000", 112.5),
        ("XGMI", "AMD-Instinct-MI300X-OAM", 128),
        ("HCCS", "Ascend910B4", 56),
        ("SYS", "NVIDIA A100-SXM4-80GB", 64),
        ("PIX", "NVIDIA-H100-80GB-HBM3", 128),
        ("PHB", "NVIDIA-L40S", 64),
    ],
)
def test_a_link_has_the_rate_of_its_generation(code, model, both_ways):
    found = bandwidth_of(code, model)
    assert (found.one_way, found.both_ways) == (both_ways / 2, both_ways)


def test_the_figure_is_stated_with_the_direction_that_its_maker_counts():
    assert bandwidth_of("NV12", "A100-SXM4-40GB").stated == "600 GB/s both ways"
    assert bandwidth_of("PIX", "A100-SXM4-40GB").stated == "32 GB/s one way"
    assert bandwidth_of("SYS", "A100-SXM4-40GB").stated == "at most 32 GB/s one way"


@pytest.mark.parametrize(
    ("code", "model"),
    [("NV4", "a card nobody knows"), ("NV4", ""), ("WARP", "H100"), ("", "H100"), ("NA", "H100"),
     ("XGMI", "NVIDIA H100"), ("NV2", "NVIDIA-L40S"), ("HT", "MetaX-C500")],
)  # fmt: skip
def test_what_is_not_known_has_no_rate(code, model):
    assert bandwidth_of(code, model) is None


def test_all_nvlinks_of_a_gpu():
    assert whole_nvlink("NVIDIA H800").stated == "400 GB/s both ways"
    assert whole_nvlink("NVIDIA L4") is None


@pytest.mark.parametrize("model", ["H1000", "A1000 Laptop", "RTX 6000 Ada Generation", "P4000", "V1000"])
def test_names_that_look_alike_are_not_taken_for_each_other(model):
    found = generation_of(model)
    assert found is None or found.lanes == 0
