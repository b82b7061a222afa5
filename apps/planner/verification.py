"""An independent check of a plan, move by move, and of what came out after its execution.

Written apart from the planner, on its own bookkeeping. Not in here: making plans better.
"""

from __future__ import annotations

from collections import Counter

from apps.planner.outcome import Outcome, compare_outcome, wants_device
from apps.planner.plan import Goal, Plan
from apps.planner.snapshot import Snapshot
from apps.planner.verification_books import Ledger
from apps.planner.verification_mig import check_mig_plan
from apps.planner.verification_rules import (
    covering_budgets,
    departure_faults,
    may_go_unhealthy,
    neighbour_faults,
    node_faults,
)

__all__ = ["Ledger", "Outcome", "check_plan", "compare_outcome"]

MOST_MOVES = 5000


def check_plan(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Every violation found, one sentence each; an empty list is a sound plan."""
    faults = _check_form(snapshot, plan)
    if faults:
        return faults
    if plan.goal is Goal.MIG:
        return [
            *check_mig_plan(snapshot, plan),
            *_check_departures(snapshot, plan),
            *_check_waves(snapshot, plan),
            *_check_gangs(snapshot, plan),
            *_check_sums(plan),
        ]
    return [
        *_check_departures(snapshot, plan),
        *_check_holds(snapshot, plan),
        *_check_prefixes(snapshot, plan),
        *_check_waves(snapshot, plan),
        *_check_gangs(snapshot, plan),
        *_check_sums(plan),
    ]


def _check_form(snapshot: Snapshot, plan: Plan) -> list[str]:
    faults: list[str] = []
    if len(plan.moves) > MOST_MOVES:
        faults.append(f"{len(plan.moves)} moves are more than {MOST_MOVES}")
    if [move.order for move in plan.moves] != list(range(1, len(plan.moves) + 1)):
        faults.append("the order of the moves has gaps")
    waves = [move.wave for move in plan.moves]
    if waves != sorted(waves) or (waves and waves[0] < 1):
        faults.append("the waves do not follow the order")
    times = Counter(move.pod_uid for move in plan.moves)
    faults += [f"{uid} is moved {number} times" for uid, number in times.items() if number > 1]
    return faults + _check_identity(snapshot, plan)


def _check_identity(snapshot: Snapshot, plan: Plan) -> list[str]:
    faults: list[str] = []
    for move in plan.moves:
        pod = snapshot.pods.get(move.pod_uid)
        if pod is None or pod.key != move.pod or not pod.is_holding or pod.node_name != move.source:
            faults.append(f"{move.pod} is not the pod that runs on {move.source}")
        if move.target not in snapshot.nodes or move.target == move.source:
            faults.append(f"{move.pod} has no other node as its target")
    for one in plan.hand_overs:
        waiting = snapshot.pods.get(one.pod_uid)
        if waiting is None or not waiting.is_pending or one.node not in snapshot.nodes:
            faults.append(f"{one.pod} does not wait, or {one.node} is no node")
    return faults


def _check_departures(snapshot: Snapshot, plan: Plan) -> list[str]:
    return [fault for move in plan.moves for fault in departure_faults(snapshot, snapshot.pods[move.pod_uid])]


def _check_holds(snapshot: Snapshot, plan: Plan) -> list[str]:
    """All targets can be held before the first eviction."""
    ledger = Ledger(snapshot)
    faults: list[str] = []
    for move in plan.moves:
        pod, node = snapshot.pods[move.pod_uid], snapshot.nodes[move.target]
        faults += [
            f"before the first eviction: {one}" for one in ledger.arrive(pod, node, alias=f"+{pod.uid}")
        ]
    return faults


def _check_prefixes(snapshot: Snapshot, plan: Plan) -> list[str]:
    ledger = Ledger(snapshot)
    faults: list[str] = []
    for move in plan.moves:
        pod, node = snapshot.pods[move.pod_uid], snapshot.nodes[move.target]
        ledger.leave(pod)
        found = [*node_faults(pod, node), *neighbour_faults(snapshot, ledger.placed, pod, node, ledger.shy)]
        found += ledger.arrive(pod, node)
        faults += [f"after move {move.order}: {one}" for one in found]
    faults += _check_freed(snapshot, plan, ledger)
    for one in plan.hand_overs:
        pod, node = snapshot.pods[one.pod_uid], snapshot.nodes[one.node]
        found = [*node_faults(pod, node), *neighbour_faults(snapshot, ledger.placed, pod, node, ledger.shy)]
        found += ledger.arrive(pod, node)
        faults += [f"hand-over: {one}" for one in found]
    if len(ledger.placed) != len(Ledger(snapshot).placed) + len(plan.hand_overs):
        faults.append("a pod was lost")
    return faults


def _check_freed(snapshot: Snapshot, plan: Plan, ledger: Ledger) -> list[str]:
    faults: list[str] = []
    before = Ledger(snapshot)
    for name in plan.freed_nodes:
        if any(wants_device(pod) for pod in ledger.on_node[name].values()):
            faults.append(f"{name} is not free after the moves")
        if not any(wants_device(pod) for pod in before.on_node[name].values()):
            faults.append(f"{name} was free before")
    if plan.goal is Goal.FREE_NODES:
        for move in plan.moves:
            if not any(wants_device(pod) for pod in before.on_node[move.target].values()):
                faults.append(f"{move.target} was free and is used as a target")
    return faults


def _check_waves(snapshot: Snapshot, plan: Plan) -> list[str]:
    spent: Counter[tuple[int, str]] = Counter()
    for move in plan.moves:
        pod = snapshot.pods[move.pod_uid]
        for uid in covering_budgets(snapshot, pod):
            spent[move.wave, uid] += 0 if may_go_unhealthy(snapshot, uid, pod) else 1
    return [
        f"wave {wave} takes {count} pods of budget {snapshot.budgets[uid].name}"
        for (wave, uid), count in spent.items()
        if count > snapshot.budgets[uid].disruptions_allowed
    ]


def _check_gangs(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Whoever is unlocked is unlocked whole; no running gang falls below its minimum."""
    faults: list[str] = []
    given = {one.pod_uid for one in plan.hand_overs}
    for pod in snapshot.pods.values():
        if pod.is_pending and (pod.gang or pod.key) in plan.unlocked and pod.uid not in given:
            faults.append(f"{pod.key} of {pod.gang or pod.key} gets no node")
    for uid in given:
        pod = snapshot.pods[uid]
        if (pod.gang or pod.key) not in plan.unlocked:
            faults.append(f"{pod.key} gets a node but is not unlocked")
    moved = Counter(snapshot.pods[move.pod_uid].gang for move in plan.moves)
    running = Counter(pod.gang for pod in snapshot.pods.values() if pod.is_holding)
    for key, gang in snapshot.gangs.items():
        if gang.min_members > 1 and 0 < moved[key] < running[key] and running[key] - 1 < gang.min_members:
            faults.append(f"gang {key} is moved in part")
    return faults


def _check_sums(plan: Plan) -> list[str]:
    faults: list[str] = []
    if abs(sum(move.cost for move in plan.moves) - plan.cost) > 0.01:
        faults.append("the cost is not the sum of the moves' costs")
    steps = plan.reconfigurations if plan.goal is Goal.MIG else plan.moves
    achieved = len(plan.freed_nodes) if plan.goal is Goal.FREE_NODES else len(steps)
    slack = plan.lower_bound - achieved if plan.goal is Goal.FREE_NODES else achieved - plan.lower_bound
    if slack < -1e-9 and (plan.unlocked or plan.goal is Goal.FREE_NODES):
        faults.append(f"{achieved} lies beyond the bound {plan.lower_bound}")
    return faults
