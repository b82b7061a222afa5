"""Gangs that an execution leaves below what they need: it does not end before somebody has been told.

A gang may lose as many members at once as its minimum allows; the preflight sees to that. When a move then
fails midway, an evicted member may have no place again. Such an execution stays open and asks a person, who
closes it by cancelling or rolling back once more. What the plan may take of a gang is `checks.gangs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings

from apps.executions.context import Context
from apps.executions.models import Step
from apps.executions.pictures import read_pods
from apps.executions.states import StepKind, StepState
from apps.kube.gateway import JOBS, PODS
from apps.planner.inventory import Pod

KINDS = (StepKind.EVICT_POD, StepKind.PREEMPT_POD)


def tell_broken_gangs(context: Context) -> list[str]:
    """One sentence for each gang of which this execution evicted members and that is short of them now. Reads
    the cluster only where there are any. Raises KubeError."""
    evicted = [step for step in context.steps if _was_evicted(step)]
    needs = {step.params["gang"]: step.params for step in evicted if step.params.get("gang_needs", 0) > 1}
    told = []
    for key, params in needs.items():
        members = [pod for pod in _pods_of(context, params["namespace"]) if _belongs(pod, key)]
        ready = sum(1 for pod in members if pod.is_holding and pod.ready and not pod.terminating)
        if members and ready < params["gang_needs"]:  # one of which nothing is left was ended by its owner
            pods = [step.params["pod"] for step in evicted if step.params.get("gang") == key]
            told.append(
                f"Gang {key} needs {params['gang_needs']} members and {ready} are Ready: {_listed(pods)} "
                "evicted by this execution."
            )
    return told


def is_settling(steps: Sequence[Step], context: Context) -> bool:
    """Whether replacements may still come by themselves: so long it is not said that a gang is short."""
    return not has_been_over(steps, context, settings.EXECUTION_REPLACEMENT_SECONDS)


def has_been_over(steps: Sequence[Step], context: Context, seconds: float) -> bool:
    """For so long nothing has ended any more."""
    ended = [step.finished_at for step in steps if step.finished_at is not None]
    return not ended or context.now >= max(ended) + timedelta(seconds=seconds)


def _was_evicted(step: Step) -> bool:
    seen = step.observed.get("seen", {})
    return step.kind in KINDS and step.state == StepState.VERIFIED and bool(seen.get("evicted"))


def _pods_of(context: Context, namespace: str) -> list[Pod]:
    """Jobs tell of the gangs that are theirs."""
    gateway = context.gateway
    objects = {kind: gateway.list_objects(kind, namespace=namespace) for kind in (PODS, JOBS)}
    return list(read_pods(dict(objects)).values())


def _belongs(pod: Pod, key: str) -> bool:
    """Of two groups named alike the second one's key says its API group, which pods alone do not tell."""
    return pod.gang == key.partition("@")[0]


def _listed(pods: Sequence[str]) -> str:
    more = f" and {len(pods) - 3} more" if len(pods) > 3 else ""
    return f"{' and '.join(pods[:3])}{more} {'was' if len(pods) == 1 else 'were'}"
