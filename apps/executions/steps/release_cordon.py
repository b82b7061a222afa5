"""Step ``release`` of a freed node that nobody waits for: our cordon goes, and with it the node is free.

A cordon of somebody else stays.
"""

from __future__ import annotations

from apps.executions.context import Context
from apps.executions.decisions import Decision
from apps.executions.models import Step
from apps.executions.steps import cordon_node
from apps.executions.steps.cordon_node import Facts


def observe(context: Context, step: Step) -> Facts:
    return cordon_node.observe(context, step)


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    return cordon_node.decide_undo(step, facts)


def decide_undo(step: Step, facts: Facts) -> Decision:
    return cordon_node.decide_undo(step, facts)


def apply(context: Context, step: Step, decision: Decision) -> None:
    cordon_node.apply(context, step, decision)
