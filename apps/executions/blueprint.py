"""From an approved plan and a fresh picture to the steps that carry it out. Pure.

Order: layouts without a name get one; cordons of the nodes to be freed or relaid; GPUs that nobody uses are
cut anew; room for every move is held (all before the first eviction), by paper or by a taint on the target;
relaid nodes that moves land on are opened; each move's own steps by wave; those taints go; GPUs that the
moves drained are cut anew; pods that give way leave; then what happens to the nodes that are still cordoned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.executions import names
from apps.executions.node_holds import choose_taints
from apps.executions.states import StepKind
from apps.planner.inventory import Pod
from apps.planner.plan import Goal, Lowering, Move, Plan, Preemption
from apps.planner.resources import asks_gpu, is_device_resource
from apps.planner.snapshot import Snapshot


@dataclass(frozen=True)
class StepDraft:
    kind: StepKind
    target: str
    params: dict[str, Any]
    move: int = 0
    wave: int = 0


MOVE_KINDS = (
    StepKind.CHECKPOINT,
    StepKind.STEER,
    StepKind.EVICT_POD,
    StepKind.AWAIT_REPLACEMENT,
    StepKind.RELEASE,
)


def draft_steps(
    plan: Plan,
    picture: Snapshot,
    *,
    owned: str,
    layouts: Sequence[Mapping[str, Any]] = (),
    form: str = "",
) -> list[StepDraft]:
    """owned: what the execution's objects carry in our label (names.owned_value). layouts: what the step
    of each relaid node needs, as the preflight found it. form: how replacements are steered
    (steering_forms.Form), "" for the webhook."""
    relaid = [_relay_step(params) for params in layouts]
    nodes = cordoned_nodes(plan)
    tainted = choose_taints(plan, picture, owned=owned, form=form)
    moves = _params_of_moves(plan, picture, owned, form, tainted)
    drafts = _naming_steps(layouts)
    drafts += [_cordon_step(name, picture, "relaid" if relaid else "freed") for name in nodes]
    drafts.extend(draft for draft in relaid if draft.params["before_moves"])
    papered = [move for move in plan.moves if move.target not in tainted]
    drafts.extend(_move_step(StepKind.HOLD_TARGET, move, moves[move.order]) for move in papered)
    drafts += _node_holds(StepKind.HOLD_NODE, tainted, plan, picture, owned)
    opened = _nodes_to_open(plan)
    for name in opened:
        drafts.append(_node_step(StepKind.RELEASE, name, picture))
        drafts[-1].params["before_moves"] = True
    nodes = [name for name in nodes if name not in opened]
    for move in sorted(plan.moves, key=lambda move: (move.wave, move.order)):
        drafts.extend(_move_step(kind, move, moves[move.order]) for kind in MOVE_KINDS)
    drafts += _node_holds(StepKind.RELEASE_NODE, tainted, plan, picture, owned)
    drafts.extend(draft for draft in relaid if not draft.params["before_moves"])
    for one in sorted(plan.preemptions, key=lambda one: one.order):
        drafts.extend(_preemption_steps(one, plan, picture))
    drafts += [_lowering_step(one) for one in plan.lowerings]
    handed = _hand_overs(plan, picture, nodes)
    drafts.extend(handed)
    kept = {draft.params["node"] for draft in handed}
    drafts.extend(_node_step(StepKind.RELEASE, name, picture) for name in nodes if name not in kept)
    return drafts


def cordoned_nodes(plan: Plan) -> list[str]:
    """Nodes that are to be relaid; else those that are to be freed or handed over. A node that a move lands
    on stays open: its room is held by paper instead."""
    if plan.goal == Goal.MIG:
        return list(dict.fromkeys(one.node for one in plan.reconfigurations))
    wanted = [*plan.freed_nodes, *(hand_over.node for hand_over in plan.hand_overs)]
    targets = {move.target for move in plan.moves}
    return [name for name in dict.fromkeys(wanted) if name not in targets]


def _nodes_to_open(plan: Plan) -> list[str]:
    """Relaid nodes that moves land on: opened before the first move, when all holds stand."""
    targets = {move.target for move in plan.moves}
    return [name for name in cordoned_nodes(plan) if name in targets]


def _relay_step(params: Mapping[str, Any]) -> StepDraft:
    return StepDraft(StepKind.RECONFIGURE_MIG, f"node {params['node']}", dict(params))


def _naming_steps(layouts: Sequence[Mapping[str, Any]]) -> list[StepDraft]:
    """One for each name that is not there yet, whichever of its nodes it came with."""
    found = {one["naming"]["config"]: dict(one["naming"]) for one in layouts if one.get("naming")}
    return [StepDraft(StepKind.NAME_LAYOUT, f"layout {name}", found[name]) for name in sorted(found)]


def _node_step(kind: StepKind, name: str, picture: Snapshot) -> StepDraft:
    return StepDraft(kind, f"node {name}", {"node": name, "node_uid": picture.nodes[name].uid})


def _cordon_step(name: str, picture: Snapshot, why: str) -> StepDraft:
    """known: UIDs of the pods with GPUs that are there now; any other one came in before the cordon.
    why: what becomes of the node, for people."""
    draft = _node_step(StepKind.CORDON_NODE, name, picture)
    draft.params["known"] = sorted(pod.uid for pod in picture.pods_on(name) if asks_gpu(pod))
    draft.params["why"] = why
    return draft


def _node_holds(
    kind: StepKind, tainted: Mapping[str, str], plan: Plan, picture: Snapshot, owned: str
) -> list[StepDraft]:
    """moves: those that the node is kept for. reason: why it is kept by a taint."""
    drafts = [_node_step(kind, name, picture) for name in tainted]
    for draft in drafts:
        name = draft.params["node"]
        moves = [move.order for move in plan.moves if move.target == name]
        draft.params.update(taint=owned, reason=tainted[name], moves=moves)
    return drafts


def _move_step(kind: StepKind, move: Move, params: dict[str, Any]) -> StepDraft:
    target = f"node {move.target}" if kind == StepKind.HOLD_TARGET else f"pod {move.pod}"
    return StepDraft(kind, target, params, move.order, move.wave)


def _params_of_moves(
    plan: Plan, picture: Snapshot, owned: str, form: str, tainted: Mapping[str, str]
) -> dict[int, dict[str, Any]]:
    """By order. form: see `draft_steps`. tainted: targets that are kept by a taint."""
    steered = {"form": form} if form else {}
    moves = {move.order: _move_params(move, picture, owned) | steered for move in plan.moves}
    for waiver in plan.waivers:
        for params in moves.values():
            if params["uid"] == waiver.pod_uid:
                params["waived"] = list(waiver.protections)
    for params in moves.values():
        if params["target"] in tainted:
            params["taint"] = owned
    _steer_together(plan, moves, owned)
    _pin_when_made(moves, picture)
    return moves


def _move_params(move: Move, picture: Snapshot, owned: str) -> dict[str, Any]:
    """What each step of the move needs. gang, pool, workload: by which budgets and gangs are counted."""
    pod = picture.pods[move.pod_uid]
    workload = picture.workloads.get(pod.workload)
    return {
        "pod": pod.key,
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "source": move.source,
        "source_uid": picture.nodes[move.source].uid,
        "target": move.target,
        "target_uid": picture.nodes[move.target].uid,
        "requests": dict(pod.requests),
        "devices": {name: amount for name, amount in pod.requests.items() if is_device_resource(name)},
        "priority": pod.priority,
        "gang": pod.gang,
        "gang_needs": _gang_needs(pod, picture),
        "pool": picture.nodes[move.source].pool,
        "workload": f"{pod.namespace}/{picture.workload_name(pod)}",
        "workload_uid": pod.workload,
        "owner": f"{pod.owner_kind} {pod.namespace}/{picture.workload_name(pod)}",
        "pod_name": pod.name if pod.owner_kind == "StatefulSet" else "",
        "min_ready_seconds": workload.min_ready_seconds if workload is not None else 0,
        "hold": names.hold_name(owned, move.order),
    }


def _steer_together(plan: Plan, moves: Mapping[int, dict[str, Any]], owned: str) -> None:
    """One configuration for all moves of an owner, named by the first of them. A pod whose name is known
    before has its own. The standing policy gates every new pod of an owner, and strangers are freed by
    whoever looks after a move of it: there, none stands over a wave in which no pod of that owner moves."""
    runs: dict[tuple[str, str], tuple[int, str]] = {}
    for move in sorted(plan.moves, key=lambda move: (move.wave, move.order)):
        params = moves[move.order]
        key = (params["workload_uid"], params["pod_name"])
        wave, steering = runs.get(key, (0, ""))
        if not steering or (params.get("form") == "parameter" and move.wave > wave + 1):
            steering = names.steering_name(owned, move.order)
        runs[key] = (move.wave, steering)
        params["steering"], params["webhook"] = steering, names.webhook_name(steering)


def _pin_when_made(moves: Mapping[int, dict[str, Any]], picture: Snapshot) -> None:
    """Where all moves that are steered together go to one node, and a taint keeps it, the webhook's own
    answer pins the replacement and lets it in: whichever move it is for, nothing is left to be told apart."""
    together: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for params in moves.values():
        together[params["steering"]].append(params)
    for group in together.values():
        first = group[0]
        is_one = len({params["target"] for params in group}) == 1 and "taint" in first
        if is_one and first.get("form", "webhook") == "webhook":
            for params in group:
                params["pins_to"] = picture.nodes[params["target"]].hostname


def _gang_needs(pod: Pod, picture: Snapshot) -> int:
    gang = picture.gangs.get(pod.gang)
    return gang.min_members if gang is not None else 0


def _preemption_steps(one: Preemption, plan: Plan, picture: Snapshot) -> list[StepDraft]:
    """It may save its work first, as a moved pod may."""
    pod = picture.pods[one.pod_uid]
    waiting = [picture.pods[hand.pod_uid] for hand in plan.hand_overs if hand.node == one.node]
    params = {
        "pod": pod.key,
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "source": one.node,
        "source_uid": picture.nodes[one.node].uid,
        "requests": dict(pod.requests),
        "priority": pod.priority,
        "gang": pod.gang,
        "gang_needs": 0,
        "pool": picture.nodes[one.node].pool,
        "workload": f"{pod.namespace}/{picture.workload_name(pod)}",
        "workload_uid": pod.workload,
        "for": _listed(list(dict.fromkeys(other.gang or other.key for other in waiting))),
    }
    kinds = (StepKind.CHECKPOINT, StepKind.PREEMPT_POD)
    return [StepDraft(kind, f"pod {pod.key}", params) for kind in kinds]


def _lowering_step(one: Lowering) -> StepDraft:
    namespace, _, name = one.owner.partition("/")
    params: dict[str, Any] = {
        "owner": f"{one.owner_kind} {one.owner}",
        "owner_kind": one.owner_kind,
        "namespace": namespace,
        "name": name,
        "uid": one.owner_uid,
        "resource": one.resource,
        "before": one.before,
        "after": one.after,
        "before_mib": one.before_mib,
        "after_mib": one.after_mib,
        "renews": one.renews,
        "pods": list(one.pod_uids),
    }
    return StepDraft(StepKind.LOWER_MEMORY, params["owner"], params)


def _hand_overs(plan: Plan, picture: Snapshot, cordoned: list[str]) -> list[StepDraft]:
    """One step per node: all pods that wait for room on it, told by their gang's key or their own. Of a plan
    that relays GPUs only nodes that are still cordoned are kept for somebody."""
    keys: dict[str, list[str]] = defaultdict(list)
    wanted: dict[str, int] = defaultdict(int)
    for hand_over in plan.hand_overs:
        if plan.goal == Goal.MIG and hand_over.node not in cordoned:
            continue
        pod = picture.pods[hand_over.pod_uid]
        key = pod.gang or pod.key
        wanted[key] += 1
        if key not in keys[hand_over.node]:
            keys[hand_over.node].append(key)
    drafts = []
    for name, waiting in keys.items():
        params = {
            "node": name,
            "node_uid": picture.nodes[name].uid,
            "is_cordoned": name in cordoned,
            "keys": waiting,
            "namespaces": sorted({key.partition("/")[0] for key in waiting}),
            "wanted": sum(wanted[key] for key in waiting),
            "display": _listed(waiting),
            "taint": names.held_value(",".join(sorted(waiting))),
        }
        drafts.append(StepDraft(StepKind.HAND_OVER, f"node {name}", params))
    return drafts


def _listed(keys: Sequence[str], most: int = 3) -> str:
    """Many pods that wait for MIG instances of one node, say, in few words."""
    if len(keys) > most:
        return f"{', '.join(keys[:most])} and {len(keys) - most} more"
    return " and ".join(keys)
