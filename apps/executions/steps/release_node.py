"""Step ``release_node``: all moves to a target are over, so the taint that kept it goes."""

from __future__ import annotations

from apps.executions.context import Context
from apps.executions.decisions import Decision
from apps.executions.models import Step
from apps.executions.steps import hold_node
from apps.executions.steps.hold_node import Facts


def observe(context: Context, step: Step) -> Facts:
    return hold_node.observe(context, step)


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    return hold_node.decide_undo(step, facts)


def decide_undo(step: Step, facts: Facts) -> Decision:
    return hold_node.decide_undo(step, facts)


def apply(context: Context, step: Step, decision: Decision) -> None:
    hold_node.apply(context, step, decision)
