"""Pods that give way to more important ones: their step, its place among the others, and the whole story."""

import json
from dataclasses import replace

import pytest

from apps.clusters.services import record_snapshot
from apps.executions import services
from apps.executions.blueprint import draft_steps
from apps.executions.decisions import Verdict
from apps.executions.flow import Ledger, steps_to_drop, steps_to_run
from apps.executions.models import Step
from apps.executions.preflight import why_not_here
from apps.executions.services import claimed_subjects
from apps.executions.spare import requests_of
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.executions.steps import cordon_node, preempt_pod
from apps.planner.plan import HandOver, Preemption
from apps.planner.staleness import what_changed
from apps.plans import services as services_of_plans
from apps.plans.computing import compute_draft
from apps.plans.queries import current_version, open_plan
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.owners import Owner, make_template
from tests.executions import things
from tests.executions.crashing import Killer
from tests.executions.stage import Stage
from tests.executions.test_stories import carry, carry_until, has_sent
from tests.plans.situations import approve, person, picture, plan_of_one_move, pod


def scene(**victim):
    """ml/low gives way on node-c to ml/big, while ml/lora moves off node-a."""
    low = pod("low", "node-c", 8, **victim)
    big = pod("big", "", 8, phase="Pending", ready=False, priority=1000)
    plan = plan_of_one_move(
        preemptions=(Preemption(1, low.uid, low.key, "node-c", 8, 0, 60.0, "it ranks lower", low.workload),),
        hand_overs=(HandOver(big.uid, big.key, "node-c"),),
        unlocked=("ml/big",),
    )
    return plan, picture(pods=[pod("lora", "node-a", 1), pod("train", "node-b", 7), low, big])


def test_it_saves_its_work_and_leaves_after_the_moves_and_before_the_hand_over():
    plan, seen = scene()
    drafts = draft_steps(plan, seen, owned="7-ab")
    after = [draft.kind for draft in drafts if not draft.move]
    assert after[-4:] == [
        StepKind.CHECKPOINT,
        StepKind.PREEMPT_POD,
        StepKind.HAND_OVER,
        StepKind.RELEASE,
    ]
    assert [draft.target for draft in drafts if draft.kind == StepKind.CORDON_NODE] == [
        "node node-a",
        "node node-c",
    ]
    assert "east:pod:uid-low" in set(claimed_subjects("east", plan))


def test_it_goes_only_when_all_moves_have_landed_and_the_hand_over_waits_for_it():
    def walk(**states):
        kinds = ("release", "checkpoint", "preempt_pod", "hand_over")
        return [
            things.step(kind, state=states.get(kind, StepState.PENDING), move=1 if kind == "release" else 0)
            for kind in kinds
        ]

    done = StepState.VERIFIED
    assert [step.kind for step in steps_to_run(Ledger(walk()))] == ["release"]
    assert [step.kind for step in steps_to_run(Ledger(walk(release=done)))] == ["checkpoint"]
    gone = {"release": done, "checkpoint": done}
    assert [step.kind for step in steps_to_run(Ledger(walk(**gone)))] == ["preempt_pod"]
    assert [step.kind for step in steps_to_run(Ledger(walk(**gone, preempt_pod=done)))] == ["hand_over"]


def test_an_eviction_that_may_have_gone_out_is_settled_before_its_step_is_dropped():
    sent = things.step("preempt_pod", state=StepState.INTENT, move=0, sent=["evict"])
    unsent = things.step("preempt_pod", move=0)
    book = Ledger([sent, unsent])
    assert steps_to_drop(book, keep_landing=True) == [unsent]
    assert steps_to_drop(book, keep_landing=False) == [sent, unsent]


PARAMS = {"pod": "work/lora-1", "name": "lora-1", "namespace": "work", "uid": "uid-lora-1", "for": "ml/big"}
PARAMS |= {"source": "node-a", "source_uid": "uid-node-a", "workload_uid": "uid-rs", "priority": 0}


def look(found, *, changed=None, sent=(), **facts):
    requests = requests_of(found) if found is not None else {}
    step = things.step("preempt_pod", move=0, sent=sent, **{**PARAMS, "requests": requests, **facts})
    return preempt_pod.decide(step, preempt_pod.Facts(found, changed), late=False)


