"""A finished board as a plan: moves with their reasons and risks, and the sentence on top."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from apps.planner.costs import assess_risk, lost_seconds
from apps.planner.inventory import LinkClass, Pod
from apps.planner.naming import family_of
from apps.planner.ordering import order_moves
from apps.planner.placement import Board
from apps.planner.plan import HandOver, Move, Preemption
from apps.planner.preemption import Sacrifice
from apps.planner.topology import knows_every_link
from apps.planner.waiting import WaitingWorkload
from apps.planner.waiting_words import free_where


def describe_moves(board: Board, reasons: Mapping[str, str]) -> tuple[Move, ...]:
    """reasons: by source node, what moving pods off it is good for."""
    nodes = board.snapshot.nodes
    described: list[Move] = []
    ordered = order_moves(board.snapshot, board.rules, board.moves)
    for order, (wave, planned) in enumerate(ordered, start=1):
        pod = planned.pod
        level, risk = assess_risk(board.snapshot, pod, board.policy)
        demand = board.final.demand(pod)
        described.append(
            Move(
                order=order,
                wave=wave,
                pod_uid=pod.uid,
                pod=pod.key,
                source=planned.source,
                target=planned.target,
                gpus=demand.gpus if demand.milli == 1000 else 0,
                cost=board.cost(pod),
                reason=reasons.get(planned.source, ""),
                risk=risk,
                risk_level=level,
                workload_uid=pod.workload,
                source_uid=nodes[planned.source].uid,
                target_uid=nodes[planned.target].uid,
                stage=planned.stage,
            )
        )
    return tuple(described)


def describe_preemptions(
    board: Board, waiting: WaitingWorkload, sacrifices: Sequence[Sacrifice]
) -> tuple[Preemption, ...]:
    nodes = board.snapshot.nodes
    described: list[Preemption] = []
    for order, one in enumerate(sacrifices, start=1):
        pod, demand = one.pod, board.final.demand(one.pod)
        reason = (
            f"{waiting.display} (priority {waiting.priority}) takes its place on {one.node}; "
            f"it has priority {pod.priority} and no other node has room for it."
        )
        described.append(
            Preemption(
                order=order,
                pod_uid=pod.uid,
                pod=pod.key,
                node=one.node,
                gpus=demand.gpus if demand.milli == 1000 else 0,
                priority=pod.priority,
                cost=board.cost(pod),
                reason=reason,
                workload_uid=pod.workload,
                node_uid=nodes[one.node].uid,
                lost_seconds=round(lost_seconds(board.snapshot, pod, board.policy), 3),
                has_checkpoint=pod.checkpointed_at is not None,
                gang=pod.gang if pod.gang in board.snapshot.gangs else "",
                budget=_budget_words(board, pod),
            )
        )
    return tuple(described)


def _budget_words(board: Board, pod: Pod) -> str:
    """ "web allows 2 evictions": each disruption budget over the pod."""
    told = [
        f"{budget.name} allows {count(budget.disruptions_allowed, 'eviction')}"
        for budget in board.rules.budgets_of(pod)
    ]
    return ", ".join(sorted(told))


def preemption_sentence(waiting: WaitingWorkload, moves: int, preemptions: int) -> str:
    verb = "gives" if preemptions == 1 else "give"
    first = f"{count(preemptions, 'less important pod')} {verb} way"
    after = f" after {_moving(moves).lower()}" if moves else ""
    return f"Moves alone make no room for {waiting.display}: {first}{after}."


def describe_hand_overs(board: Board) -> tuple[HandOver, ...]:
    return tuple(
        HandOver(pod.uid, pod.key, node_name, board.snapshot.nodes[node_name].uid)
        for pod, node_name in board.started
    )


def newly_free(board: Board) -> tuple[str, ...]:
    """Nodes with GPUs that the moves empty of GPU pods, whoever starts there afterwards."""
    sources = {move.source for move in board.moves}
    started = {pod.uid for pod, _ in board.started}
    return tuple(
        name
        for name in sorted(sources)
        if board.final.by_node[name].node.gpus
        and name not in board.kept_free
        and not any(
            board.final.demand(pod).gpus
            for uid, pod in board.final.by_node[name].pods.items()
            if uid not in started
        )
    )


def unlock_reasons(board: Board) -> dict[str, str]:
    """For each cleared node, who starts there."""
    guests: dict[str, Counter[str]] = {}
    for pod, node_name in board.started:
        guests.setdefault(node_name, Counter())[board.snapshot.workload_name(pod)] += 1
    return {
        node_name: f"{node_name} can then take {_list_guests(names)}." for node_name, names in guests.items()
    }


def unlock_sentence(waiting: Sequence[WaitingWorkload], moves: int, whole_nodes: int, gpu_milli: int) -> str:
    """ "25 A100s are free, but the best node has 5; moving 7 pods frees 3 whole nodes." """
    first = waiting[0]
    gain = (
        f"frees {count(whole_nodes, 'whole node')}"
        if whole_nodes
        else f"makes room for {count(len(first.pods), 'pod')}"
    )
    if len(waiting) > 1:
        what = _moving(moves) + " lets" if moves else "Without any move there is room to let"
        return f"{what} {count(len(waiting), 'waiting workload')} start, {gpu_milli / 1000:g} GPUs in all."
    if not moves:
        return f"{first.display} fits as the cluster is; nothing has to move."
    if first.best_node and first.gpus_per_pod:
        scattered = f"{free_words(first)}, but the best node has {first.best_node_free}"
        return f"{scattered}; {_moving(moves).lower()} {gain}."
    return f"{_moving(moves)} {gain}."


def free_words(waiting: WaitingWorkload) -> str:
    word = family_of(waiting.model) or "GPU"
    verb = " is" if waiting.free_gpus == 1 else "s are"
    return f"{waiting.free_gpus} {word}{verb} free{free_where(waiting.free_elsewhere)}"


def free_sentence(nodes: int, moves: int, gpus: int) -> str:
    if not nodes:
        return "No further whole node can be freed within the limits."
    return f"{_moving(moves)} frees {count(nodes, 'whole node')} with {gpus} GPUs."


def count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _moving(moves: int) -> str:
    return f"Moving {count(moves, 'pod')}"


def _list_guests(names: Counter[str]) -> str:
    parts = [f"{number} pods of {name}" if number > 1 else name for name, number in sorted(names.items())]
    return ", ".join(parts)


def say_unknown_links(board: Board, waiting: WaitingWorkload) -> str:
    """Why no room at all is known to do: a member wants tied GPUs, and of no node that has as many and may
    run it the links are told. "" otherwise."""
    for pod in (board.snapshot.pods[uid] for uid in waiting.pods):
        demand = board.final.demand(pod)
        if demand.gpus < 2 or demand.link in (None, LinkClass.NODE):
            continue
        nodes = [board.final.by_node[name].node for name in board.open_nodes(pod)]
        large = [node for node in nodes if len(node.gpus) >= demand.gpus]
        if large and not any(knows_every_link(node) for node in large):
            wanted = f"It wants {demand.gpus} GPUs tied by {demand.link}"
            return f"{wanted}; no node that has as many tells its links: no GPU topology metadata."
    return ""
