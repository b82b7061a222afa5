"""How good a plan is, in words: what is proven, what could still be better, what cut the search short.

"Optimal" is said only where the planner proved it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apps.dashboard.reading.times import duration, gpu_time
from apps.dashboard.reading.words import listing, plural
from apps.planner.plan import Alternative, Goal, Plan
from apps.plans.models import PlanVersion
from apps.plans.states import SearchEnding

MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """sentence: what it is and why it came second. facts: its sums, as words."""

    sentence: str
    facts: str


def tell_distance(plan: Plan) -> tuple[str, str]:
    """A value and a note: "Proven optimal", or how much better a plan could be at most."""
    if plan.goal is Goal.FREE_NODES:
        return _nodes_left(plan)
    what = "GPU" if plan.goal is Goal.MIG else "move"
    doing = "cut anew" if plan.goal is Goal.MIG else ""
    return _steps_too_many(plan, what, doing)


def _nodes_left(plan: Plan) -> tuple[str, str]:
    bound, freed = int(plan.lower_bound + 1e-9), len(plan.freed_nodes)
    if plan.proven_optimal:
        return "Proven optimal", "no plan frees more nodes, or as many with fewer moves"
    if bound <= freed:
        return "As many as can be", "no plan frees more; whether fewer moves would do is not proven"
    more = f"At most {bound - freed} more could be freed"
    return more, f"no plan frees more than {plural(bound, 'node')}: gap {_percent(plan.gap)}"


def _steps_too_many(plan: Plan, what: str, doing: str) -> tuple[str, str]:
    done = len(plan.reconfigurations)
    if plan.goal is not Goal.MIG:
        done = len(plan.moves) + len(plan.preemptions)
    bound = int(plan.lower_bound + 1 - 1e-9)
    if plan.proven_optimal:
        return "Proven optimal", f"no plan does it with fewer {what}s {doing}".rstrip()
    if not bound:
        return "Not known", "no bound is known, so a better plan may exist"
    least = f"at least {plural(bound, what)} {doing}".rstrip()
    if done <= bound:
        return "As few as can be", f"{least}; that nothing else is better is not proven"
    return f"At most {done - bound} too many", f"{least}: gap {_percent(plan.gap)}"


def _percent(gap: float) -> str:
    """Never 0 where something is left."""
    return f"{max(1, round(gap * 100))} %" if gap > 0 else "0 %"


def tell_ending(plan: Plan, version: PlanVersion) -> str:
    """What cut the search short, "" where the planner was through or its answer is proven all the same."""
    if plan.proven_optimal or not version.ending:
        return ""
    limit = duration(version.plan.request["seconds"])
    searched = duration(version.search_seconds or 0)
    if version.ending == SearchEnding.STOPPED:
        return f"The search was stopped after {searched}: this is the best plan that it had found."
    return (
        f"The search was cut short by its time limit of {limit}. With more time a better plan may be found."
    )


def tell_runner_up(other: Alternative | None) -> RunnerUp | None:
    if other is None:
        return None
    sums = [plural(other.moves, "move")]
    sums += [plural(other.preemptions, "preemption")] if other.preemptions else []
    sums.append(f"{gpu_time(other.cost)} of work lost, weighted")
    nodes = f"on {listing(list(other.nodes), MOST_NAMED)}: " if other.nodes else ""
    return RunnerUp(other.sentence, f"{nodes}{listing(sums)}")


def tell_preempted(plan: Plan) -> str:
    """The warning over pods that lose their place, "" without any."""
    count = len(plan.preemptions)
    if not count:
        return ""
    one = count == 1
    pods = "1 pod loses its place" if one else f"{count:,} pods lose their place"
    return (
        f"{pods} to what is more important: {'it is' if one else 'they are'} evicted within "
        f"{'its' if one else 'their'} disruption budget, no room is kept for {'it' if one else 'them'}, and "
        f"{'its replacement waits' if one else 'their replacements wait'} in the queue until there is room."
    )


def list_relaxed(plan: Plan) -> Sequence[str]:
    """What the bound leaves out in this instance; of MIG plans these stand beside the layouts."""
    return () if plan.goal is Goal.MIG else plan.relaxed