def test_only_the_approved_pod_on_a_node_that_is_kept_is_evicted():
    running = things.pod(on="node-a")
    assert (look(running, uid=running["metadata"]["uid"]).verdict) == Verdict.ACT
    known = {"uid": running["metadata"]["uid"]}
    opened = cordon_node.Change("Node node-a is uncordoned.", "uncordoned", "Cancel")
    assert look(running, **known, changed=opened).cause == "uncordoned"
    assert look(running, **known, source="node-b").verdict == Verdict.STOP
    assert look(running, **known, workload_uid="uid-other").verdict == Verdict.STOP
    assert look(running, **known, priority=-1).verdict == Verdict.STOP
    assert look(running, uid="uid-of-another").verdict == Verdict.MOOT
    assert look(None).verdict == Verdict.MOOT


def test_it_is_done_when_the_pod_is_gone_and_not_while_it_still_ends():
    ending = things.pod(on="node-a")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    waits = look(ending, uid=ending["metadata"]["uid"], sent=["evict"])
    assert (waits.verdict, waits.is_patient, waits.seen) == (Verdict.WAIT, True, {"evicted": True})
    assert look(None, sent=["evict"]).verdict == Verdict.DONE


def test_a_preflight_refuses_what_could_not_be_kept_or_is_no_less_important(settings):
    settings.STEERING_URL = "https://127.0.0.1:1"
    assert why_not_here(*scene()) == []
    plan, seen = scene(priority=1000)
    assert why_not_here(plan, seen) == [
        "ml/low must not be preempted: it is no less important than what waits."
    ]
    plan, seen = scene(protections=("it may not be disturbed",))
    assert "ml/low must not be preempted: it may not be disturbed" in why_not_here(plan, seen)
    plan, seen = scene()
    taken = replace(plan, moves=(replace(plan.moves[0], target="node-c"),))
    assert "ml/low must not be preempted: node-c cannot be kept for what waits." in why_not_here(taken, seen)


def test_a_pod_that_is_gone_moved_or_rose_makes_the_plan_stale():
    plan, seen = scene()
    assert what_changed(plan, seen, seen) == []
    low = seen.pods["uid-low"]
    for other, words in (
        (replace(low, terminating=True), "ml/low is gone or ending (preemption 1)"),
        (replace(low, node_name="node-a"), "ml/low runs on node-a, not on node-c (preemption 1)"),
        (replace(low, priority=5), "ml/low has a higher priority than planned (preemption 1)"),
    ):
        assert words in what_changed(plan, seen, seen.with_pods([other]))


@pytest.fixture
def stage(webhook, transactional_db, simulated_cluster, settings, tmp_path):
    """work/urgent-0 waits for a whole node, and the scheduler finds nobody to preempt for it.

    On gpu-1 the two pods of batch rank lower, but serve does not: the scheduler never moves it. On the others
    nobody ranks lower. So it takes both: serve moves to the room left on another node, and batch gives way.
    """
    settings.STEERING_URL = webhook.environment["STEERING_URL"]
    settings.STEERING_CA_FILE = webhook.environment["STEERING_CA_FILE"]
    settings.EXECUTION_POLL_SECONDS = 0.05
    dump = tmp_path / "cluster.json"
    dump.write_text(json.dumps({"items": crowded_cluster()}))
    found = Stage(simulated_cluster(dump=dump, time_scale=20))
    services_of_plans.change_policy(
        actor=person("root", "admin"), cluster=found.cluster, wishes={"may_preempt": True}
    )
    return found


def crowded_cluster():
    scene = SceneBuilder(seed=5)
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        scene.add_node(name, "a100-sxm4-80gb", pool="train", rack="r1", zone="east-1a")

    def owner(kind, name, gpus, priority):
        return scene.add_owner(Owner(kind, "work", name, make_template(name, gpus=gpus, priority=priority)))

    batch = owner("Deployment", "batch", 3, "low")
    scene.put(owner("Deployment", "serve", 2, "prod"), "gpu-1", (0, 1))
    scene.put(batch, "gpu-1", (2, 3, 4))
    scene.put(batch, "gpu-1", (5, 6, 7))
    steady = owner("StatefulSet", "steady", 6, "prod")
    for name in ("gpu-2", "gpu-3"):
        scene.put(steady, name, tuple(range(6)))
    message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    scene.put_pending(owner("StatefulSet", "urgent", 8, "prod"), 5, message)
    return scene.build()


