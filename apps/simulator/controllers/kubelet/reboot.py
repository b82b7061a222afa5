"""What a restart of a machine leaves behind: MIG instances are gone, every container starts anew.

Pure; no calls. The annotation `sim.gpu.internal/reboot` asks for one.
"""

from __future__ import annotations

import uuid
from typing import Any

from apps.simulator.controllers.kubelet.reports import rejected_status, running_status
from apps.simulator.controllers.objects import annotations_of, make_condition
from apps.simulator.mig.layout import LAYOUT_ANNOTATION, layout_text
from apps.simulator.mig.setup import Setup

Json = dict[str, Any]

REBOOT_ANNOTATION = "sim.gpu.internal/reboot"
DOWN_SECONDS = 120.0


def wants_reboot(node: Json) -> bool:
    return REBOOT_ANNOTATION in annotations_of(node)


def notes_after(setup: Setup | None) -> dict[str, str | None]:
    """The mode of a GPU outlives a restart, its instances do not."""
    notes: dict[str, str | None] = {REBOOT_ANNOTATION: None}
    if setup and setup.layout:
        notes[LAYOUT_ANNOTATION] = layout_text({index: () for index in setup.layout})
    return notes


def new_boot() -> Json:
    return {"status": {"nodeInfo": {"bootID": str(uuid.uuid4())}}}


def device_refusal(resources: str) -> Json:
    """The kubelet is there before the device plugin: pods that hold devices are not taken back."""
    return rejected_status(
        "UnexpectedAdmissionError",
        "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
        f"{resources}, which is unexpected",
    )


def waiting_again(pod: Json) -> Json:
    """The status while the containers are being started once more."""
    status = restarted(pod)
    for each in status["containerStatuses"]:
        each |= {"ready": False, "started": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
    return {
        "phase": "Running",
        "conditions": [
            make_condition(kind, "False", "ContainersNotReady") for kind in ("Ready", "ContainersReady")
        ],
        "containerStatuses": status["containerStatuses"],
    }


def restarted(pod: Json) -> Json:
    """The status of the pod with one restart more."""
    known = (pod.get("status") or {}).get("containerStatuses") or []
    restarts = {each["name"]: each.get("restartCount", 0) for each in known}
    status = running_status(pod)
    status.pop("startTime")
    for each in status["containerStatuses"]:
        each["restartCount"] = restarts.get(each["name"], 0) + 1
    return status
