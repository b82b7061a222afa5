"""How room is kept for each move: reviewers are told where it is done by closing the whole target."""

from __future__ import annotations

from collections.abc import Iterator

from apps.executions.checks.looking import Look, Objection
from apps.executions.node_holds import choose_taints, tell_hold


def check_holds(look: Look) -> Iterator[Objection]:
    """Notes only: chosen anew when it begins, by what is there then."""
    moves = [move for move in look.plan.moves if move.pod_uid in look.picture.pods]
    if len(moves) < len(look.plan.moves) or any(move.target not in look.picture.nodes for move in moves):
        return  # the plan is stale, and others say so
    if not moves:
        return
    kept = choose_taints(look.plan, look.picture, form=look.steering.form)
    for move in moves:
        if move.target in kept:
            yield Objection(tell_hold(move.target, kept[move.target]), move.pod_uid, is_note=True)
