"""What sharing schedulers register on a node: every form, and none of its cuts taken for a healthy card."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.kube.translate.handshakes import read_handshakes
from apps.kube.translate.registers import read_records, read_registers

SEVEN = "GPU-a1,8,24576,100,NVIDIA-NVIDIA A10,1,true:GPU-a2,8,24576,100,NVIDIA-NVIDIA A10,1,false:"
NINE = (
    "GPU-b0,6,98304,300,NVIDIA-NVIDIA L20,0,true,1,mps:"
    "GPU-b1,6,98304,300,NVIDIA-NVIDIA L20,0,true,0,hami-core:"
)
FIVE = "GPU-c0,4,2457,NVIDIA-Tesla P40,true:GPU-c1,4,2457,NVIDIA-Tesla P40,true:"
SIX = "GPU-d0,7,40960,NVIDIA-NVIDIA A100,true,hami-core:GPU-d1,7,40960,NVIDIA-NVIDIA A100,false,mig:"
OLD_SIX = "GPU-e0,7,16384,100,Tesla T4,true:"
AS_JSON = json.dumps(
    [
        {"id": "GPU-f0", "count": 5, "devmem": 81559, "devcore": 100, "type": "NVIDIA H100", "health": True},
        {"id": "GPU-f1", "index": 1, "count": 5, "devmem": 81559, "devcore": 100, "type": "NVIDIA H100"},
    ]
)


def read(text, *, is_volcano=False):
    return read_records(text, is_volcano=is_volcano)


@pytest.mark.parametrize(
    ("text", "is_volcano", "facts"),
    [
        (SEVEN, False, [("GPU-a1", 8, 24576, 100, True, None, 1), ("GPU-a2", 8, 24576, 100, False, None, 1)]),
        (NINE, False, [("GPU-b0", 6, 98304, 300, True, 1, 0), ("GPU-b1", 6, 98304, 300, True, 0, 0)]),
        (
            FIVE,
            True,
            [("GPU-c0", 4, 2457, None, True, None, None), ("GPU-c1", 4, 2457, None, True, None, None)],
        ),
        (
            SIX,
            True,
            [("GPU-d0", 7, 40960, None, True, None, None), ("GPU-d1", 7, 40960, None, False, None, None)],
        ),
        (OLD_SIX, False, [("GPU-e0", 7, 16384, 100, True, None, None)]),
        # HAMi leaves out what is zero: the first index, and the health of a card that is sick.
        (
            AS_JSON,
            False,
            [("GPU-f0", 5, 81559, 100, True, 0, None), ("GPU-f1", 5, 81559, 100, False, 1, None)],
        ),
    ],
)
def test_every_form_of_a_record(text, is_volcano, facts):
    records, is_cut = read(text, is_volcano=is_volcano)
    assert not is_cut
    assert [
        (one.uuid, one.units, one.memory, one.cores, one.healthy, one.index, one.numa) for one in records
    ] == facts


def test_modes_and_models_stay_as_they_are_written():
    records, _ = read(NINE)
    assert [(one.mode, one.model) for one in records] == [
        ("mps", "NVIDIA-NVIDIA L20"),
        ("hami-core", "NVIDIA-NVIDIA L20"),
    ]


@pytest.mark.parametrize(
    "row",
    [
        "GPU-x,8,24576,100,A10,0,true,3:",  # eight fields: of no known form
        "GPU-x,eight,24576,100,A10,0,true:",
        "GPU-x,8,-1,100,A10,0,true:",
        "GPU-x,8,1e9,100,A10,0,true:",
        "GPU-x,8,24576,100,A10,0,yes:",
        "GPU-x,8,24576,100,,0,true:",
        "GPU-x,8,24576,100,A10,zero,true:",
        "GPU-x,8,24576,100,A10,0,true,-1,mig:",
        "GPU-x,99999999,24576,100,A10,0,true:",
        '[{"id": "GPU-x", "count": 8, "devmem": "much", "health": true}]',
        '[{"id": "GPU-x", "devmem": 1, "health": true}, {"id": "GPU-y", "count": 1}]',
        '[{"id": "GPU-x", "count": 8, "health": "true"}]',
    ],
)
def test_a_record_that_lacks_something_is_there_and_not_healthy(row):
    (record, *_), _ = read(row)
    assert (record.uuid, record.is_whole, record.healthy, record.memory) == ("GPU-x", False, False, None)


def test_the_number_before_a_cut_is_not_read():
    records, is_cut = read("GPU-a,10,40960,100,A100,0,true:GPU-b,10,4096...")
    assert is_cut
    assert [(one.uuid, one.is_whole, one.memory) for one in records] == [
        ("GPU-a", True, 40960),
        ("GPU-b", False, None),
    ]


def test_a_name_that_was_cut_is_no_name():
    (_, last), is_cut = read("GPU-a,10,40960,100,A100,0,true:GPU-b47")
    assert (last.uuid, last.healthy, is_cut) == ("", False, True)


def test_the_last_colon_may_be_missing_where_the_record_is_surely_whole():
    records, is_cut = read(SIX.rstrip(":"), is_volcano=True)
    assert (len(records), is_cut) == (2, False)
    # A lone record of seven fields may be the beginning of one with nine.
    (lone,), is_cut = read("GPU-a,10,40960,100,A100,0,true")
    assert (lone.healthy, is_cut) == (False, True)


ROWS = st.sampled_from([SEVEN, NINE, FIVE, SIX, AS_JSON])


@given(ROWS, st.data())
def test_no_cut_makes_a_healthy_card_that_was_not_whole(text, data):
    at = data.draw(st.integers(0, len(text)))
    dots = data.draw(st.sampled_from(["", "..."]))
    whole, _ = read(text, is_volcano=True)
    found, is_cut = read(text[:at] + dots, is_volcano=True)
    by_uuid = {one.uuid: one for one in whole}
    for record in found:
        if record.healthy:
            known = by_uuid[record.uuid]
            assert (record.units, record.memory, record.cores, record.index or 0) == (
                known.units,
                known.memory,
                known.cores,
                known.index or 0,
            )
            assert known.healthy
    assert is_cut or len(found) in (0, 1, 2)


@given(st.text(max_size=200))
def test_any_text_at_all_is_read_without_a_fault(text):
    warnings = []
    read_registers(
        {"hami.io/node-nvidia-register": text, "volcano.sh/node-vgpu-register": text}, {}, warnings.append
    )


def test_places_come_from_the_index_and_twins_are_named():
    warnings = []
    annotations = {"hami.io/node-nvidia-register": NINE + NINE.split(":")[0] + ":"}
    (register,) = read_registers(annotations, {}, warnings.append)
    assert [record.index for record in register.records] == [1, 0]
    assert any("names GPU-b0 twice" in warning for warning in warnings)
    same_place = NINE.replace("true,0,hami-core", "true,1,hami-core")
    (register,) = read_registers({"hami.io/node-nvidia-register": same_place}, {}, warnings.append)
    assert [record.index for record in register.records] == [0, 1]
    assert any("one index to several" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("key", "vendor", "kind"),
    [
        ("hami.io/node-nvidia-register", "nvidia", ""),
        ("4pd.io/node-nvidia-register", "nvidia", ""),
        ("volcano.sh/node-vgpu-register", "nvidia", ""),
        ("hami.io/node-amd-register", "amd", ""),
        ("hami.io/node-mlu-register", "cambricon", ""),
        ("hami.io/node-dcu-register", "hygon", ""),
        ("hami.io/node-register-xpu", "kunlun", ""),
        ("hami.io/node-register-Ascend310P", "ascend", "ascend310p"),
        ("hami.io/node-MR-V100-register", "iluvatar", "mr-v100"),
        ("hami.io/node-never-heard-of-register", "never-heard-of", ""),
    ],
)
def test_whose_cards_a_register_lists(key, vendor, kind):
    text = FIVE if key.startswith("volcano") else SEVEN
    (register,) = read_registers({key: text}, {}, pytest.fail)
    assert (register.cards.vendor, register.cards.kind) == (vendor, kind)


def test_metax_registers_its_shares_in_words_of_its_own():
    text = json.dumps(
        [
            {
                "uuid": "GPU-m0",
                "model": "MXC550",
                "totalDevCount": 12,
                "totalCompute": 100,
                "totalVRam": 65536,
                "bdf": "0000:0f:00.0",
                "numa": 1,
                "healthy": True,
            }
        ]
    )
    (register,) = read_registers({"metax-tech.com/node-gpu-devices": text}, {}, pytest.fail)
    (record,) = register.records
    assert (record.uuid, record.units, record.memory, record.bus_id, record.healthy) == (
        "GPU-m0",
        12,
        65536,
        "0000:0f:00.0",
        True,
    )


ASKED = 1_780_000_000.0


@pytest.mark.parametrize(
    ("text", "offered", "at", "alive"),
    [
        ("Reported 2026-05-28 20:26:40.544397915 +0000 UTC m=+209.3", 8, ASKED, True),
        ("Reported_2026-05-28 20:26:40", 8, ASKED, True),
        ("Requesting_2026.05.28 20:26:40", 8, ASKED + 30, True),
        ("Requesting_2026-05-28 20:26:40", 8, ASKED + 3600, False),
        ("Requesting_2026-05-28 20:26:40", None, ASKED + 30, True),
        ("Requesting_2026-05-28 20:26:40", 0, ASKED + 30, False),
        ("Requesting_soon", 8, ASKED, False),
        ("Deleted_2026-05-28 20:26:40", 8, ASKED, False),
        ("Reported 2026-05-28 20:26:40", 0, ASKED, None),
        ("what is this", 8, ASKED, None),
    ],
)
def test_whether_a_plugin_lives(text, offered, at, alive):
    (found,) = read_handshakes({"hami.io/node-handshake-dcu": text}).values()
    assert found.family == "dcu"
    assert found.is_alive(offered=offered, taken_at=at) is alive


def test_a_time_with_its_zone_is_that_moment():
    (found,) = read_handshakes({"hami.io/node-handshake": "Reported 2026-05-29 04:26:40 +0800 CST"}).values()
    assert (found.family, found.at) == ("nvidia", ASKED)


def test_a_register_that_tells_no_units_at_all_is_whole():
    text = json.dumps([{"id": f"N-{n}", "index": n, "devmem": 32768, "health": True} for n in range(2)])
    records, is_cut = read(text)
    assert [(one.uuid, one.units, one.healthy) for one in records] == [
        ("N-0", None, True),
        ("N-1", None, True),
    ]
    assert not is_cut
    assert not any(one.healthy for one in read(text[:-8])[0])


def test_a_register_that_yaml_folded_is_the_same():
    folded = SEVEN.replace(":GPU", ":\n  GPU").replace("NVIDIA A10,1,false", "NVIDIA\n  A10,1,false")
    records, is_cut = read(folded)
    assert [(one.uuid, one.healthy) for one in records] == [("GPU-a1", True), ("GPU-a2", False)]
    assert not is_cut