def start(stage):
    """As people do it: asked for with preemption allowed, searched, checked, proposed, approved, started."""
    row = record_snapshot(cluster_id=stage.cluster.pk, snapshot=stage.picture())
    type(stage.cluster).objects.filter(pk=stage.cluster.pk).update(watched_at=row.taken_at)
    plan = services_of_plans.request_plan(
        actor=stage.author, cluster=stage.cluster, goal="unlock", workload="work/urgent-0", may_preempt=True
    )
    compute_draft(plan.pk)
    services_of_plans.propose_plan(plan_id=plan.pk, actor=stage.author)
    plan.refresh_from_db()
    approve(plan, stage.approver)
    found = open_plan(current_version(plan))
    return services.start_execution(actor=stage.operator, plan_id=plan.pk), found


@pytest.mark.django_db(transaction=True)
def test_pods_give_way_and_what_waits_gets_the_node_that_was_kept_for_it(stage):
    execution, plan = start(stage)
    assert [(move.pod.split("-")[0], move.source) for move in plan.moves] == [("work/serve", "gpu-1")]
    assert [one.pod.split("-")[0] for one in plan.preemptions] == ["work/batch"] * 2
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    leave = [move.pod_uid for move in plan.moves] + sorted(one.pod_uid for one in plan.preemptions)
    evicted = stage.evicted()
    assert [evicted[0], *sorted(evicted[1:])] == leave
    for call in stage.requests("POST", "/eviction"):  # through budgets, with the pod's own grace period
        assert "gracePeriodSeconds" not in call["body"]
    assert not [call for call in stage.requests("DELETE", "/pods/") if "/gpu-defrag/" not in call["path"]]
    (given,) = plan.hand_overs
    seen = stage.picture()
    assert seen.pods[given.pod_uid].node_name == given.node == "gpu-1"
    assert {pod.node_name for pod in seen.pods.values() if pod.name.startswith("batch-")} == {""}
    assert stage.traces() == []
    gone = Step.objects.filter(execution=execution, kind=StepKind.PREEMPT_POD)
    assert {step.state for step in gone} == {StepState.VERIFIED}
    handed = Step.objects.get(execution=execution, kind=StepKind.HAND_OVER)
    assert max(step.finished_at for step in gone) < handed.intent_at


@pytest.mark.django_db(transaction=True)
def test_cancelled_amid_preemptions_it_tells_who_was_evicted_and_leaves_nothing_behind(stage):
    execution, _ = start(stage)
    carry_until(execution, lambda: has_sent(execution, StepKind.PREEMPT_POD, "evict"))
    services.cancel(execution_id=execution.pk, actor=stage.operator, reason="changed our minds")
    carry(execution)
    assert execution.state == ExecutionState.CANCELLED, stage.told(execution)
    assert len(execution.outcome["not_undone"]) == len(stage.evicted())
    assert stage.traces() == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(600)
def test_a_worker_killed_at_every_boundary_evicts_each_pod_that_gives_way_once(stage, webhook):
    execution, plan = start(stage)
    killer = Killer(execution.pk, webhook.environment)

    def spare_the_other_steps(boundary):
        if not boundary.startswith("preempt_pod/"):
            killer.met |= {(boundary, "before"), (boundary, "after")}

    killer.on_boundary = spare_the_other_steps
    killer.run_to_the_end(seconds=400)
    execution.refresh_from_db()
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert {("preempt_pod/intent/evict", "before"), ("preempt_pod/intent/evict", "after")} <= killer.met
    leave = [move.pod_uid for move in plan.moves] + [one.pod_uid for one in plan.preemptions]
    assert sorted(stage.evicted()) == sorted(leave)
    assert stage.traces() == []
