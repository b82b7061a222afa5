"""The answer of all nodes at once is the sum of the answers that each node gives."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from apps.planner.fitting import Fitting
from apps.planner.inventory import LinkClass, PodTerm, Taint
from apps.planner.node_verdicts import NodeTable
from apps.planner.rooms import Rooms
from tests.drawing import select, waiting
from tests.planner.random_clusters import draw_cluster


def pod_of(draw):
    gpus = draw.choice([0, 1, 2, 4, 6])
    (pod,) = waiting(
        "ml/asks", gpus=gpus, cpu=draw.choice([1000, 9000, 20_000]), memory=draw.choice([1, 2**42])
    )
    wishes = {
        "gpu_milli": draw.choice([1000, 1000, 300]) if gpus == 1 else 1000,
        "node_selector": draw.choice([{}, {}, {"zone": "a"}]),
        "host_ports": draw.choice([(), (), (80,)]),
        "link": draw.choice([None, None, LinkClass.NVLINK]),
        "pod_anti_affinity": draw.choice([(), (), (PodTerm("zone", select()),)]),
    }
    return replace(pod, **wishes)


def cluster_of(draw):
    snapshot = draw_cluster(draw, nodes=5)
    changes = [
        {"labels": {"zone": "a"}},
        {"unschedulable": True},
        {"taints": (Taint("x"),)},
        {"ready": False},
        {"gpu_resource": "amd.com/gpu"},
    ]
    nodes = {name: replace(node, **draw.choice([{}, *changes])) for name, node in snapshot.nodes.items()}
    return replace(snapshot, nodes=nodes)


@pytest.mark.parametrize("seed", range(150))
def test_it_is_what_the_nodes_say_one_by_one(seed):
    draw = random.Random(seed)
    pod = pod_of(draw)
    snapshot = cluster_of(draw)
    snapshot = replace(snapshot, pods={**snapshot.pods, pod.uid: pod})
    fitting = Fitting(Rooms(snapshot))
    alone = {name: fitting.reasons(pod, node) for name, node in snapshot.nodes.items()}

    verdict = NodeTable(fitting).judge(pod)

    assert verdict.counts == Counter(str(reason) for reasons in alone.values() for reason in reasons)
    assert verdict.fits == sorted(name for name, reasons in alone.items() if not reasons)
    assert all(fitting.can_run(pod, name) == (name in verdict.fits) for name in alone)
