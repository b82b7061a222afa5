"""Which pod holds which device: the best source present counts, and sources that disagree are told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.kube.gateway import NODES, PODS
from apps.kube.translate.holders import Sighting, settle_holders
from apps.kube.translate.picture import Translator
from apps.planner.inventory import DeviceGroup, Gpu, HeldDevice, Holding, MigInstance, Node, Pod, Source
from apps.planner.ledger import ledger_of
from apps.planner.ledger_rows import Flag
from tests.drawing import GPU, running
from tests.kube import objects

SEEN = 1_700_000_000.0


def node(*gpus: Gpu, agent: tuple[Holding, ...] | None = None, **facts: Any) -> Node:
    gpus = gpus or (Gpu(0, "GPU-0", 40_000), Gpu(1, "GPU-1", 40_000))
    shape: dict[str, Any] = {
        "name": "n1",
        "gpu_resource": GPU,
        "gpus": gpus,
        "allocatable": {GPU: len(gpus)},
        "model": "A100-SXM4-40GB",
        "holdings": agent,
        "holdings_observed_at": None if agent is None else SEEN,
    }
    return Node(**{**shape, **facts})


def pod(name: str, *devices: HeldDevice, **facts: Any) -> Pod:
    return running(name, "n1", **{"gpus": 1, "devices": devices, **facts})


def by_scheduler(uuid: str = "", **facts: Any) -> HeldDevice:
    return HeldDevice(Source.SCHEDULER, uuid, **facts)


def settled(there: Node, *pods: Pod, sightings: tuple[Sighting, ...] = ()) -> dict[str, tuple[str, Source]]:
    found = settle_holders(there, pods, sightings).holdings or ()
    return {one.pod_uid: (one.device, one.source) for one in found}


def test_each_pod_is_placed_by_the_best_source_that_tells_of_it() -> None:
    there = node(agent=(Holding("uid-a", "GPU-0"), Holding("uid-b", "GPU-1")))
    a = pod("a", HeldDevice(Source.DRA, "GPU-0", milli=1000))
    assert settled(there, a, pod("b")) == {
        "uid-a": ("GPU-0", Source.DRA),
        "uid-b": ("GPU-1", Source.AGENT),
    }


def test_a_number_keeps_its_source_and_age() -> None:
    there = settle_holders(node(agent=(Holding("uid-a", "GPU-0"),)), [pod("a")])
    taker = ledger_of(there, [pod("a")]).devices[0].takers[0]
    assert (taker.pod, taker.source, taker.observed_at) == ("team/a", Source.AGENT, SEEN)


def test_a_share_is_what_its_annotation_says() -> None:
    found = settle_holders(
        node(),
        [
            pod("a", by_scheduler("GPU-0", milli=300, memory_mib=5000, container="x")),
            pod("b", by_scheduler("GPU-0", memory_mib=2000)),
            pod("c", by_scheduler(index=1)),
        ],
    ).holdings
    assert found is not None
    assert [(one.device, one.milli, one.memory_mib, one.container) for one in found] == [
        ("GPU-0", 300, 5000, "x"),
        ("GPU-0", 0, 2000, ""),
        ("GPU-1", 1000, None, ""),
    ]


def test_without_any_source_holders_are_unknown_and_not_none() -> None:
    assert settle_holders(node(), [pod("a")]).holdings is None
    assert settle_holders(node(agent=()), [pod("a")]).holdings == ()


def test_a_pod_that_is_gone_or_done_holds_nothing() -> None:
    there = node(agent=(Holding("uid-a", "GPU-0"), Holding("uid-gone", "GPU-1")))
    assert settled(there, pod("a")) == {"uid-a": ("GPU-0", Source.AGENT)}


def test_a_device_that_the_node_does_not_have_is_said_and_its_pod_is_not_placed() -> None:
    there = settle_holders(node(), [pod("a", by_scheduler("GPU-9"))])
    assert there.warnings == (
        "the scheduler gives team/a the device GPU-9, but this node has no such device: "
        "where it is, is unknown",
    )
    assert ledger_of(there, [pod("a")]).unlocated[0].pod == "team/a"


def test_the_same_device_for_different_pods_by_two_sources_is_drift() -> None:
    there = node(agent=(Holding("uid-b", "GPU-0"),))
    found = settle_holders(there, [pod("a", by_scheduler("GPU-0", milli=1000)), pod("b")])
    assert found.warnings == (
        "the scheduler says that team/a holds GPU 0, the node agent says team/b: the scheduler is believed",
    )
    assert ledger_of(found, [pod("a"), pod("b")]).devices[0].flags == (Flag.HELD_TWICE,)


def test_one_pod_on_two_devices_by_two_sources_is_drift() -> None:
    there = node(agent=(Holding("uid-a", "GPU-1"),))
    found = settle_holders(there, [pod("a", by_scheduler("GPU-0", milli=1000))])
    assert found.warnings == (
        "the scheduler says that team/a holds GPU 0, the node agent says GPU 1: the scheduler is believed",
    )
    assert [one.device for one in found.holdings or ()] == ["GPU-0"]


def test_sources_that_agree_are_no_drift() -> None:
    there = node(agent=(Holding("uid-a", "GPU-0", 500), Holding("uid-b", "GPU-0", 500)))
    share = by_scheduler("GPU-0", milli=500)
    assert settle_holders(there, [pod("a", share), pod("b", share)]).warnings == ()


def test_an_exporter_that_knows_only_one_of_two_shares_is_no_drift() -> None:
    share = by_scheduler("GPU-0", milli=500)
    seen = (Sighting("team", "a", "GPU-0", observed_at=SEEN),)
    assert settle_holders(node(), [pod("a", share), pod("b", share)], seen).warnings == ()


def test_an_exporter_is_the_last_resort_and_names_only_pods_that_are_here() -> None:
    seen = (Sighting("team", "a", "gpu-1", observed_at=SEEN), Sighting("team", "gone", "GPU-0"))
    assert settled(node(), pod("a"), sightings=seen) == {"uid-a": ("GPU-1", Source.EXPORTER)}


def test_shares_sit_where_the_placeholder_of_their_group_sits() -> None:
    there = node(agent=(Holding("uid-keeper", "GPU-1"),))
    group = {"runai-gpu-group": "g1"}
    keeper = pod("keeper", reservation=True, labels=group)
    share = pod("a", labels=group, gpu_milli=400, gpus=0)
    found = settle_holders(there, [keeper, share])
    assert [(one.pod_uid, one.device, one.milli) for one in found.holdings or ()] == [("uid-a", "GPU-1", 400)]
    ledger = ledger_of(found, [keeper, share])
    assert (ledger.allocated_milli, ledger.free) == (400, 1)


def test_an_instance_is_found_by_its_uuid_or_by_where_it_starts() -> None:
    cut = Gpu(
        0, "GPU-0", 40_000, instances=(MigInstance("1g.5gb", 0, "MIG-a"), MigInstance("1g.5gb", 6, "MIG-b"))
    )
    there = node(cut)
    a = pod("a", HeldDevice(Source.DRA, "MIG-a", profile="1g.5gb"))
    b = pod("b", HeldDevice(Source.DRA, "GPU-0", profile="1g.5gb", start_slice=6))
    assert settled(there, a, b) == {"uid-a": ("MIG-a", Source.DRA), "uid-b": ("MIG-b", Source.DRA)}


def test_an_instance_that_nobody_lists_is_its_part_of_the_card() -> None:
    found = settle_holders(node(), [pod("a", HeldDevice(Source.DRA, "GPU-0", profile="3g.20gb"))]).holdings
    assert found is not None
    assert (found[0].device, found[0].milli, found[0].memory_mib) == ("GPU-0", 428, 20_000)


def test_one_source_may_tell_of_the_gpus_and_another_of_the_npus() -> None:
    npus = DeviceGroup("huawei", "huawei.com/Ascend910", gpus=(Gpu(0, "NPU-0"),))
    there = node(others=(npus,), agent=(Holding("uid-a", "GPU-1"),))
    a = pod("a", by_scheduler("NPU-0", resource="huawei.com/Ascend910"))
    found = settle_holders(there, [a]).holdings or ()
    assert sorted(one.device for one in found) == ["GPU-1", "NPU-0"]


def holders_annotation(*uids: str) -> dict[str, str]:
    devices = {f"GPU-{at}": [{"uid": uid, "milli": 1000}] for at, uid in enumerate(uids)}
    gpus = [{"index": at, "uuid": f"GPU-{at}"} for at in range(2)]
    links = [["X", "NV12"], ["NV12", "X"]]
    seen = {"version": 1, "observed_at": "2026-02-01T00:00:00Z"}
    return {
        "topology.gpu.internal/matrix": json.dumps({**seen, "gpus": gpus, "links": links}),
        "topology.gpu.internal/holders": json.dumps({**seen, "devices": devices}),
    }


def test_only_nodes_whose_holders_changed_are_settled_anew() -> None:
    translator = Translator()
    moment = 1_769_904_100.0
    nodes = [
        objects.node(name, gpus=2, annotations=holders_annotation(f"uid-{name}-pod")) for name in ("n1", "n2")
    ]
    pods = [objects.pod(f"{name}-pod", on=name) for name in ("n1", "n2")]
    before = translator.build("lab", {NODES: nodes, PODS: pods}, taken_at=moment)
    after = translator.build("lab", {NODES: nodes, PODS: pods[:1]}, taken_at=moment)
    assert after.nodes["n1"] is before.nodes["n1"]
    assert [one.pod_uid for one in before.nodes["n2"].holdings or ()] == ["uid-n2-pod"]
    assert after.nodes["n2"].holdings == ()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_gives_its_device_back(phase: str) -> None:
    done = objects.pod("a", on="n1", status={"phase": phase})
    there = objects.node("n1", gpus=2, annotations=holders_annotation("uid-a"))
    found = Translator().build("lab", {NODES: [there], PODS: [done]}, taken_at=1_769_904_100.0)
    assert found.nodes["n1"].holdings == ()
