"""Small pieces of a scene's objects: leases, conditions, a node that fell silent. No state."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.simulator.controllers.kubelet.devices import CHECKPOINT_ANNOTATION, DeviceLedger
from apps.simulator.controllers.kubelet.gpu_stack import matrix_text
from apps.simulator.controllers.pace import to_micro_text, to_text
from apps.simulator.hardware import HOLDERS_ANNOTATION, MATRIX_ANNOTATION
from apps.simulator.mig.offers import Unit
from apps.simulator.mig.setup import Setup

Json = dict[str, Any]

_STOPPED = "sim.gpu.internal/kubelet"


def is_silent(node: Json) -> bool:
    return _STOPPED in node["metadata"]["annotations"]


def make_silent(node: Json, *, since: str, lost: str) -> None:
    """since: its last heartbeat. lost: when the control plane noticed."""
    node["metadata"]["annotations"][_STOPPED] = "stopped"
    for condition in node["status"]["conditions"]:
        condition |= {
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastHeartbeatTime": since,
            "lastTransitionTime": lost,
        }


def agent_notes(node: Json, setup: Setup, ledger: DeviceLedger, moment: datetime) -> dict[str, str]:
    """The annotations of the node agent; without one, what the kubelet itself remembers."""
    silent_since = node["status"]["conditions"][0]["lastHeartbeatTime"] if is_silent(node) else ""
    observed = silent_since or to_text(moment)
    notes = {MATRIX_ANNOTATION: matrix_text(setup, observed)} if setup.has_agent else {}
    if not setup.sharing.is_on:
        key = HOLDERS_ANNOTATION if setup.has_agent else CHECKPOINT_ANNOTATION
        notes[key] = ledger.to_annotation(observed)
    return notes


def lease_spec(name: str, beat: datetime) -> Json:
    return {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": to_micro_text(beat)}


def scheduled_condition(moment: str, *, refused: str = "") -> Json:
    """refused: why no node takes the pod."""
    condition = {"type": "PodScheduled", "status": "False" if refused else "True"}
    if refused:
        condition |= {"reason": "Unschedulable", "message": refused}
    return {**condition, "lastTransitionTime": moment}


def mark_not_ready(pod: Json) -> None:
    for condition in pod["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition |= {"status": "False", "reason": "NodeNotReady"}


def first_of(units: tuple[Unit, ...], gpu: int) -> tuple[Unit, ...]:
    """The devices of one GPU before all others."""
    return tuple(sorted(units, key=lambda unit: unit.gpu != gpu))
