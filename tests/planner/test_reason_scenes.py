"""Each reason why something waits, or can never run here, against a cluster drawn as text."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from apps.planner.fitting import Reason
from apps.planner.inventory import Gpu, LinkClass, NodeTerm, PodTerm, Requirement, SpreadConstraint, Taint
from apps.planner.waiting import explain_pending
from apps.planner.waiting_words import CODES
from tests.drawing import GIB, GPU, NVLINK, cluster, links, running, select, waiting

H100 = "NVIDIA-H100-80GB-HBM3"
PRODUCT = "nvidia.com/gpu.product"
ZONE = "topology.kubernetes.io/zone"
HOST = {"cpu": 128_000, "memory": 1024 * GIB, "pods": 110}


@dataclass
class Scene:
    """asks: the waiting pods. nodes, extra: as `cluster` takes them. says: the whole sentence."""

    code: str
    says: str
    drawing: str
    asks: tuple[Any, ...]
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    extra: list[Any] = field(default_factory=list)
    never: bool = False


def one(gpus=1, count=1, **facts):
    return waiting("ml/train", gpus=gpus, count=count, **facts)


def wants(**requests):
    """One pod with requests of its own kind."""
    (pod,) = waiting("ml/train", gpus=0)
    return (replace(pod, requests={"cpu": 1000, **{name: amount for name, amount in requests.items()}}),)


def with_memory(picture, memory):
    return {"gpus": tuple(Gpu(at, f"GPU-m{at}", memory_mib=memory) for at in range(len(picture)))}


def in_zone(value):
    return ((NodeTerm(labels=(Requirement(ZONE, "In", (value,)),)),),)


NOT_TOLERATED = (Taint("team", "blue"),)
SHUNS = (PodTerm("kubernetes.io/hostname", select(app="web")),)
WAITS = {
    "scattered": Scene(
        "gpus-scattered", "5 A100s are free, the best node has 3.", "a1 a...\na2 bb..", one(gpus=4)
    ),
    "scattered for a gang": Scene(
        "gpus-scattered",
        "6 A100s are free, but only 1 node has room for a member; the gang needs room for 2 at once.",
        "a1 ....\na2 aa..",
        one(gpus=4, count=2),
    ),
    "too few": Scene("not-enough-gpus", "It wants 4 A100s, 1 is free.", "a1 aaa.\na2 aaaa", one(gpus=4)),
    "memory of the GPUs": Scene(
        "gpu-memory",
        "No node of 1 takes it; most often: too little memory left on its GPUs.",
        "a1 8",
        (replace(one()[0], gpu_milli=100, gpu_memory_mib=30_000),),
        nodes={"a1": with_memory(".", 40_000)},
        extra=[running("other", "a1", gpus=1, gpu_milli=100, gpu_memory_mib=20_000)],
    ),
    "memory that nobody tells": Scene(
        "gpu-memory-unknown",
        "Whether a1 may take it is not known: memory of its GPUs is not known.",
        "a1 .",
        (replace(one()[0], gpu_milli=100, gpu_memory_mib=30_000, requests={"cpu": 1000}),),
    ),
    "instances": Scene(
        "mig",
        "It wants 2 x 1g.10gb (1 of 1 free).",
        "a1 .",
        wants(**{"nvidia.com/mig-1g.10gb": 2}),
        nodes={"a1": {"allocatable": {**HOST, "nvidia.com/mig-1g.10gb": 1}}},
    ),
    "cpu": Scene(
        "cpu",
        "No node of 1 takes it; most often: too little CPU.",
        "a1 ....",
        one(cpu=100_000),
        extra=[running("host", "a1", cpu=60_000)],
    ),
    "memory": Scene(
        "memory",
        "No node of 1 takes it; most often: too little memory.",
        "a1 ....",
        one(memory=900 * GIB),
        extra=[running("host", "a1", memory=200 * GIB)],
    ),
    "pods": Scene(
        "pods",
        "No node of 1 takes it; most often: too many pods on the node.",
        "a1 ....",
        one(),
        nodes={"a1": {"allocatable": {**HOST, "pods": 1, GPU: 4}}},
        extra=[running("host", "a1")],
    ),
    "port": Scene(
        "port",
        "No node of 1 takes it; most often: host port is taken.",
        "a1 ....",
        one(host_ports=(80,)),
        extra=[running("host", "a1", host_ports=(80,))],
    ),
    "link taken": Scene(
        "link",
        "No node has a group of 4 free GPUs tied by nvlink.",
        "a1 .b..b...",
        one(gpus=4, link=NVLINK),
        nodes={"a1": {"topology": links("aaaabbbb")}},
    ),
    "link unknown": Scene(
        "link-unknown",
        "It wants 2 GPUs tied by nvlink, and the links are not known.",
        "a1 ....",
        one(gpus=2, link=NVLINK),
        nodes={"a1": {"topology": None}},
    ),
    "cordoned": Scene(
        "cordoned",
        "No node is open now; most often: node is cordoned.",
        "a1 ....",
        one(),
        nodes={"a1": {"unschedulable": True}},
    ),
    "not ready": Scene(
        "not-ready",
        "No node is open now; most often: node is not Ready.",
        "a1 ....",
        one(),
        nodes={"a1": {"ready": False, "taints": (Taint("node.kubernetes.io/not-ready"),)}},
    ),
    "shunned": Scene(
        "pod-affinity",
        "No node of 1 takes it; most often: pod anti-affinity.",
        "a1 ....",
        one(labels={"app": "web"}),
        extra=[running("shy", "a1", namespace="ml", pod_anti_affinity=SHUNS)],
    ),
    "spread": Scene(
        "spread",
        "No node of 1 takes it; most often: topology spread.",
        "a1 ....\na2 ....",
        one(
            labels={"app": "web"},
            spread=(SpreadConstraint("kubernetes.io/hostname", 1, select(app="web")),),
        ),
        nodes={"a2": {"unschedulable": True}},
        extra=[running("twin", "a1", namespace="ml", labels={"app": "web"})],
    ),
    "other scheduler": Scene(
        "other-scheduler",
        "No node of 1 takes it; most often: pod belongs to another scheduler.",
        "a1 ....",
        one(scheduler="volcano"),
    ),
    "claims": Scene(
        "resource-claims",
        "It wants 2 of gpu.example.com, devices by resource claims: only the scheduler can match them.",
        "a1 ....",
        one(gpus=0, claim_wishes=("2 of gpu.example.com",)),
    ),
    "gated": Scene(
        "gated", "It waits behind the scheduling gate x.io/quota.", "a1 ....", one(gates=("x.io/quota",))
    ),
    "fits": Scene("fits", "It fits on a1 now; the scheduler has not placed it yet.", "a1 ....", one()),
}
NEVER = {
    "larger than a node": Scene(
        "too-large", "No node has 16 GPUs; the largest has 8.", "a1 ........\na2 aaaa", one(gpus=16)
    ),
    "larger than a node that it may use": Scene(
        "too-large",
        "No node that it may use has 8 GPUs; the largest has 4.",
        "a1 ........\na2 ....",
        one(gpus=8),
        nodes={"a1": {"taints": NOT_TOLERATED}},
    ),
    "no such model": Scene(
        "no-such-model",
        "No node has the GPU model H100-80GB-HBM3 that it asks for; the cluster has A100-SXM4-80GB.",
        "a1 ....",
        one(node_selector={PRODUCT: H100}),
    ),
    "no such model by affinity": Scene(
        "no-such-model",
        "No node has the GPU model H100-80GB-HBM3 or B200 that it asks for; the cluster has A100-SXM4-80GB.",
        "a1 ....",
        one(node_terms=(NodeTerm(labels=(Requirement(PRODUCT, "In", (H100, "NVIDIA-B200")),)),)),
    ),
    "no such resource": Scene(
        "no-such-gpu",
        "No node offers amd.com/gpu; they have nvidia.com/gpu.",
        "a1 ....",
        wants(**{"amd.com/gpu": 1}),
    ),
    "no such link": Scene(
        "link",
        "No node has 8 GPUs tied by nvlink, not even when it is empty; the largest group has 4.",
        "a1 aaaaaaaa",
        one(gpus=8, link=LinkClass.NVLINK),
        nodes={"a1": {"topology": links("aaaabbbb")}},
    ),
    "more memory than any GPU": Scene(
        "gpu-memory",
        "No GPU has 90,000 MiB of memory; the largest has 81,920 MiB.",
        "a1 .",
        (replace(one()[0], gpu_milli=500, gpu_memory_mib=90_000),),
        nodes={"a1": with_memory(".", 81_920)},
    ),
    "no such profile": Scene(
        "no-such-profile",
        "No GPU can be cut into 1g.5gb: not A100-SXM4-80GB.",
        "a1 ....",
        wants(**{"nvidia.com/mig-1g.5gb": 1}),
    ),
    "more instances than a node can have": Scene(
        "no-such-profile",
        "No node can hold 3 x 7g.80gb; the most is 2.",
        "a1 ..",
        wants(**{"nvidia.com/mig-7g.80gb": 3}),
    ),
    "selector": Scene(
        "node-selector",
        "No node has the label pool=gone that its selector asks for.",
        "a1 ....",
        one(node_selector={"pool": "gone"}),
    ),
    "labels of two nodes": Scene(
        "node-selector",
        "No node has all the labels that its selector asks for: pool=x, tier=y.",
        "a1 ....\na2 ....",
        one(node_selector={"pool": "x", "tier": "y"}),
        nodes={"a1": {"labels": {"pool": "x"}}, "a2": {"labels": {"tier": "y"}}},
    ),
    "affinity": Scene(
        "node-selector",
        "No node meets its required node affinity.",
        "a1 ....",
        one(node_terms=(NodeTerm(labels=(Requirement("pool", "Exists"),)),)),
    ),
    "volume of another zone": Scene(
        "volume",
        f"No node is where its volume is bound to: {ZONE} in b.",
        "a1 ....",
        one(volumes_pin_node=True, volume_terms=in_zone("b")),
        nodes={"a1": {"labels": {ZONE: "a"}}},
    ),
    "taint on all": Scene(
        "taint",
        "Every node has a taint that it does not tolerate: team=blue:NoSchedule.",
        "a1 ....\na2 ....",
        one(),
        nodes={"a1": {"taints": NOT_TOLERATED}, "a2": {"taints": NOT_TOLERATED}},
    ),
    "gang larger than the cluster": Scene(
        "gang-too-large",
        "The gang needs 3 pods of 4 GPUs at once; with every node empty there would be room for 2.",
        "a1 ....\na2 aaaa",
        one(gpus=4, count=3),
    ),
    "more cpu than any host": Scene(
        "cpu",
        "No node has 200 cores of CPU, not even when it is empty; the most is 128 cores.",
        "a1 ....",
        one(cpu=200_000),
    ),
    "more memory than any host": Scene(
        "memory",
        "No node has 2048 GiB of memory, not even when it is empty; the most is 1024 GiB.",
        "a1 ....",
        one(memory=2048 * GIB),
    ),
}
SCENES = {**WAITS, **{name: replace(scene, never=True) for name, scene in NEVER.items()}}


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_told_in_these_words(name):
    scene = SCENES[name]
    seen = cluster(scene.drawing, scene.asks, nodes=scene.nodes, extra=scene.extra)
    (found,) = explain_pending(seen)
    assert (found.reason_code, found.sentence, found.never) == (scene.code, scene.says, scene.never)


def test_every_reason_has_a_scene():
    drawn = {scene.code for scene in SCENES.values()}
    # Drift keeps running pods from moving; storage and odd resources read as CPU does.
    assert set(CODES.values()) - drawn <= {"storage", "other-resource", "not-registered"}
    assert set(CODES) == set(Reason)


def test_what_a_repair_or_an_end_would_help_waits():
    broken = {"a1": {"capacity": {**HOST, GPU: 4}, "allocatable": {**HOST, GPU: 3}}}
    (found,) = explain_pending(cluster("a1 ...!", one(gpus=4), nodes=broken))
    assert (found.reason_code, found.never) == ("too-large", False)
    closed = {"a1": {"unschedulable": True}}
    (found,) = explain_pending(cluster("a1 ........\na2 ....", one(gpus=8), nodes=closed))
    assert (found.sentence, found.never) == ("No node that it may use has 8 GPUs; the largest has 4.", False)
    away = {"a1": {"taints": (Taint("node.kubernetes.io/unreachable"),), "ready": False}}
    (found,) = explain_pending(cluster("a1 ........", one(gpus=8), nodes=away))
    assert not found.never
