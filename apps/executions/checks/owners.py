"""Owners that would not make a replacement, or would answer the loss of one pod with more: being rolled out,
scaled down, deleted; Jobs at their limit; autoscalers that may change the number of pods meanwhile.

The same questions are asked once more right before each eviction (`departing`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from apps.executions.checks.looking import Look, Objection
from apps.kube.gateway import AUTOSCALERS, JOBS
from apps.planner.inventory import Pod, Workload

KNOWN_KINDS = ("ReplicaSet", "StatefulSet", "Job")


def check_owners(look: Look) -> Iterator[Objection]:
    running = Counter(
        pod.workload for pod in look.picture.pods.values() if pod.is_holding and not pod.terminating
    )
    for pod in look.leaving:
        why = why_owner_bears_no_loss(
            look.owner_of(pod), look.picture.workloads, look.name_of_owner(pod), running[pod.workload]
        )
        if why:
            yield Objection(why, pod.uid)


def why_owner_bears_no_loss(
    owner: Workload | None, workloads: Mapping[str, Workload], name: str, running: int
) -> str:
    """A sentence, or "". running: pods of the owner that run and are not about to go. Owners of kinds that
    are not read (`replicas` is None) are taken as they are."""
    if owner is None:
        return f"{name} is gone: nothing would make a replacement. Ask for a new plan."
    if owner.kind in KNOWN_KINDS and owner.replicas is None:
        return f"{name} is gone: nothing would make a replacement. Ask for a new plan."
    chain = [owner, *([workloads[owner.parent]] if owner.parent in workloads else [])]
    if any(one.terminating for one in chain):
        return f"{name} is being deleted: nothing would make a replacement. Ask for a new plan."
    if any(one.updating for one in chain):
        return f"{name} is in the middle of a rollout: start again when it has ended."
    if owner.backoff_limit is not None and owner.failed_pods >= owner.backoff_limit:
        return (
            f"{name} has lost {owner.failed_pods} pods and bears {owner.backoff_limit} (backoffLimit): one "
            "more would fail it. Have its owner raise the limit."
        )
    if owner.kind != "Job" and owner.replicas is not None and running > owner.replicas:
        return (
            f"{name} is being scaled down to {owner.replicas} (it has {running} pods): "
            "start again when it has settled, or ask for a new plan."
        )
    return ""


def check_jobs(look: Look) -> Iterator[Objection]:
    """Each pod of a Job that is evicted counts as a failed one: all of the plan together must be bearable."""
    lost: dict[str, list[Pod]] = {}
    for pod in look.leaving:
        lost.setdefault(pod.workload, []).append(pod)
    for uid, pods in lost.items():
        job = look.picture.workloads.get(uid)
        if job is None or job.backoff_limit is None or len(pods) < 2:
            continue  # a single one is judged with the pod itself
        if job.failed_pods + len(pods) > job.backoff_limit:
            yield Objection(
                f"The plan evicts {len(pods)} pods of Job {job.namespace}/{job.name}, which has lost "
                f"{job.failed_pods} and bears {job.backoff_limit} (backoffLimit): the Job would fail. Ask "
                "for a plan that moves fewer of them, or have its owner raise the limit."
            )


def check_failure_policies(look: Look) -> Iterator[Objection]:
    """A Job may say itself that one eviction fails it as a whole (podFailurePolicy), whatever its limit."""
    jobs = {pod.workload: pod for pod in look.leaving if pod.owner_kind == "Job"}
    if not jobs:
        return
    for job in look.listed(JOBS):
        pod = jobs.get(child_text(job, "metadata", "uid"))
        if pod is not None and _answer_to_eviction(job) == "FailJob":
            yield Objection(
                f"{look.name_of_owner(pod)} fails as a whole when one of its pods is evicted "
                "(podFailurePolicy: FailJob on DisruptionTarget). Have its owner change that "
                "rule, or leave it where it is.",
                pod.uid,
            )


def _answer_to_eviction(job: Mapping[str, Any]) -> str:
    """Action of the first rule about the condition that an evicted pod gets, "" for none."""
    policy = (job.get("spec") or {}).get("podFailurePolicy") or {}
    for rule in policy.get("rules") or []:
        conditions = rule.get("onPodConditions") or []
        if any(one.get("type") == "DisruptionTarget" and _is_true(one) for one in conditions):
            return str(rule.get("action", ""))
    return ""


def _is_true(condition: Mapping[str, Any]) -> bool:
    return condition.get("status", "True") == "True"


def check_autoscalers(look: Look) -> Iterator[Objection]:
    """Said, not refused: an autoscaler may change the number of pods while one is on its way."""
    scaled = {
        (child_text(one, "metadata", "namespace"), *_target(one)): child_text(one, "metadata", "name")
        for one in look.listed(AUTOSCALERS)
    }
    if not scaled:
        return
    for pod in look.moving:
        kind, _, key = look.name_of_owner(pod).partition(" ")
        name = scaled.get((pod.namespace, kind, key.partition("/")[2]))
        if name:
            yield Objection(f"autoscaler {name} may scale its {kind} meanwhile", pod.uid, is_note=True)


def _target(autoscaler: Mapping[str, object]) -> tuple[str, str]:
    return (
        child_text(autoscaler, "spec", "scaleTargetRef", "kind"),
        child_text(autoscaler, "spec", "scaleTargetRef", "name"),
    )


def child_text(found: object, *keys: str) -> str:
    """The text under a chain of keys, "" where anything on the way is missing."""
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""
