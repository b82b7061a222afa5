"""Which module stands for which step."""

from __future__ import annotations

from types import ModuleType

from apps.executions.models import Step
from apps.executions.states import StepKind
from apps.executions.steps import (
    await_replacement,
    checkpoint,
    cordon_node,
    evict_pod,
    hand_over,
    hold_node,
    hold_target,
    lower_memory,
    name_layout,
    preempt_pod,
    reconfigure_mig,
    release,
    release_cordon,
    release_node,
    steer,
)

MODULES: dict[str, ModuleType] = {
    StepKind.CORDON_NODE: cordon_node,
    StepKind.HOLD_TARGET: hold_target,
    StepKind.CHECKPOINT: checkpoint,
    StepKind.STEER: steer,
    StepKind.EVICT_POD: evict_pod,
    StepKind.AWAIT_REPLACEMENT: await_replacement,
    StepKind.HAND_OVER: hand_over,
    StepKind.RELEASE: release,
    StepKind.RECONFIGURE_MIG: reconfigure_mig,
    StepKind.PREEMPT_POD: preempt_pod,
    StepKind.NAME_LAYOUT: name_layout,
    StepKind.HOLD_NODE: hold_node,
    StepKind.RELEASE_NODE: release_node,
    StepKind.LOWER_MEMORY: lower_memory,
}


def module_of(step: Step) -> ModuleType:
    """`release` stands for two things: a finished move (move > 0) and a node that is opened again."""
    if step.kind == StepKind.RELEASE and not step.move:
        return release_cordon
    return MODULES[step.kind]
