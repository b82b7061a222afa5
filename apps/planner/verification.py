"""An independent check of a plan, move by move, and of what came out after its execution.

Written apart from the planner, on its own bookkeeping and its own reading of every rule: nothing here or in
its neighbours (verification_*, outcome) is imported from those who plan. Not in here: making plans better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise

from apps.planner.outcome import Outcome, compare_outcome
from apps.planner.plan import Goal, Move, Plan
from apps.planner.snapshot import Snapshot
from apps.planner.verification_books import Books
from apps.planner.verification_company import Company, company_now, neighbour_faults
from apps.planner.verification_departures import Departures, preemption_faults, wave_faults
from apps.planner.verification_lowering import lowering_faults
from apps.planner.verification_mig import check_mig_plan
from apps.planner.verification_rules import model_faults, node_faults
from apps.planner.verification_sums import check_freed, check_gangs, check_sums

__all__ = ["Outcome", "check_plan", "compare_outcome", "replay_faults"]

MOST_MOVES = 5000


def check_plan(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Every violation found, one sentence each; an empty list is a sound plan.

    Near-linear in the moves and what runs on the nodes they touch.
    """
    faults = _check_form(snapshot, plan)
    if faults:
        return faults
    departures = Departures(snapshot, plan.waivers)
    found = [fault for move in plan.moves for fault in departures.faults(snapshot.pods[move.pod_uid])]
    found += wave_faults(departures, plan)
    found += preemption_faults(departures, plan)
    found += _check_neighbours(snapshot, plan, departures)
    if plan.goal is Goal.MIG:
        found += check_mig_plan(snapshot, plan)
    else:
        found += _check_room(snapshot, plan)
        found += replay_faults(snapshot, plan.moves)
    shown_only = {
        move.pod_uid for move in plan.moves if departures.is_shown_only(snapshot.pods[move.pod_uid])
    }
    found += lowering_faults(snapshot, plan)
    return [*found, *check_gangs(snapshot, plan, shown_only), *check_sums(snapshot, plan)]


def _check_form(snapshot: Snapshot, plan: Plan) -> list[str]:
    faults: list[str] = []
    if len(plan.moves) > MOST_MOVES:
        faults.append(f"{len(plan.moves)} moves are more than {MOST_MOVES}")
    if [move.order for move in plan.moves] != list(range(1, len(plan.moves) + 1)):
        faults.append("the order of the moves has gaps")
    if [one.order for one in plan.preemptions] != list(range(1, len(plan.preemptions) + 1)):
        faults.append("the order of the preemptions has gaps")
    waves = [move.wave for move in plan.moves]
    if waves != sorted(waves) or (waves and waves[0] < 1):
        faults.append("the waves do not follow the order")
    stages = [(move.stage, move.wave) for move in plan.moves]
    if stages != sorted(stages) or any(a[0] < b[0] and a[1] == b[1] for a, b in pairwise(stages)):
        faults.append("the stages do not follow the waves")
    for words, uids in (
        ("moved", [move.pod_uid for move in plan.moves]),
        ("preempted", [one.pod_uid for one in plan.preemptions]),
        ("started", [one.pod_uid for one in plan.hand_overs]),
        ("counted as freed", list(plan.freed_nodes)),
    ):
        faults += [f"{uid} is {words} {times} times" for uid, times in Counter(uids).items() if times > 1]
    return [*faults, *_check_identity(snapshot, plan), *_check_ends(snapshot, plan)]


def _check_identity(snapshot: Snapshot, plan: Plan) -> list[str]:
    faults: list[str] = []
    for move in plan.moves:
        if not _runs_there(snapshot, move.pod_uid, move.pod, move.source):
            faults.append(f"{move.pod} is not the pod that runs on {move.source}")
            continue
        if move.target not in snapshot.nodes or move.target == move.source:
            faults.append(f"{move.pod} has no other node as its target")
            continue
        source, target = snapshot.nodes[move.source], snapshot.nodes[move.target]
        faults += model_faults(snapshot.pods[move.pod_uid], source, target)
        if move.source_uid not in ("", source.uid) or move.target_uid not in ("", target.uid):
            faults.append(f"{move.pod}: {move.source} or {move.target} is another node of that name by now")
    return faults


