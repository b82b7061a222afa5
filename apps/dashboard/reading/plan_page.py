"""What the page of a plan says: facts, the moves table, and the checklist beside the decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.dashboard.reading.cuts import NodeCuts
from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.times import duration, gpu_time, seconds_since
from apps.dashboard.reading.words import listing, plural
from apps.planner.costs import DEFAULT_COSTS
from apps.planner.plan import Goal, Move, Plan
from apps.planner.snapshot import Snapshot
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
RISKS = {"low": "ok", "medium": "warn", "high": "bad"}


@dataclass(frozen=True, slots=True)
class MoveLine:
    """dry_run: (word, tone) or None while nobody asked the API server."""

    move: Move
    mark: Mark | None
    dry_run: tuple[str, str] | None
    dry_run_message: str
    grace: str
    checkpoint: str
    cost: str
    risk_tone: str

    @property
    def pod_name(self) -> str:
        return self.move.pod.partition("/")[2] or self.move.pod

    @property
    def namespace(self) -> str:
        return self.move.pod.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Wave:
    number: int
    moves: int
    lines: tuple[MoveLine, ...]


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
        Fact("Distance from optimum", *_distance(plan)),
        Fact("Cost", gpu_time(plan.cost), "of work lost, weighted", COST_WORDS),
        Fact("Snapshot", f"{age} old", f"number {number}{fits}"),
    ]


def _tell_cuts(plan: Plan) -> Fact:
    nodes = dict.fromkeys(one.node for one in plan.reconfigurations)
    note = f"on {listing(list(nodes), 3)}, cordoned meanwhile"
    return Fact("Cut anew", plural(len(plan.reconfigurations), "GPU"), note)


def gain(plan: Plan) -> str:
    if plan.freed_nodes:
        return f"frees {plural(len(plan.freed_nodes), 'node')}"
    if plan.goal is Goal.MIG and plan.unlocked:
        return f"starts {plural(len(plan.hand_overs), 'pod')}"
    return f"starts {plural(len(plan.unlocked), 'workload')}" if plan.unlocked else "nothing"


def _gain_note(plan: Plan) -> str:
    if plan.goal is Goal.MIG:
        return plan.sentence
    if plan.unlocked:
        names = [key.partition("/")[2] or key for key in plan.unlocked]
        return f"unlocks {listing(names, 3)} ({plural(plan.unlocked_gpus, 'GPU')})"
    return listing(list(plan.freed_nodes), 3) if plan.freed_nodes else plan.sentence


def _distance(plan: Plan) -> tuple[str, str]:
    bound = f"{plan.lower_bound:g}"
    what = (
        f"at most {bound} nodes"
        if plan.goal is Goal.FREE_NODES
        else f"at least {plural(int(plan.lower_bound), 'GPU')} cut anew"
        if plan.goal is Goal.MIG
        else f"at least {plural(int(plan.lower_bound), 'move')}"
    )
    if plan.proven_optimal:
        return "proven optimal", f"bound: {what}"
    return f"within {plan.gap * 100:.0f} %", f"bound: {what}; not proven optimal"


def list_waves(
    plan: Plan, snapshot: Snapshot | None, marks: Mapping[str, Mark], dry_runs: Mapping[str, Any]
) -> list[Wave]:
    """dry_runs: rows of the eviction dry run by pod uid."""
    waves: dict[int, list[MoveLine]] = {}
    for move in plan.moves:
        waves.setdefault(move.wave, []).append(_move_line(move, snapshot, marks, dry_runs.get(move.pod_uid)))
    return [Wave(number, len(lines), tuple(lines)) for number, lines in sorted(waves.items())]


def _move_line(move: Move, snapshot: Snapshot | None, marks: Mapping[str, Mark], dry_run: Any) -> MoveLine:
    pod = snapshot.pods.get(move.pod_uid) if snapshot else None
    verdict = None
    if dry_run is not None:
        verdict = ("passes", "ok") if dry_run.allowed else ("refused", "bad")
    checkpoint = "not known"
    if pod is not None:
        since = seconds_since(pod.checkpointed_at)
        checkpoint = f"{duration(since)} ago" if since is not None else "none known"
    return MoveLine(
        move=move,
        mark=marks.get(move.pod_uid),
        dry_run=verdict,
        dry_run_message=dry_run.message if dry_run is not None else "",
        grace=duration(pod.grace_seconds) if pod is not None else "not known",
        checkpoint=checkpoint,
        cost=gpu_time(move.cost),
        risk_tone=RISKS.get(move.risk_level, "warn"),
    )


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
) -> list[Check]:
    """Everything that the approval will ask again, as far as it can be seen now."""
    checks = []
    part = own_part(row, user)
    if is_stale_view:
        checks.append(
            Check("bad", "The snapshot is too old to decide on: the cluster is not heard from", True)
        )
    elif changes:
        checks.append(
            Check("bad", f"{plural(len(changes), 'fact')} changed since the snapshot: {changes[0]}", True)
        )
    else:
        checks.append(Check("ok", "The snapshot still matches the cluster"))
    checks += [_check_dry_runs(lines)] if lines or not cuts else []
    checks += [_check_cuts(one) for one in cuts]
    if part:
        checks.append(Check("bad", f"You {part} this plan: somebody else must approve it", True))
    else:
        checks.append(Check("ok", f"You are not the requester ({row.created_by.get_username()})"))
    if not may_approve:
        checks.append(Check("bad", f"You have no approver role on {row.cluster.name}", True))
    checks += _check_losses(lines)
    return checks


def _check_dry_runs(lines: Sequence[MoveLine]) -> Check:
    asked = [line for line in lines if line.dry_run is not None]
    refused = [line.move.order for line in asked if line.dry_run and line.dry_run[1] == "bad"]
    if refused:
        return Check("bad", f"Eviction dry run refused for move {listing([str(n) for n in refused])}")
    if len(asked) < len(lines):
        return Check("warn", f"Eviction dry run has answered for {len(asked)} of {len(lines)} moves")
    return Check("ok", f"Dry run: all {len(lines)} evictions would be allowed")


def _check_cuts(cuts: NodeCuts) -> Check:
    if cuts.verdict is None:
        return Check("warn", f"Nobody has looked yet whether {cuts.node} can be cut anew")
    if cuts.is_refused:
        return Check("bad", f"{cuts.node} cannot be cut anew now, see the table")
    return Check("warn" if "a person decides" in cuts.message else "ok", f"{cuts.node}: {cuts.message}")


def tell_refusals(lines: Sequence[MoveLine], cuts: Sequence[NodeCuts] = ()) -> str:
    """What an approver should know before the button: what would be refused now."""
    refused = [str(line.move.order) for line in lines if line.dry_run and line.dry_run[1] == "bad"]
    nodes = [one.node for one in cuts if one.is_refused]
    if nodes:
        return f"{listing(nodes, 6)} cannot be cut anew as things are. Started like this, nothing is touched."
    if not refused:
        return ""
    which = f"{'move' if len(refused) == 1 else 'moves'} {listing(refused, 6)}"
    return f"The API server would refuse the eviction of {which} now. Started like this, nothing is moved."


def _check_losses(lines: Sequence[MoveLine]) -> list[Check]:
    risky = [line for line in lines if line.move.risk_level != "low"]
    found = [
        Check("warn", f"Move {line.move.order}: {line.move.risk}") for line in risky[:3] if line.move.risk
    ]
    if len(risky) > 3:
        found.append(Check("warn", f"{len(risky) - 3} more moves carry a risk, see the table"))
    return found
