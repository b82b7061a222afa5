"""Each question of the preflight: what is refused, in whose words, and what is let through."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from apps.executions.checks.budgets import check_budgets
from apps.executions.checks.gangs import check_gangs
from apps.executions.checks.looking import Look
from apps.executions.checks.namespaces import check_namespaces, check_quotas
from apps.executions.checks.owners import check_autoscalers, check_failure_policies, check_jobs, check_owners
from apps.executions.checks.steering import check_hand_overs
from apps.kube.errors import NotFound
from apps.kube.gateway import AUTOSCALERS, JOBS, NAMESPACES, QUOTAS, REPLICASETS
from apps.kube.translate import build_snapshot
from apps.planner.inventory import DisruptionBudget, Gang, LabelSelector, Requirement, Workload
from apps.planner.plan import Goal, HandOver, Move, Plan, Preemption
from tests.plans.situations import picture, plan_of_one_move, pod


def look(plan=None, seen=None, **listed):
    """listed: raw objects by the plural of their kind; what is not named does not exist there."""

    def list_objects(kind):
        if kind.plural not in listed:
            raise NotFound(f"no {kind.plural} here")
        return SimpleNamespace(objects=listed[kind.plural])

    gateway = SimpleNamespace(list_objects=list_objects)
    return Look(None, plan or plan_of_one_move(), seen or picture(), gateway, datetime.now(UTC))


def said(check, **facts):
    return [one.sentence for one in check(look(**facts)) if not one.is_note]


def with_owner(**facts):
    seen = picture()
    return replace(seen, workloads={**seen.workloads, "rs-lora": replace(seen.workloads["rs-lora"], **facts)})


def moving(*pods, waves=None):
    waves = waves or [1] * len(pods)
    return Plan(
        Goal.FREE_NODES,
        moves=tuple(
            Move(n, wave, one.uid, one.key, one.node_name, "node-b", 1, 1.0, "why")
            for n, (one, wave) in enumerate(zip(pods, waves, strict=True), start=1)
        ),
    )


def test_an_owner_at_rest_is_no_hindrance():
    assert said(check_owners) == []


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"terminating": True}, "ReplicaSet ml/lora is being deleted: nothing would make a replacement."),
        ({"updating": True}, "ReplicaSet ml/lora is in the middle of a rollout: start again when"),
        ({"replicas": 0}, r"ReplicaSet ml/lora is being scaled down to 0 (it has 1 pods)"),
        ({"replicas": None}, "ReplicaSet ml/lora is gone: nothing would make a replacement."),
    ],
)
def test_an_owner_that_would_make_no_replacement_is_named(facts, words):
    (sentence,) = said(check_owners, seen=with_owner(**facts))
    assert sentence.startswith(words)


@pytest.mark.parametrize("fact", ["updating", "terminating"])
def test_the_deployment_behind_the_replica_set_counts_as_well(fact):
    seen = with_owner(parent="d-1", display="web")
    seen.workloads["d-1"] = Workload("d-1", "Deployment", "ml", "web", replicas=1, **{fact: True})
    (sentence,) = said(check_owners, seen=seen)
    assert sentence.startswith("Deployment ml/web is ")


def test_a_job_that_bears_each_loss_but_not_all_of_them_is_refused():
    pods = [pod(name, "node-a", 1, workload="job", owner_kind="Job") for name in ("a", "b")]
    seen = picture(pods=pods)
    job = Workload("job", "Job", "ml", "batch", replicas=2, backoff_limit=6, failed_pods=5)
    bearing = replace(seen, workloads={"job": replace(job, failed_pods=4)})
    assert said(check_jobs, plan=moving(*pods), seen=bearing) == []
    (sentence,) = said(check_jobs, plan=moving(*pods), seen=replace(seen, workloads={"job": job}))
    assert sentence.startswith(
        "The plan evicts 2 pods of Job ml/batch, which has lost 5 and bears 6 (backoffLimit)"
    )


def job_with(*rules):
    about = {"namespace": "ml", "name": "batch", "uid": "job"}
    return {"metadata": about, "spec": {"backoffLimit": 6, "podFailurePolicy": {"rules": list(rules)}}}


def on_eviction(action):
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def test_a_job_that_fails_as_a_whole_for_one_evicted_pod_is_refused_whatever_its_limit():
    ours = pod("a", "node-a", 1, workload="job", owner_kind="Job")
    seen = picture(pods=[ours])
    seen = replace(
        seen, workloads={"job": Workload("job", "Job", "ml", "batch", replicas=2, backoff_limit=6)}
    )
    facts = {"plan": moving(ours), "seen": seen}
    (sentence,) = said(check_failure_policies, jobs=[job_with(on_eviction("FailJob"))], **facts)
    assert sentence.startswith("Job ml/batch fails as a whole when one of its pods is evicted")
    codes = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    for rules in ([], [codes], [on_eviction("Ignore"), on_eviction("FailJob")], [on_eviction("Count")]):
        assert said(check_failure_policies, jobs=[job_with(*rules)], **facts) == []
    assert (
        said(check_failure_policies, jobs=[{**job_with(on_eviction("FailJob")), "metadata": {}}], **facts)
        == []
    )


def test_an_autoscaler_of_the_owner_is_said_and_refuses_nothing():
    target = {"scaleTargetRef": {"kind": "ReplicaSet", "name": "lora"}}
    scaler = {"metadata": {"namespace": "ml", "name": "busy"}, "spec": target}
    (note,) = check_autoscalers(look(**{AUTOSCALERS.plural: [scaler]}))
    assert (note.is_note, note.sentence) == (True, "autoscaler busy may scale its ReplicaSet meanwhile")
    elsewhere = {**scaler, "metadata": {"namespace": "other", "name": "busy"}}
    assert list(check_autoscalers(look(**{AUTOSCALERS.plural: [elsewhere]}))) == []
    assert list(check_autoscalers(look())) == []


def budget(name="keep", app="lora", **facts):
    selector = LabelSelector((Requirement("app", "In", (app,)),))
    return DisruptionBudget("ml", name, f"uid-{name}", selector, **facts)


def under(*budgets, pods=None):
    return picture(pods=pods, budgets={one.uid: one for one in budgets})


def test_two_budgets_over_one_pod_are_refused_for_ever():
    both = under(budget("one", disruptions_allowed=1), budget("two", disruptions_allowed=1))
    (sentence,) = said(check_budgets, seen=both)
    assert sentence.startswith("Disruption budgets one and two of ml both cover it")


def test_a_single_replica_that_must_always_be_there_needs_its_owner():
    one = budget(current_healthy=1, desired_healthy=1, expected_pods=1)
    (sentence,) = said(check_budgets, seen=under(one))
    assert sentence.startswith(
        "It needs its owner: disruption budget keep demands all 1 of 1 pods of ReplicaSet ml/lora"
    )


def test_a_budget_that_is_used_up_for_now_says_how_many_are_healthy():
    (sentence,) = said(
        check_budgets, seen=under(budget(current_healthy=2, desired_healthy=2, expected_pods=3))
    )
    assert "lets no pod of ReplicaSet ml/lora go now: 2 are healthy and 2 must be" in sentence


def test_evictions_are_summed_over_their_budget():
    pods = [pod(name, "node-a", 1, labels={"app": "lora"}) for name in ("a", "b", "c")]
    seen = under(budget(disruptions_allowed=1, desired_healthy=2, expected_pods=3), pods=pods)
    notes = list(check_budgets(look(plan=moving(*pods), seen=seen)))
    assert {note.pod_uid for note in notes} == {one.uid for one in pods}
    assert {(note.is_note, note.sentence) for note in notes} == {
        (True, "budget keep lets 1 go at once and the plan moves 3: they go one after the other")
    }


def gang_of(count, least, **facts):
    pods = [pod(f"w{n}", "node-a", 1, gang="ml/train", workload="job") for n in range(count)]
    return pods, replace(picture(pods=pods), gangs={"ml/train": Gang("ml/train", least)}, **facts)


def test_part_of_a_gang_that_needs_all_its_members_is_not_moved():
    pods, seen = gang_of(4, 4)
    (sentence,) = said(check_gangs, plan=moving(pods[0]), seen=seen)
    assert sentence.startswith(
        "The plan takes 1 of the 4 members of gang ml/train away at once, which needs 4 (minMember): "
        "3 would be left"
    )
    (sentence,) = said(check_gangs, plan=moving(*pods), seen=seen)
    assert "takes all 4 members of gang ml/train away" in sentence


def test_what_the_least_number_of_members_allows_is_moved_wave_by_wave():
    pods, seen = gang_of(4, 3)
    assert said(check_gangs, plan=moving(*pods, waves=[1, 2, 3, 4]), seen=seen) == []
    assert len(said(check_gangs, plan=moving(*pods, waves=[1, 1, 2, 3]), seen=seen)) == 1


def test_who_gives_way_for_good_counts_beside_every_wave():
    pods, seen = gang_of(4, 2)
    leaves = [Preemption(n, one.uid, one.key, "node-a", 1, 0, 1.0, "why") for n, one in enumerate(pods)]
    both = replace(moving(pods[0]), preemptions=(leaves[1],))
    assert said(check_gangs, plan=both, seen=seen) == []
    assert len(said(check_gangs, plan=replace(both, preemptions=tuple(leaves[1:3])), seen=seen)) == 1
    assert said(check_gangs, plan=Plan(Goal.UNLOCK, preemptions=tuple(leaves)), seen=seen) == []


def test_a_namespace_that_is_being_deleted_takes_no_replacement(settings):
    gone = {"metadata": {"name": "ml"}, "status": {"phase": "Terminating"}}
    (sentence,) = said(check_namespaces, **{NAMESPACES.plural: [gone]})
    assert sentence == "Namespace ml is being deleted: nothing can be made in it. Ask for a new plan."
    ours = {"metadata": {"name": settings.STEERING_NAMESPACE, "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    (sentence,) = said(check_namespaces, **{NAMESPACES.plural: [ours]})
    assert "holds are made there" in sentence


def quota(namespace, used, hard, **spec):
    metadata = {"namespace": namespace, "name": "team"}
    return {"metadata": metadata, "spec": spec, "status": {"hard": hard, "used": used}}


@pytest.mark.parametrize(
    ("used", "spec", "is_refused"),
    [
        ("8", {}, False),  # full: the replacement takes the place of its pod
        ("9", {}, True),
        ("9", {"scopes": ["BestEffort"]}, False),
        (
            "9",
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                }
            },
            False,
        ),
    ],
)
def test_an_overdrawn_quota_would_refuse_the_replacement(used, spec, is_refused):
    name = "requests.nvidia.com/gpu"
    found = said(check_quotas, **{QUOTAS.plural: [quota("ml", {name: used}, {name: "8"}, **spec)]})
    assert bool(found) == is_refused
    if found:
        assert found[0].startswith(f"Quota team of ml is overdrawn ({name}: 9 of 8 used)")


def test_a_quota_over_our_own_namespace_has_room_for_all_holds_at_once(settings):
    pods = [pod(name, "node-a", 1) for name in ("a", "b")]
    ours = settings.STEERING_NAMESPACE
    for hard, is_refused in (("2", False), ("1", True)):
        quotas = {QUOTAS.plural: [quota(ours, {"pods": "0"}, {"pods": hard})]}
        found = said(check_quotas, plan=moving(*pods), seen=picture(pods=pods), **quotas)
        assert bool(found) == is_refused


def test_a_deletion_of_the_owner_is_read_from_the_api():
    raw = {"metadata": {"uid": "u", "name": "lora", "namespace": "ml"}, "spec": {}, "status": {}}
    leaving = {**raw, "metadata": {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    for found, is_leaving in ((raw, False), (leaving, True)):
        assert build_snapshot("x", {REPLICASETS: [found]}, 0.0).workloads["u"].terminating is is_leaving


@pytest.mark.parametrize(("suspend", "is_refused"), [(True, True), (False, False), (None, False)])
def test_a_gang_whose_job_is_suspended_makes_no_pods_and_is_refused(suspend, is_refused):
    waiting = pod("big-0", "", 8, workload="job-big", phase="Pending", ready=False)
    seen = picture(pods=[waiting, pod("lora", "node-a", 1)])
    plan = replace(plan_of_one_move(), hand_overs=(HandOver(waiting.uid, waiting.key, "node-a"),))
    job = {"metadata": {"name": "big", "namespace": "ml", "uid": "job-big"}, "spec": {"suspend": suspend}}
    found = said(check_hand_overs, plan=plan, seen=seen, **{JOBS.plural: [job]})
    assert [one.startswith("Job ml/big is suspended") for one in found] == [True] * is_refused
    assert said(check_hand_overs, seen=seen, **{JOBS.plural: [job]}) == []
