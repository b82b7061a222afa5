"""Pods that start together: asking each node once for all that are alike gives the same places."""

import random

import pytest

from apps.planner.fitting import Fitting
from apps.planner.rooms import free_room
from apps.planner.together import place_together
from tests.drawing import cluster, waiting


def one_by_one(rooms, fitting, pods):
    """The rule itself, without anything remembered."""
    chosen = {}
    for pod in sorted(pods, key=lambda one: (-rooms.demand(one).gpu_milli, one.uid)):
        choices = [name for name in rooms.by_node if fitting.can_run(pod, name)]
        if not choices:
            return None
        chosen[pod.uid] = min(choices, key=lambda name: (rooms.by_node[name].idle_milli, name))
        rooms.place(pod, chosen[pod.uid])
    return [chosen[pod.uid] for pod in pods]


@pytest.mark.parametrize("seed", range(30))
def test_each_stands_where_it_would_if_every_node_were_asked_anew(seed):
    chance = random.Random(seed)
    rows = ["".join(chance.choice("a......!") for _ in range(8)) for _ in range(6)]
    groups = [
        waiting(f"ml/g{at}", gpus=chance.choice([1, 2, 3, 4]), count=chance.randint(1, 4)) for at in range(3)
    ]
    drawn = "\n".join(f"n{at} {row}" for at, row in enumerate(rows))
    pods = [pod for group in groups for pod in group]
    snapshot = cluster(drawn, *groups)
    rooms, other = free_room(snapshot), free_room(snapshot)
    idle = {name: room.idle_milli for name, room in rooms.by_node.items()}
    found = place_together(rooms, Fitting(rooms), pods)
    assert found == one_by_one(other, Fitting(other), pods)
    left = {name: room.idle_milli for name, room in (other if found else rooms).by_node.items()}
    assert {name: room.idle_milli for name, room in rooms.by_node.items()} == left
    assert found or left == idle


def test_a_large_gang_asks_each_node_little_more_than_once():
    gang = waiting("ml/train", gpus=8, count=40)
    snapshot = cluster("\n".join(f"n{at:02} ........" for at in range(50)), gang)
    rooms = free_room(snapshot)
    fitting, asked = Fitting(rooms), []
    look = fitting.can_run
    fitting.can_run = lambda pod, name: asked.append(name) or look(pod, name)
    assert len(set(place_together(rooms, fitting, gang))) == 40
    assert len(asked) == 50 + 40
