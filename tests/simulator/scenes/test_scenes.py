"""What the scenes promise: their numbers, the fewest moves that unlock them, and that they stand still."""

import asyncio
import itertools
import json
from collections import Counter

import pytest

from apps.simulator.client import POD_GROUPS, PODS
from apps.simulator.controllers.quantities import effective_requests, parse_quantities
from apps.simulator.scenes import SCENES
from tests.simulator.cluster import running

GPU = "nvidia.com/gpu"


class Reading:
    """A scene's objects as a planner would see them."""

    def __init__(self, objects):
        self.nodes = {o["metadata"]["name"]: o for o in objects if o["kind"] == "Node"}
        self.pods = [o for o in objects if o["kind"] == "Pod"]
        self.objects = objects

    def of_model(self, product):
        return {
            name: node
            for name, node in self.nodes.items()
            if node["metadata"]["labels"].get(f"{GPU}.product") == product
        }

    def gpu_pods(self, node):
        return [p for p in self.pods if p["spec"].get("nodeName") == node and gpus_of(p)]

    def free(self, node):
        allocatable = int(self.nodes[node]["status"]["allocatable"][GPU])
        return allocatable - sum(gpus_of(p) for p in self.gpu_pods(node))

    def pending(self):
        return [p for p in self.pods if not p["spec"].get("nodeName")]


def gpus_of(pod):
    requests = effective_requests(pod["spec"])
    return requests[GPU] + requests["huawei.com/Ascend910"]


def is_movable(pod):
    notes = pod["metadata"].get("annotations", {})
    labels = pod["metadata"].get("labels", {})
    return (
        "defrag.gpu.internal/protect" not in notes
        and notes.get("cluster-autoscaler.kubernetes.io/safe-to-evict") != "false"
        and "scheduling.x-k8s.io/pod-group" not in labels
    )


def fits_all(sizes, rooms):
    """Can pods of these sizes go into these rooms, whole? (sizes in falling order)"""
    if not sizes:
        return True
    for room in {each for each in rooms if each >= sizes[0]}:
        rest = list(rooms)
        rest.remove(room)
        if fits_all(sizes[1:], [*rest, room - sizes[0]]):
            return True
    return False


def fewest_moves(reading, nodes, wanted, limit, *, movable):
    """The least number of moved pods that leaves `wanted` nodes of 8 GPUs empty, or None above the
    limit. Brute force: every set of nodes, and every set of further pods moved out of the way."""
    pods = {n: [p for p in reading.gpu_pods(n) if movable(p)] for n in nodes}
    stuck = {n for n in nodes if len(pods[n]) < len(reading.gpu_pods(n))}
    whole = [n for n in nodes if n not in stuck and nodes[n]["status"]["allocatable"][GPU] == "8"]
    free = {n: reading.free(n) for n in nodes}
    for count in range(limit + 1):
        for chosen in itertools.combinations(whole, wanted):
            own = [gpus_of(p) for n in chosen for p in pods[n]]
            others = [(n, gpus_of(p)) for n in nodes if n not in chosen for p in pods[n]]
            if len(own) > count:
                continue
            for more in itertools.combinations(others, count - len(own)):
                rooms = Counter({n: free[n] for n in nodes if n not in chosen})
                for node, size in more:
                    rooms[node] += size
                sizes = sorted([*own, *(size for _, size in more)], reverse=True)
                if fits_all(sizes, list(rooms.values())):
                    return count, chosen
    return None


@pytest.fixture(scope="module")
def fragmented():
    return Reading(SCENES["fragmented"]())


def schedulable(reading, nodes):
    return {n: o for n, o in nodes.items() if not o["spec"].get("taints")}


def test_fragmented_has_40_mixed_nodes_and_288_accelerators(fragmented):
    models = Counter(
        o["metadata"]["labels"].get(f"{GPU}.product", "Ascend") for o in fragmented.nodes.values()
    )
    assert models == {"NVIDIA-A100-SXM4-80GB": 16, "NVIDIA-H800": 12, "NVIDIA-L40S": 8, "Ascend": 4}
    capacity = Counter()
    for node in fragmented.nodes.values():
        capacity += parse_quantities(node["status"]["capacity"])
    assert (capacity[GPU], capacity["huawei.com/Ascend910"]) == (256, 32)
    allocatable = sum(int(o["status"]["allocatable"].get(GPU, 0)) for o in fragmented.nodes.values())
    assert allocatable == 255


def test_fragmented_has_25_free_a100s_the_best_node_5_and_none_whole(fragmented):
    nodes = schedulable(fragmented, fragmented.of_model("NVIDIA-A100-SXM4-80GB"))
    free = [fragmented.free(name) for name in nodes]
    assert (len(nodes), sum(free), max(free)) == (15, 25, 5)
    assert all(fragmented.gpu_pods(name) for name in nodes)


