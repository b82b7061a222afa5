"""What the page of a plan says: facts, the moves table, and the checklist beside the decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.dashboard.reading.cuts import NodeCuts
from apps.dashboard.reading.plan_lines import MoveLine, PreemptionLine
from apps.dashboard.reading.quality import tell_distance
from apps.dashboard.reading.times import duration, gpu_time, seconds_since
from apps.dashboard.reading.words import listing, plural
from apps.planner.costs import DEFAULT_COSTS
from apps.planner.plan import Goal, Lowering, Plan, Waiver
from apps.plans.models import Plan as PlanRow
from apps.plans.models import PlanVersion
from apps.plans.states import PlanState

STATES: Mapping[str, tuple[str, str, str]] = {
    PlanState.DRAFT: ("Draft", "", "ring"),
    PlanState.PROPOSED: ("Proposed, waits for approval", "info", "half"),
    PlanState.APPROVED: ("Approved", "ok", "ok"),
    PlanState.REJECTED: ("Rejected", "", "x"),
    PlanState.STALE: ("Stale", "bad", "oct"),
    PlanState.EXPIRED: ("Expired", "", "x"),
    PlanState.WITHDRAWN: ("Withdrawn", "", "x"),
}
COST_WORDS = (
    "Running time since the last checkpoint and the restart, times GPUs. Where no checkpoint is known, all "
    "time since the start counts, of a serving replica too, at most "
    f"{DEFAULT_COSTS.most_lost_seconds / 3600:.0f} h: nobody tells what could be lost. Weighted: online work "
    f"counts {DEFAULT_COSTS.online_weight:.0f} times, production "
    f"{DEFAULT_COSTS.production_weight:.0f} times, so it is more than the hours that passed."
)


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    value: str
    note: str
    title: str = ""


def tell_facts(plan: Plan, version: PlanVersion, changes: Sequence[str] | None) -> list[Fact]:
    """changes: what no longer fits; None when that is not asked any more (the plan is decided)."""
    waves = len({move.wave for move in plan.moves})
    gpus = sum(move.gpus for move in plan.moves)
    workloads = len({move.workload_uid or move.pod_uid for move in plan.moves})
    age = duration(seconds_since(version.snapshot_taken_at) or 0)
    fits = "" if changes is None else ", still matches" if not changes else ", no longer matches"
    number = version.snapshot_id or "no longer kept"
    moved = Fact(
        "Moves",
        f"{len(plan.moves)}, in {plural(waves, 'wave')}" if waves else "none",
        f"{plural(gpus, 'GPU')}, {plural(workloads, 'workload')}"
        if plan.goal is not Goal.MIG
        else plural(workloads, "workload")
        if waves
        else "nobody has to leave",
    )
    cut = [_tell_cuts(plan)] if plan.reconfigurations else []
    return [
        Fact("Gain", gain(plan), _gain_note(plan)),
        *cut,
        moved,
        *_tell_preempted(plan),
        Fact("Distance from optimum", *tell_distance(plan)),
        Fact("Cost", gpu_time(plan.cost), "of work lost, weighted", COST_WORDS),
        Fact("Snapshot", f"{age} old", f"number {number}{fits}"),
    ]


def _tell_cuts(plan: Plan) -> Fact:
    nodes = dict.fromkeys(one.node for one in plan.reconfigurations)
    note = f"on {listing(list(nodes), 3)}, cordoned meanwhile"
    return Fact("Cut anew", plural(len(plan.reconfigurations), "GPU"), note)


def _tell_preempted(plan: Plan) -> list[Fact]:
    if not plan.preemptions:
        return []
    gpus = sum(one.gpus for one in plan.preemptions)
    return [Fact("Preempted", plural(len(plan.preemptions), "pod"), f"{plural(gpus, 'GPU')}, no new place")]


def gain(plan: Plan) -> str:
    if plan.freed_nodes:
        return f"frees {plural(len(plan.freed_nodes), 'node')}"
    if plan.goal is Goal.MIG and plan.unlocked:
        return f"starts {plural(len(plan.hand_overs), 'pod')}"
    if plan.lowerings:
        starts = sum(one.starts for one in plan.lowerings)
        return f"{plural(starts, 'pod')} could start" if starts else "none could start yet"
    return f"starts {plural(len(plan.unlocked), 'workload')}" if plan.unlocked else "nothing"


def _gain_note(plan: Plan) -> str:
    if plan.goal in (Goal.MIG, Goal.LOWER_MEMORY):
        return plan.sentence
    if plan.unlocked:
        names = [key.partition("/")[2] or key for key in plan.unlocked]
        return f"unlocks {listing(names, 3)} ({plural(plan.unlocked_gpus, 'GPU')})"
    return listing(list(plan.freed_nodes), 3) if plan.freed_nodes else plan.sentence


@dataclass(frozen=True, slots=True)
class Check:
    """blocks: the approval would be refused for this."""

    tone: str
    text: str
    blocks: bool = False

    @property
    def symbol(self) -> str:
        return {"ok": "ok", "bad": "oct", "warn": "tri"}[self.tone]


def own_part(row: PlanRow, user: Any) -> str:
    """What the person had to do with the plan: "asked for", "edited" or "proposed"; "" for somebody else."""
    parts = ((row.created_by_id, "asked for"), (row.edited_by_id, "edited"), (row.proposed_by_id, "proposed"))
    return next((part for person, part in parts if person == user.pk), "")


def check_decision(
    row: PlanRow,
    user: Any,
    *,
    may_approve: bool,
    changes: Sequence[str],
    lines: Sequence[MoveLine],
    cuts: Sequence[NodeCuts] = (),
    is_stale_view: bool,
    preempted: Sequence[PreemptionLine] = (),
    losing: str = "",
    against: str = "",
    waivers: Sequence[Waiver] = (),
    lowerings: Sequence[Lowering] = (),
) -> list[Check]:
    """Everything that the approval will ask again, as far as it can be seen now. losing: who gives way
    without a new place, "" for nobody. against: what speaks against the plan as a whole, "" if nothing."""
    checks = [_check_snapshot(changes, is_stale_view)]
    part = own_part(row, user)
    checks += _check_signing(waivers, against)
    checks += [_check_dry_runs(lines, preempted)] if lines or preempted or not (cuts or lowerings) else []
    checks += [_check_cuts(one) for one in cuts]
    checks += [_check_lowering(one) for one in lowerings]
    checks += [Check("warn", losing)] if losing else []
    if part:
        checks.append(Check("bad", f"You {part} this plan: somebody else must approve it", True))
    else:
        checks.append(Check("ok", f"You are not the requester ({row.created_by.get_username()})"))
    if not may_approve:
        checks.append(Check("bad", f"You have no approver role on {row.cluster.name}", True))
    checks += _check_losses(lines)
    return checks


def _check_snapshot(changes: Sequence[str], is_stale_view: bool) -> Check:
    if is_stale_view:
        return Check("bad", "The snapshot is too old to decide on: the cluster is not heard from", True)
    if changes:
        return Check("bad", f"{plural(len(changes), 'fact')} changed since the snapshot: {changes[0]}", True)
    return Check("ok", "The snapshot still matches the cluster")


def _check_signing(waivers: Sequence[Waiver], against: str) -> list[Check]:
    """What an approver signs for beside the moves, and what would keep the plan from beginning."""
    words = "is protected and moves by the waiver that"
    signed = [Check("warn", f"{one.pod} {words} {one.by} asked for: {one.reason}") for one in waivers]
    return [*signed, *([Check("bad", f"It would not begin as things are: {against}")] if against else [])]


def _check_dry_runs(lines: Sequence[MoveLine], preempted: Sequence[PreemptionLine]) -> Check:
    both: list[MoveLine | PreemptionLine] = [*lines, *preempted]
    asked = [line for line in both if line.dry_run is not None]
    refused = _refused_of(lines, preempted)
    if refused:
        return Check("bad", f"Eviction dry run refused for {refused}")
    if len(asked) < len(both):
        return Check("warn", f"Eviction dry run has answered for {len(asked)} of {len(both)} evictions")
    return Check("ok", f"Dry run: all {len(both)} evictions would be allowed")


def _check_lowering(one: Lowering) -> Check:
    told = "none of its pods runs, so nothing is interrupted"
    if not one.starts:
        return Check("warn", f"{one.owner}: {told}, but none could start with less either")
    return Check("ok", f"{one.owner}: {told}")


def _refused_of(lines: Sequence[MoveLine], preempted: Sequence[PreemptionLine]) -> str:
    """ "move 2", "moves 2 and 5", "preemption 1": whose eviction the API server would refuse; "" for none."""
    told = []
    moves = [str(line.move.order) for line in lines if line.dry_run and line.dry_run[1] == "bad"]
    others = [str(one.preemption.order) for one in preempted if one.dry_run and one.dry_run[1] == "bad"]
    for word, numbers in (("move", moves), ("preemption", others)):
        if numbers:
            told.append(f"{word if len(numbers) == 1 else word + 's'} {listing(numbers, 6)}")
    return listing(told)


def _check_cuts(cuts: NodeCuts) -> Check:
    if cuts.verdict is None:
        return Check("warn", f"Nobody has looked yet whether {cuts.node} can be cut anew")
    if cuts.is_refused:
        return Check("bad", f"{cuts.node} cannot be cut anew now, see the table")
    return Check("warn" if "a person decides" in cuts.message else "ok", f"{cuts.node}: {cuts.message}")


def tell_refusals(
    lines: Sequence[MoveLine], cuts: Sequence[NodeCuts] = (), preempted: Sequence[PreemptionLine] = ()
) -> str:
    """What an approver should know before the button: what would be refused now."""
    refused = _refused_of(lines, preempted)
    nodes = [one.node for one in cuts if one.is_refused]
    if nodes:
        return f"{listing(nodes, 6)} cannot be cut anew as things are. Started like this, nothing is touched."
    if not refused:
        return ""
    return f"The API server would refuse the eviction of {refused} now. Started like this, nothing is moved."


def _check_losses(lines: Sequence[MoveLine]) -> list[Check]:
    risky = [line for line in lines if line.move.risk_level != "low"]
    found = [
        Check("warn", f"Move {line.move.order}: {line.move.risk}") for line in risky[:3] if line.move.risk
    ]
    if len(risky) > 3:
        found.append(Check("warn", f"{len(risky) - 3} more moves carry a risk, see the table"))
    return found
