"""Sound plans of random clusters, broken in every way that comes to mind: the checker names each."""

import random
from dataclasses import replace

import pytest

from apps.planner.inventory import LinkClass, PodTerm, SpreadConstraint, Taint
from apps.planner.plan import Goal, HandOver, Plan, Preemption
from apps.planner.searching import PlanRequest, search_plan
from apps.planner.verification import check_plan
from benchmarks.random_scenes import HOST, Kind, draw_scene, select
from tests.drawing import budget, cluster, links, running, waiting

CALM = Kind(nodes=10, load=0.45, rules=0.0, shares=0.1, protected=0.0, cpu_pods=0.2, models=1, waiting=0)
GPU = "nvidia.com/gpu"


def sound_plans(number, kind=CALM):
    """(cluster, plan with at least three moves)."""
    found, seed = [], 0
    while len(found) < number:
        snapshot = draw_scene(random.Random(seed), kind)
        plan = search_plan(snapshot, PlanRequest(Goal.FREE_NODES, 12), deadline=lambda: False)
        seed += 1
        if len(plan.moves) >= 3:
            assert check_plan(snapshot, plan) == []
            found.append((snapshot, plan))
    return found


SOUND = sound_plans(4)


def with_moves(plan, moves):
    moves = [replace(one, order=at) for at, one in enumerate(moves, start=1)]
    return replace(plan, moves=tuple(moves), cost=sum(one.cost for one in moves))


def first_changed(plan, **facts):
    return with_moves(plan, [replace(plan.moves[0], **facts), *plan.moves[1:]])


def with_pod(snapshot, uid, **facts):
    return snapshot.with_pods([replace(snapshot.pods[uid], **facts)])


def with_node(snapshot, name, **facts):
    return replace(snapshot, nodes={**snapshot.nodes, name: replace(snapshot.nodes[name], **facts)})


def of_first(change):
    """A mutation of what the first moved pod, or its source or target, is like."""
    return lambda snapshot, plan: (change(snapshot, plan.moves[0]), plan)


def taken(snapshot, move, resource):
    """No more of the resource on the target than what runs there asks for."""
    node = snapshot.nodes[move.target]
    used = sum(pod.requests.get(resource, 0) for pod in snapshot.pods_on(node.name))
    facts = {"allocatable": {**node.allocatable, resource: used}}
    if resource == "pods":
        facts = {"allocatable": {**node.allocatable, "pods": len(snapshot.pods_on(node.name))}}
    wants = {**snapshot.pods[move.pod_uid].requests, resource: 1}
    changed = with_node(snapshot, node.name, **facts)
    return changed if resource == "pods" else with_pod(changed, move.pod_uid, requests=wants)


def budgeted(snapshot, plan):
    """All moved pods under one budget that allows one; all in one wave."""
    pods = [replace(snapshot.pods[move.pod_uid], namespace="team", ready=True) for move in plan.moves]
    pods = [replace(pod, labels={"app": "db"}) for pod in pods]
    covered = replace(snapshot.with_pods(pods), budgets={"uid-db": budget("db", allowed=1, app="db")})
    moves = [replace(move, wave=1, pod=pod.key) for move, pod in zip(plan.moves, pods, strict=True)]
    return covered, with_moves(plan, moves)


def spread_out(snapshot, move):
    """Its own target is the fullest domain that its spread knows."""
    pod = replace(snapshot.pods[move.pod_uid], labels={"even": "yes"}, spread=())
    rule = SpreadConstraint(HOST, 1, select(even="yes"))
    guests = [
        replace(one, namespace=pod.namespace, labels={**one.labels, "even": "yes"})
        for one in snapshot.pods_on(move.target)
    ]
    return snapshot.with_pods([replace(pod, spread=(rule,)), *guests])


def shy(snapshot, move, *, mine):
    """The pod avoids who is there, or who is there avoids it."""
    pod, guest = snapshot.pods[move.pod_uid], snapshot.pods_on(move.target)[0]
    owner, other = (pod, guest) if mine else (guest, pod)
    term = PodTerm(HOST, select(loud="yes"), all_namespaces=True)
    return snapshot.with_pods(
        [replace(owner, pod_anti_affinity=(term,)), replace(other, labels={**other.labels, "loud": "yes"})]
    )


def port_taken(snapshot, move):
    guest = snapshot.pods_on(move.target)[0]
    return with_pod(with_pod(snapshot, guest.uid, host_ports=(80,)), move.pod_uid, host_ports=(80,))


