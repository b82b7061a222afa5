"""The scene `mig`: its labels, layouts and configurations agree, it stands still, the console reads it."""

import asyncio
import json
import time
from collections import Counter, defaultdict

import pytest

from apps.kube import gateway
from apps.kube.translate import build_snapshot
from apps.simulator.client import NODES, PODS
from apps.simulator.controllers.quantities import effective_requests, parse_quantities
from apps.simulator.mig.parted import is_applied, read_config
from apps.simulator.mig.setup import setup_of
from apps.simulator.scenes import SCENES
from tests.simulator.cluster import running

HOLDERS = "topology.gpu.internal/holders"


@pytest.fixture(scope="module")
def objects():
    return SCENES["mig"]()


@pytest.fixture(scope="module")
def snapshot(objects):
    kinds = {each.plural: each for each in vars(gateway).values() if isinstance(each, gateway.Kind)}
    plural = {"Node": "nodes", "Pod": "pods", "Namespace": "namespaces", "ReplicaSet": "replicasets"}
    found = defaultdict(list)
    for each in objects:
        if each["kind"] in plural:
            found[kinds[plural[each["kind"]]]].append(each)
    return build_snapshot("mig", found, time.time(), ())


def nodes_of(objects):
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == "Node"}


def devices_of(requests):
    return Counter({name: amount for name, amount in requests.items() if name.startswith("nvidia.com/")})


def test_each_node_is_cut_as_the_configuration_of_its_label_says(objects):
    text = next(each for each in objects if each["kind"] == "ConfigMap")["data"]["config.yaml"]
    cut = 0
    for node in nodes_of(objects).values():
        name = node["metadata"]["labels"].get("nvidia.com/mig.config")
        if name is not None:
            cut += 1
            assert is_applied(setup_of(node), read_config(text, name)), node["metadata"]["name"]
    assert cut == 11


def test_no_node_is_overfull_and_holders_are_told_by_all_but_three(objects):
    silent = set()
    for name, node in nodes_of(objects).items():
        pods = [p for p in objects if p["kind"] == "Pod" and p["spec"].get("nodeName") == name]
        used = sum((devices_of(effective_requests(p["spec"])) for p in pods), Counter())
        assert used <= devices_of(parse_quantities(node["status"]["allocatable"])), name
        notes = node["metadata"]["annotations"]
        if HOLDERS not in notes:
            silent.add(name)
            continue
        held = Counter(h["uid"] for each in json.loads(notes[HOLDERS])["devices"].values() for h in each)
        wants = {p["metadata"]["uid"]: devices_of(effective_requests(p["spec"])).total() for p in pods}
        assert held == Counter({uid: number for uid, number in wants.items() if number})
    assert silent == {"mig-06", "mig-07", "shared-01"}


def test_seven_small_and_two_large_instances_are_missing_while_others_idle(objects):
    pods = [each for each in objects if each["kind"] == "Pod"]
    waiting = sum(
        (devices_of(effective_requests(p["spec"])) for p in pods if not p["spec"].get("nodeName")), Counter()
    )
    assert waiting == {"nvidia.com/mig-1g.10gb": 7, "nvidia.com/mig-3g.40gb": 2}
    idle = Counter()
    for name, node in nodes_of(objects).items():
        if node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-80GB":
            idle += devices_of(parse_quantities(node["status"]["allocatable"]))
            for pod in pods:
                if pod["spec"].get("nodeName") == name:
                    idle.subtract(devices_of(effective_requests(pod["spec"])))
    assert +idle == {"nvidia.com/gpu": 15, "nvidia.com/mig-2g.20gb": 37, "nvidia.com/mig-4g.40gb": 5}


def test_the_console_reads_models_instances_and_what_nobody_tells(snapshot):
    nodes = snapshot.nodes
    assert {
        name: [len(gpu.instances) for gpu in nodes[name].gpus] for name in ("mig-01", "mig-05", "mig-idle")
    } == {
        "mig-01": [7, 7, 7, 7, 0, 0, 0, 0],
        "mig-05": [0, 0, 0, 0, 7, 7, 2, 2],
        "mig-idle": [0] * 8,
    }
    assert {name: node.mig_strategy for name, node in nodes.items() if node.mig_strategy != "mixed"} == {
        "mig-single": "single",
        "mig-invalid": "single",
    }
    assert {node.model for node in nodes.values()} == {"NVIDIA-A100-SXM4-80GB", "NVIDIA-H800", "NVIDIA-L40S"}
    assert {len(node.gpus) for node in nodes.values()} == {8}
    assert {name for name, node in nodes.items() if node.holdings is None} == {
        "mig-06",
        "mig-07",
        "shared-01",
    }
    assert (nodes["shared-01"].sharing, nodes["shared-01"].shares_per_gpu) == ("time-slicing", 4)
    warned = {name: node.warnings for name, node in nodes.items() if node.warnings}
    assert list(warned) == ["mig-invalid"]
    assert len(warned["mig-invalid"]) == 1


@pytest.mark.asyncio
async def test_it_stands_still_under_the_controllers(objects):
    uids = {each["metadata"]["uid"] for each in objects if each["kind"] == "Pod"}
    before = {name: node["status"]["allocatable"] for name, node in nodes_of(objects).items()}
    labels = {name: node["metadata"]["labels"] for name, node in nodes_of(objects).items()}
    async with running(objects, scale=20) as driver:
        await asyncio.sleep(3)
        pods, _ = await driver.client.list(PODS)
        assert {pod["metadata"]["uid"] for pod in pods} == uids
        nodes, _ = await driver.client.list(NODES)
        assert {node["metadata"]["name"]: node["status"]["allocatable"] for node in nodes} == before
        assert {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes} == labels
