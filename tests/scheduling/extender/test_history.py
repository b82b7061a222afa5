"""What the picture remembers is never wrong: after any history each room is the one of a fresh reading."""

import itertools
import json
import random

import pytest

from apps.kube.gateway import NODES, PODS
from apps.kube.translate import Translator
from apps.kube.translate.single import read_one_node, read_one_pod
from apps.planner.rooms import Rooms
from apps.scheduling.extender.picture import Picture
from tests.kube.objects import node, pod

HAMI = "hami.io/vgpu-devices-allocated"
HOLDERS = "topology.gpu.internal/holders"
NOW = 1_767_400_000.0
NAMES = ("n1", "n2", "n3")


def holders(draw, on):
    devices = {
        f"GPU-{on}-{at}": [{"namespace": "team-a", "pod": f"p{at}", "uid": f"uid-p{at}"}]
        for at in range(8)
        if draw.random() < 0.3
    }
    return {HOLDERS: json.dumps({"version": 1, "observed_at": "2026-01-02T23:00:00Z", "devices": devices})}


def register(name):
    return ":".join(f"GPU-{name}-{at},10,81920,100,NVIDIA-A100,{at // 4},true" for at in range(8)) + ":"


def make_node(draw, name):
    annotations = holders(draw, name) if draw.random() < 0.5 else {}
    if draw.random() < 0.5:
        annotations["hami.io/node-nvidia-register"] = register(name)
    gpus = draw.choice((8, 8, 8, 6))
    return node(
        name,
        annotations=annotations,
        spec={"unschedulable": draw.random() < 0.2},
        allocatable={"nvidia.com/gpu": str(gpus)},
    )


def make_pod(draw, name):
    on = draw.choice(("", *NAMES, *NAMES))
    annotations = {}
    if draw.random() < 0.4 and on:
        annotations[HAMI] = f"GPU-{on}-{draw.randrange(8)},NVIDIA,20480,30:;"
    elif draw.random() < 0.2:
        annotations["gpu-fraction"] = "0.5"
    phase = draw.choice(("Running", "Running", "Pending", "Succeeded")) if on else "Pending"
    status = {"phase": phase}
    if not on and draw.random() < 0.2:
        status["nominatedNodeName"] = draw.choice(NAMES)
        annotations["defrag.gpu.internal/migration"] = "m1"
    return pod(name, gpus=draw.randrange(1, 4), on=on, annotations=annotations, status=status)


def state_of(room):
    return (
        None
        if room is None
        else (
            room.left,
            room.gpu_left,
            room.memory_left,
            room.usable,
            room.located,
            sorted(room.pods),
            room.node.drift,
        )
    )


@pytest.mark.parametrize("seed", range(8))
def test_after_any_history_each_room_is_that_of_a_fresh_reading(seed):
    draw = random.Random(seed)
    nodes = {name: make_node(draw, name) for name in NAMES[:2]}
    pods = {f"p{at}": make_pod(draw, f"p{at}") for at in range(6)}
    translator, picture = Translator(), Picture()
    first = translator.build("c", {NODES: nodes.values(), PODS: pods.values()}, taken_at=NOW)
    picture.take(first, translator.scenery.nodes)
    for turn in itertools.count():
        fresh = Translator().build("c", {NODES: nodes.values(), PODS: pods.values()}, taken_at=NOW)
        rooms = Rooms(fresh)
        for name in NAMES:
            assert state_of(picture.room(name)) == state_of(rooms.by_node.get(name)), (turn, name)
        if turn == 25:
            return
        name = draw.choice((*NAMES, *(f"p{at}" for at in range(8)), *(f"p{at}" for at in range(8))))
        things, make = (nodes, make_node) if name in NAMES else (pods, make_pod)
        is_gone = name in things and draw.random() < 0.3
        if is_gone:
            old = things.pop(name)
            if things is nodes:
                picture.forget_node(name)
            else:
                picture.forget_pod(old["metadata"]["uid"])
            continue
        things[name] = make(draw, name)
        if things is nodes:
            picture.tell_node(read_one_node(things[name], translator.scenery, taken_at=NOW))
        else:
            picture.tell_pod(read_one_pod(things[name], translator.scenery))
