"""Rooms that executions keep: who is refused for them, who gets them, and from when on they count."""

from dataclasses import replace

import pytest

from apps.scheduling.extender.rooms import Room
from tests.drawing import cluster, waiting
from tests.scheduling.extender.test_deciding import Clock, extender

REASON = "kept for work/web by execution 7"


def room(node="a1", room_id=1, gpus=2):
    (pod,) = waiting(f"gpu-defrag/hold-{room_id}", gpus=gpus)
    return Room(room_id, node, "uid-rs", replace(pod, uid=f"room-{room_id}"), Clock.now + 60, REASON)


@pytest.fixture
def found():
    """a1 has two GPUs left, which are kept; a2 is full."""
    pods = waiting("work/stranger", gpus=2, priority=1000)
    made = extender(cluster("a1 aaaaaa..\n a2 bbbbbbbb", pods))
    assert made.rooms.replace([room()]) == {1}
    return made, pods[0]


def test_others_are_refused_with_the_words_of_the_room_whatever_their_rank(found):
    made, stranger = found
    told = made.filter(stranger, ["a1", "a2"])
    assert told.hopeless == {"a1": f"the room is {REASON}"}
    assert told.failed == {"a2": "too few free GPUs"}
    assert dict(made.prioritize(stranger, ["a1"])) == {"a1": 0}
    assert made.rooms.replace([]) == frozenset()
    assert made.filter(stranger, ["a1"]).fitting == ["a1"]


@pytest.mark.parametrize(
    ("facts", "gets"),
    [
        ({"workload": "uid-rs", "steering": "steer-7-1"}, True),
        ({"workload": "uid-rs", "nominated_node": "a1"}, True),
        ({"workload": "uid-rs"}, False),
        ({"workload": "uid-other", "steering": "steer-7-1"}, False),
    ],
)
def test_the_pod_that_it_is_for_gets_it_and_a_stranger_of_the_same_owner_does_not(found, facts, gets):
    made, stranger = found
    asking = replace(stranger, **facts)
    assert made.filter(asking, ["a1", "a2"]).fitting == (["a1"] if gets else [])
    assert (dict(made.prioritize(asking, ["a1", "a2"]))["a1"] > 0) == gets


def test_a_node_that_becomes_known_later_has_its_room_before_anybody_is_told_of_it():
    (stranger,) = waiting("work/stranger", gpus=2)
    made = extender(cluster("a2 bbbbbbbb", [stranger]))
    assert made.rooms.replace([room()]) == frozenset()
    made.picture.take(cluster("a1 aaaaaa..\n a2 bbbbbbbb", [stranger]))
    assert made.filter(stranger, ["a1"]).hopeless == {"a1": f"the room is {REASON}"}
    assert made.rooms.replace([room()]) == {1}


def test_a_pod_that_has_no_room_there_anyway_is_told_what_it_lacks(found):
    made, _ = found
    (large,) = waiting("work/large", gpus=8)
    assert made.filter(large, ["a1"]).failed == {"a1": "too few free GPUs"}
