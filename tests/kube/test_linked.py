"""Where a live node's links are taken from: its own matrix, else HAMi, Koordinator, DRA, else nowhere."""

import json

from apps.kube.gateway import KOORDINATOR_DEVICES, NODES, RESOURCE_SLICES
from apps.kube.translate import build_snapshot
from apps.kube.translate.picture import Translator
from tests.kube.objects import node

TAKEN_AT = 1_780_000_000.0


def device(name="node-a", gpus=4, **changes):
    told = [
        {
            "type": "gpu",
            "minor": at,
            "id": f"GPU-{at}",
            "topology": {"nodeID": at // 2, "pcieID": f"pci{at // 2}", "busID": f"0000:{at}0:00.0"},
        }
        for at in range(gpus)
    ]
    metadata = {"name": name, "uid": "device-uid", "resourceVersion": changes.get("revision", "7")}
    return {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": metadata,
            "spec": {"devices": told}}  # fmt: skip


def resource_slice(roots, name="node-a", driver="gpu.nvidia.com"):
    devices = [
        {
            "name": f"gpu-{at}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{at}"},
                "resource.kubernetes.io/pcieRoot": {"string": root},
            },
        }
        for at, root in enumerate(roots)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-gpu", "uid": f"slice-{name}", "resourceVersion": "3"},
        "spec": {"driver": driver, "nodeName": name, "pool": pool, "devices": devices},
    }


def read(raw, devices=(), slices=()):
    objects = {NODES: [raw], KOORDINATOR_DEVICES: list(devices), RESOURCE_SLICES: list(slices)}
    return build_snapshot("lab", objects, TAKEN_AT).nodes[raw["metadata"]["name"]]


def matrix(gpus):
    document = {
        "version": 1,
        "observed_at": "2026-05-28T00:00:00Z",
        "source": "nvml",
        "gpus": [{"index": at, "uuid": f"GPU-{at}"} for at in range(gpus)],
        "links": [["X" if a == b else "NV12" for b in range(gpus)] for a in range(gpus)],
    }
    return {"topology.gpu.internal/matrix": json.dumps(document)}


def test_nobody_tells_so_the_links_are_unknown():
    assert read(node(gpus=4)).topology is None


def test_koordinators_device_gives_places_and_links_that_follow_from_them():
    found = read(node(gpus=4), [device()])
    assert [(gpu.uuid, gpu.numa, gpu.pcie_switch) for gpu in found.gpus] == [
        ("GPU-0", 0, "pci0"), ("GPU-1", 0, "pci0"), ("GPU-2", 1, "pci1"), ("GPU-3", 1, "pci1"),
    ]  # fmt: skip
    assert found.topology.links[0] == ("X", "PIX", "", "")
    assert (found.topology.source, found.topology.complete) == ("koordinator", False)


def test_the_nodes_own_matrix_stands_and_only_what_it_leaves_open_is_filled():
    found = read(node(gpus=4, annotations=matrix(4)), [device()])
    assert (found.topology.source, found.topology.links[0][3]) == ("nvml", "NV12")
    assert [gpu.numa for gpu in found.gpus] == [0, 0, 1, 1]


def test_a_gpu_that_the_device_does_not_speak_of_has_unknown_links():
    found = read(node(gpus=4), [device(gpus=2)])
    assert found.topology.links == (
        ("X", "PIX", "", ""),
        ("PIX", "X", "", ""),
        ("", "", "X", ""),
        ("", "", "", "X"),
    )
    assert found.gpus[3].numa is None


def test_a_device_of_another_node_says_nothing():
    assert read(node(gpus=4), [device(name="node-b")]).topology is None


def test_dras_slices_tell_which_gpus_share_a_root():
    found = read(node(gpus=3), slices=[resource_slice(["pci0000:15", "pci0000:97", "pci0000:15"])])
    assert found.topology.links == (("X", "", "PHB"), ("", "X", ""), ("PHB", "", "X"))
    assert found.topology.source == "dra"


def test_slices_of_another_vendors_devices_say_nothing_of_the_main_gpus():
    found = read(node(gpus=3), slices=[resource_slice(["r", "r", "r"], driver="gpu.intel.com")])
    assert [(gpu.uuid, gpu.pcie_switch) for gpu in found.gpus] == [("", None)] * 3
    assert found.topology is None
    assert [(gpu.uuid, gpu.pcie_switch) for gpu in found.others[0].gpus][:1] == [("GPU-0", "r")]


def test_cards_in_pools_of_their_own_keep_their_links():
    slices = [resource_slice([root]) for root in ("r", "s", "r")]
    for at, one in enumerate(slices):
        one["metadata"] |= {"name": f"s-{at}", "uid": f"s-{at}"}
        one["spec"]["pool"] |= {"name": f"node-a-{at}"}
        one["spec"]["devices"][0]["attributes"]["uuid"] = {"string": f"GPU-own-{at}"}
    found = read(node(gpus=0), slices=slices)
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-own-0", "GPU-own-1", "GPU-own-2"]
    assert found.topology.links == (("X", "", "PHB"), ("", "X", ""), ("PHB", "", "X"))


def test_koordinator_comes_before_dra():
    found = read(node(gpus=4), [device()], [resource_slice(["r", "r", "r", "r"])])
    assert found.topology.source == "koordinator"


def test_hamis_scores_between_registered_gpus():
    register = ":".join(f"GPU-{at},10,81920,100,NVIDIA-A100,0,true" for at in range(2)) + ":"
    scores = [{"uuid": "GPU-1", "score": {"GPU-0": 1210}}, {"uuid": "GPU-0", "score": {"GPU-1": 1210}}]
    raw = node(
        gpus=2,
        annotations={
            "hami.io/node-nvidia-register": register,
            "hami.io/node-nvidia-score": json.dumps(scores),
            "hami.io/node-handshake": "Reported 2026-05-28 20:00:00",
        },
        capacity={"nvidia.com/gpu": "20"},
    )
    found = read(raw)
    assert found.topology.links == (("X", "NV12"), ("NV12", "X"))
    assert (found.topology.source, found.topology.complete) == ("hami", True)


def test_an_unchanged_node_stays_the_same_object():
    translator = Translator()
    objects = {NODES: [node(gpus=4)], KOORDINATOR_DEVICES: [device()], RESOURCE_SLICES: []}
    first = translator.build("lab", objects, taken_at=TAKEN_AT).nodes["node-a"]
    assert translator.build("lab", objects, taken_at=TAKEN_AT + 5).nodes["node-a"] is first
    objects[KOORDINATOR_DEVICES] = [device(gpus=2, revision="8")]
    again = translator.build("lab", objects, taken_at=TAKEN_AT + 10).nodes["node-a"]
    assert again.gpus[3].numa is None


def test_a_table_of_links_is_made_of_no_more_gpus_than_a_machine_has():
    """Its cells grow by the square of them."""
    for count, has_links in ((256, True), (257, False)):
        raw = node(gpus=count, labels={"nvidia.com/gpu.count": str(count)})
        found = read(raw, slices=[resource_slice(["pci0"] * count)])
        assert len(found.gpus) == count
        assert (found.topology is not None) is has_links
