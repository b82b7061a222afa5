"""Everything that the page of one plan shows, put together from plans, snapshots and executions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone
from django.utils.safestring import SafeString

from apps.accounts import queries as accounts
from apps.accounts.rights import Action
from apps.clusters import queries as clusters
from apps.dashboard.drawings.moves import draw_moves, draw_strip_after, draw_strip_before
from apps.dashboard.reading.cuts import NodeCuts, list_cuts, tell_what
from apps.dashboard.reading.fate import tell_fate
from apps.dashboard.reading.keys import key_of
from apps.dashboard.reading.look import look_at
from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.moving import Stage, stage_moves
from apps.dashboard.reading.plan_lines import PreemptionLine, Wave, list_preemptions, list_waves
from apps.dashboard.reading.plan_page import (
    COST_WORDS,
    STATES,
    Check,
    Fact,
    check_decision,
    own_part,
    tell_facts,
    tell_refusals,
)
from apps.dashboard.reading.quality import (
    RunnerUp,
    list_relaxed,
    tell_ending,
    tell_preempted,
    tell_runner_up,
)
from apps.dashboard.reading.searching import SearchView, view_search
from apps.dashboard.reading.times import age_of
from apps.dashboard.reading.words import plural
from apps.executions import queries as executions
from apps.executions.dry_runs import WHOLE_PLAN
from apps.executions.permission import why_not_start
from apps.executions.states import TERMINAL, ExecutionState
from apps.executions.ways import why_not_again
from apps.planner.plan import NamedLayout, Plan
from apps.planner.snapshot import Snapshot
from apps.plans import queries
from apps.plans.models import Decision, PlanVersion
from apps.plans.models import Plan as PlanRow
from apps.plans.policies import policy_of
from apps.plans.states import PlanState

MOST_DRAWN = 24
DECIDABLE = (PlanState.DRAFT, PlanState.PROPOSED, PlanState.APPROVED)


@dataclass(frozen=True, slots=True)
class Mini:
    """A node's strip for narrow screens."""

    name: str
    before: SafeString
    after: SafeString
    before_note: str
    after_note: str
    is_freed: bool


@dataclass(frozen=True, slots=True)
class PlanPicture:
    """progress: computing, stopping, ready, empty or failed. search: how far it is while it is computed.
    ending: what cut the search short. losing: the warning over preempted pods. blocked: why Approve is off,
    "" if it is on. held: what the cluster's policy has against a start now. why_not_again:
    why a plan that began once cannot be started as it is. refusals: what the eviction dry
    run warns of. awaits_dry_run: it has been asked for and not answered."""

    state: tuple[str, str, str]
    progress: str
    version: PlanVersion | None = None
    plan: Plan | None = None
    search: SearchView | None = None
    facts: Sequence[Fact] = ()
    ending: str = ""
    waves: Sequence[Wave] = ()
    preemptions: Sequence[PreemptionLine] = ()
    losing: str = ""
    runner_up: RunnerUp | None = None
    relaxed: Sequence[str] = ()
    may_stop: bool = False
    cuts: Sequence[NodeCuts] = ()
    layouts: Sequence[tuple[NamedLayout, str]] = ()
    what: str = ""
    map: SafeString | str = ""
    minis: Sequence[Mini] = ()
    undrawn: int = 0
    changes: Sequence[str] = ()
    checks: Sequence[Check] = ()
    blocked: str = ""
    refusals: str = ""
    part: str = ""
    decision: Decision | None = None
    runs: Sequence[Any] = ()
    dry_run_at: Any = None
    awaits_dry_run: bool = False
    can_withdraw: bool = False
    cost_words: str = COST_WORDS
    decide_key: str = ""
    held: str = ""
    why_not_again: str = ""
    requires_ticket: bool = False

    @property
    def can_ask_anew(self) -> bool:
        """All that was begun of it has ended, not as planned, and it cannot be started as it is."""
        return bool(self.why_not_again and self.runs) and all(
            run.state in TERMINAL and run.state != ExecutionState.SUCCEEDED for run in self.runs
        )


def draw_plan(row: PlanRow, user: Any) -> PlanPicture:
    version = queries.current_version(row)
    progress = queries.progress_of(row, version)
    own = own_part(row, user)
    facts: dict[str, Any] = {"state": tell_fate(row), "progress": progress, "part": own}
    facts["search"] = view_search(row)
    facts["requires_ticket"] = policy_of(row.cluster).requires_ticket
    rights = accounts.actions_on(user, row.cluster)
    is_author = user.pk in (row.created_by_id, row.edited_by_id) and Action.PLAN in rights
    facts["can_withdraw"] = (
        row.state in DECIDABLE and not row.begun_at and (is_author or Action.ADMINISTER in rights)
    )
    facts["may_stop"] = facts["can_withdraw"] and facts["search"] is not None
    if version is not None:
        facts |= _draw_version(row, version, user, may_approve=Action.APPROVE in rights)
    if row.state == PlanState.APPROVED:
        facts["why_not_again"] = why_not_again(row) if row.begun_at else ""
        facts["held"] = "" if facts["why_not_again"] else why_not_start(row.cluster)
    facts["decide_key"] = key_of(
        facts.get("held"),
        facts.get("why_not_again"),
        facts["requires_ticket"],
        row.change_ticket,
        row.state,
        row.version_number,
        row.begun_at,
        progress,
        own,
        sorted(rights),
        facts.get("blocked"),
        [check.text for check in facts.get("checks", ())],
        [(run.pk, run.state) for run in facts.get("runs", ())],
    )
    return PlanPicture(**facts)


