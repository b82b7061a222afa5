"""No plan begins on a node that a driver upgrade, kured, Karpenter or the cluster-autoscaler has in hands."""

from __future__ import annotations

from collections.abc import Iterator

from apps.executions.checks.looking import Look, Objection
from apps.planner.maintenance import why_maintained


def check_maintenance(look: Look) -> Iterator[Objection]:
    plan = look.plan
    used = [name for move in plan.moves for name in (move.source, move.target)]
    used += [one.node for one in plan.reconfigurations] + [one.node for one in plan.hand_overs]
    used += [one.node for one in plan.preemptions]
    for name in dict.fromkeys(used):
        node = look.picture.nodes.get(name)
        reason = why_maintained(node) if node is not None else ""
        if reason:
            yield Objection(
                f"Node {name} is in somebody else's hands: {reason}. Start again when that is over."
            )