def owner_changed(**facts):
    def change(snapshot, move):
        owner = replace(snapshot.workloads[move.workload_uid], **facts)
        return replace(snapshot, workloads={**snapshot.workloads, owner.uid: owner})

    return of_first(change)


MUTATIONS = {
    "a move dropped": (lambda s, p: (s, with_moves(p, p.moves[1:])), "is not free after the moves"),
    "a pod twice": (lambda s, p: (s, with_moves(p, [p.moves[0], *p.moves])), "is moved 2 times"),
    "an order with a gap": (
        lambda s, p: (s, replace(p, moves=(*p.moves[:-1], replace(p.moves[-1], order=99)))),
        "has gaps",
    ),
    "waves out of order": (
        lambda s, p: (s, first_changed(p, wave=max(one.wave for one in p.moves) + 1)),
        "waves do not follow",
    ),
    "no such pod": (lambda s, p: (s, first_changed(p, pod_uid="gone")), "is not the pod that runs on"),
    "onto its own node": (lambda s, p: (s, first_changed(p, target=p.moves[0].source)), "no other node"),
    "onto an emptied node": (
        lambda s, p: (
            s,
            with_moves(p, [replace(one, target=freed_beside(p, one), target_uid="") for one in p.moves]),
        ),
        "is not free after the moves",
    ),
    "a node of another life": (
        lambda s, p: (s, first_changed(p, target_uid="old")),
        "another node of that name",
    ),
    "a wave beyond its budget": (budgeted, "of budget db"),
    "cost too low": (lambda s, p: (s, replace(p, cost=p.cost - 1)), "is not the sum"),
    "a freed node that is not": (
        lambda s, p: (s, replace(p, freed_nodes=(*p.freed_nodes, p.moves[0].target))),
        "is not free after the moves",
    ),
    "a freed node named twice": (
        lambda s, p: (s, replace(p, freed_nodes=p.freed_nodes * 2)),
        "is counted as freed 2 times",
    ),
    "a move that frees nothing": (
        lambda s, p: (s, replace(p, freed_nodes=tuple(n for n in p.freed_nodes if n != p.moves[0].source))),
        "which is not freed by it",
    ),
    "a bound that is beaten": (lambda s, p: (s, replace(p, lower_bound=0.0, gap=-1.0)), "beyond the bound"),
    "a gap that is hidden": (lambda s, p: (s, replace(p, lower_bound=p.lower_bound + 1)), "the gap is"),
    "optimal without a proof": (
        lambda s, p: (s, replace(p, lower_bound=p.lower_bound + 1, proven_optimal=True)),
        "called optimal",
    ),
    "GPUs miscounted": (lambda s, p: (s, first_changed(p, gpus=77)), "GPUs, not 77"),
    "cordoned": (of_first(lambda s, m: with_node(s, m.target, unschedulable=True)), "is cordoned"),
    "not Ready": (of_first(lambda s, m: with_node(s, m.target, ready=False)), "not Ready"),
    "stale": (of_first(lambda s, m: with_node(s, m.target, stale_since=1.0)), "stale"),
    "drifted": (of_first(lambda s, m: with_node(s, m.target, drift=("a GPU is gone",))), "has drifted"),
    "a taint": (of_first(lambda s, m: with_node(s, m.target, taints=(Taint("new"),))), "does not tolerate"),
    "a selector": (
        of_first(lambda s, m: with_pod(s, m.pod_uid, node_selector={"x": "y"})),
        "selects other nodes",
    ),
    "another scheduler": (of_first(lambda s, m: with_pod(s, m.pod_uid, scheduler="kai")), "scheduler kai"),
    "a claim": (of_first(lambda s, m: with_pod(s, m.pod_uid, claims=("a/b",))), "resource claims"),
    "protected": (of_first(lambda s, m: with_pod(s, m.pod_uid, protections=("Mine.",))), "Mine."),
    "a DaemonSet": (of_first(lambda s, m: with_pod(s, m.pod_uid, owner_kind="DaemonSet")), "not be created"),
    "interactive": (of_first(lambda s, m: with_pod(s, m.pod_uid, owner_kind="Notebook")), "is interactive"),
    "a pinned volume": (
        of_first(lambda s, m: with_pod(s, m.pod_uid, volumes_pin_node=True)),
        "pinned by a volume",
    ),
    "terminating": (of_first(lambda s, m: with_pod(s, m.pod_uid, terminating=True)), "terminating"),
    "a rollout": (owner_changed(updating=True), "is updating"),
    "a Job at its limit": (owner_changed(backoff_limit=1, failed_pods=1), "one more lost pod fails"),
    "CPU": (of_first(lambda s, m: taken(s, m, "cpu")), "needs cpu"),
    "memory": (of_first(lambda s, m: taken(s, m, "memory")), "needs memory"),
    "ephemeral storage": (of_first(lambda s, m: taken(s, m, "ephemeral-storage")), "needs ephemeral-storage"),
    "RDMA": (of_first(lambda s, m: taken(s, m, "rdma/hca")), "needs rdma/hca"),
    "pods per node": (of_first(lambda s, m: taken(s, m, "pods")), "no further pod"),
    "GPUs": (of_first(lambda s, m: with_node(s, m.target, gpus=broken(s, m))), "finds no GPUs"),
    "a host port": (of_first(port_taken), "host port"),
    "company it needs": (
        of_first(lambda s, m: with_pod(s, m.pod_uid, pod_affinity=(PodTerm(HOST, select(no="body")),))),
        "no company",
    ),
    "company it avoids": (of_first(lambda s, m: shy(s, m, mine=True)), "meets a pod it avoids"),
    "company that avoids it": (of_first(lambda s, m: shy(s, m, mine=False)), "avoids"),
    "a spread": (of_first(spread_out), "breaks the spread"),
    "budgets unread": (
        lambda s, p: (replace(s, problems=("poddisruptionbudgets: no right",)), p),
        "could not be read",
    ),
}


