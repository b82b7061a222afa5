"""A trace replayed with a placement policy: how much of the GPUs it fills, without database or cluster."""

from __future__ import annotations

import json
import time
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from apps.clusters.answering import OfflineCommand
from apps.fragmentation.offline import NODE_COLUMNS, POD_COLUMNS, bad_input, read_table
from apps.planner.replay.asks import Ask, read_asks
from apps.planner.replay.nodes import EmptyNode, empty_nodes
from apps.planner.replay.replaying import MARKS, POLICIES, Noted, Replay, ReplayRequest, replay_trace
from apps.planner.trace import snapshot_from_rows


class Command(OfflineCommand):
    help = (
        "Replay a trace: its pods arrive in a shuffled order, then drawn again, until they have asked for "
        f"{MARKS[-1]} %% of the GPUs. Policies: {', '.join(POLICIES)}."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        # A wrong argument is answered in one line; what there is to choose from is under --help.
        parser.usage = SUPPRESS
        parser.add_argument("--nodes", metavar="CSV", required=True, help="sn,cpu_milli,memory_mib,gpu,model")
        parser.add_argument(
            "--pods", metavar="CSV", required=True,
            help="name,cpu_milli,memory_mib,num_gpu,gpu_milli and, if wanted, gpu_spec",
        )  # fmt: skip
        parser.add_argument("--policy", metavar="NAME", required=True, help=", ".join(POLICIES))
        parser.add_argument("--seed", type=_integer, default=0, help="of everything random; default: 0")
        parser.add_argument(
            "--file-order", action="store_true",
            help="the pods once, as they stand in the file; ties go to the first node of the file",
        )  # fmt: skip
        parser.add_argument(
            "--defrag-every", metavar="N", type=_integer, default=0,
            help="after so many arrivals, move pods to make room for those not placed; default: 0, never",
        )  # fmt: skip
        parser.add_argument(
            "--max-moves", metavar="K", type=_integer, default=50, help="each time; default: 50"
        )
        parser.add_argument(
            "--seconds", type=float, default=20.0, help="of CPU for each search for moves; default: 20"
        )
        parser.add_argument("--json", action="store_true", help="answer in JSON on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        request = ReplayRequest(
            policy=options["policy"],
            seed=options["seed"],
            file_order=options["file_order"],
            defrag_every=_not_negative(options, "defrag_every"),
            max_moves=_not_negative(options, "max_moves"),
        )
        seconds = _not_negative(options, "seconds")
        nodes, asks = read_trace(options["nodes"], options["pods"])
        replay, answer = _replay(nodes, asks, request, seconds)
        without: Replay | None = None
        if request.defrag_every:
            without, plain = _replay(nodes, asks, replace(request, defrag_every=0), seconds)
            answer["allocated_percent_without_moves"] = plain["allocated_percent"]
            answer["failed_without_moves"] = without.failed
        if options["json"]:
            self.stdout.write(json.dumps(answer))
        else:
            self.tell(as_text(replay, answer, without))


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"must be a whole number of at most 4300 digits, not {text[:40]!r}") from None


def _not_negative(options: dict[str, Any], name: str) -> Any:
    if not options[name] >= 0:
        raise bad_input(f"--{name.replace('_', '-')} must be 0 or more, not {options[name]}")
    return options[name]


def _replay(
    nodes: tuple[EmptyNode, ...], asks: tuple[Ask, ...], request: ReplayRequest, seconds: float
) -> tuple[Replay, dict[str, object]]:
    def new_deadline() -> Callable[[], bool]:
        end = time.process_time() + seconds
        return lambda: time.process_time() >= end

    started = time.process_time()
    try:
        replay = replay_trace(nodes, asks, request, new_deadline)
    except ValueError as error:
        raise bad_input(str(error)) from error
    return replay, replay_to_dict(replay, time.process_time() - started)


def read_trace(nodes: str, pods: str) -> tuple[tuple[EmptyNode, ...], tuple[Ask, ...]]:
    """The nodes and pods of two CSV files; CommandError (exit 2, one line) where they are none."""
    node_rows, pod_rows = read_table(nodes, NODE_COLUMNS), read_table(pods, POD_COLUMNS)
    try:
        return empty_nodes(snapshot_from_rows(node_rows, ())), read_asks(pod_rows)
    except ValueError as error:
        raise bad_input(str(error)) from error


def replay_to_dict(replay: Replay, seconds: float) -> dict[str, object]:
    """As the command answers with --json; the keys are a promise. seconds: CPU time of the replay. A mark
    that was not reached (a short trace in file order) is null."""
    marks = {str(mark): replay.noted.get(mark) for mark in MARKS}
    return {
        "policy": replay.request.policy,
        "seed": replay.request.seed,
        "file_order": replay.request.file_order,
        "allocated_percent": {mark: noted and noted.allocated for mark, noted in marks.items()},
        "fragmentation_ratio_percent": {mark: noted and noted.ratio for mark, noted in marks.items()},
        "fragmentation_amount_percent": {mark: noted and noted.amount for mark, noted in marks.items()},
        "decisions": replay.decisions,
        "decisions_per_second": round(replay.decisions / seconds, 1) if seconds else 0.0,
        "cpu_seconds": seconds,
        "moves": replay.moves,
        "failed": replay.failed,
        "fragmentation_numerator": replay.numerator,
        "weight_total": replay.weight_total,
        "used_milli": replay.used_milli,
        "capacity_milli": replay.capacity_milli,
        "end": {
            "allocated_percent": replay.end.allocated,
            "fragmentation_ratio_percent": replay.end.ratio,
            "fragmentation_amount_percent": replay.end.amount,
        },
    }


def as_text(replay: Replay, answer: dict[str, object], without: Replay | None = None) -> str:
    request = replay.request
    order = "file order" if request.file_order else f"seed {request.seed}"
    speed = f"{answer['decisions_per_second']} decisions per second"
    lines = [
        f"{request.policy}, {order}: {replay.decisions} pods arrived, {replay.failed} not placed ({speed})"
    ]
    lines += _states(replay)
    if without is not None:
        lines.append(f"With {replay.moves} moves. Without, {without.failed} are not placed:")
        lines += _states(without)
    return "\n".join(lines)


def _states(replay: Replay) -> list[str]:
    states = [(f"{mark} % arrived", replay.noted[mark]) for mark in MARKS if mark in replay.noted]
    return [_line(name, noted) for name, noted in [*states, ("at the end", replay.end)]]


def _line(name: str, noted: Noted) -> str:
    return (
        f"  {name:>13}: {noted.allocated:6.2f} % of the GPUs allocated, {noted.ratio:6.2f} % of what is idle "
        f"fragmented ({noted.amount:.2f} % of all)"
    )
