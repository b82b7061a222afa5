"""The checker's own sums: what a plan promises as its result, and whether that is what comes out.

Freed nodes, gangs whole, costs, bounds. Not in here: whether the moves are sound (verification).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from apps.planner.outcome import wants_device
from apps.planner.plan import Goal, Plan
from apps.planner.snapshot import Snapshot
from apps.planner.verification_books import Books

STEERING_GATE = "defrag.gpu.internal/steer"
TINY = 1e-9
ROUNDED = 1e-3
"""Of GPUs, which a plan tells in thousandths."""
GPU_BOUND = "unlocked_gpu_bound"
WHOLE = 1000


def check_freed(snapshot: Snapshot, plan: Plan, books: Books) -> list[str]:
    """books: after all moves, before anybody who waited starts and before anybody is preempted."""
    faults: list[str] = []
    preempted = {one.pod_uid for one in plan.preemptions}
    for name in plan.freed_nodes:
        node, guests = snapshot.nodes[name], books.of(name).bodies
        if any(wants_device(body.pod) and uid not in preempted for uid, body in guests.items()):
            faults.append(f"{name} is not free after the moves")
        if not _holds_devices(snapshot, name):
            faults.append(f"{name} was free before")
        if not node.ready or node.unschedulable or node.stale_since is not None or not node.gpus:
            faults.append(f"{name} is no node that could be free: cordoned, not Ready, stale or without GPUs")
    if plan.goal is Goal.FREE_NODES:
        faults += _check_clearing(snapshot, plan)
    return faults


def _check_clearing(snapshot: Snapshot, plan: Plan) -> list[str]:
    faults: list[str] = []
    freed = set(plan.freed_nodes)
    for move in plan.moves:
        if not _holds_devices(snapshot, move.target):
            faults.append(f"{move.target} was free and is used as a target")
        if move.source not in freed:
            faults.append(f"{move.pod} leaves {move.source}, which is not freed by it")
        if not wants_device(snapshot.pods[move.pod_uid]):
            faults.append(f"{move.pod} asks for no GPU and need not move")
    return faults


def _holds_devices(snapshot: Snapshot, name: str) -> bool:
    there = (*snapshot.pods_on(name), *snapshot.reserving_by_node.get(name, ()))
    return any(wants_device(pod) for pod in there if not pod.hold or pod.nominated_node == name)


def check_gangs(snapshot: Snapshot, plan: Plan, shown_only: Collection[str] = ()) -> list[str]:
    """Whoever is unlocked is unlocked whole; no running gang is moved in part below its minimum. shown_only:
    UIDs of moved pods that are never carried out."""
    faults: list[str] = []
    given = {one.pod_uid for one in plan.hand_overs}
    unlocked = set(plan.unlocked)
    for pod in snapshot.pods.values():
        if pod.is_pending and (pod.gang or pod.key) in unlocked and pod.uid not in given:
            faults.append(f"{pod.key} of {pod.gang or pod.key} gets no node")
    for uid in given:
        pod = snapshot.pods[uid]
        if (pod.gang or pod.key) not in unlocked:
            faults.append(f"{pod.key} gets a node but is not unlocked")
        gates = [gate for gate in pod.gates if gate != STEERING_GATE]
        if gates and plan.goal is Goal.UNLOCK:
            faults.append(f"{pod.key} waits behind the gate {gates[0]} and would not start")
    started = Counter(snapshot.pods[uid].gang for uid in given)
    running = Counter(pod.gang for pod in snapshot.pods.values() if pod.is_holding)
    moved = Counter(snapshot.pods[move.pod_uid].gang for move in plan.moves if move.pod_uid not in shown_only)
    for key, gang in snapshot.gangs.items():
        if key in unlocked and running[key] + started[key] < gang.min_members:
            faults.append(f"gang {key} is unlocked and lacks members")
        if gang.min_members > 1 and 0 < moved[key] < running[key] and running[key] - 1 < gang.min_members:
            faults.append(f"gang {key} is moved in part")
    return faults


def check_sums(snapshot: Snapshot, plan: Plan) -> list[str]:
    faults: list[str] = []
    costs = [*(move.cost for move in plan.moves), *(one.cost for one in plan.preemptions)]
    if abs(sum(costs) - plan.cost) > 0.01:
        faults.append("the cost is not the sum of the moves' costs")
    if any(cost < 0 for cost in costs):
        faults.append("a move costs less than nothing")
    return [*faults, *_check_bound(plan), *_check_gpus(snapshot, plan)]


def _check_bound(plan: Plan) -> list[str]:
    """Nothing is better than its bound, the gap is what lies between, and optimal is what has none."""
    if plan.goal is Goal.FREE_NODES:
        achieved = float(len(plan.freed_nodes))
        slack = left = plan.lower_bound - achieved
        gap = slack / max(1.0, plan.lower_bound)
    else:
        achieved = float(len(plan.reconfigurations if plan.goal is Goal.MIG else plan.moves))
        slack = achieved + len(plan.preemptions) - plan.lower_bound if plan.unlocked else 0.0
        left, gap = _left_of_steps(plan, achieved)
    faults: list[str] = []
    if slack < -TINY:
        faults.append(f"{achieved:g} lies beyond the bound {plan.lower_bound:g}")
    if abs(gap - plan.gap) > (TINY if GPU_BOUND not in plan.measures else ROUNDED):
        faults.append(f"the gap is {gap:g}, not {plan.gap:g}")
    if plan.proven_optimal and left > TINY:
        faults.append(f"called optimal, though {achieved:g} is not the bound {plan.lower_bound:g}")
    return faults


def _left_of_steps(plan: Plan, steps: float) -> tuple[float, float]:
    """What could be better, and the gap: in GPUs where all that waits is planned for, else in steps."""
    if GPU_BOUND in plan.measures:
        bound = plan.measures[GPU_BOUND]
        more = bound - plan.measures["unlocked_gpu_milli"] / WHOLE
        return more - ROUNDED, more / max(1.0, bound)
    more = max(0.0, steps - plan.lower_bound) if plan.unlocked else 0.0
    return more, more / max(1.0, plan.lower_bound)


def _check_gpus(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Whole GPUs, where they are asked by the node's own resource; no sums of shares or instances."""
    faults = [
        f"{move.pod} holds {asked} GPUs, not {move.gpus}"
        for move in plan.moves
        if (asked := _whole_gpus(snapshot, move.pod_uid, move.source)) not in (None, move.gpus)
    ]
    if plan.goal is Goal.UNLOCK:
        milli = sum(_milli(snapshot, one.pod_uid, one.node) for one in plan.hand_overs)
        if milli // 1000 != plan.unlocked_gpus:
            faults.append(f"{milli // 1000} GPUs are unlocked, not {plan.unlocked_gpus}")
    return faults


def _whole_gpus(snapshot: Snapshot, uid: str, node_name: str) -> int | None:
    """None where it asks for none by the node's own resource."""
    pod, resource = snapshot.pods[uid], snapshot.nodes[node_name].gpu_resource
    if pod.gpu_milli < 1000 or pod.reservation:
        return 0
    return pod.requests.get(resource) or None


def _milli(snapshot: Snapshot, uid: str, node_name: str) -> int:
    pod = snapshot.pods[uid]
    number = pod.requests.get(snapshot.nodes[node_name].gpu_resource, 0)
    return max(number, 1) * max(pod.gpu_milli, 1) if pod.gpu_milli < 1000 else number * 1000
