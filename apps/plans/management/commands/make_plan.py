"""A plan for a dump or a trace, without database or cluster: nothing is stored, nothing is moved."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from typing import Any

from apps.clusters.answering import OfflineCommand
from apps.fragmentation.offline import add_source_arguments, bad_input, open_source
from apps.planner.plan import Goal, Plan, Reconfiguration
from apps.planner.plan_json import plan_to_answer
from apps.planner.searching import PlanRequest, search_plan
from apps.planner.verification import check_plan
from apps.planner.waiting import group_pending

MOST_MOVES = 5000
USUAL_MOVES = 50


class Command(OfflineCommand):
    help = "Plan moves that free whole nodes or make room for what waits, or MIG layouts for it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_source_arguments(parser)
        parser.add_argument("--goal", choices=[goal.value for goal in Goal], required=True)
        parser.add_argument("--max-moves", type=_whole, default=USUAL_MOVES, metavar="K", help="default: 50")
        parser.add_argument("--seconds", type=_positive, default=10.0, metavar="S", help="default: 10")
        parser.add_argument(
            "--workload", metavar="NAMESPACE/NAME", help="what to unlock; default: all that waits"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        snapshot = open_source(options)
        workload = options["workload"]
        if workload and options["goal"] != Goal.UNLOCK:
            raise bad_input("--workload goes with --goal unlock only")
        if workload and workload not in dict(group_pending(snapshot)):
            raise bad_input(f"--workload: no pending pod or gang is called {workload!r}")
        begun = time.monotonic()
        request = PlanRequest(Goal(options["goal"]), options["max_moves"], workload)
        plan = search_plan(snapshot, request, deadline=_deadline(begun + options["seconds"]))
        seconds = time.monotonic() - begun
        violations = check_plan(snapshot, plan)
        if violations:
            raise RuntimeError(f"the planner's answer breaks a rule: {violations[0]}")
        answer = plan_to_answer(plan, seconds)
        if options["json"]:
            self.stdout.write(json.dumps(answer))
        else:
            self.tell(as_text(plan, seconds))


def as_text(plan: Plan, seconds: float) -> str:
    lines = [f"{plan.sentence} ({_proof(plan)}, {seconds:.2f} s)"]
    lines += [_cut_line(one) for one in plan.reconfigurations if not one.after_moves]
    lines += [
        f"{move.order:4}. wave {move.wave}: {move.pod}  {move.source} -> {move.target}  {move.reason}"
        for move in plan.moves
    ]
    lines += [_cut_line(one) for one in plan.reconfigurations if one.after_moves]
    lines += [f"starts: {one.pod} on {one.node}" for one in plan.hand_overs]
    lines += [f"refused: {one.pod}: {one.reason}" for one in plan.refused[:20]]
    if plan.goal == Goal.MIG:
        lines += [f"note: {one}" for one in plan.relaxed]
    return "\n".join(lines)


def _cut_line(one: Reconfiguration) -> str:
    before, after = (
        " + ".join(f"{number} x {profile}" for profile, number in sorted(layout.items()))
        for layout in (one.before, one.after)
    )
    when = "after the moves" if one.after_moves else "before the moves"
    return f"relay {when}: {one.node} GPU {one.index}  {before or 'not cut'} -> {after}  {one.reason}"


def _proof(plan: Plan) -> str:
    if plan.proven_optimal:
        return "proven optimal"
    if not plan.moves and not plan.reconfigurations:
        return "no moves"
    # Of a whole queue nobody knows how few moves would do.
    return f"gap {plan.gap:.1%} to the bound" if plan.lower_bound else "no bound known"


def _deadline(end: float) -> Callable[[], bool]:
    return lambda: time.monotonic() >= end


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MOST_MOVES:
        raise ArgumentTypeError(f"must be a whole number from 0 to {MOST_MOVES}, not {text[:40]!r}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise ArgumentTypeError(f"must be a number of seconds up to 3600, not {text[:40]!r}")
    return value
