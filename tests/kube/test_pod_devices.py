"""What schedulers write on a pod about the devices they gave it, each in its own form."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.kube.gateway import PODS
from apps.kube.translate import build_snapshot
from apps.planner.inventory import HeldDevice, Source
from tests.kube.objects import pod

CARD, OTHER = "GPU-5a5a5a5a-0000-0000-0000-00000000000a", "GPU-5a5a5a5a-0000-0000-0000-00000000000b"


def read(raw):
    (found,) = build_snapshot("lab", {PODS: [raw]}, 1.0).pods.values()
    return found


def containers(*names, inits=()):
    """inits: names; a sidecar's begins with "side"."""
    return {
        "containers": [{"name": name} for name in names],
        "initContainers": [
            {"name": name, **({"restartPolicy": "Always"} if name.startswith("side") else {})}
            for name in inits
        ],
    }


def given_by(annotations, spec=None, **changes):
    return read(pod(gpus=0, on="node-a", annotations=annotations, spec=spec or {}, **changes))


def hami(*segments, key="hami.io/vgpu-devices-allocated"):
    return {key: "".join(f"{segment};" for segment in segments)}


def record(uuid=CARD, memory=2000, cores=20, kind="NVIDIA"):
    return f"{uuid},{kind},{memory},{cores}:"


def shares(found):
    return [(held.container, held.uuid, held.memory_mib, held.milli) for held in found.devices]


def test_hami_tells_each_containers_devices_with_empty_segments_kept():
    annotations = hami("", record() + record(OTHER, 3000, 0), record(memory=500, cores=5))
    found = given_by(annotations, containers("log", "train", "serve"))
    assert shares(found) == [
        ("train", CARD, 2000, 200),
        ("train", OTHER, 3000, None),
        ("serve", CARD, 500, 50),
    ]
    assert {held.source for held in found.devices} == {Source.SCHEDULER}
    assert found.warnings == ()


def test_init_containers_come_first_in_new_releases_and_are_left_out_by_old_ones():
    both = given_by(hami(record(OTHER), record()), containers("main", inits=["load"]))
    assert {held.container: held.uuid for held in both.devices} == {"load": OTHER, "main": CARD}
    old = given_by(hami(record()), containers("main", inits=["load"]))
    assert [held.container for held in old.devices] == ["main"]


@pytest.mark.parametrize(
    ("of_init", "expected"),
    [
        (record(memory=500, cores=10), [("main", CARD, 2000, 200)]),
        (record(memory=6000, cores=10), [("main", CARD, 2000, 200), ("load", CARD, 4000, 0)]),
        (record(OTHER, 500, 10), [("main", CARD, 2000, 200), ("load", OTHER, 500, 100)]),
    ],
)
def test_an_init_container_adds_only_what_the_others_do_not_hold_later(of_init, expected):
    found = given_by(hami(of_init, record()), containers("main", inits=["load"]))
    assert shares(found) == expected


def test_a_sidecar_holds_beside_the_others():
    found = given_by(hami(record(memory=500), record()), containers("main", inits=["side-a"]))
    assert sum(held.memory_mib for held in found.devices) == 2500


def test_what_is_about_to_be_given_counts_until_it_is_given():
    waiting = hami(record(), key="hami.io/vgpu-devices-to-allocate")
    assert [held.uuid for held in given_by(waiting, containers("a")).devices] == [CARD]
    done = {**hami(record(OTHER)), "hami.io/vgpu-devices-to-allocate": ";"}
    assert [held.uuid for held in given_by(done, containers("a")).devices] == [OTHER]


def test_devices_chosen_on_another_node_are_not_used():
    found = given_by({**hami(record()), "hami.io/vgpu-node": "node-z"}, containers("a"))
    assert found.devices == ()
    assert any("chosen on the node node-z" in warning for warning in found.warnings)


def test_a_damaged_record_is_told_and_the_rest_stands():
    found = given_by(hami(f"{CARD},NVIDIA,lots,0:{record(OTHER)}{CARD}:"), containers("a"))
    assert [held.uuid for held in found.devices] == [OTHER]
    assert len([warning for warning in found.warnings if "cannot be read" in warning]) == 2


def test_more_segments_than_containers_name_no_container():
    found = given_by(hami(record(), record(OTHER)), containers("a"))
    assert {held.container for held in found.devices} == {""}
    assert any("more containers" in warning for warning in found.warnings)


def test_volcano_in_mig_mode_names_the_place_of_the_instance():
    found = given_by({"volcano.sh/vgpu-ids-new": f"{CARD}[1-3],NVIDIA,9856,0:;"}, containers("a"))
    (held,) = found.devices
    assert (held.uuid, held.part, held.memory_mib, held.resource) == (
        CARD, "1-3", 9856, "volcano.sh/vgpu-number",
    )  # fmt: skip


def test_cores_of_other_vendors_are_no_percents_and_a_hard_slice_has_its_template():
    uuid = "AAAA0000-11111111-22222222-33333333-44444444"
    annotations = hami(record(uuid, 16384, 10, "Ascend910B3"), key="hami.io/Ascend910B3-devices-allocated")
    annotations["huawei.com/Ascend910B3"] = json.dumps([{"UUID": uuid, "temp": "vir10_3c_16g"}])
    (held,) = given_by(annotations, containers("a")).devices
    assert (held.resource, held.part, held.milli) == ("huawei.com/Ascend910B3", "vir10_3c_16g", None)


