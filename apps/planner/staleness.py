"""Does a plan still fit the cluster as it is now? Sentences that name what changed.

Only facts that the plan stands on count: its pods, its nodes, the room on its targets, the budgets
over its pods, and who waits for what it frees. Whether a plan is right at all is `verification`'s.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from apps.planner.inventory import Node, Pod
from apps.planner.mig.nodes import MIG_PREFIX
from apps.planner.plan import Lowering, Move, Plan
from apps.planner.resources import asks_gpu
from apps.planner.selectors import matches
from apps.planner.snapshot import Snapshot

MIG_CONFIG = "nvidia.com/mig.config"
REQUEST = "defrag.gpu.internal/request"


def what_changed(plan: Plan, before: Snapshot | None, now: Snapshot) -> list[str]:
    """Empty if every fact that the plan stands on still holds.

    before: the snapshot it was made for, None if that is no longer kept; then only what the plan
    itself names is compared.
    """
    sentences = [
        *_changed_pods(plan, before, now),
        *_changed_preempted(plan, now),
        *_changed_nodes(plan, before, now),
        *_changed_layouts(plan, before, now),
        *_newcomers_on_freed_nodes(plan, before, now),
        *_lost_room(plan, before, now),
        *_closed_budgets(plan, before, now),
        *_gone_waiting(plan, now),
        *_changed_lowerings(plan, now),
    ]
    return list(dict.fromkeys(sentences))


def _changed_pods(plan: Plan, before: Snapshot | None, now: Snapshot) -> Iterator[str]:
    names = {pod.key for pod in now.pods.values()}
    for move in plan.moves:
        where = f"(move {move.order})"
        pod = now.pods.get(move.pod_uid)
        if pod is None:
            ending = "was replaced by another pod of that name" if move.pod in names else "is gone"
            yield f"{move.pod} {ending} {where}"
        elif pod.terminating or not pod.is_holding:
            yield f"{move.pod} is ending {where}"
        elif pod.node_name != move.source:
            yield f"{move.pod} runs on {pod.node_name}, not on {move.source} {where}"
        else:
            yield from _changed_terms(move, before.pods.get(move.pod_uid) if before else None, pod)


def _changed_preempted(plan: Plan, now: Snapshot) -> Iterator[str]:
    for one in plan.preemptions:
        where = f"(preemption {one.order})"
        pod = now.pods.get(one.pod_uid)
        if pod is None or pod.terminating or not pod.is_holding:
            yield f"{one.pod} is gone or ending {where}"
        elif pod.node_name != one.node:
            yield f"{one.pod} runs on {pod.node_name}, not on {one.node} {where}"
        elif pod.priority > one.priority:
            yield f"{one.pod} has a higher priority than planned {where}"
        yield from _identity(one.node, one.node_uid, now)


def _changed_terms(move: Move, old: Pod | None, new: Pod) -> Iterator[str]:
    if old is None:
        return
    if dict(old.requests) != dict(new.requests):
        yield f"{move.pod} asks for other resources than planned (move {move.order})"
    for reason in new.protections:
        if reason not in old.protections:
            yield f"{move.pod} must not be moved now: {reason} (move {move.order})"


def _changed_nodes(plan: Plan, before: Snapshot | None, now: Snapshot) -> Iterator[str]:
    for move in plan.moves:
        yield from _identity(move.source, move.source_uid, now)
        yield from _identity(move.target, move.target_uid, now)
        old, new = (before.nodes.get(move.target) if before else None), now.nodes.get(move.target)
        if new is not None:
            yield from _target_closed(old, new)
    for hand_over in plan.hand_overs:
        yield from _identity(hand_over.node, hand_over.node_uid, now)


def _identity(name: str, uid: str, now: Snapshot) -> Iterator[str]:
    node = now.nodes.get(name)
    if node is None:
        yield f"node {name} is gone"
    elif uid and node.uid != uid:
        yield f"node {name} was replaced by another node of that name"


def _target_closed(old: Node | None, new: Node) -> Iterator[str]:
    if not new.ready and (old is None or old.ready):
        yield f"node {new.name} is not ready"
    if new.unschedulable and (old is None or not old.unschedulable):
        yield f"node {new.name} was cordoned"
    if old is None:
        return
    for taint in new.taints:
        if taint not in old.taints and taint.effect != "PreferNoSchedule":
            yield f"node {new.name} was tainted with {taint.key}"
    if new.model != old.model:
        yield f"node {new.name} has {new.model or 'no known'} GPUs now"
    for sentence in new.drift:
        if sentence not in old.drift:
            yield f"node {new.name} has drifted: {sentence}"


def _changed_layouts(plan: Plan, before: Snapshot | None, now: Snapshot) -> Iterator[str]:
    """What the reconfigurations stand on: how the nodes are cut, by whose word, and who uses them."""
    for name in dict.fromkeys(one.node for one in plan.reconfigurations):
        uid = next(one.node_uid for one in plan.reconfigurations if one.node == name)
        yield from _identity(name, uid, now)
        old, new = (before.nodes.get(name) if before else None), now.nodes.get(name)
        if old is None or new is None or before is None:
            continue
        was, is_now = (one.labels.get(MIG_CONFIG) or "not set" for one in (old, new))
        if was != is_now:
            yield f"the label {MIG_CONFIG} of {name} is {is_now}, it was {was}"
        if _instances(old) != _instances(new):
            yield f"{name} offers other MIG instances than it did"
        for pod in _arrived(before, now, name):
            if asks_gpu(pod):
                yield f"{pod.key} started on {name}, which is to be relaid"


def _instances(node: Node) -> dict[str, int]:
    return {name: n for name, n in node.allocatable.items() if name.startswith(MIG_PREFIX) and n}


def _newcomers_on_freed_nodes(plan: Plan, before: Snapshot | None, now: Snapshot) -> Iterator[str]:
    if before is None:
        return
    for name in plan.freed_nodes:
        for pod in _arrived(before, now, name):
            if asks_gpu(pod):
                yield f"{pod.key} started on {name}, which the plan frees"


def _lost_room(plan: Plan, before: Snapshot | None, now: Snapshot) -> Iterator[str]:
    """A target that cannot hold what it holds now, less what leaves, plus what arrives."""
    balance: dict[str, Counter[str]] = defaultdict(Counter)
    moves: dict[str, list[int]] = defaultdict(list)
    for move in plan.moves:
        pod = now.pods.get(move.pod_uid)
        if pod is None or pod.node_name != move.source:
            continue
        balance[move.target].update({**pod.requests, "pods": 1})
        balance[move.source].subtract({**pod.requests, "pods": 1})
        moves[move.target].append(move.order)
    for one in plan.reconfigurations:
        if not one.after_moves and one.node in balance:
            # Relaid before the moves: what it will offer then counts as room.
            balance[one.node].subtract({_resource(name): n for name, n in one.after.items()})
            balance[one.node].update({_resource(name): n for name, n in one.before.items()})
    for name, orders in moves.items():
        node = now.nodes.get(name)
        short = [] if node is None else _short_of(node, balance[name], now)
        if short:
            taken = ", ".join(pod.key for pod in _arrived(before, now, name)[:2]) if before else ""
            who = f", taken by {taken}" if taken else ""
            yield f"{name} has too little {' and '.join(short)} left for move {orders[0]}{who}"


def _resource(profile: str) -> str:
    return MIG_PREFIX + profile.replace("+", ".")


def _short_of(node: Node, wanted: Counter[str], now: Snapshot) -> list[str]:
    used: Counter[str] = Counter()
    for pod in now.pods_on(node.name):
        used.update({**pod.requests, "pods": 1})
    return [
        resource
        for resource, amount in sorted(wanted.items())
        if amount > 0
        and not (resource == "pods" and "pods" not in node.allocatable)
        and used[resource] + amount > node.allocatable.get(resource, 0)
    ]


def _arrived(before: Snapshot, now: Snapshot, node: str) -> list[Pod]:
    known = {pod.uid for pod in before.pods_on(node)}
    return [pod for pod in now.pods_on(node) if pod.uid not in known and not pod.hold]


def _closed_budgets(plan: Plan, before: Snapshot | None, now: Snapshot) -> Iterator[str]:
    """Budgets that allowed an eviction when the plan was made and allow none now."""
    if before is None:
        return
    for move in plan.moves:
        pod = now.pods.get(move.pod_uid)
        if pod is None:
            continue
        for budget in now.budgets.values():
            old = before.budgets.get(budget.uid)
            if (
                old is not None
                and old.disruptions_allowed > 0 >= budget.disruptions_allowed
                and budget.namespace == pod.namespace
                and budget.selector is not None
                and matches(budget.selector, pod.labels)
            ):
                healthy = f"{budget.current_healthy} of {budget.expected_pods} ready"
                yield f"budget {budget.name} allows no eviction now, {healthy} (move {move.order})"


def _changed_lowerings(plan: Plan, now: Snapshot) -> Iterator[str]:
    """Less is asked for only while all its pods wait: a change of the template would restart those."""
    for one in plan.lowerings:
        there, here = _of_owner(one, now)
        if not there:
            yield f"{one.owner_kind} {one.owner} is gone or was made anew (change {one.order})"
        elif running := [pod.key for pod in here if pod.is_holding]:
            yield f"{min(running)} of {one.owner_kind} {one.owner} runs now (change {one.order})"
        elif not any(pod.is_pending for pod in here):
            yield f"no pod of {one.owner_kind} {one.owner} waits any more (change {one.order})"


def _of_owner(one: Lowering, now: Snapshot) -> tuple[bool, list[Pod]]:
    """Whether the owner is there as it was, and its pods that are not ending."""
    if one.owner_kind == "GPURequest":
        request = now.gpu_requests.get(one.owner)
        named = (
            pod for pod in now.pods.values() if f"{pod.namespace}/{pod.labels.get(REQUEST, '')}" == one.owner
        )
        return request is not None and request.uid == one.owner_uid, [
            pod for pod in named if not pod.terminating
        ]
    known = {one.owner_uid, *(uid for uid, owner in now.workloads.items() if owner.parent == one.owner_uid)}
    theirs = [pod for pod in now.pods.values() if pod.workload in known and not pod.terminating]
    return one.owner_uid in now.workloads, theirs


def _gone_waiting(plan: Plan, now: Snapshot) -> Iterator[str]:
    for hand_over in plan.hand_overs:
        pod = now.pods.get(hand_over.pod_uid)
        if pod is None or not pod.is_pending:
            yield f"{hand_over.pod} no longer waits for {hand_over.node}"