def test_fragmented_waits_for_three_whole_a100_nodes(fragmented):
    pods = fragmented.pending()
    assert [gpus_of(p) for p in pods] == [8, 8, 8]
    assert {p["metadata"]["namespace"] for p in pods} == {"ml"}
    for pod in pods:
        assert pod["metadata"]["annotations"]["defrag.gpu.internal/link"] == "nvlink"
        assert pod["spec"]["nodeSelector"] == {f"{GPU}.product": "NVIDIA-A100-SXM4-80GB"}
    groups = [
        o for o in fragmented.objects if o["kind"] == "PodGroup" and o["metadata"]["name"] == "llama-70b"
    ]
    assert groups[0]["spec"]["minMember"] == 3


def test_fragmented_is_unlocked_by_7_moves_of_three_kinds_of_owner_and_by_no_fewer(fragmented):
    nodes = schedulable(fragmented, fragmented.of_model("NVIDIA-A100-SXM4-80GB"))
    count, chosen = fewest_moves(fragmented, nodes, 3, 7, movable=is_movable)
    assert (count, chosen) == (7, ("a100-07", "a100-08", "a100-10"))
    moved = [p for name in chosen for p in fragmented.gpu_pods(name)]
    kinds = {p["metadata"]["ownerReferences"][0]["kind"] for p in moved}
    assert kinds == {"ReplicaSet", "StatefulSet", "Job"}
    assert fewest_moves(fragmented, nodes, 3, 6, movable=lambda pod: True) is None


def test_small_is_unlocked_by_3_moves_and_by_no_fewer():
    reading = Reading(SCENES["small"]())
    count, chosen = fewest_moves(reading, reading.nodes, 2, 4, movable=is_movable)
    assert (count, chosen) == (3, ("gpu-2", "gpu-3"))
    moved = [p for name in chosen for p in reading.gpu_pods(name)]
    kinds = {p["metadata"]["ownerReferences"][0]["kind"] for p in moved}
    assert kinds == {"ReplicaSet", "StatefulSet", "Job"}
    assert [gpus_of(p) for p in reading.pending()] == [8, 8]


def test_under_fire_has_25_free_at_most_5_on_a_node_one_rank_and_is_unlocked_by_7_moves_and_by_no_fewer():
    reading = Reading(SCENES["under-fire"]())
    free = [reading.free(name) for name in reading.nodes]
    assert (len(free), sum(free), max(free)) == (16, 25, 5)
    count, _ = fewest_moves(reading, reading.nodes, 3, 8, movable=is_movable)
    assert count == 7
    assert {pod["spec"]["priority"] for pod in reading.pods} == {1000}


def test_whole_and_empty_have_nothing_to_mend():
    whole = Reading(SCENES["whole"]())
    assert {whole.free(name) for name in whole.nodes} == {0, 8}
    assert not whole.pending()
    empty = Reading(SCENES["empty"]())
    assert not empty.nodes
    assert not empty.pods


@pytest.mark.parametrize("name", ["fragmented", "small", "whole"])
def test_hosts_are_never_overfull_and_holders_agree_with_the_pods(name):
    reading = Reading(SCENES[name]())
    for node_name, node in reading.nodes.items():
        used = Counter()
        for pod in (p for p in reading.pods if p["spec"].get("nodeName") == node_name):
            used.update(effective_requests(pod["spec"]))
        allocatable = parse_quantities(node["status"]["allocatable"])
        assert all(amount <= allocatable[what] for what, amount in used.items()), node_name
        held = Counter()
        notes = node["metadata"]["annotations"]
        devices = json.loads(notes["topology.gpu.internal/holders"])["devices"]
        for holders in devices.values():
            held.update(each["uid"] for each in holders)
        assert held == {p["metadata"]["uid"]: gpus_of(p) for p in reading.gpu_pods(node_name)}
        matrix = json.loads(notes["topology.gpu.internal/matrix"])
        assert set(devices) <= {each["uuid"] for each in matrix["gpus"]}


def test_scenes_are_the_same_each_time():
    def facts(objects):
        return sorted((o["kind"], o["metadata"]["name"], o["metadata"].get("uid")) for o in objects)

    for build in SCENES.values():
        assert facts(build()) == facts(build())


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["fragmented", "small"])
async def test_a_scene_stands_still_under_the_controllers(name):
    objects = SCENES[name]()
    uids = {o["metadata"]["uid"] for o in objects if o["kind"] == "Pod"}
    bound = {o["metadata"]["uid"]: o["spec"].get("nodeName") for o in objects if o["kind"] == "Pod"}
    async with running(objects, scale=20) as driver:
        await asyncio.sleep(3)
        pods, _ = await driver.client.list(PODS)
        assert {p["metadata"]["uid"] for p in pods} == uids
        assert {p["metadata"]["uid"]: p["spec"].get("nodeName") for p in pods} == bound
        assert not [p for p in pods if p["metadata"].get("deletionTimestamp")]
        assert (await driver.client.list(POD_GROUPS))[0]
        deletions = [r for r in driver.cluster.server.requests if r.method == "DELETE"]
        assert not deletions