def _check_ends(snapshot: Snapshot, plan: Plan) -> list[str]:
    faults: list[str] = []
    for one in plan.preemptions:
        if not _runs_there(snapshot, one.pod_uid, one.pod, one.node):
            faults.append(f"{one.pod} is not the pod that runs on {one.node}")
        if plan.goal is not Goal.UNLOCK:
            faults.append(f"{one.pod} is preempted by a plan that unlocks nobody")
    for given in plan.hand_overs:
        waiting = snapshot.pods.get(given.pod_uid)
        if waiting is None or not waiting.is_pending or given.node not in snapshot.nodes:
            faults.append(f"{given.pod} does not wait, or {given.node} is no node")
    faults += [
        f"{name} is counted as freed and is no node"
        for name in plan.freed_nodes
        if name not in snapshot.nodes
    ]
    return faults


def _runs_there(snapshot: Snapshot, uid: str, key: str, node_name: str) -> bool:
    pod = snapshot.pods.get(uid)
    is_that = pod is not None and pod.key == key and pod.is_holding and pod.node_name == node_name
    return is_that and node_name in snapshot.nodes


def _check_room(snapshot: Snapshot, plan: Plan) -> list[str]:
    """All targets of a stage can be held before its first eviction, beside everything that runs then.

    What is there after any number of moves, in any order and however many at once, is a part of that, so it
    fits as well. Then everybody who moves or gives way has left, and those who waited start.
    """
    books = Books(snapshot)
    faults: list[str] = []
    for _, moves in groupby(plan.moves, key=lambda move: move.stage):
        stage = list(moves)
        for move in stage:
            pod = snapshot.pods[move.pod_uid]
            found = books.of(move.target).arrive(pod, uid=f"+{pod.uid}")
            faults += [f"before the first eviction: {one}" for one in found]
        for move in stage:
            books.of(move.source).leave(move.pod_uid)
    faults += check_freed(snapshot, plan, books)
    moved = {move.pod_uid for move in plan.moves}
    for one in plan.preemptions:
        if one.pod_uid not in moved:
            books.of(one.node).leave(one.pod_uid)
    for given in plan.hand_overs:
        found = books.of(given.node).arrive(snapshot.pods[given.pod_uid])
        faults += [f"hand-over: {one}" for one in found]
    return faults


def replay_faults(snapshot: Snapshot, moves: Sequence[Move]) -> list[str]:
    """One move after the other in this very order: who leaves is gone before its successor comes. The state
    after each must fit, rules between pods among it."""
    books, standing = Books(snapshot), company_now(snapshot)
    nobody = Company(standing.facts, {})
    faults: list[str] = []
    for number, move in enumerate(moves, start=1):
        pod, node = snapshot.pods[move.pod_uid], snapshot.nodes[move.target]
        books.of(move.source).leave(pod.uid)
        standing.remove(pod.uid)
        found = [*books.of(move.target).arrive(pod), *neighbour_faults(standing, nobody, pod, node)]
        faults += [f"after {number} moves: {one}" for one in found]
        standing.add(pod.uid, (move.target,))
    return faults


def _check_neighbours(snapshot: Snapshot, plan: Plan, departures: Departures) -> list[str]:
    """Every node a pod comes to takes it, whatever the others of its wave have done by then."""
    standing = company_now(snapshot)
    faults: list[str] = []
    for _, wave in groupby(plan.moves, key=lambda move: move.wave):
        moves = list(wave)
        for move in moves:
            standing.remove(move.pod_uid)
        moving = Company(standing.facts, {move.pod_uid: (move.source, move.target) for move in moves})
        for move in moves:
            pod, node = snapshot.pods[move.pod_uid], snapshot.nodes[move.target]
            found = node_faults(pod, node, is_shown_only=departures.is_shown_only(pod))
            found += neighbour_faults(standing, moving, pod, node)
            faults += [f"move {move.order}: {one}" for one in found]
        for move in moves:
            standing.add(move.pod_uid, (move.target,))
    gone = {one.pod_uid for one in plan.preemptions} & set(standing.places)
    for uid in gone:
        standing.remove(uid)
    nobody = Company(standing.facts, {})
    for given in plan.hand_overs:
        pod, node = snapshot.pods[given.pod_uid], snapshot.nodes[given.node]
        found = [*node_faults(pod, node), *neighbour_faults(standing, nobody, pod, node)]
        faults += [f"hand-over: {one}" for one in found]
        standing.add(given.pod_uid, (given.node,))
    expected = sum(1 for pod in snapshot.pods.values() if _counts(snapshot, pod.uid))
    if len(standing.places) != expected - len(gone) + len(plan.hand_overs):
        faults.append("a pod was lost")
    return faults


def _counts(snapshot: Snapshot, uid: str) -> bool:
    pod = snapshot.pods[uid]
    return pod.is_holding and not pod.hold and pod.node_name in snapshot.nodes
