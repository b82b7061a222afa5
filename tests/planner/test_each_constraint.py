"""Each constraint decides a plan: without it one answer, with it another or none; and the checker agrees."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from apps.planner.costs import CostPolicy
from apps.planner.defrag import plan_free_nodes, plan_unlock
from apps.planner.inventory import (
    Gang,
    LabelSelector,
    LinkClass,
    NodeTerm,
    PodTerm,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
)
from apps.planner.verification import check_plan
from tests.drawing import GIB, PROTECTED, budget, cluster, links, running, select, waiting

HOST, ZONE = "kubernetes.io/hostname", "zone"
DRAWING = "a1 a...\na2 AAA.\na3 BB.."
"""a is alone on a1: it goes to a2, the tightest, else to a3, else it stays."""
ROOM = {"cpu": 128_000, "memory": 1024 * GIB, "ephemeral-storage": GIB, "pods": 110, "nvidia.com/gpu": 4}
LABELS = {name: {HOST: name, ZONE: zone} for name, zone in (("a1", "x"), ("a2", "y"), ("a3", "x"))}
BASE = {name: {"allocatable": {**ROOM, "rdma/hca": 1}, "labels": LABELS[name]} for name in LABELS}
WEB = running("web", "a2", labels={"app": "db"})
FAR = running("far", "a3", labels={"app": "db"})
IN_X = NodeTerm(labels=(Requirement(ZONE, "In", ("x",)),))


@dataclass(frozen=True)
class Scene:
    """What differs: facts of pod a, of node a2, further pods, budgets, gangs. target: where a goes then, ""
    for nowhere. always: facts of a that hold in the scene without the constraint, too."""

    target: str = "a3"
    a: dict[str, Any] = field(default_factory=dict)
    a2: dict[str, Any] = field(default_factory=dict)
    extra: tuple = ()
    budgets: tuple = ()
    gangs: dict[str, Gang] = field(default_factory=dict)
    always: dict[str, Any] = field(default_factory=dict)


def short_of(**amounts):
    return {"allocatable": {**BASE["a2"]["allocatable"], **amounts}}


def asking(**amounts):
    return {"requests": {"cpu": 4000, "memory": 16 * GIB, "nvidia.com/gpu": 1, **amounts}}


SCENES = {
    "node selector": Scene(a={"node_selector": {ZONE: "x"}}),
    "node affinity by label": Scene(a={"node_terms": (IN_X,)}),
    "node affinity by name": Scene(
        a={"node_terms": (NodeTerm(fields=(Requirement("metadata.name", "NotIn", ("a2",)),)),)}
    ),
    "pod affinity": Scene(a={"pod_affinity": (PodTerm(HOST, select(app="db")),)}, extra=(FAR,)),
    "pod affinity that nobody satisfies": Scene(
        "", a={"pod_affinity": (PodTerm(HOST, select(app="gone")),)}, extra=(FAR,)
    ),
    "anti-affinity of its own": Scene(
        a={"pod_anti_affinity": (PodTerm(HOST, select(app="db")),)}, extra=(WEB,)
    ),
    "anti-affinity of another": Scene(
        extra=(replace(WEB, pod_anti_affinity=(PodTerm(HOST, LabelSelector()),)),)
    ),
    "anti-affinity over a zone": Scene(
        a={"pod_anti_affinity": (PodTerm(ZONE, select(app="db")),)}, extra=(WEB,)
    ),
    "taint": Scene(a2={"taints": (Taint("dedicated", "x"),)}),
    "taint that it tolerates": Scene(
        "a2",
        a={"tolerations": (Toleration("dedicated", "Exists"),)},
        a2={"taints": (Taint("dedicated", "x"),)},
    ),
    "topology spread": Scene(
        a={"labels": {"app": "db"}, "spread": (SpreadConstraint(HOST, 1, select(app="db")),)}, extra=(WEB,)
    ),
    "CPU": Scene(a2=short_of(cpu=12_000)),
    "memory": Scene(a2=short_of(memory=50 * GIB)),
    "ephemeral storage": Scene(
        a2=short_of(**{"ephemeral-storage": 5}), always=asking(**{"ephemeral-storage": 9})
    ),
    "pods per node": Scene(a2=short_of(pods=1)),
    "RDMA": Scene(a2=short_of(**{"rdma/hca": 0}), always=asking(**{"rdma/hca": 1})),
    "another extended resource": Scene(a={**asking(**{"example.com/fpga": 1})}, target=""),
    "host port": Scene(a={"host_ports": (80,)}, extra=(replace(WEB, host_ports=(80,)),)),
    "volume of a zone": Scene(a={"node_terms": (IN_X,)}),
    "volume of a node": Scene("", a={"volumes_pin_node": True}),
    "cordon": Scene(a2={"unschedulable": True}),
    "node not Ready": Scene(a2={"ready": False}),
    "stale facts": Scene(a2={"stale_since": 1.0}),
    "drift": Scene(a2={"drift": ("a GPU is gone",)}),
    "budget that is spent": Scene(
        "", always={"labels": {"app": "x"}}, budgets=(budget("b", allowed=0, app="x"),)
    ),
    "two budgets": Scene(
        "",
        always={"labels": {"app": "x"}},
        budgets=(budget("b", allowed=1, app="x"), replace(budget("c", allowed=1, app="x"), uid="uid-2")),
    ),
    "gang at its minimum": Scene("", a={"gang": "team/g"}, gangs={"team/g": Gang("team/g", 2)}),
    "protection": Scene("", a={"protections": (PROTECTED,)}),
    "no controller": Scene("", a={"workload": ""}),
    "DaemonSet": Scene("", a={"owner_kind": "DaemonSet"}),
    "notebook": Scene("", a={"owner_kind": "Notebook"}),
    "another scheduler": Scene("", a={"scheduler": "volcano"}),
    "devices by claims": Scene("", a={"claims": ("team/c",)}),
    "under way already": Scene("", a={"steering": "other", "ready": False}),
}


def scene_of(scene, *, constrained):
    facts = scene.always | (scene.a if constrained else {})
    nodes = {**BASE, "a2": BASE["a2"] | (scene.a2 if constrained else {})}
    snapshot = cluster(
        DRAWING,
        nodes=nodes,
        pods={"a1-a": facts},
        extra=scene.extra if constrained else (),
        budgets=scene.budgets if constrained else (),
    )
    return replace(snapshot, gangs=scene.gangs if constrained else {})


def free(snapshot):
    plan = plan_free_nodes(snapshot, max_moves=9, deadline=lambda: False)
    assert check_plan(snapshot, plan) == []
    return plan


@pytest.mark.parametrize("kind", SCENES)
def test_a_constraint_decides_where_a_pod_goes(kind):
    scene = SCENES[kind]
    usual = free(scene_of(scene, constrained=False))
    bound = scene_of(scene, constrained=True)
    changed = free(bound)

    assert [move.target for move in usual.moves] == ["a2"]
    assert [move.target for move in changed.moves] == ([scene.target] if scene.target else [])
    assert changed.freed_nodes == (("a1",) if scene.target else ())
    assert bool(check_plan(bound, usual)) is (scene.target != "a2")


def test_more_important_pods_are_served_first():
    gangs = waiting("ml/low", gpus=4, priority=1), waiting("ml/high", gpus=4, priority=9)
    equal = waiting("ml/low", gpus=4), waiting("ml/high", gpus=4, created_at=5.0)

    def served(*groups):
        snapshot = cluster("a1 a...\na2 AAA.", *groups)
        return plan_unlock(snapshot, workload=None, max_moves=9, deadline=lambda: False).unlocked

    assert served(*equal) == ("ml/low",)
    assert served(*gangs) == ("ml/high",)


def test_a_pod_in_its_cool_down_is_moved_last():
    snapshot = cluster("a1 a...\na2 a...\na3 AAA.\na4 BBBB")

    def freed(*recently):
        policy = CostPolicy(recently_moved=frozenset(recently))
        plan = plan_free_nodes(snapshot, max_moves=1, deadline=lambda: False, policy=policy)
        return {move.pod for move in plan.moves}

    assert freed("uid-a1-a") == {"team/a2-a"}
    assert freed("uid-a2-a") == {"team/a1-a"}


def test_what_is_in_production_is_moved_last():
    def freed(name):
        snapshot = cluster("a1 a...\na2 a...\na3 AAA.\na4 BBBB", pods={name: {"environment": "prod"}})
        plan = plan_free_nodes(snapshot, max_moves=1, deadline=lambda: False)
        return {move.pod for move in plan.moves}

    assert freed("a1-a") == {"team/a2-a"}
    assert freed("a2-a") == {"team/a1-a"}


def test_a_wanted_link_decides_what_is_unlocked():
    def unlocked(link):
        snapshot = cluster(
            "a1 A.B.\na2 CCCC",
            waiting("ml/pair", gpus=2, link=link),
            nodes={"a1": {"topology": links("aabb")}},
        )
        return plan_unlock(snapshot, workload="ml/pair", max_moves=9, deadline=lambda: False).unlocked

    assert unlocked(None) == ("ml/pair",)
    assert unlocked(LinkClass.NVLINK) == ()
