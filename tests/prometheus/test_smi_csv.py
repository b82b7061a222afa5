"""`nvidia-smi --query-gpu=… --format=csv`, as it is pasted and redirected."""

import pytest

from apps.prometheus.answer import answer_of
from apps.prometheus.errors import BadMetrics
from apps.prometheus.reading import read_metrics

HEADER = (
    "index, uuid, name, memory.total [MiB], memory.reserved [MiB], memory.used [MiB], memory.free [MiB], "
    "utilization.gpu [%], mig.mode.current, power.draw [W], temperature.gpu"
)
ROW = "{index}, GPU-{index}, NVIDIA L4, 23034 MiB, 433 MiB, {used} MiB, 22000 MiB, {util}, {mig}, 16.40 W, 41"


def table(*rows):
    return "\n".join([HEADER, *rows])


def row(index=0, used=600, util="12 %", mig="[N/A]"):
    return ROW.format(index=index, used=used, util=util, mig=mig)


def test_units_stand_in_the_cells():
    answer = answer_of(read_metrics("capture", table(row(0), row(1, used=7))))
    assert (answer["physical_gpus"], answer["rows"], answer["columns"]) == (2, 2, 11)
    assert answer["fb_mib"]["gpu1"] == {"FB_USED": 7.0, "FB_FREE": 22000.0}
    first = answer["devices"][0]
    assert (first["power_watts"], first["units"][0]["total_mib"]) == (16.4, 23034)


@pytest.mark.parametrize("word", ["[N/A]", "[Unknown Error]", "Not Active", "", "[Not Supported]"])
def test_what_nvidia_smi_does_not_know_is_not_measured(word):
    (device,) = read_metrics("capture", table(row(util=word))).devices
    assert device.units[0].utilisation is None
    assert device.units[0].missing["utilisation"].startswith("nvidia-smi tells")


def test_in_mig_mode_its_utilisation_says_nothing():
    (device,) = read_metrics("capture", table(row(util="0 %", mig="Enabled"))).devices
    assert device.units[0].utilisation is None


def test_of_a_loop_the_last_row_counts():
    text = table(row(used=1), row(index=1, used=2), row(used=3), HEADER, row(used=4))
    answer = answer_of(read_metrics("capture", text))
    assert (answer["physical_gpus"], answer["fb_mib"]["gpu0"]["FB_USED"]) == (2, 4.0)


def test_nounits_takes_the_units_of_the_header_and_a_cut_row_is_a_warning():
    text = table(row().replace(" MiB", "").replace(" %", "").replace(" W", ""), "1, GPU-1, NVIDIA")
    metrics = read_metrics("capture", text)
    assert [one.units[0].used_mib for one in metrics.devices] == [600]
    assert "3 cells under 11 columns" in metrics.warnings[0]


def test_without_a_header_nothing_can_be_told():
    with pytest.raises(BadMetrics, match="noheader"):
        read_metrics("capture", row())
