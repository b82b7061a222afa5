"""How risky a move is said to be, from what is known of the pod and its owner."""

from dataclasses import replace

import pytest

from apps.planner.costs import assess_risk
from tests.drawing import cluster

HOURS = 3600.0
OTHERS = {"kind": "ReplicaSet", "replicas": 3}
ALONE = {"kind": "ReplicaSet", "replicas": 1}


@pytest.mark.parametrize(
    ("facts", "owner", "level", "words"),
    [
        ({"environment": "prod"}, OTHERS, "high", "production"),
        ({}, OTHERS, "low", "One of several replicas"),
        ({}, ALONE, "medium", "only replica"),
        ({"service": "online"}, OTHERS, "medium", "serves requests"),
        ({"service": "offline"}, OTHERS, "high", "about 10 h of running time"),
        ({}, {"kind": "StatefulSet", "replicas": 3}, "high", "about 10 h of running time"),
        ({"started_at": 98 * HOURS}, {"kind": "StatefulSet", "replicas": 3}, "medium", "about 2.0 h"),
        ({"checkpointed_at": 100 * HOURS}, {"kind": "Job", "backoff_limit": 6}, "medium", "failed pod"),
        ({"checkpointed_at": 100 * HOURS}, {"kind": "StatefulSet", "replicas": 1}, "low", "only replica"),
        ({"checkpointed_at": 100 * HOURS}, {"kind": "StatefulSet", "replicas": 2}, "low", "restarts"),
    ],
)
def test_the_gravest_thing_is_said(facts, owner, level, words):
    known = {"started_at": 90 * HOURS, "owner_kind": owner["kind"], **facts}
    snapshot = cluster("n1 a...", pods={"n1-a": known}, taken_at=100 * HOURS)
    (pod,) = snapshot.pods.values()
    workload = replace(snapshot.workloads[pod.workload], **owner)
    said = assess_risk(replace(snapshot, workloads={workload.uid: workload}), pod)
    assert said[0] == level
    assert words in said[1]
