"""A plan as lines for a terminal: what it gains, how good it is, each move by wave with its reason. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from apps.planner.plan import Goal, Move, Plan, Preemption, Reconfiguration

MOST_REFUSALS = 20


def as_text(plan: Plan, seconds: float, *, is_cut_short: bool = False) -> str:
    """seconds: how long the search took; is_cut_short: its time limit ended it."""
    return "\n".join(_lines(plan, seconds, is_cut_short))


def _lines(plan: Plan, seconds: float, is_cut_short: bool) -> Iterator[str]:
    yield plan.sentence
    ended = ", cut short by its time limit" if is_cut_short and not plan.proven_optimal else ""
    yield f"{_quality(plan)} ({seconds:.2f} s{ended})"
    yield from (_cut_line(one) for one in plan.reconfigurations if not one.after_moves)
    for wave, moves in groupby(plan.moves, key=lambda move: move.wave):
        yield from _wave_lines(wave, list(moves))
    yield from (_cut_line(one) for one in plan.reconfigurations if one.after_moves)
    yield from _preempted_lines(plan.preemptions)
    yield from (
        f"lower: {one.owner_kind} {one.owner} from {one.before_mib} to {one.after_mib} MiB  {one.reason}"
        for one in plan.lowerings
    )
    yield from (f"starts: {one.pod} on {one.node}" for one in plan.hand_overs)
    if plan.runner_up is not None:
        other = plan.runner_up
        sums = (
            f"{_count(other.moves, 'move')}, {_count(other.preemptions, 'preemption')}, cost {other.cost:.0f}"
        )
        yield f"second best: {other.sentence} ({sums})"
    yield from (f"relaxed: {one}" for one in plan.relaxed)
    yield from (f"refused: {one.pod}: {one.reason}" for one in plan.refused[:MOST_REFUSALS])
    if len(plan.refused) > MOST_REFUSALS:
        yield f"refused: and {len(plan.refused) - MOST_REFUSALS} more (--json has them all)"


def _quality(plan: Plan) -> str:
    """What is proven, or the bound and the gap to it."""
    if not (plan.moves or plan.reconfigurations or plan.preemptions or plan.lower_bound):
        return "No moves."
    if plan.goal is Goal.FREE_NODES:
        bound = f"no plan frees more than {_count(int(plan.lower_bound + 1e-9), 'node')}"
    elif plan.lower_bound:
        what = "reconfiguration" if plan.goal is Goal.MIG else "move"
        bound = f"no plan needs fewer than {_count(int(plan.lower_bound + 1 - 1e-9), what)}"
    else:
        bound = "no moves are needed" if plan.proven_optimal else ""
    if plan.proven_optimal:
        return f"Proven optimal: {bound}."
    return f"Not proven optimal: {bound}, gap {plan.gap:.1%}." if bound else "No bound is known."


def _wave_lines(wave: int, moves: list[Move]) -> Iterator[str]:
    yield f"wave {wave}: {_count(len(moves), 'move')}{' in parallel' if len(moves) > 1 else ''}"
    for move in moves:
        risk = f"  risk {move.risk_level}: {move.risk}" if move.risk else ""
        yield f"{move.order:4}. {move.pod}  {move.source} -> {move.target}  {move.reason}{risk}"


def _preempted_lines(preemptions: tuple[Preemption, ...]) -> Iterator[str]:
    if preemptions:
        yield f"preempted after the moves: {_count(len(preemptions), 'pod')}, which get no new place"
    for one in preemptions:
        yield f"{one.order:4}. {one.pod}  leaves {one.node}  priority {one.priority}  {one.reason}"


def _cut_line(one: Reconfiguration) -> str:
    before, after = (
        " + ".join(f"{number} x {profile}" for profile, number in sorted(layout.items()))
        for layout in (one.before, one.after)
    )
    when = "after the moves" if one.after_moves else "before the moves"
    return f"relay {when}: {one.node} GPU {one.index}  {before or 'not cut'} -> {after}  {one.reason}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
