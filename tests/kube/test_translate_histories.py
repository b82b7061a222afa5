"""What a watch remembers is never wrong: after any history the picture is the one of a fresh reading."""

import itertools
import json
import random

import pytest

from apps.kube.gateway import (
    CLAIM_TEMPLATES,
    JOBS,
    KAI_POD_GROUPS,
    KOORDINATOR_DEVICES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    REPLICASETS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    VOLCANO_POD_GROUPS,
    WatchEvent,
)
from apps.kube.object_store import ObjectStore
from apps.kube.translate import Translator
from apps.kube.translate.holders import Sighting
from tests.kube.objects import namespace, node, owned, pod

START = 1_767_225_600.0  # 2026-01-01
UUIDS = ("GPU-a", "GPU-b", "GPU-c", "MIG-x", "gpu-A", "")
NAMES = ("n1", "n2", "n3")
KINDS = (
    NODES,
    PODS,
    NAMESPACES,
    REPLICASETS,
    JOBS,
    POD_GROUPS,
    VOLCANO_POD_GROUPS,
    KAI_POD_GROUPS,
    KOORDINATOR_DEVICES,
    RESOURCE_SLICES,
    RESOURCE_CLAIMS,
    CLAIM_TEMPLATES,
)


def when(random):
    return random.choice(
        ["2026-01-01T00:00:00Z", "2026-01-01T00:04:00Z", "2099-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "x"]
    )


def some(random, choices, most=3):
    return [random.choice(choices) for _ in range(random.randint(0, most))]


def make_node(random, name):
    gpus = [
        {"index": at, "uuid": uuid, "healthy": random.random() < 0.9} for at, uuid in enumerate(UUIDS[:3])
    ]
    links = [["X" if a == b else random.choice(["NV4", "SYS"]) for b in range(3)] for a in range(3)]
    holders = {
        device: [
            {"namespace": "team-a", "pod": name, "uid": f"uid-{name}", "milli": random.choice([500, 1000])}
        ]
        for device in some(random, UUIDS)
        for name in some(random, ("p1", "p2", "p3", "p4"), 1)
    }
    register = [
        {
            "id": uuid,
            "index": at,
            "count": 10,
            "devmem": 40960,
            "devcore": 100,
            "type": "NVIDIA",
            "health": True,
        }
        for at, uuid in enumerate(UUIDS[:2])
    ]
    told = {
        "topology.gpu.internal/matrix": json.dumps(
            {"version": 1, "observed_at": when(random), "gpus": gpus, "links": links}
        ),
        "topology.gpu.internal/holders": json.dumps(
            {"version": 1, "observed_at": when(random), "devices": holders}
        ),
        "hami.io/node-nvidia-register": json.dumps(register),
        "hami.io/node-handshake": random.choice(
            ["Reported_2026.01.01 00:00:00", "Deleted_2026.01.01 00:00:00"]
        ),
    }
    labels = {
        "nvidia.com/gpu.count": "3",
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
        "nvidia.com/mig.strategy": "mixed",
    }
    capacity = {"nvidia.com/mig-1g.10gb": "2", "amd.com/gpu": "2", "huawei.com/Ascend910": "8"}
    return node(
        name,
        gpus=random.choice([0, 1, 3, 12]),
        annotations={key: told[key] for key in told if random.random() < 0.4},
        labels={key: labels[key] for key in labels if random.random() < 0.3},
        capacity={key: capacity[key] for key in capacity if random.random() < 0.2},
        ready={"status": random.choice(["True", "True", "True", "False", "Unknown"])},
    )


def make_pod(random, name):
    told = {
        "hami.io/vgpu-devices-allocated": f"{random.choice(UUIDS)},NVIDIA,1000,10:;",
        "scheduling.koordinator.sh/device-allocated": json.dumps(
            {"gpu": [{"minor": random.randint(0, 3), "resources": {"koordinator.sh/gpu-core": "50"}}]}
        ),
        "gpu-fraction": random.choice(["0.5", "0.25", "nan"]),
        "pod-group-name": "g1",
        "scheduling.k8s.io/group-name": "g1",
        "ALIYUN_COM_GPU_MEM_IDX": "1",
    }
    labels = {"runai-gpu-group": "s1", "scheduling.x-k8s.io/pod-group": "g1"}
    spec = {
        "resourceClaims": [
            {"name": "one", random.choice(("resourceClaimName", "resourceClaimTemplateName")): "c1"}
        ]
    }
    return pod(
        name,
        gpus=random.choice([0, 1, 1, 2]),
        on=random.choice(("", *NAMES)),
        namespace=random.choice(["team-a", "team-a", "kai-resource-reservation"]),
        annotations={key: told[key] for key in told if random.random() < 0.25},
        labels={key: labels[key] for key in labels if random.random() < 0.3},
        owner=random.choice([("ReplicaSet", "r1"), ("Job", "j1"), None]),
        spec=spec if random.random() < 0.4 else {},
        status={"phase": random.choice(["Running", "Running", "Pending", "Succeeded"])},
    )


def make_slice(random, name):
    driver = random.choice(["gpu.nvidia.com", "gpu.nvidia.com", "gpu.amd.com"])
    devices = [
        {
            "name": device,
            "attributes": {
                "uuid": {"string": random.choice(UUIDS)},
                "parentUUID": {"string": "GPU-a"},
                "pcieRoot": {"string": f"pci0000:{at}"},
            },
            "capacity": {"memory": {"value": "40Gi"}},
        }
        for at, device in enumerate(some(random, ("gpu-0", "gpu-1", "gpu-0-mig-1g.10gb-19-0")))
    ]
    for device in devices:
        if "mig" not in device["name"]:
            del device["attributes"]["parentUUID"]
    pool = {"name": random.choice(("q1", "q2")), "generation": random.randint(1, 3), "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": random.choice(NAMES), "pool": pool, "devices": devices}
    return owned("ResourceSlice", name, namespace="", spec=spec)


def make_claim(random, name):
    given = [
        {
            "driver": random.choice(["gpu.nvidia.com", "gpu.amd.com"]),
            "pool": random.choice(("q1", "q2")),
            "device": random.choice(("gpu-0", "gpu-1", "gpu-0-mig-1g.10gb-19-0")),
            "request": "one",
        }
        for _ in range(random.randint(0, 2))
    ]
    users = [
        {"resource": "pods", "name": one, "uid": f"uid-{one}"} for one in some(random, ("p1", "p2", "p9"))
    ]
    wanted = {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}
    allocation = {"allocation": {"devices": {"results": given}}} if given else {}
    return owned("ResourceClaim", name, spec=wanted, status={**allocation, "reservedFor": users})


def make_device(random, name):
    devices = [
        {
            "id": uuid,
            "minor": at,
            "health": random.random() < 0.8,
            "type": "gpu",
            "topology": {"nodeID": at, "pcieID": "0"},
        }
        for at, uuid in enumerate(UUIDS[: random.randint(0, 4)])
    ]
    return owned("Device", name, namespace="", spec={"devices": devices})


def make_other(random, name, kind):
    if kind == NAMESPACES:
        made = namespace(random.choice(("team-a", "team-b")))
        made["metadata"]["annotations"] = {"defrag.gpu.internal/protect": random.choice(("true", "false"))}
        return made
    annotations = {"defrag.gpu.internal/gang": "true"} if random.random() < 0.5 else {}
    spec = {"replicas": 2, "parallelism": random.randint(1, 3), "minMember": random.randint(1, 3)}
    if kind == CLAIM_TEMPLATES:
        spec = {"spec": make_claim(random, name)["spec"]}
    return owned(
        {JOBS: "Job", REPLICASETS: "ReplicaSet"}.get(kind, "Any"), name, annotations=annotations, spec=spec
    )


MAKERS = {
    NODES: (make_node, NAMES),
    PODS: (make_pod, ("p1", "p2", "p3", "p4")),
    RESOURCE_SLICES: (make_slice, ("s1", "s2", "s3")),
    RESOURCE_CLAIMS: (make_claim, ("c1", "c2")),
    KOORDINATOR_DEVICES: (make_device, NAMES),
}
OTHER_NAMES = {REPLICASETS: ("r1",), JOBS: ("j1",), CLAIM_TEMPLATES: ("c1",), NAMESPACES: ("",)}


def change(random, kind, revision):
    """One event of a watch: something made, changed, made anew under its name, or gone."""
    make, names = MAKERS.get(kind, (None, OTHER_NAMES.get(kind, ("g1",))))
    name = random.choice(names)
    raw = make(random, name) if make else make_other(random, name, kind)
    raw["metadata"]["resourceVersion"] = str(revision)
    if random.random() < 0.15:
        raw["metadata"]["uid"] = f"{raw['metadata']['uid']}-{revision}"
    return WatchEvent(random.choice(["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]), raw)


@pytest.mark.parametrize("seed", range(5))
def test_after_any_history_the_picture_is_the_fresh_one(seed):
    choose = random.Random(seed)
    stores = {kind: ObjectStore(kind) for kind in KINDS}
    translator, now, revisions = Translator(), START, itertools.count(1)
    for _ in range(60):
        for kind in choose.choices(
            KINDS, weights=(4, 6, 1, 1, 1, 1, 1, 1, 2, 4, 4, 1), k=choose.randint(0, 3)
        ):
            stores[kind].apply(change(choose, kind, next(revisions)))
        now += choose.choice([1, 60, 3600])
        seen = [Sighting("team-a", one, choose.choice(UUIDS)) for one in some(choose, ("p1", "p2"))]
        sightings = {choose.choice(NAMES): seen} if seen else {}
        kept = {kind: store.objects() for kind, store in stores.items()}
        raws = {kind: [one.open() for one in objects] for kind, objects in kept.items()}
        found = translator.build("lab", kept, taken_at=now, sightings=sightings)
        assert found == Translator().build("lab", raws, taken_at=now, sightings=sightings)
