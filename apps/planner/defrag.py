"""The planner's front door: free whole nodes, or make room for what waits.

Both answer with a `Plan` in which every target has room before the first eviction, nothing
moves twice, and a gang gets room whole or not at all. Same snapshot, same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from apps.planner.clearing_table import ClearingTable, Deadline
from apps.planner.costs import DEFAULT_COSTS, CostPolicy
from apps.planner.free_nodes import choose_free_nodes
from apps.planner.gpu_wishes import BAD_REQUEST
from apps.planner.inventory import Pod
from apps.planner.placement import Board
from apps.planner.plan import Goal, Plan, Refusal
from apps.planner.preemption import PreemptionSearch, Sacrifice
from apps.planner.progress import Progress, Tell, tell_nobody
from apps.planner.queue_in_turn import sort_largest_first, start_in_turn, worth_of
from apps.planner.queue_unlock import QueueUnlock
from apps.planner.quota import QUEUE_CODES
from apps.planner.rooms import free_room
from apps.planner.runner_up import find_runner_up
from apps.planner.snapshot import Snapshot
from apps.planner.unlock import Found, unlock_group
from apps.planner.waiting import WaitingWorkload, explain_pending
from apps.planner.waiting_words import TOO_LARGE, missing_members
from apps.planner.wording import (
    describe_hand_overs,
    describe_moves,
    describe_preemptions,
    free_sentence,
    newly_free,
    preemption_sentence,
    say_unknown_links,
    unlock_reasons,
    unlock_sentence,
)

STEERING_GATE = "defrag.gpu.internal/steer"
MOST_REFUSALS = 200
LATE = "Time ran out before room was found."
ONE_NODE = "Who gives way is the best choice for each pod's own node, pod after pod; no bound is known."
RESTRICTION = "Only places that are free before the first eviction are used as targets."
STAGES_OPEN = (
    "Later stages use room that earlier ones make: every prefix of the moves fits in this order, but not all "
    "targets can be held at once. The console makes and carries out plans of one stage only."
)
DEVICES_OPEN = (
    "The kubelet chooses the devices of a pod; count, model and link class are planned, not indices."
)


def plan_free_nodes(
    snapshot: Snapshot,
    *,
    max_moves: int,
    deadline: Deadline,
    policy: CostPolicy = DEFAULT_COSTS,
    tell: Tell = tell_nobody,
) -> Plan:
    """Free as many whole nodes as can be, then with the fewest moves, then at the least cost."""
    tell(Progress("Laying out what is free."))
    board = Board(snapshot, policy)
    outcome = choose_free_nodes(board, max_moves, deadline, tell)
    reasons = {
        name: f"{name} becomes a free node with {len(snapshot.nodes[name].gpus)} GPUs."
        for name in outcome.freed
    }
    moves = describe_moves(board, reasons)
    achieved = len(outcome.freed)
    gpus = sum(len(snapshot.nodes[name].gpus) for name in outcome.freed)
    return Plan(
        goal=Goal.FREE_NODES,
        moves=moves,
        freed_nodes=tuple(sorted(outcome.freed)),
        cost=round(sum(move.cost for move in moves), 3),
        lower_bound=float(outcome.bound),
        gap=(outcome.bound - achieved) / max(1, outcome.bound),
        proven_optimal=outcome.proven,
        relaxed=(RESTRICTION, *outcome.relaxed),
        refused=outcome.refused[:MOST_REFUSALS],
        sentence=outcome.why or free_sentence(achieved, len(moves), gpus),
        measures={"freed_gpus": float(gpus)},
    )


def plan_unlock(
    snapshot: Snapshot,
    *,
    workload: str | None,
    max_moves: int,
    deadline: Deadline,
    policy: CostPolicy = DEFAULT_COSTS,
    tell: Tell = tell_nobody,
    stages: int = 1,
    may_preempt: bool = False,
) -> Plan:
    """Room for one pending workload (gang key or pod key "namespace/name"), or for all that waits.

    Objective: that it can start at all, then the fewest moves, then the least disruption cost.
    For all that waits: by priority, then the most GPUs that start, then the fewest moves.
    stages: how many there may be; from 2 on pods with GPUs go, in a later stage, where pods without GPUs
    have made room first (all that waits only). may_preempt: where moves alone make no room for one
    workload, less important pods give way.
    """
    tell(Progress("Laying out what is free."))
    rooms = free_room(snapshot)
    waiting = explain_pending(snapshot, only=workload, rooms=rooms)
    if workload is not None and not waiting:
        return Plan(Goal.UNLOCK, refused=(Refusal(workload, "No pending workload has this name."),))
    if not waiting:
        return Plan(Goal.UNLOCK, sentence="Nothing waits: there is nothing to unlock.")
    board = Board(snapshot, policy, rooms)
    if workload is not None or len(waiting) == 1:  # with a bound and a proof
        return _unlock_one(board, waiting[0], max_moves, deadline, may_preempt=may_preempt, tell=tell)
    return _unlock_all(board, waiting, max_moves, deadline, stages=stages, tell=tell)


def _unlock_one(
    board: Board,
    waiting: WaitingWorkload,
    max_moves: int,
    deadline: Deadline,
    *,
    may_preempt: bool,
    tell: Tell,
) -> Plan:
    snapshot = board.snapshot
    obstacle = _obstacle_of(snapshot, waiting)
    if obstacle:
        return Plan(Goal.UNLOCK, refused=(Refusal(waiting.key, obstacle),), sentence=obstacle)
    tell(Progress(f"Looking for the nodes that {waiting.display} could start on."))
    pods = [snapshot.pods[uid] for uid in waiting.pods]
    table = ClearingTable(board, deadline)
    before = board.checkpoint()
    found = unlock_group(board, table, pods, max_moves, deadline)
    if found is not None:
        runner_up = find_runner_up(board, table, pods, found.clearings, max_moves, deadline, before)
        return replace(_as_plan(board, [waiting], found, refused=()), runner_up=runner_up)
    if may_preempt:
        tell(Progress("Looking for less important pods that could give way."))
        search = PreemptionSearch(board, pods, max_moves, deadline)
        if search.run():
            plan = _with_preemptions(board, waiting, search.sacrifices)
            return replace(plan, runner_up=search.runner_up if search.sacrifices else None)
    return _refuse(board, waiting, max_moves, deadline)


def _with_preemptions(board: Board, waiting: WaitingWorkload, sacrifices: Sequence[Sacrifice]) -> Plan:
    plan = _as_plan(board, [waiting], Found(bound=0, exact=False), refused=())
    preemptions = describe_preemptions(board, waiting, sacrifices)
    cost = round(plan.cost + sum(one.cost for one in preemptions), 3)
    return replace(
        plan,
        preemptions=preemptions,
        cost=cost,
        relaxed=(*plan.relaxed, ONE_NODE),
        sentence=preemption_sentence(waiting, len(plan.moves), len(preemptions)),
    )


def _unlock_all(
    board: Board,
    waiting: Sequence[WaitingWorkload],
    max_moves: int,
    deadline: Deadline,
    *,
    stages: int,
    tell: Tell,
) -> Plan:
    snapshot = board.snapshot
    refused: list[Refusal] = []
    candidates: list[WaitingWorkload] = []
    for one in waiting:
        obstacle = _obstacle_of(snapshot, one)
        if obstacle:
            refused.append(Refusal(one.key, obstacle))
        else:
            candidates.append(one)
    search = QueueUnlock(board, candidates, max_moves, deadline, stages, tell)
    done = search.run()
    if len(done) < len(candidates) and not search.was_late:
        board, done = _ask_again(board, candidates, done, max_moves, deadline)
    names = {one.key for one in done}
    why = LATE if search.was_late else f"No room was found for it within {max_moves} moves."
    refused += [Refusal(one.key, f"{why} {one.sentence}") for one in candidates if one.key not in names]
    plan = _as_plan(board, done, Found(bound=0, exact=False), tuple(refused[:MOST_REFUSALS]))
    return _with_gpu_bound(plan, search.bound)


def _ask_again(
    board: Board,
    waiting: Sequence[WaitingWorkload],
    done: list[WaitingWorkload],
    max_moves: int,
    deadline: Deadline,
) -> tuple[Board, list[WaitingWorkload]]:
    """The same queue one after the other, the largest first, on a board of its own; the better of both."""
    other = Board(board.snapshot, board.policy)
    order = sort_largest_first(other, waiting)
    started = start_in_turn(other, ClearingTable(other, deadline), order, max_moves, deadline)
    if worth_of(other, waiting, started) > worth_of(board, waiting, done):
        return other, started
    return board, done


def _with_gpu_bound(plan: Plan, milli: float) -> Plan:
    """Of all that waits the bound is on the GPUs that start, and so is the gap."""
    achieved = plan.measures["unlocked_gpu_milli"]
    bound = max(achieved, milli)
    is_all = bool(plan.unlocked) and not plan.moves and bound - achieved < 1
    return replace(
        plan,
        gap=(bound - achieved) / max(1000.0, bound),
        proven_optimal=is_all,
        measures={**plan.measures, "unlocked_gpu_bound": round(bound / 1000, 3)},
    )


def find_obstacle(snapshot: Snapshot, key: str, pods: Sequence[Pod]) -> str:
    """Why no room at all would let it start; "" if room is what it lacks."""
    gates = sorted({gate for pod in pods for gate in pod.gates if gate != STEERING_GATE})
    if gates:
        return f"It waits behind the scheduling gate {', '.join(gates)}; room would not let it start."
    missing = missing_members(snapshot, key, tuple(pods))
    if missing:
        return f"The gang lacks {missing} of its members; room would not let it start."
    return ""


def _obstacle_of(snapshot: Snapshot, waiting: WaitingWorkload) -> str:
    """What its queue does not admit, or no node could hold if it were empty, needs no search for moves."""
    if (
        waiting.never
        or waiting.reason_code == TOO_LARGE
        or waiting.reason_code in (BAD_REQUEST, *QUEUE_CODES)
    ):
        return waiting.sentence
    return find_obstacle(snapshot, waiting.key, [snapshot.pods[uid] for uid in waiting.pods])


def _refuse(board: Board, waiting: WaitingWorkload, max_moves: int, deadline: Deadline) -> Plan:
    links, moves = say_unknown_links(board, waiting), f"No set of up to {max_moves} moves makes room for it."
    reason = links or (LATE if deadline() else f"{moves} {waiting.sentence}")
    blockers = _blockers(board, waiting)
    return Plan(Goal.UNLOCK, refused=(Refusal(waiting.key, reason), *blockers), sentence=reason)


def _blockers(board: Board, waiting: WaitingWorkload) -> tuple[Refusal, ...]:
    """Pods that may not be moved off the nodes it could run on, each with its first reason."""
    pod = board.snapshot.pods[waiting.pods[0]]
    found: list[Refusal] = []
    for name in board.open_nodes(pod):
        for uid in sorted(board.final.by_node[name].pods):
            guest = board.final.by_node[name].pods[uid]
            verdict = board.rules.judge(guest)
            if not verdict.movable and (board.final.demand(guest).gpus or not waiting.gpus_per_pod):
                found.append(Refusal(guest.key, f"On {name}: {verdict.reasons[0]}"))
                if len(found) >= MOST_REFUSALS:
                    return tuple(found)
    return tuple(found)


def _as_plan(
    board: Board, unlocked: Sequence[WaitingWorkload], found: Found, refused: tuple[Refusal, ...]
) -> Plan:
    moves = describe_moves(board, unlock_reasons(board))
    freed = newly_free(board)
    bound = found.bound or 0
    milli = sum(board.final.demand(pod).gpu_milli for pod, _ in board.started)
    proven = bool(unlocked) and found.exact and bound == len(moves)
    return Plan(
        goal=Goal.UNLOCK,
        moves=moves,
        freed_nodes=freed,
        unlocked=tuple(one.key for one in unlocked),
        unlocked_gpus=milli // 1000,
        hand_overs=describe_hand_overs(board),
        cost=round(sum(move.cost for move in moves), 3),
        lower_bound=float(bound),
        gap=(len(moves) - bound) / max(1, bound) if unlocked else 0.0,
        proven_optimal=proven,
        relaxed=(STAGES_OPEN if any(move.stage > 1 for move in moves) else RESTRICTION, DEVICES_OPEN),
        refused=refused,
        sentence=unlock_sentence(unlocked, len(moves), len(freed), milli)
        if unlocked
        else "Nothing can be unlocked.",
        measures={"unlocked_pods": float(len(board.started)), "unlocked_gpu_milli": float(milli)},
    )
