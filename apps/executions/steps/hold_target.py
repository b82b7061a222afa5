"""Step ``hold_target``: room for the replacement is kept on the target before anything is evicted.

Up to four effects, each one only where a look shows that it is missing: our namespace, a priority class
of the moved pod's rank that never preempts, the paper hold, its nomination.
Undone by deleting the hold.
"""

from __future__ import annotations

from apps.executions.context import Context
from apps.executions.decisions import Decision, act, done
from apps.executions.holds import HoldFacts, delete_hold, look_at_hold, repair_hold, send_hold_effect
from apps.executions.models import Step


def observe(context: Context, step: Step) -> HoldFacts:
    return look_at_hold(context, step.params)


def decide(step: Step, facts: HoldFacts, *, late: bool) -> Decision:
    return repair_hold(facts, step.params) or done(f"room is kept on {step.params['target']}")


def decide_undo(step: Step, facts: HoldFacts) -> Decision:
    if facts.hold is None or not facts.is_ours:
        return done("no hold of this execution is left")
    return act("delete_hold", f"give back the room on {step.params['target']}", hold=facts.hold)


def apply(context: Context, step: Step, decision: Decision) -> None:
    if not send_hold_effect(context, step, decision):
        delete_hold(context, decision.arguments["hold"])
