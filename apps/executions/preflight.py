"""Before the first effect: is everything still as it was approved, and would the cluster let us?

Reads a fresh picture, compares it with what was approved, verifies the plan on it by the planner's
independent code, asks `checks`, asks for every eviction by dry run, and looks once more. Nothing is touched.
What a person sees of the dry runs at review comes from here too (`run_dry_runs`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from apps.clusters import queries as clusters
from apps.clusters.gateways import open_gateway
from apps.executions import ledger
from apps.executions.blueprint import cordoned_nodes
from apps.executions.checks.authority import check_authority
from apps.executions.checks.budgets import check_budgets
from apps.executions.checks.gangs import check_gangs
from apps.executions.checks.holds import check_holds
from apps.executions.checks.looking import Check, Look, Objection
from apps.executions.checks.lowering import check_lowerings
from apps.executions.checks.maintenance import check_maintenance
from apps.executions.checks.namespaces import check_namespaces, check_quotas
from apps.executions.checks.offers import check_offers
from apps.executions.checks.owners import (
    check_autoscalers,
    check_failure_policies,
    check_jobs,
    check_owners,
)
from apps.executions.checks.rights import check_rights
from apps.executions.checks.schedulers import check_other_schedulers
from apps.executions.checks.steering import check_hand_overs, check_steering
from apps.executions.drifting import drifted_nodes
from apps.executions.dry_runs import (
    as_refusals,
    ask_evictions,
    relay_runs,
    store_dry_runs,
    tell_whole_plan,
)
from apps.executions.leased_gateway import LOOK_SECONDS
from apps.executions.mig_preflight import examine_layouts
from apps.executions.models import DryRun
from apps.executions.pictures import NEEDED, take_picture
from apps.kube import errors
from apps.kube.gateway import DEPLOYMENTS, JOBS, NAMESPACES, NODES, PODS, Gateway, Json, Kind
from apps.kube.live_view import LiveView, StaleView
from apps.kube.object_store import KeptObject, list_kept
from apps.planner.movability import MovabilityRules
from apps.planner.plan import Plan
from apps.planner.plan_json import digest
from apps.planner.snapshot import Snapshot
from apps.planner.staleness import what_changed
from apps.planner.verification import check_plan
from apps.planner.waiving import waive
from apps.plans import queries as plans
from apps.plans.models import PlanVersion
from apps.plans.policies import policy_of, what_forbids

SAFE_UID = re.compile(r"[0-9A-Za-z-]{1,64}")
SAFE_NAME = re.compile(r"[0-9a-z]([0-9a-z.-]{0,251}[0-9a-z])?")
HIGHEST_USER_PRIORITY = 1_000_000_000
ASKED_AGAIN = (NAMESPACES, JOBS)
"""Lists of the picture that checks look into as well."""
FOLLOWED_LATER = (NODES, PODS, NAMESPACES)
LIVELY = (*NEEDED, DEPLOYMENTS)
"""Read again right before the first effect; what else a picture holds is taken from a moment ago."""


@dataclass(frozen=True)
class Findings:
    """changes: why the plan is stale. refusals: why it cannot be carried out here and now.
    picture: what the steps are made from. dry_runs: one for each eviction and each node to be relaid.
    layouts: what the step of each such node needs. form: how replacements are steered."""

    picture: Snapshot
    changes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    dry_runs: tuple[DryRun, ...] = ()
    layouts: tuple[Json, ...] = ()
    form: str = ""


CHECKS: tuple[Check, ...] = (
    check_authority,
    check_rights,
    check_owners,
    check_jobs,
    check_failure_policies,
    check_autoscalers,
    check_budgets,
    check_gangs,
    check_maintenance,
    check_offers,
    check_other_schedulers,
    check_namespaces,
    check_quotas,
    check_steering,
    check_holds,
    check_hand_overs,
    check_lowerings,
)
"""Each is asked at review, at the preflight, and once more right before the first effect. One that needs more
of the cluster than the picture reads it through `Look.listed`."""


def examine(version: PlanVersion, gateway: Gateway, view: LiveView | None = None) -> Findings:
    """Validate, simulate, validate again. Raises KubeError where the cluster cannot be read (then nothing is
    known, and nothing begins). view: whose streams, begun for the second look, the steps go on with."""
    if digest(version.body) != version.digest:
        nothing = Snapshot(version.plan.cluster.name, 0.0)
        return Findings(nothing, refusals=("The stored plan is not the one that was approved.",))
    lists: dict[Kind, list[KeptObject]] = {}
    look = take_look(version, gateway, keep=lists)
    before = clusters.open_snapshot(version.snapshot) if version.snapshot else None
    changes = _what_changed(look, before)
    if changes:
        return Findings(look.picture, changes=changes)
    found = _simulate(look)
    if found.changes or found.refusals:
        return found
    again = take_look(version, gateway, known=lists, view=view)
    changes = _what_changed(again, look.picture) or tuple(check_plan(again.picture, again.plan))
    refusals = tuple(as_refusals(again, run_checks(again)))
    return replace(found, picture=again.picture, changes=changes, refusals=refusals)


def take_look(
    version: PlanVersion,
    gateway: Gateway,
    *,
    keep: dict[Kind, list[KeptObject]] | None = None,
    known: Mapping[Kind, list[KeptObject]] | None = None,
    view: LiveView | None = None,
) -> Look:
    """keep: filled with the lists of kinds that seldom change, or are not there. known: such lists of a
    moment ago. view: its streams begin with a list made now; that is taken instead of another one."""
    now = ledger.database_time()
    read: dict[Kind, list[KeptObject]] = {}

    def listed(kind: Kind) -> list[KeptObject]:
        if known is not None and kind in known:
            return known[kind]
        try:
            found = _list_now(gateway, kind, view)
        except errors.NotFound:
            if keep is not None and kind not in LIVELY:
                keep[kind] = []
            raise
        if keep is not None and kind not in LIVELY:
            keep[kind] = found
        if kind in ASKED_AGAIN:
            read[kind] = found
        return found

    picture = take_picture(listed, cluster=version.plan.cluster.name, taken_at=now.timestamp())
    return Look(version, plans.open_plan(version), picture, gateway, now, read)


def _list_now(gateway: Gateway, kind: Kind, view: LiveView | None) -> list[KeptObject]:
    if view is not None and kind in FOLLOWED_LATER:
        try:
            return view.list_kept(kind, within=LOOK_SECONDS)
        except StaleView:
            pass
    return list_kept(gateway, kind)


def run_checks(look: Look) -> list[Objection]:
    found: list[Objection] = []
    for check in CHECKS:
        try:
            found.extend(check(look))
        except errors.Forbidden as error:
            found.append(Objection(f"{error}. What is not known forbids: grant it, see deploy/rbac."))
    return found


def _what_changed(look: Look, before: Snapshot | None) -> tuple[str, ...]:
    cluster = look.version.plan.cluster
    forbidden = what_forbids(policy_of(cluster), look.plan)
    # The picture was taken without what its nodes showed before: of drift the watcher's snapshots tell.
    changed = forbidden or what_changed(look.plan, before, look.picture) or drifted_nodes(cluster, look.plan)
    return tuple(changed)


def _simulate(look: Look) -> Findings:
    version, plan, picture = look.version, look.plan, look.picture
    relaid = examine_layouts(plan, picture, look.gateway)
    objections = run_checks(look)
    refusals = [reason for one in relaid for reason in one.refusals]
    refusals += as_refusals(look, (one for one in objections if not one.pod_uid))
    is_barred = bool(refusals) or any(not one.is_note for one in objections)
    changes = () if is_barred else tuple(check_plan(picture, plan))
    if changes:
        return Findings(picture, changes=changes)
    refusals += why_not_here(plan, picture)
    runs = ask_evictions(look, objections)
    refusals += [f"{run.pod} cannot be evicted: {run.message}" for run in runs if not run.allowed]
    asked = (*relay_runs(version, relaid), *runs)
    layouts = tuple(one.params for one in relaid)
    form = look.steering.form if plan.moves else ""
    return Findings(picture, (), tuple(dict.fromkeys(refusals)), asked, layouts, form)


def why_not_here(plan: Plan, picture: Snapshot) -> list[str]:
    """What this console cannot do safely, though the plan is right. Pure."""
    reasons: list[str] = []
    picture = waive(picture, plan.waivers)
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
    version = PlanVersion.objects.select_related("plan__cluster", "snapshot").get(pk=version_id)
    gateway = open_gateway(version.plan.cluster)
    try:
        look = take_look(version, gateway)
        runs = relay_runs(version, examine_layouts(look.plan, look.picture, gateway))
        objections = run_checks(look)
        runs += ask_evictions(look, objections)
        runs += tell_whole_plan(look, objections)
    finally:
        gateway.close()
    store_dry_runs(version, runs)
    return runs
