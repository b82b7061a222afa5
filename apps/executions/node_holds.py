"""Which targets are kept by a taint instead of by paper holds, and why. Pure.

A paper hold keeps room from pods of the same or lower rank. A taint on the node keeps out everybody that
does not tolerate it, whatever its rank, and takes two requests for any number of moves; but it closes the
whole node to newcomers. So it is taken where somebody of a higher rank waits for that room, or several moves
go there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from apps.executions import names
from apps.executions.steering_forms import Form
from apps.planner.inventory import Pod
from apps.planner.plan import Move, Plan
from apps.planner.resources import is_device_resource
from apps.planner.selectors import matches_labels, node_matches_terms, tolerates
from apps.planner.snapshot import Snapshot
from apps.planner.terms import Taint


def choose_taints(plan: Plan, picture: Snapshot, *, owned: str = "", form: str = "") -> dict[str, str]:
    """By node that is kept by a taint: why, for people. owned: the taint's value, where it is known already.
    form: how replacements are steered; only one that is gated can be let in by its one patch."""
    if form == Form.BEST_EFFORT:
        return {}
    going: dict[str, list[Move]] = defaultdict(list)
    for move in plan.moves:
        going[move.target].append(move)
    kept = Kept(picture, Taint(names.HELD, owned, "NoSchedule"))
    busy = {cut.node for cut in plan.reconfigurations} | {one.node for one in plan.hand_overs}
    found = {}
    for node, moves in going.items():
        why = "" if node in busy else kept.why_taint(node, moves)
        if why:
            found[node] = why
    return found


class Kept:
    """What a taint on a node of this picture would do."""

    def __init__(self, picture: Snapshot, taint: Taint) -> None:
        self._picture = picture
        self._taint = taint
        self._waiting = [pod for pod in picture.pods.values() if pod.is_pending and not pod.gates]
        self._used = _used_devices(picture)

    def why_taint(self, node: str, moves: Sequence[Move]) -> str:
        """ "" where paper holds do, or where the taint would not do what it is for."""
        contenders = self._contenders(node, moves)
        if self._is_barred(node) or any(tolerates(pod, [self._taint]) for pod in contenders):
            return ""
        ranks = [self._picture.pods[move.pod_uid].priority for move in moves]
        higher = [pod for pod in contenders if pod.priority > min(ranks)]
        reasons = [f"{len(moves)} moves go there"] if len(moves) > 1 else []
        if higher:
            reasons.append(f"{higher[0].key}, which waits for such room, has a higher priority")
        return " and ".join(reasons)

    def _is_barred(self, node: str) -> bool:
        """Another such taint stands there, or a DaemonSet could not start its pod there anew."""
        if any(taint.key == names.HELD for taint in self._picture.nodes[node].taints):
            return True
        daemons = [pod for pod in self._picture.pods_on(node) if pod.owner_kind == "DaemonSet"]
        return not all(tolerates(pod, [self._taint]) for pod in daemons)

    def _contenders(self, node: str, moves: Sequence[Move]) -> list[Pod]:
        """Who waits and could take that room: asks for such devices, for no more than are free there or will
        be, and may go onto that node."""
        moved = [self._picture.pods[move.pod_uid] for move in moves]
        kinds = {name for pod in moved for name in pod.requests if is_device_resource(name)}
        offered, used = self._picture.nodes[node].allocatable, self._used.get(node, {})
        left = {
            name: max(
                offered.get(name, 0) - used.get(name, 0), sum(pod.requests.get(name, 0) for pod in moved)
            )
            for name in kinds
        }
        return sorted(
            (
                pod
                for pod in self._waiting
                if any(0 < pod.requests.get(name, 0) <= amount for name, amount in left.items())
                and self._may_go(pod, node)
            ),
            key=lambda pod: (-pod.priority, pod.key),
        )

    def _may_go(self, pod: Pod, name: str) -> bool:
        node = self._picture.nodes[name]
        return (
            matches_labels(pod.node_selector, node.labels)
            and node_matches_terms(node, pod.node_terms)
            and tolerates(pod, node.taints)
        )


def tell_hold(node: str, why: str) -> str:
    """What reviewers read beside a move whose room is kept by the taint."""
    return (
        f"While pods move to {node} it is closed to all others by a taint of ours (no paper hold), because "
        f"{why}"
    )


def _used_devices(picture: Snapshot) -> Mapping[str, Mapping[str, int]]:
    used: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for pod in picture.pods.values():
        if pod.is_holding:
            for name, amount in pod.requests.items():
                used[pod.node_name][name] += amount
    return used
