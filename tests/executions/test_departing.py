"""What came after the preflight is seen right before the eviction: a rollout, a protection, a waived pod."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from apps.executions.decisions import Verdict
from apps.executions.departing import why_not_leave
from apps.executions.models import Step
from apps.executions.states import ExecutionState, StepKind
from apps.kube.gateway import NAMESPACES, REPLICASETS
from apps.planner.defrag import plan_unlock
from apps.planner.plan import Waiver
from apps.planner.waiving import protections_of, waive
from tests.executions import things
from tests.executions.test_stories import carry, carry_until, has_sent, step_of

SETTLED = {"replicas": 1, "updatedReplicas": 1, "observedGeneration": 1}
DO_NOT = {"karpenter.sh/do-not-disrupt": "true"}


def owner(*, replicas=1, status=None, **metadata):
    facts = {"name": "lora", "namespace": "ml", "uid": "uid-rs", "generation": 1, **metadata}
    return {"metadata": facts, "spec": {"replicas": replicas}, "status": status or SETTLED}


def asked(*, owners=None, namespace=None, late=False, pod=None, shadow="", only_offered=False, **params):
    """The answer for one pod of a ReplicaSet, as this cluster is now."""
    pod = pod if pod is not None else things.pod(on="node-a", ready=True)
    seen = {REPLICASETS: [owner()] if owners is None else owners}
    seen[NAMESPACES] = [namespace or {"metadata": {"name": "ml"}}]
    gateway = SimpleNamespace(
        get_object=lambda kind, name, namespace: pod,
        list_objects=lambda kind, **where: seen.get(kind, []),
    )
    step = things.step(StepKind.EVICT_POD, **params)
    context = SimpleNamespace(gateway=gateway, now=2)
    step.deadline_at = 1 if late else None
    return why_not_leave(context, step, shadow=shadow, only_offered=only_offered)


def test_a_pod_of_an_owner_at_rest_may_leave():
    assert asked() is None


@pytest.mark.parametrize(
    ("owners", "words"),
    [
        ([], "is gone: nothing would make a replacement"),
        ([owner(uid="uid-another")], "is gone: nothing would make a replacement"),
        ([owner(deletionTimestamp="2026-01-01T00:00:00Z")], "is being deleted"),
        ([owner(replicas=0)], "is being scaled down to 0 (it has 1 pods)"),
    ],
)
def test_an_owner_that_changed_since_the_preflight_holds_the_eviction_back(owners, words):
    found = asked(owners=owners)
    assert (found.verdict, found.cause) == (Verdict.BLOCKED, "owner-busy")
    assert words in found.reason
    assert asked(owners=owners, late=True).verdict == Verdict.STOP


def test_a_protection_that_came_since_the_preflight_stops_it_unless_that_very_one_is_waived():
    marked = things.pod(on="node-a", ready=True, annotations=DO_NOT)
    found = asked(pod=marked)
    said = "its annotation karpenter.sh/do-not-disrupt is true"
    assert (found.verdict, found.reason) == (Verdict.STOP, f"Pod ml/lora-1 must not be moved now: {said}.")
    assert asked(pod=marked, waived=[said]) is None
    both = things.pod(on="node-a", annotations={**DO_NOT, "defrag.gpu.internal/protect": "true"})
    assert asked(pod=both, waived=[said]).verdict == Verdict.STOP


def test_a_protected_namespace_and_a_notebook_stop_it_as_well():
    protect = {"name": "ml", "annotations": {"defrag.gpu.internal/protect": "true"}}
    assert "of its namespace ml is true" in asked(namespace={"metadata": protect}).reason
    notebook = things.pod(on="node-a", labels={"hub.jupyter.org/username": "ada"})
    assert "a person works in it" in asked(pod=notebook).reason


def test_only_a_pod_that_is_still_offered_leaves_where_the_policy_asks_for_that():
    offer = {"defrag.gpu.internal/movable": "true"}
    found = asked(only_offered=True)
    assert (found.verdict, found.cause) == (Verdict.STOP, "protected")
    assert "neither it nor its namespace ml says defrag.gpu.internal/movable: true" in found.reason
    assert asked(only_offered=True, pod=things.pod(on="node-a", ready=True, annotations=offer)) is None
    assert asked(only_offered=True, namespace={"metadata": {"name": "ml", "annotations": offer}}) is None


def test_nothing_leaves_a_cluster_that_came_into_shadow_since_the_start():
    why = "the console's credential may not evict pods, so the cluster is in shadow"
    found = asked(shadow=why)
    assert (found.verdict, found.reason) == (Verdict.STOP, f"Pod ml/lora-1 must not be moved now: {why}.")


@pytest.mark.django_db(transaction=True)
def test_a_pod_that_is_protected_after_the_preflight_is_not_evicted_and_a_person_is_told(stage):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.STEER, "create_webhook"))
    move = next(move for move in plan.moves if not step_sent(execution, move))
    annotate(stage, stage.picture().pods[move.pod_uid], DO_NOT)
    carry(execution)
    assert execution.state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    assert "karpenter.sh/do-not-disrupt is true" in execution.state_reason
    assert move.pod_uid not in stage.evicted()


def step_sent(execution, move):
    return "evict" in step_of(execution, StepKind.EVICT_POD, move.order).observed.get("sent", [])


def annotate(stage, pod, marks):
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
    stage.simulated.ask("PATCH", path, {"metadata": {"annotations": marks}})


def pod_on(stage, node, workload):
    pods = stage.picture().pods.values()
    return next(pod for pod in pods if pod.node_name == node and pod.name.startswith(workload))


@pytest.mark.django_db(transaction=True)
def test_a_protected_pod_is_moved_under_its_waiver_and_carries_the_marks_of_its_owner_afterwards(stage):
    pod = pod_on(stage, "gpu-2", "web-infer")
    annotate(stage, pod, DO_NOT)
    said = protections_of(stage.picture().pods[pod.uid])
    waivers = (Waiver(pod.uid, pod.key, said, "agreed", "ada"),)

    def plan_with_it(_plan, picture):
        found = plan_unlock(waive(picture, waivers), workload=None, max_moves=50, deadline=lambda: False)
        return replace(found, waivers=waivers)

    execution, plan = stage.start(change=plan_with_it)
    assert pod.uid in {move.pod_uid for move in plan.moves}
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert pod.uid in stage.evicted()
    steps = Step.objects.filter(execution=execution, kind=StepKind.EVICT_POD)
    assert [one.params["waived"] for one in steps if "waived" in one.params] == [list(said)]


@pytest.mark.django_db(transaction=True)
def test_the_same_plan_without_the_waiver_is_stale_before_anything_is_touched(stage):
    pod = pod_on(stage, "gpu-2", "web-infer")
    execution, _plan = stage.start()
    annotate(stage, pod, DO_NOT)
    carry(execution)
    assert execution.state == ExecutionState.FAILED
    assert "karpenter.sh/do-not-disrupt is true" in execution.state_reason
    assert (stage.evicted(), stage.traces()) == ([], [])
