"""How replacements of moved pods would be steered, and whether reviewers were told where not; and whether
whoever waits for a freed node can be let onto it."""

from __future__ import annotations

from collections.abc import Iterator

from apps.executions.checks.looking import Look, Objection
from apps.executions.models import DryRun
from apps.executions.sightings import name, namespace, uid
from apps.executions.steering_forms import Form, why_not_steered
from apps.kube.gateway import JOBS
from apps.plans.models import Plan
from apps.plans.states import PlanState


def check_steering(look: Look) -> Iterator[Objection]:
    moves = look.plan.moves
    if not moves or look.steering.form != Form.BEST_EFFORT:
        return
    for move in moves:
        yield Objection(look.steering.warning, move.pod_uid, is_note=True)
    if not Plan.objects.filter(pk=look.version.plan_id, state=PlanState.APPROVED).exists():
        return  # this is the telling
    runs = DryRun.objects.filter(version=look.version, pod_uid__in=[move.pod_uid for move in moves])
    told = [message for message in runs.values_list("message", flat=True)]
    refusal = why_not_steered(look.steering, told if len(told) == len(moves) else ())
    if refusal:
        yield Objection(refusal)


def check_hand_overs(look: Look) -> Iterator[Objection]:
    """A suspended workload (Kueue has not admitted it) makes no pods: there is nobody to hand a node to."""
    if not look.plan.hand_overs:
        return
    waiting = {one.pod_uid for one in look.plan.hand_overs}
    owners = {look.picture.pods[uid].workload for uid in waiting if uid in look.picture.pods}
    for job in look.listed(JOBS):
        if uid(job) in owners and (job.get("spec") or {}).get("suspend"):
            yield Objection(
                f"Job {namespace(job)}/{name(job)} is suspended: it makes no pods that a freed node could be "
                "handed to. Let its queue admit it (or resume it), then start again."
            )