def broken(snapshot, move):
    return tuple(replace(gpu, healthy=False) for gpu in snapshot.nodes[move.target].gpus)


def freed_beside(plan, move):
    others = [name for name in plan.freed_nodes if name != move.source]
    return others[0] if others else move.target


@pytest.mark.parametrize("kind", MUTATIONS)
def test_a_broken_plan_is_refused_by_what_is_broken(kind):
    mutate, words = MUTATIONS[kind]
    for snapshot, plan in SOUND:
        found = check_plan(*mutate(snapshot, plan))
        assert any(words in one for one in found), found


def says(found, words):
    assert any(words in one for one in found), found


def unlocking(drawing, *, gpus=4, **facts):
    snapshot = cluster(drawing, waiting("ml/train", gpus=gpus, **facts.pop("gang", {})), **facts)
    plan = search_plan(snapshot, PlanRequest(Goal.UNLOCK, 9, "ml/train"), deadline=lambda: False)
    assert plan.unlocked == ("ml/train",)
    assert check_plan(snapshot, plan) == []
    return snapshot, plan


def test_a_wave_merged_with_one_that_its_company_needs_is_refused():
    """b follows a to a3: at once, b could find nobody there."""
    pods = {
        "a1-a": {"labels": {"app": "db"}},
        "a2-b": {"pod_affinity": (PodTerm(HOST, select(app="db")),)},
    }
    snapshot = cluster("a1 a...\na2 b...\na3 AA..\na4 cccc", pods=pods)
    plan = search_plan(snapshot, PlanRequest(Goal.FREE_NODES, 9), deadline=lambda: False)
    assert [move.wave for move in plan.moves] == [1, 2]
    assert check_plan(snapshot, plan) == []

    says(check_plan(snapshot, with_moves(plan, [replace(one, wave=1) for one in plan.moves])), "no company")


def test_a_hand_over_left_out_sent_elsewhere_or_doubled_is_refused():
    snapshot, plan = unlocking("a1 a...\na2 AAA.\na3 BBBB", gang={"count": 1})
    given = plan.hand_overs[0]

    says(check_plan(snapshot, replace(plan, hand_overs=())), "gets no node")
    says(check_plan(snapshot, replace(plan, hand_overs=(given, given))), "is started 2 times")
    says(check_plan(snapshot, replace(plan, hand_overs=(replace(given, node="a3"),))), "finds no GPUs on a3")
    says(check_plan(snapshot, replace(plan, unlocked=())), "is not unlocked")
    says(check_plan(snapshot, replace(plan, unlocked_gpus=3)), "4 GPUs are unlocked, not 3")
    gated = with_pod(snapshot, given.pod_uid, gates=("queue",))
    says(check_plan(gated, plan), "behind the gate queue")


