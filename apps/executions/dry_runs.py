"""What the cluster answers when evictions are only asked about, and where those answers are kept.

Nothing is touched. What is asked before is `checks`; when it is asked, `preflight`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeAlias

from django.db import transaction

from apps.clusters import notices
from apps.executions import ledger
from apps.executions.checks.looking import Look, Objection
from apps.executions.failed_cuts import tell_failed_cuts
from apps.executions.mig_preflight import NodeFindings
from apps.executions.models import DryRun
from apps.executions.returning import returning_moves
from apps.kube import errors
from apps.kube.gateway import Gateway
from apps.planner.plan import Move, Preemption
from apps.plans.models import PlanVersion

WHOLE_PLAN = "the plan"
"""Stands for a pod where something speaks against the plan as a whole."""


LAYOUT = "layout"
"""Begins what stands for a pod where a layout gets its name."""

ASKED_AT_ONCE = 8
"""Dry runs under way at the same time: well below what an API server lets one client ask at once."""
Leaving: TypeAlias = Move | Preemption
Answered: TypeAlias = tuple[bool, str]


@transaction.atomic(durable=True)
def store_dry_runs(version: PlanVersion, runs: Iterable[DryRun]) -> None:
    """The newest answers replace earlier ones."""
    replace_dry_runs(version, runs)


def replace_dry_runs(version: PlanVersion, runs: Iterable[DryRun]) -> None:
    """Inside a transaction. Open pages of the plan are told once it is committed."""
    PlanVersion.objects.select_for_update(no_key=True).get(pk=version.pk)
    DryRun.objects.filter(version=version).delete()
    DryRun.objects.bulk_create(runs)
    plan = version.plan
    notices.publish_on_commit(plan.cluster.name, "plan", {"plan": plan.pk, "state": str(plan.state)})


def relay_runs(version: PlanVersion, relaid: Iterable[NodeFindings]) -> list[DryRun]:
    """What was found about each node to be relaid, kept beside the dry runs of evictions; and the diff of
    the ConfigMap for each layout that gets its name there."""
    now = ledger.database_time()
    relaid = list(relaid)
    failed = tell_failed_cuts(version.plan.cluster) if relaid else {}
    diffs = {one.params["config"]: one.diff for one in relaid if one.diff}
    return [
        DryRun(version=version, pod_uid=name, pod=f"{LAYOUT} {name}", allowed=True, message=diff, at=now)
        for name, diff in sorted(diffs.items())
    ] + [
        DryRun(
            version=version,
            pod_uid=one.node_uid[:64],
            pod=f"node {one.node}"[:320],
            allowed=not one.refusals,
            message=". ".join(filter(None, [" ".join(one.refusals) or one.note, failed.get(one.node_uid)])),
            at=now,
        )
        for one in relaid
    ]


def ask_evictions(look: Look, objections: Iterable[Objection]) -> list[DryRun]:
    """One for each eviction: what speaks against it by our own checks, else what the API server answers."""
    against: dict[str, list[str]] = defaultdict(list)
    notes: dict[str, list[str]] = defaultdict(list)
    for one in objections:
        (notes if one.is_note else against)[one.pod_uid].append(one.sentence)
    returning = returning_moves(look.version.plan.cluster, look.plan, look.now, look.picture)
    for uid, sentence in returning.items():
        against[uid].append(sentence)
    leaving: list[Leaving] = [*look.plan.moves, *look.plan.preemptions]
    asked = [one for one in leaving if one.pod_uid not in against]
    answers = dict(zip((one.pod_uid for one in asked), _ask_all(look.gateway, asked), strict=True))
    found = []
    for move in leaving:
        refused = (False, " ".join(against.get(move.pod_uid, ())))
        allowed, message = answers.get(move.pod_uid, refused)
        if allowed:
            message = "; ".join(notes.get(move.pod_uid, ()))
        facts = {"pod_uid": move.pod_uid, "pod": move.pod, "allowed": allowed, "message": message}
        found.append(DryRun(version=look.version, at=look.now, **facts))
    return found


def tell_whole_plan(look: Look, objections: Iterable[Objection]) -> list[DryRun]:
    """What speaks against the plan as a whole, kept beside the dry runs; none where nothing does."""
    said = list(as_refusals(look, (one for one in objections if not one.pod_uid)))
    if not said:
        return []
    facts = {"pod_uid": WHOLE_PLAN, "pod": WHOLE_PLAN, "allowed": False, "message": " ".join(said)}
    return [DryRun(version=look.version, at=look.now, **facts)]


def _ask_all(gateway: Gateway, asked: Sequence[Leaving]) -> list[Answered]:
    """In the order of `asked`, a few at a time: a door is safe to share between threads, and nothing here
    opens the database. What no pod is to blame for (nobody answers) is raised, and what is left is not asked.
    """
    if not asked:
        return []
    with ThreadPoolExecutor(min(ASKED_AT_ONCE, len(asked)), thread_name_prefix="dry-run") as pool:
        # The log of requests goes by context: each request counts for what its asker looks at.
        waiting = [pool.submit(copy_context().run, _ask_eviction, gateway, one) for one in asked]
        try:
            return [one.result() for one in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _ask_eviction(gateway: Gateway, move: Leaving) -> Answered:
    namespace, _, name = move.pod.partition("/")
    try:
        gateway.evict_pod(namespace, name, uid=move.pod_uid, dry_run=True)
    except (errors.BudgetExhausted, errors.SeveralBudgets, errors.Conflict, errors.NotFound) as error:
        return False, str(error)
    except (errors.Forbidden, errors.Invalid, errors.MovedByItsOwner) as error:
        return False, str(error)
    return True, ""


def as_refusals(look: Look, objections: Iterable[Objection]) -> Iterator[str]:
    for one in objections:
        if not one.is_note:
            pod = look.picture.pods.get(one.pod_uid)
            yield f"{pod.key} cannot be evicted: {one.sentence}" if pod is not None else one.sentence