def test_koordinator_tells_minors_percents_and_bytes():
    allocation = {
        "gpu": [
            {"minor": 3, "resources": {"koordinator.sh/gpu-core": "40", "koordinator.sh/gpu-memory": "6Gi"}},
            {"minor": 4, "id": CARD, "resources": {"koordinator.sh/gpu": "100"}},
            {"resources": {}},
        ],
        "rdma": [{"minor": 0}],
    }
    found = given_by({"scheduling.koordinator.sh/device-allocated": json.dumps(allocation)})
    told = [(held.index, held.uuid, held.milli, held.memory_mib) for held in found.devices]
    assert told == [(3, "", 400, 6144), (4, CARD, 1000, None)]
    assert any("neither by minor nor by id" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    "document",
    [
        {"name": "nvidia.com/mig-2g.10gb", "position": 4, "instanceid": "MIG-77", "gpuindex": 1},
        {"name": "nvidia.com/mig-2g.10gb", "position": 4, "deviceUUID": "MIG-77", "gpuindex": "1"},
    ],
)
def test_runai_gives_a_mig_instance_without_any_resource(document):
    annotations = {"nvidia.com/mig-2g.10gb": "1", "runai-mig-device": json.dumps(document)}
    found = given_by(annotations)
    (held,) = found.devices
    assert (held.uuid, held.index, held.profile, held.start_slice) == ("MIG-77", 1, "2g.10gb", 4)
    assert found.requests == {"nvidia.com/mig-2g.10gb": 1}


@pytest.mark.parametrize(("value", "uuid", "index"), [(CARD, CARD, None), ("5", "", 5)])
def test_a_placeholder_is_no_load_and_tells_what_it_keeps(value, uuid, index):
    keeper = pod(
        "keeper",
        namespace="kept-elsewhere",
        on="node-a",
        labels={"app": "runai-reservation"},
        annotations={"run.ai/reserve_for_gpu_index": value},
    )
    share = pod("share", gpus=0, on="node-a", annotations={"gpu-fraction": "0.4"})
    pods = build_snapshot("lab", {PODS: [keeper, share]}, 1.0).pods
    found = pods["uid-keeper"]
    assert (found.reservation, found.requests) == (True, {})
    assert [(held.uuid, held.index) for held in found.devices] == [(uuid, index)]
    assert not pods["uid-share"].reservation


@pytest.mark.parametrize(
    ("device", "units", "milli", "memory"), [("24", "6", 250, 6144), ("24576", "6144", 250, 6144)]
)
def test_gpushare_counts_gib_or_mib(device, units, milli, memory):
    annotations = {
        "ALIYUN_COM_GPU_MEM_IDX": "2",
        "ALIYUN_COM_GPU_MEM_POD": units,
        "ALIYUN_COM_GPU_MEM_DEV": device,
    }
    (held,) = given_by(annotations).devices
    assert (held.index, held.milli, held.memory_mib) == (2, milli, memory)
    assert given_by({**annotations, "ALIYUN_COM_GPU_MEM_IDX": "-1"}).devices == ()


def test_gpushare_on_several_devices():
    annotations = {
        "scheduler.framework.gpushare.allocation": '{"0":{"0":4,"1":8},"1":{"0":2}}',
        "ALIYUN_COM_GPU_MEM_DEV": "40",
    }
    assert [(held.index, held.milli) for held in given_by(annotations).devices] == [(0, 150), (1, 200)]


def test_alibaba_names_its_cards_by_number():
    annotations = {"alibabacloud.com/gpu-index": "0-3", "alibabacloud.com/gpu-milli": "1000"}
    found = given_by({**annotations, "alibabacloud.com/gpu-count": "2"})
    assert [(held.index, held.milli) for held in found.devices] == [(0, 1000), (3, 1000)]
    assert (found.requests, found.gpu_milli) == ({"nvidia.com/gpu": 2}, 1000)


KEYS = [
    "hami.io/vgpu-devices-allocated",
    "hami.io/Ascend310P-devices-to-allocate",
    "volcano.sh/vgpu-ids-new",
    "scheduling.koordinator.sh/device-allocated",
    "runai-mig-device",
    "run.ai/reserve_for_gpu_index",
    "ALIYUN_COM_GPU_MEM_IDX",
    "ALIYUN_COM_GPU_MEM_POD",
    "ALIYUN_COM_GPU_MEM_DEV",
    "scheduler.framework.gpushare.allocation",
    "alibabacloud.com/gpu-index",
    "alibabacloud.com/gpu-milli",
    "gpu-fraction",
    "gpu-memory",
    "nvidia.com/mig-1g.5gb",
]
PIECES = st.one_of(
    st.sampled_from([CARD, "NVIDIA", *",:;", "[0-1]", "-1", "1e400", "NaN", "9" * 30, "\x00", "\u202e"]),
    st.integers(-5, 5000).map(str),
)
DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats()
    | st.sampled_from(["gpu", "nvidia.com/mig-1g.5gb"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["gpu", "minor", "resources", "name", "0"]), inner, max_size=3)
    ),
    max_leaves=8,
).map(json.dumps)
VALUES = st.lists(PIECES, max_size=14).map("".join) | DOCUMENTS


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
def test_no_annotation_breaks_the_reading_and_no_share_is_more_than_a_card(annotations):
    found = given_by(annotations, containers("a", "b", inits=["c"]))
    assert found.phase == "Running"
    for held in found.devices:
        assert isinstance(held, HeldDevice)
        assert held.milli is None or 0 <= held.milli <= 1000
        assert held.memory_mib is None or held.memory_mib >= 0
        assert held.index is None or held.index >= 0
