"""Makes plans for clusters in shadow, by the timer, and keeps what they promise.

An eviction cannot be tried there (a reader may not even ask by dry run), so whether it would be allowed is
computed from the disruption budgets of the same picture.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import connection

from apps.clusters import queries as clusters
from apps.clusters.models import Cluster
from apps.clusters.models import Snapshot as SnapshotRow
from apps.executions import ledger
from apps.executions.models import Prediction
from apps.planner.fragmentation import count_free_nodes
from apps.planner.movability import MovabilityRules
from apps.planner.plan import Goal, Plan
from apps.planner.plan_json import plan_to_dict
from apps.planner.resources import asks_gpu, demand_of
from apps.planner.searching import PlanRequest, search_plan
from apps.planner.snapshot import Snapshot
from apps.planner.verification import check_plan
from apps.plans.policies import moves_allowed, policy_of, seconds_allowed

log = structlog.get_logger(__name__)
GOALS = (Goal.UNLOCK, Goal.FREE_NODES)
EVERY_SECONDS = 900.0
OLDEST_PICTURE_SECONDS = 120.0
MOST_MOVES, MOST_SECONDS = 50, 10.0
MOST_WAITING = 200
KEPT_DAYS = 30
LOCK = 7_340_215
"""Class of the advisory locks under which a cluster's predictions are made and looked at."""


def predict_if_due(cluster: Cluster) -> int:
    """How many predictions were made: none where the last are not old enough, or nothing fresh is known."""
    with alone_on(cluster) as is_mine:
        row = clusters.latest_snapshot(cluster)
        now = ledger.database_time()
        if not is_mine or row is None or not _is_due(cluster, row, now):
            return 0
        picture = clusters.open_snapshot(row)
        made = sum(_predict(cluster, row, picture, goal, now) for goal in GOALS)
        Prediction.objects.filter(cluster=cluster, made_at__lt=now - timedelta(days=KEPT_DAYS)).delete()
        return made


@contextmanager
def alone_on(cluster: Cluster) -> Iterator[bool]:
    """False where another worker is at it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCK, cluster.pk])
        is_mine = bool(cursor.fetchone()[0])
    try:
        yield is_mine
    finally:
        if is_mine:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [LOCK, cluster.pk])


def _is_due(cluster: Cluster, row: SnapshotRow, now: datetime) -> bool:
    seen = max(row.taken_at, cluster.watched_at or row.taken_at)
    if (now - seen).total_seconds() > OLDEST_PICTURE_SECONDS:
        return False
    last = Prediction.objects.filter(cluster=cluster).values_list("made_at", flat=True).first()
    return last is None or (now - last).total_seconds() >= EVERY_SECONDS


def _predict(cluster: Cluster, row: SnapshotRow, picture: Snapshot, goal: Goal, now: datetime) -> bool:
    """False where the planner found nothing that may be kept."""
    policy = policy_of(cluster)
    limit = time.monotonic() + seconds_allowed(policy, MOST_SECONDS)
    request = PlanRequest(goal, moves_allowed(policy, MOST_MOVES))
    try:
        plan = search_plan(picture, request, deadline=lambda: time.monotonic() > limit)
        faults = check_plan(picture, plan)
    except ValueError as error:
        log.warning("no prediction", cluster=cluster.name, goal=str(goal), reason=str(error))
        return False
    if faults:
        log.error("a predicted plan broke a rule", cluster=cluster.name, goal=str(goal), faults=faults[:3])
        return False
    Prediction.objects.create(
        cluster=cluster,
        goal=str(goal),
        snapshot=row,
        made_at=now,
        body=plan_to_dict(plan),
        summary=sum_up(plan, picture, row.summary),
        moves=foresee_moves(plan, picture),
    )
    return True


def sum_up(plan: Plan, picture: Snapshot, facts: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a prediction. free_gpus, free_nodes: as it was then, without the plan."""
    waiting = [pod for pod in picture.pending_pods if asks_gpu(pod)][:MOST_WAITING]
    freed = sum(len(picture.nodes[name].gpus) for name in plan.freed_nodes if name in picture.nodes)
    return {
        "moves": len(plan.moves),
        "freed_nodes": len(plan.freed_nodes),
        "freed_gpus": freed,
        "unlocked": list(plan.unlocked)[:MOST_WAITING],
        "unlocked_gpus": plan.unlocked_gpus,
        "free_gpus": (facts.get("gpus") or {}).get("free", 0),
        "free_nodes": sum(count_free_nodes(picture).values()),
        "waiting": [
            {"pod": pod.key, "uid": pod.uid, "gpus": demand_of(pod).gpu_milli / 1000} for pod in waiting
        ],
        "sentence": plan.sentence,
    }


def foresee_moves(plan: Plan, picture: Snapshot) -> list[dict[str, Any]]:
    """Who would move where, and whether its budgets would let it go."""
    rules = MovabilityRules(picture)
    wanted = Counter(
        budget.uid
        for move in plan.moves
        if move.pod_uid in picture.pods
        for budget in rules.budgets_of(picture.pods[move.pod_uid])
    )
    found = []
    for move in plan.moves:
        budgets = rules.budgets_of(picture.pods[move.pod_uid]) if move.pod_uid in picture.pods else ()
        why = ""
        if len(budgets) > 1:
            why = "two disruption budgets cover it: the API server refuses every eviction"
        elif budgets and budgets[0].disruptions_allowed < 1:
            why = f"budget {budgets[0].name} allows no disruption"
        is_allowed = not why
        if budgets and is_allowed and wanted[budgets[0].uid] > budgets[0].disruptions_allowed:
            at_once = budgets[0].disruptions_allowed
            why = f"one after the other: budget {budgets[0].name} lets {at_once} go at once"
        found.append(
            {
                "pod": move.pod,
                "source": move.source,
                "target": move.target,
                "is_allowed": is_allowed,
                "why": why,
            }
        )
    return found
