"""The scene `mixed`: every kind of accelerator and sharing side by side, read right, standing still."""

import asyncio
import json
import time

import pytest

from apps.kube.dumps import read_dump
from apps.kube.translate import build_snapshot
from apps.planner.ledger import node_ledger
from apps.simulator.client import NODES, PODS
from apps.simulator.scenes import SCENES
from tests.simulator.cluster import running

# node: (vendor, physical GPUs, schedulable, allocated in thousandths, sharing, shares per GPU)
EXPECTED = {
    "acme-npu": ("acme.example", 4, 4, 2000, "", 1),
    "amd-mi300x": ("amd", 8, 8, 4000, "", 1),
    "cpu-only": ("", 0, 0, 0, "", 1),
    "dra-h100": ("nvidia", 4, 4, 3000, "", 1),
    "gke-shared": ("nvidia", 2, 2, 1250, "time-sharing", 4),
    "hami-a100": ("nvidia", 4, 4, 2144, "hami", 10),
    "hami-ascend": ("ascend", 8, 8, 750, "hami", 4),
    "hami-dead": ("nvidia", 2, 0, 163, "hami", 10),
    "hygon-k100": ("hygon", 4, 4, 500, "hami", 4),
    "intel-shared": ("intel", 2, 2, 600, "shared-dev", 10),
    "kai-a100": ("nvidia", 4, 4, 3000, "", 1),
    "koordinator-h800": ("nvidia", 8, 7, 1500, "", 1),
    "metax-c500": ("metax", 8, 8, 3000, "", 1),
    "milli-v100": ("nvidia", 2, 2, 920, "gpushare", 1),
    "mps-l40s": ("nvidia", 8, 8, 700, "mps", 10),
    "no-topology": ("nvidia", 2, 1, 1000, "", 1),
    "nvlink-a100": ("nvidia", 8, 8, 6000, "", 1),
    "nvlink-h100": ("nvidia", 8, 7, 4000, "", 1),
    "pcie-text": ("nvidia", 4, 4, 3000, "", 1),
    "silent-a100": ("nvidia", 8, 0, 8000, "", 1),
    "sliced-l40s": ("nvidia", 8, 8, 1667, "time-slicing", 12),
    "volcano-v100": ("nvidia", 2, 2, 1000, "volcano-vgpu", 10),
}


@pytest.fixture(scope="module")
def objects():
    return SCENES["mixed"]()


@pytest.fixture(scope="module")
def snapshot(objects):
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    return build_snapshot("mixed", read_dump([("mixed", text)]).objects, time.time())


@pytest.mark.parametrize("name", EXPECTED)
def test_a_node_of_each_kind_is_counted_right(snapshot, name):
    node = snapshot.nodes[name]
    main = node_ledger(snapshot, node).main
    read = (
        node.vendor,
        main.physical,
        main.schedulable,
        main.allocated_milli,
        node.sharing,
        node.shares_per_gpu,
    )
    assert read == EXPECTED[name]


def test_parts_of_the_memory_are_taken_where_no_cores_are_asked_for(snapshot):
    taken = {
        name: [device.taken_memory_mib for device in node_ledger(snapshot, snapshot.nodes[name]).main.devices]
        for name in ("hami-ascend", "hami-dead", "gpushare-t4", "two-vendors")
    }
    assert taken == {
        "hami-ascend": [16384, 0, 0, 0, 0, 8192, 0, 0],
        "hami-dead": [4000, 0],
        "gpushare-t4": [10240, 5120],
        "two-vendors": [0, 6000],
    }


def test_mig_is_counted_in_instances_of_physical_gpus(snapshot):
    mixed, single = (snapshot.nodes[name] for name in ("mig-mixed", "mig-single"))
    assert (len(mixed.gpus), len(single.gpus)) == (8, 8)
    assert {gpu.instances[0].profile for gpu in single.gpus} == {"1g.10gb"}
    assert (len(mixed.holdings), len(single.holdings)) == (7, 9)


def test_a_card_of_a_second_vendor_is_a_row_of_its_own(snapshot):
    node = snapshot.nodes["two-vendors"]
    beside = node_ledger(snapshot, node).others
    assert [(one.vendor, one.physical, len(one.devices[0].takers)) for one in beside] == [("cambricon", 2, 1)]


def test_who_holds_what_comes_from_whoever_tells(snapshot):
    sources = {
        name: {str(one.source) for one in node.holdings or ()} for name, node in snapshot.nodes.items()
    }
    assert sources["dra-h100"] == {"dra"}
    assert sources["nvlink-a100"] == {"agent"}
    for name in ("hami-a100", "hami-ascend", "volcano-v100", "koordinator-h800", "milli-v100", "hygon-k100"):
        assert sources[name] == {"scheduler"}, name
    for name in ("no-topology", "pcie-text", "amd-mi300x", "acme-npu", "sliced-l40s", "intel-shared"):
        assert snapshot.nodes[name].holdings is None, name


def test_only_what_is_sick_or_gone_is_warned_of(snapshot):
    warned = {name for name, node in snapshot.nodes.items() if node.warnings}
    assert warned == {"hami-dead", "no-topology", "nvlink-h100"}
    assert snapshot.problems == ()
    assert [pod.key for pod in snapshot.pods.values() if pod.warnings] == []


def test_a_pod_that_ends_holds_its_gpu_and_one_that_failed_holds_none(snapshot):
    pods = {pod.name.partition("-")[0]: pod for pod in snapshot.pods.values()}
    assert (pods["leaving"].terminating, pods["leaving"].is_holding) == (True, True)
    assert (pods["evicted"].phase, pods["evicted"].is_holding) == ("Failed", False)


@pytest.mark.asyncio
async def test_it_stands_still_under_the_controllers(objects):
    uids = {each["metadata"]["uid"] for each in objects if each["kind"] == "Pod"}
    nodes = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Node"}
    before = {
        name: (node["metadata"]["labels"], node["status"]["allocatable"]) for name, node in nodes.items()
    }
    async with running(objects, scale=20) as driver:
        await asyncio.sleep(3)
        pods, _ = await driver.client.list(PODS)
        assert {pod["metadata"]["uid"] for pod in pods} == uids
        waiting = {pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")}
        assert [name.rpartition("-")[0] for name in waiting] == ["big-train"]
        listed, _ = await driver.client.list(NODES)
        after = {
            one["metadata"]["name"]: (one["metadata"]["labels"], one["status"]["allocatable"])
            for one in listed
        }
        assert after == before
