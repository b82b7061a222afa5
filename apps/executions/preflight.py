"""Before the first effect: is everything still as it was approved, and would the cluster let us?

Reads a fresh picture, compares it with what was approved, verifies the plan on it by the planner's
independent code, and asks for every eviction by dry run. Nothing is touched. What a person sees of the dry
runs at review comes from here too (`run_dry_runs`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction

from apps.clusters import notices
from apps.clusters import queries as clusters
from apps.clusters.gateways import open_gateway
from apps.executions import ledger
from apps.executions.blueprint import cordoned_nodes
from apps.executions.drifting import drifted_nodes
from apps.executions.mig_preflight import NodeFindings, examine_layouts
from apps.executions.models import DryRun
from apps.executions.pictures import take_picture
from apps.executions.returning import returning_moves
from apps.kube import errors
from apps.kube.gateway import NODES, PODS, PRIORITY_CLASSES, WEBHOOKS, Gateway, Json, Kind
from apps.kube.object_store import list_kept
from apps.planner.movability import MovabilityRules
from apps.planner.plan import Move, Plan, Preemption
from apps.planner.plan_json import digest
from apps.planner.snapshot import Snapshot
from apps.planner.staleness import what_changed
from apps.planner.verification import check_plan
from apps.plans import queries as plans
from apps.plans.models import PlanVersion
from apps.plans.policies import policy_of, what_forbids

SAFE_UID = re.compile(r"[0-9A-Za-z-]{1,64}")
SAFE_NAME = re.compile(r"[0-9a-z]([0-9a-z.-]{0,251}[0-9a-z])?")
HIGHEST_USER_PRIORITY = 1_000_000_000


@dataclass(frozen=True)
class Findings:
    """changes: why the plan is stale. refusals: why it cannot be carried out here and now.
    picture: what the steps are made from. dry_runs: one for each eviction and each node to be relaid.
    layouts: what the step of each such node needs."""

    picture: Snapshot
    changes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    dry_runs: tuple[DryRun, ...] = ()
    layouts: tuple[Json, ...] = ()


def examine(version: PlanVersion, gateway: Gateway) -> Findings:
    """Look at everything once. Raises KubeError where the cluster cannot be read (then nothing is known)."""
    plan = plans.open_plan(version)
    cluster = version.plan.cluster
    now = ledger.database_time()
    picture = take_picture(
        lambda kind: list_kept(gateway, kind), cluster=cluster.name, taken_at=now.timestamp()
    )
    if digest(version.body) != version.digest:
        return Findings(picture, refusals=("The stored plan is not the one that was approved.",))
    before = clusters.open_snapshot(version.snapshot) if version.snapshot else None
    forbidden = what_forbids(policy_of(cluster), plan)
    # The picture was taken without what its nodes showed before: of drift the watcher's snapshots tell.
    changes = tuple(forbidden or what_changed(plan, before, picture) or drifted_nodes(cluster, plan))
    if changes:
        return Findings(picture, changes=changes)
    relaid = examine_layouts(plan, picture, gateway)
    refusals = tuple(reason for one in relaid for reason in one.refusals)
    changes = () if refusals else tuple(check_plan(picture, plan))
    if changes:
        return Findings(picture, changes=changes)
    refusals += (
        *returning_moves(cluster, plan, now),
        *why_not_here(plan, picture),
        *_missing_rights(gateway),
    )
    runs = _dry_runs(version, plan, picture, gateway)
    refusals += tuple(f"{run.pod} cannot be evicted: {run.message}" for run in runs if not run.allowed)
    asked = (*_relay_runs(version, relaid), *runs)
    return Findings(picture, (), refusals, asked, tuple(one.params for one in relaid))


def why_not_here(plan: Plan, picture: Snapshot) -> list[str]:
    """What this console cannot do safely, though the plan is right. Pure but for its settings."""
    needs_steering = bool(plan.moves) and not settings.STEERING_URL
    reasons = ["The steering webhook has no address (STEERING_URL)."] if needs_steering else []
    rules = MovabilityRules(picture)
    hostnames = Counter(node.hostname for node in picture.nodes.values())
    for move in plan.moves:
        pod, target = picture.pods[move.pod_uid], picture.nodes[move.target]
        verdict = rules.judge(pod)
        reasons += [f"{pod.key} must not be moved: {reason}" for reason in verdict.reasons]
        if not (SAFE_UID.fullmatch(pod.workload) and SAFE_NAME.fullmatch(pod.name)):
            reasons.append(f"{pod.key} has an owner whose UID cannot be used in an admission rule.")
        if pod.priority > HIGHEST_USER_PRIORITY:
            reasons.append(f"{pod.key} has a system priority: no hold can rank as high.")
        if not target.hostname or hostnames[target.hostname] > 1:
            reasons.append(f"Node {target.name} has no hostname label of its own to pin a pod to.")
    reasons += why_not_preempt(plan, picture)
    for hand_over in plan.hand_overs:
        waiting = picture.pods[hand_over.pod_uid]
        if waiting.scheduler != "default-scheduler" or waiting.gates:
            reasons.append(f"{waiting.key} waits for another scheduler or gate: it cannot be handed a node.")
    missing = [name for name in cordoned_nodes(plan) if name not in picture.nodes]
    return [*dict.fromkeys(reasons), *(f"Node {name} is gone." for name in missing)]


def why_not_preempt(plan: Plan, picture: Snapshot) -> list[str]:
    """What stands against letting these pods give way: the room of each must be kept for whom it is made."""
    kept, reasons = cordoned_nodes(plan), []
    for one in plan.preemptions:
        pod = picture.pods[one.pod_uid]
        if one.node not in kept:
            reasons.append(f"{pod.key} must not be preempted: {one.node} cannot be kept for what waits.")
        starting = [picture.pods[hand.pod_uid] for hand in plan.hand_overs if hand.node == one.node]
        if all(pod.priority >= other.priority for other in starting):
            reasons.append(f"{pod.key} must not be preempted: it is no less important than what waits.")
        reasons += [f"{pod.key} must not be preempted: {reason}" for reason in pod.protections]
    return reasons


def run_dry_runs(*, version_id: int) -> list[DryRun]:
    """Ask the cluster about every eviction of a version, and keep the answers for its reviewers.

    Raises KubeError where the cluster does not answer.
    """
    version = PlanVersion.objects.select_related("plan__cluster").get(pk=version_id)
    plan = plans.open_plan(version)
    gateway = open_gateway(version.plan.cluster)
    try:
        picture = take_picture(
            lambda kind: list_kept(gateway, kind),
            cluster=version.plan.cluster.name,
            taken_at=ledger.database_time().timestamp(),
        )
        runs = _relay_runs(version, examine_layouts(plan, picture, gateway))
        runs += _dry_runs(version, plan, picture, gateway)
    finally:
        gateway.close()
    store_dry_runs(version, runs)
    return runs


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


def _relay_runs(version: PlanVersion, relaid: Iterable[NodeFindings]) -> list[DryRun]:
    """What was found about each node to be relaid, kept beside the dry runs of evictions."""
    now = ledger.database_time()
    return [
        DryRun(
            version=version,
            pod_uid=one.node_uid[:64],
            pod=f"node {one.node}"[:320],
            allowed=not one.refusals,
            message=" ".join(one.refusals) or one.note,
            at=now,
        )
        for one in relaid
    ]


def _dry_runs(version: PlanVersion, plan: Plan, picture: Snapshot, gateway: Gateway) -> list[DryRun]:
    sums = _budget_sums(plan, picture)
    now = ledger.database_time()
    returning = returning_moves(version.plan.cluster, plan, now)
    found = []
    for move in _leaving(plan):
        if move.pod_uid in returning:
            allowed, message = False, returning[move.pod_uid]
        else:
            allowed, message = _ask_eviction(gateway, move)
        if allowed:
            message = sums.get(move.pod_uid, "")
        found.append(
            DryRun(
                version=version, pod_uid=move.pod_uid, pod=move.pod, allowed=allowed, message=message, at=now
            )
        )
    return found


def _leaving(plan: Plan) -> list[Move | Preemption]:
    return [*plan.moves, *plan.preemptions]


def _ask_eviction(gateway: Gateway, move: Move | Preemption) -> tuple[bool, str]:
    namespace, _, name = move.pod.partition("/")
    try:
        gateway.evict_pod(namespace, name, uid=move.pod_uid, dry_run=True)
    except (errors.BudgetExhausted, errors.SeveralBudgets, errors.Conflict, errors.NotFound) as error:
        return False, str(error)
    except (errors.Forbidden, errors.Invalid) as error:
        return False, str(error)
    return True, ""


def _budget_sums(plan: Plan, picture: Snapshot) -> dict[str, str]:
    """For pods under a budget that cannot lose all of the plan's pods at once: a sentence."""
    rules = MovabilityRules(picture)
    pods = [picture.pods[one.pod_uid] for one in _leaving(plan) if one.pod_uid in picture.pods]
    over = {pod.uid: rules.budgets_of(pod) for pod in pods}
    wanted = Counter(budget.uid for budgets in over.values() for budget in budgets)
    told = {}
    for uid, budgets in over.items():
        for budget in budgets:
            if wanted[budget.uid] > budget.disruptions_allowed:
                told[uid] = (
                    f"budget {budget.name} lets {budget.disruptions_allowed} go at once and the plan moves "
                    f"{wanted[budget.uid]}: they go one after the other"
                )
    return told


def _missing_rights(gateway: Gateway) -> list[str]:
    ours = settings.STEERING_NAMESPACE
    needed: list[tuple[str, Kind, str, str]] = [
        ("get", NODES, "", ""),
        ("patch", NODES, "", ""),
        ("get", PODS, "", ""),
        ("create", PODS, "eviction", ""),
        ("patch", PODS, "", ""),
        ("patch", PODS, "status", ""),
        ("create", PODS, "", ours),
        ("delete", PODS, "", ours),
        ("get", PRIORITY_CLASSES, "", ""),
        ("create", PRIORITY_CLASSES, "", ""),
        ("get", WEBHOOKS, "", ""),
        ("create", WEBHOOKS, "", ""),
        ("delete", WEBHOOKS, "", ""),
    ]
    return [
        f"The console's credential may not {verb} {kind.plural}{'/' + sub if sub else ''}."
        for verb, kind, sub, namespace in needed
        if not gateway.may(verb, kind, subresource=sub, namespace=namespace)
    ]
