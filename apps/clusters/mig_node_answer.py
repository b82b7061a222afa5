"""A node as the answer of `read_mig`: what its labels ask for, where the change stands, what repairs it."""

from __future__ import annotations

from typing import Any

from apps.planner.inventory import Node
from apps.planner.mig.catalogue import profile_resource
from apps.planner.mig.changing import DEPLOY, Change, Stage, read_change
from apps.planner.mig.nodes import STATE
from apps.planner.mig.use import model_of, offered_instances

REPAIR = (
    "End what keeps the GPUs busy; set the paused nvidia.com/gpu.deploy.* labels back to true; then set "
    "nvidia.com/mig.config to another value and back, or restart mig-manager on the node: the same value "
    "again is no retry."
)
AGAIN = "Read mig-manager's log on the node, then set nvidia.com/mig.config to another value and back."
RESTART = "Restart the device plugin on the node; if it still disagrees, restart mig-manager there."
WORDS = {
    Stage.NONE: "",
    Stage.ASKED: "The label is set and mig-manager has not answered: stuck if that lasts over 10 minutes.",
    Stage.PENDING: "mig-manager has begun and has not finished: stuck if it lasts over 10 minutes.",
    Stage.REBOOTING: "The mode change needs a reboot that has not ended.",
    Stage.FAILED: "mig-manager gave up; the layout is not the wanted one.",
    Stage.INVALID: "The layout is invalid for mig.strategy=single: the node offers no instance.",
    Stage.WRONG: "It says success, and what the node offers is something else: do not believe it.",
    Stage.DONE: "",
}
WEDGED = (
    "mig-manager paused the GPU operands and the node offers no GPU: stuck unless it began within the last "
    "10 minutes. GPU clients did not stop in time, and nothing tries again by itself."
)


def answer_node(node: Node) -> dict[str, Any]:
    change = read_change(node)
    paused = [f"{DEPLOY}{operand}" for operand in change.paused]
    schedulable = node.allocatable.get(node.gpu_resource, 0)
    offered = {name: number for name, number in offered_instances(node).items() if number}
    model, _ = model_of(node)
    is_wedged = change.stage is Stage.PENDING and bool(paused) and not schedulable and not offered
    return {
        "name": node.name,
        "product": node.model,
        "model": model.name if model else None,
        "physical_gpus": len(node.gpus),
        "schedulable": schedulable,
        "mig": offered,
        "mig_resources": {profile_resource(name): number for name, number in offered.items()},
        "mig_strategy": node.mig_strategy or None,
        "mig_config": change.config,
        "state": "stuck" if is_wedged else node.labels.get(STATE, ""),
        "config_state": node.labels.get(STATE, ""),
        "stage": str(change.stage),
        "paused": paused,
        "done": change.stage is Stage.DONE,
        "schedulable_now": change.stage in (Stage.NONE, Stage.DONE) and not paused,
        "verdict": "stuck" if is_wedged else str(change.stage),
        "sentence": WEDGED if is_wedged else WORDS[change.stage],
        "repair": _repair(change, is_wedged=is_wedged),
        "warnings": list(node.warnings),
    }


def _repair(change: Change, *, is_wedged: bool) -> str:
    if is_wedged:
        return REPAIR
    if change.stage is Stage.FAILED:
        return AGAIN
    return RESTART if change.stage is Stage.WRONG else ""