def _draw_version(row: PlanRow, version: PlanVersion, user: Any, *, may_approve: bool) -> dict[str, Any]:
    plan = queries.open_plan(version)
    snapshot = clusters.open_snapshot(version.snapshot) if version.snapshot else None
    is_open = row.state in DECIDABLE and not row.begun_at
    changes = queries.compare_with_now(version).changes if is_open else None
    dry_runs = list(executions.dry_run_of(version))
    answers = {one.pod_uid: one for one in dry_runs}
    marks = look_at(snapshot).marks if snapshot else {}
    waves = list_waves(plan, snapshot, marks, answers)
    losing = tell_preempted(plan)
    lines = [line for wave in waves for line in wave.lines]
    preempted = list_preemptions(plan, snapshot, marks, answers)
    cuts = list_cuts(plan, snapshot, found=answers)
    told: dict[str, Any] = {"lines": lines, "cuts": cuts, "preempted": preempted, "losing": losing}
    told |= {"changes": changes or (), "is_stale_view": _is_view_stale(row)}
    told["waivers"], told["lowerings"] = plan.waivers, plan.lowerings
    told["against"] = answers[WHOLE_PLAN].message if WHOLE_PLAN in answers else ""
    checks = check_decision(row, user, may_approve=may_approve, **told)
    asked = len(lines) + len(preempted) + len(cuts)
    return {
        "version": version,
        "plan": plan,
        "facts": tell_facts(plan, version, changes),
        **_tell_quality(plan, version),
        "waves": waves,
        "preemptions": preempted,
        "losing": losing,
        "cuts": cuts,
        "layouts": [(one, answers[one.name].message if one.name in answers else "") for one in plan.layouts],
        "what": tell_what(plan),
        "changes": changes or (),
        "checks": checks,
        "blocked": _why_blocked(row, checks),
        "refusals": tell_refusals(lines, cuts, preempted),
        "awaits_dry_run": row.state == PlanState.PROPOSED and len(dry_runs) < asked,
        "dry_run_at": max((one.at for one in dry_runs), default=None),
        **_tell_history(row, version),
        **_draw_map(snapshot, plan, marks),
    }


def _tell_history(row: PlanRow, version: PlanVersion) -> dict[str, Any]:
    return {
        "decision": row.decisions.filter(version=version).select_related("decided_by").first(),
        "runs": list(executions.executions_of(row)),
    }


def _tell_quality(plan: Plan, version: PlanVersion) -> dict[str, Any]:
    return {
        "ending": tell_ending(plan, version),
        "runner_up": tell_runner_up(plan.runner_up),
        "relaxed": list_relaxed(plan),
    }


def _is_view_stale(row: PlanRow) -> bool:
    newest = clusters.latest_snapshot(row.cluster)
    return age_of(newest.taken_at if newest else None).state == "stale"


def _why_blocked(row: PlanRow, checks: Sequence[Check]) -> str:
    if row.state != PlanState.PROPOSED:
        return f"the plan is {STATES[row.state][0].lower()}"
    if row.expires_at is not None and row.expires_at <= timezone.now():
        return f"it expired at {row.expires_at:%H:%M} UTC"
    return next((check.text for check in checks if check.blocks), "")


def _draw_map(snapshot: Snapshot | None, plan: Plan, marks: Mapping[str, Mark]) -> dict[str, Any]:
    if snapshot is None or not (plan.moves or plan.preemptions):
        return {}
    stages = stage_moves(snapshot, plan)
    pins = {move.pod_uid: move.order for move in plan.moves}
    drawn = stages[:MOST_DRAWN]
    happens = [plural(len(plan.moves), "move")] if plan.moves else []
    happens += [plural(len(plan.preemptions), "preemption")] if plan.preemptions else []
    return {
        "map": draw_moves(drawn, plan.moves, marks, f"After {' and '.join(happens)}"),
        "minis": [_mini(stage, marks, pins) for stage in drawn],
        "undrawn": len(stages) - len(drawn),
    }


def _mini(stage: Stage, marks: Mapping[str, Mark], pins: Mapping[str, int]) -> Mini:
    return Mini(
        name=stage.view.node.name,
        before=draw_strip_before(stage, marks, pins),
        after=draw_strip_after(stage, marks, pins),
        before_note=f"{stage.view.free} free" if stage.view.free else "full",
        after_note="node free" if stage.is_freed else stage.note,
        is_freed=stage.is_freed,
    )