def test_links_that_a_pod_wants_are_checked_on_what_is_left():
    snapshot, plan = unlocking("a1 ab..\na2 AA..", gpus=2, gang={"link": LinkClass.NVLINK})
    split = with_node(snapshot, plan.hand_overs[0].node, topology=links("abab"))
    blind = with_node(snapshot, plan.hand_overs[0].node, topology=None)
    apart = with_node(snapshot, plan.hand_overs[0].node, topology=links("abcd"))

    assert check_plan(split, plan) == [] or plan.moves == ()
    says(check_plan(blind, plan), "tied by nvlink")
    says(check_plan(apart, plan), "tied by nvlink")


def test_a_gang_taken_below_its_minimum_in_one_wave_is_refused():
    pods = {name: {"gang": "team/g"} for name in ("a1-a", "a1-b", "a2-c")}
    snapshot = cluster("a1 ab..\na2 cAA.\na3 BB..", pods=pods)
    snapshot = replace(snapshot, gangs={"team/g": replace(snapshot.gangs["team/g"], min_members=2)})
    plan = search_plan(snapshot, PlanRequest(Goal.FREE_NODES, 9), deadline=lambda: False)
    assert [move.wave for move in plan.moves] == [1, 2]

    merged = with_moves(plan, [replace(one, wave=1) for one in plan.moves])
    says(check_plan(snapshot, merged), "below its minimum")


PREEMPTING = "a1 aaaa\na2 BBBB"


def preempting(given="a1", *, priority=0, policy="PreemptLowerPriority", **facts):
    pods = {"a1-a": {"priority": priority, **facts}}
    gang = waiting("ml/train", gpus=4, priority=10, preemption_policy=policy)
    snapshot = cluster(PREEMPTING, gang, pods=pods)
    plan = Plan(
        Goal.UNLOCK,
        unlocked=("ml/train",),
        unlocked_gpus=4,
        hand_overs=(HandOver(gang[0].uid, "ml/train", given),),
        freed_nodes=("a1",),
        preemptions=(Preemption(1, "uid-a1-a", "team/a1-a", "a1", 4, priority, 5.0, "less important"),),
        cost=5.0,
    )
    return snapshot, plan


def test_preemptions_are_checked():
    snapshot, plan = preempting()
    assert check_plan(snapshot, plan) == []

    says(check_plan(*preempting(priority=10)), "nobody more important")
    says(check_plan(*preempting(policy="Never")), "never to preempt")
    says(check_plan(*preempting(protections=("Mine.",))), "preemption: team/a1-a: Mine.")
    says(check_plan(*preempting("a2")), "where nobody starts")
    says(check_plan(snapshot, replace(plan, goal=Goal.FREE_NODES)), "unlocks nobody")
    says(check_plan(snapshot, replace(plan, preemptions=plan.preemptions * 2)), "gaps")
    says(check_plan(snapshot, replace(plan, preemptions=())), "finds no GPUs on a1")
    none = replace(snapshot, budgets={"uid-db": budget("db", allowed=0)})
    says(check_plan(none, plan), "of budget db")


def test_a_pod_beside_the_drawing_is_not_lost():
    snapshot = cluster("a1 a...\na2 bb..", extra=[running("web", "a1")])
    plan = search_plan(snapshot, PlanRequest(Goal.FREE_NODES, 9), deadline=lambda: False)

    assert check_plan(snapshot, plan) == []


def test_gaps_and_proofs_of_what_is_unlocked_are_asked_too():
    one = cluster("a1 a...\na2 AAA.", waiting("ml/x", gpus=4))
    both = cluster("a1 a...\na2 AAA.", waiting("ml/x", gpus=4), waiting("ml/y", gpus=2))
    for snapshot, workload, further in ((one, "ml/x", {"lower_bound": 0.0}), (both, None, {})):
        plan = search_plan(snapshot, PlanRequest(Goal.UNLOCK, 5, workload), deadline=lambda: False)
        if not further:
            further = {"measures": {**plan.measures, "unlocked_gpu_bound": 9.0}}
        assert plan.moves
        assert check_plan(snapshot, plan) == []
        says(check_plan(snapshot, replace(plan, gap=plan.gap + 0.5)), "the gap is")
        says(check_plan(snapshot, replace(plan, proven_optimal=True, **further)), "called optimal")
