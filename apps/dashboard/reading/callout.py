"""The one sentence on top of the grid: what waits, why, and the action that helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse

from apps.accounts import queries as accounts
from apps.accounts.rights import Action
from apps.clusters.models import Cluster
from apps.dashboard.reading.alike import as_one, gather_alike
from apps.dashboard.reading.nodes import LINK_WORDS
from apps.dashboard.reading.plan_page import gain
from apps.dashboard.reading.times import duration, seconds_since
from apps.dashboard.reading.words import plural
from apps.executions import queries as executions
from apps.pending import queries as pending
from apps.pending.unblocking import can_help
from apps.planner.inventory import LinkClass
from apps.planner.snapshot import Snapshot
from apps.planner.waiting import WaitingWorkload
from apps.plans import queries as plans
from apps.plans.models import Plan


@dataclass(frozen=True, slots=True)
class CallOut:
    """href: of the plan to review; else workload: what a new plan would be for, "" if none may be made."""

    name: str
    text: str
    action: str = ""
    href: str = ""
    workload: str = ""


@dataclass(frozen=True, slots=True)
class FirstWaiting:
    """What the sentence is about. others: how many workloads wait besides it."""

    key: str
    display: str
    shape: str
    since: float
    reason: str
    may_help: bool
    others: int


def first_waiting(picture: Snapshot) -> FirstWaiting | None:
    """The first workload in the queue; None when nothing waits."""
    waiting = pending.waiting_workloads(picture)
    if not waiting:
        return None
    groups = gather_alike(waiting)
    first = as_one(groups[0])
    return FirstWaiting(
        key=first.key,
        display=first.display,
        shape=shape_of(first),
        since=first.since,
        reason=first.sentence,
        may_help=can_plan(first),
        others=len(groups) - 1,
    )


def call_out(user: Any, cluster: Cluster, first: FirstWaiting | None) -> CallOut | None:
    """The sentence for this person. None when nothing waits."""
    if first is None:
        return None
    # A picture made from a trace or a bare dump does not say since when.
    since = f"has waited {duration(seconds_since(first.since) or 0)}" if first.since > 0 else "waits"
    text = f"({first.shape}) {since}. {first.reason}"
    if first.others:
        text += f" {plural(first.others, 'other workload')} {'wait' if first.others > 1 else 'waits'} too."
    plan = open_plan_for(user, cluster, first.key)
    if plan is not None:
        href = reverse("plan", args=[cluster.name, plan.pk])
        return CallOut(first.display, f"{text}{_offer(plan)}", f"Review plan {plan.pk}", href)
    may_plan = first.may_help and accounts.may(user, Action.PLAN, cluster)
    return CallOut(first.display, text, workload=first.key if may_plan else "")


def _offer(plan: Plan) -> str:
    """ " Moving 7 pods frees 3 nodes.", once the plan is computed."""
    version = plans.current_version(plan)
    if version is None or not version.body["moves"]:
        return ""
    return f" Moving {plural(len(version.body['moves']), 'pod')} {gain(plans.open_plan(version))}."


def open_plan_for(user: Any, cluster: Cluster, workload: str) -> Plan | None:
    """The newest plan for that workload that is still under way."""
    return _under_way(user, cluster).filter(request__workload=workload).first()


def open_plans(user: Any, cluster: Cluster) -> dict[str, Plan]:
    """The newest plan under way for each workload, by its key."""
    found = _under_way(user, cluster).order_by("pk")
    return {plan.request.get("workload", ""): plan for plan in found}


def open_plan_with_goal(user: Any, cluster: Cluster, goal: str) -> Plan | None:
    """The newest plan of that goal that is still under way."""
    return _under_way(user, cluster).filter(request__goal=goal).first()


def _under_way(user: Any, cluster: Cluster) -> QuerySet[Plan]:
    return executions.plans_under_way(plans.plans_for(user, cluster))


def can_plan(waiting: WaitingWorkload) -> bool:
    """Whether moving pods could help at all: it asks for GPUs and does not merely wait for its turn."""
    return bool(waiting.gpus_per_pod) and can_help(waiting)


def shape_of(waiting: WaitingWorkload) -> str:
    """ "3 × 8 GPU, NVLink", "2 × 1g.10gb"."""
    if waiting.profiles and not waiting.gpus_per_pod:
        asked = [f"{number} × {name}" if number > 1 else name for name, number in waiting.profiles.items()]
        return f"{len(waiting.pods)} × {' + '.join(asked)}"
    shape = (
        f"{len(waiting.pods)} × {waiting.gpus_per_pod} GPU"
        if waiting.gpus_per_pod
        else plural(len(waiting.pods), "pod")
    )
    return f"{shape}, {LINK_WORDS[LinkClass(waiting.link)]}" if waiting.link else shape
