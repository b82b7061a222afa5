"""Step ``hold_target``: room for the replacement is kept on the target before anything is evicted.

Where the cluster's extender keeps it, its word is looked at and nothing is sent. Else up to four effects,
each one only where a look shows that it is missing: our namespace, a priority class of the moved pod's rank
that never preempts, the paper hold, its nomination.
It is done when the target has the room as well: a nomination alone keeps nothing from a pod of a higher rank.
Undone by deleting the hold, or by closing the row that the extender reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from apps.executions.context import Context
from apps.executions.decisions import Decision, act, blocked, done, wait_until_gone
from apps.executions.holds import (
    HoldFacts,
    look_at_hold,
    repair_hold,
    send_hold_effect,
    tell_strange_hold,
)
from apps.executions.models import Step
from apps.executions.room import decide_without_target, look_at_room
from apps.executions.sightings import is_leaving


@dataclass(frozen=True)
class Facts:
    """no_room: why the target could not take the pod beside all others, "" if it can; looked at once the hold
    stands, which is not counted itself. no_target: what to do where the target is gone, None while it is."""

    hold: HoldFacts
    no_room: str = ""
    no_target: Decision | None = None


def observe(context: Context, step: Step) -> Facts:
    hold = look_at_hold(context, step.params)
    is_there = repair_hold(hold, step.params) is None
    return Facts(
        hold,
        look_at_room(context, step.params, is_opened_later=True) if is_there else "",
        decide_without_target(context, step.params),
    )


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    if facts.no_target is not None:
        return facts.no_target
    repair = repair_hold(facts.hold, step.params)
    if repair is not None:
        return repair
    if facts.no_room:
        return blocked(
            f"The room for {step.params['pod']} is gone: {facts.no_room}.",
            "Make room on the target or cancel; nothing was evicted.",
            cause="no-room",
            retry_seconds=2,
        )
    by = " by the extender, without a paper hold" if facts.hold.room.is_confirmed else ""
    return done(f"room is kept on {step.params['target']}{by}")


def decide_undo(step: Step, facts: Facts) -> Decision:
    hold = facts.hold
    if hold.room.is_open:
        return act("close_room", f"give back the room on {step.params['target']}", room=hold.room.row)
    if hold.hold is None:
        return done("no hold of this execution is left")
    if not hold.is_ours:
        return done("the hold does not carry our label: it stays", left=tell_strange_hold(step.params))
    if is_leaving(hold.hold):
        return wait_until_gone(f"hold {step.params['hold']}")
    return act("delete_hold", f"give back the room on {step.params['target']}", hold=hold.hold)


def apply(context: Context, step: Step, decision: Decision) -> None:
    send_hold_effect(context, step, decision)
