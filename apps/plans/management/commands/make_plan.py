"""A plan for a dump or a trace, without database or cluster: nothing is stored, nothing is moved."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from typing import Any

from apps.clusters.answering import OfflineCommand
from apps.fragmentation.offline import add_source_arguments, bad_input, open_source
from apps.planner.plan import Goal
from apps.planner.plan_json import plan_to_answer
from apps.planner.queue_unlock import MOST_STAGES
from apps.planner.searching import PlanRequest, search_plan
from apps.planner.verification import check_plan
from apps.planner.waiting import list_waiting
from apps.plans.plan_text import as_text

MOST_MOVES = 5000
USUAL_MOVES = 50
BUSY = 3


class Command(OfflineCommand):
    help = "Plan moves that free whole nodes or make room for what waits, or MIG layouts for it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_source_arguments(parser)
        parser.add_argument("--goal", choices=[goal.value for goal in Goal], required=True)
        parser.add_argument("--max-moves", type=_whole, default=USUAL_MOVES, metavar="K", help="default: 50")
        parser.add_argument(
            "--seconds",
            type=_positive,
            default=10.0,
            metavar="S",
            help=f"CPU time of the search; on a busy machine it ends after {BUSY} times as long; default: 10",
        )
        parser.add_argument(
            "--workload",
            metavar="NAMESPACE/NAME",
            help="what to unlock (default: all that waits), or what is to ask for less GPU memory",
        )
        parser.add_argument(
            "--preempt",
            action="store_true",
            help="let less important pods give way to --workload where moves alone make no room",
        )
        parser.add_argument(
            "--stages",
            type=int,
            choices=range(1, MOST_STAGES + 1),
            metavar="N",
            help="more than 1: moves may go where earlier moves of the plan make room (unlock of all that "
            f"waits, where {MOST_STAGES}, that is as many as help, is the default); the console makes and "
            "executes plans of one stage only",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        snapshot = open_source(options)
        workload = options["workload"]
        _require_workload(options["goal"], workload)
        if options["preempt"] and not workload:
            raise bad_input("--preempt goes with --workload: say for whom others may give way")
        is_all = options["goal"] == Goal.UNLOCK and not workload
        stages = options["stages"] or (MOST_STAGES if is_all else 1)
        if stages > 1 and not is_all:
            raise bad_input("--stages goes with --goal unlock for all that waits only")
        if workload and workload not in list_waiting(snapshot)[0]:
            raise bad_input(f"--workload: no pending pod or gang is called {workload!r}")
        begun = time.monotonic()
        request = PlanRequest(
            Goal(options["goal"]), options["max_moves"], workload, options["preempt"], stages
        )
        is_late = _deadline(options["seconds"])
        plan = search_plan(snapshot, request, deadline=is_late)
        is_cut_short = is_late()
        seconds = time.monotonic() - begun
        violations = check_plan(snapshot, plan)
        if violations:
            raise RuntimeError(f"the planner's answer breaks a rule: {violations[0]}")
        answer = plan_to_answer(plan, seconds)
        if options["json"]:
            self.stdout.write(json.dumps(answer))
        else:
            self.tell(as_text(plan, seconds, is_cut_short=is_cut_short))


def _deadline(seconds: float) -> Callable[[], bool]:
    """What others do on the machine takes time from nobody's search, as long as it ends at all."""
    cpu, clock = time.process_time(), time.monotonic()
    return lambda: time.process_time() - cpu >= seconds or time.monotonic() - clock >= BUSY * seconds


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


def _require_workload(goal: str, workload: str | None) -> None:
    if workload and goal not in (Goal.UNLOCK, Goal.LOWER_MEMORY):
        raise bad_input("--workload goes with --goal unlock or lower-memory only")
    if goal == Goal.LOWER_MEMORY and not workload:
        raise bad_input("--goal lower-memory goes with --workload: say what is to ask for less GPU memory")
