"""A scheduler's message taken apart, and what is said where it differs from the snapshot."""

from collections import Counter

import pytest

from apps.planner.inventory import Gang
from apps.planner.scheduler_words import compare, read_saying, saying_of
from tests.drawing import waiting

LONG = (
    "0/6 nodes are available: 1 node(s) had untolerated taint {a.b/c: d, e}, 2 Insufficient cpu, "
    "3 Insufficient nvidia.com/gpu, 1 Insufficient nvidia.com/mig-1g.10gb, 1 Too many pods. "
    "no new claims to deallocate, preemption: 0/6 nodes are available: 6 No preemption victims found."
)


def test_a_message_is_taken_apart_into_counts_and_what_it_says_of_preemption():
    said = read_saying("default-scheduler", LONG)
    assert said.nodes == 6
    assert said.by_kind == Counter(taint=1, cpu=2, gpu=3, mig=1, pods=1)
    assert said.preemption == "0/6 nodes are available: 6 No preemption victims found."
    assert (1, "node(s) had untolerated taint {a.b/c: d, e}") in said.counts


@pytest.mark.parametrize(
    ("scheduler", "message", "first", "nodes", "fits", "told"),
    [
        ("volcano", LONG, {}, 6, 0, "volcano has rules of its own"),
        ("default-scheduler", "", {}, 6, 0, "kube-scheduler has said nothing about it yet."),
        ("default-scheduler", "pod has unbound claims", {}, 6, 0, "kube-scheduler stopped before it looked"),
        ("default-scheduler", LONG, {}, 7, 0, "kube-scheduler counted 6 nodes, the snapshot has 7"),
        ("default-scheduler", LONG, {}, 6, 1, "1 node takes it by now"),
        (
            "default-scheduler",
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
            {"gpu": 1, "cordoned": 1},
            2,
            0,
            "kube-scheduler counted 0 nodes that are cordoned, the snapshot 1",
        ),
        (
            "default-scheduler",
            "0/2 nodes are available: 2 no GPU topology metadata.",
            {"gpu": 2},
            2,
            0,
            "2 nodes are refused by an extender or a plugin",
        ),
    ],
)
def test_where_both_differ_the_reason_is_said(scheduler, message, first, nodes, fits, told):
    assert compare(read_saying(scheduler, message), first, nodes, fits).startswith(told)


def test_where_both_agree_nothing_is_said():
    said = read_saying("default-scheduler", "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")
    assert compare(said, {"gpu": 2}, 2, 0) == ""


def test_what_kai_writes_into_the_gangs_own_object_is_told_too():
    over = ("NonPreemptibleOverQuota", "queue ml has 8 GPUs of its quota of 8")
    gang = Gang("ml/train", 2, refusals=(over, ("Unschedulable", "no room on 3 nodes")))
    pods = waiting("ml/train", gpus=8, count=2, scheduler="kai-scheduler")
    assert saying_of(pods, gang).message == (
        "NonPreemptibleOverQuota: queue ml has 8 GPUs of its quota of 8; Unschedulable: no room on 3 nodes"
    )
    said = waiting("ml/one", gpus=8, unschedulable_message="no room on 3 nodes", scheduler="kai-scheduler")
    assert saying_of(said, gang).message.startswith("no room on 3 nodes; NonPreemptibleOverQuota: queue")
    assert saying_of(said, gang).message.count("no room") == 1
