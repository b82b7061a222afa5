"""Faults of MIG changes that are set on a node: which there are, and how one is used up.

They stand in the annotation `sim.gpu.internal/mig-faults`, JSON: name -> how many times it still acts,
null for until it is taken away.
"""

from __future__ import annotations

import json
from typing import Any

from apps.simulator.client import NODES, KubernetesClient
from apps.simulator.controllers.objects import annotations_of

Json = dict[str, Any]

FAULTS_ANNOTATION = "sim.gpu.internal/mig-faults"
SILENT = "mig-manager-silent"
FAILED = "mig-failed"
WRONG_RESOURCES = "mig-wrong-resources"
STALE_SUCCESS = "mig-stale-success"
REBOOT = "mig-reboot"
LABEL_CHANGED = "mig-label-changed-by-other"
LAYOUT_LOST = "mig-layout-lost"


def read_faults(node: Json) -> dict[str, int | None]:
    return json.loads(annotations_of(node).get(FAULTS_ANNOTATION) or "{}")


async def spend_fault(client: KubernetesClient, name: str, fault: str) -> bool:
    """Whether the fault is set on the node of this name; one time less is left."""
    faults = read_faults(await client.get(NODES, "", name))
    if fault not in faults:
        return False
    left = faults[fault]
    if left is not None:
        faults[fault] = left - 1
        kept = {each: times for each, times in faults.items() if times is None or times > 0}
        await write_faults(client, name, kept)
    return True


async def write_faults(client: KubernetesClient, name: str, faults: dict[str, int | None]) -> None:
    body = {"metadata": {"annotations": {FAULTS_ANNOTATION: json.dumps(faults) if faults else None}}}
    await client.patch(NODES, "", name, body)
