"""The Lease `console` in our namespace, as it is read and as it is written. Pure.

One annotation per console (`epoch.defrag.gpu.internal/IDENTITY`) holds the epoch of that console's last
renewal, so that each finds its own again after another one had the Lease. Names of holders are the cluster's
text: shown, never interpreted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.executions import names
from apps.executions.objects import STANDING
from apps.executions.sightings import uid, version

Json = dict[str, Any]
NAME = "console"
EPOCH = "epoch.defrag.gpu.internal/"
RENEWED_BY = "defrag.gpu.internal/renewed-by"
LONGEST_NAME = 100
HIGHEST = 2**53
"""No console ever counts so far: one renewal a second for 285 million years."""


@dataclass(frozen=True, slots=True)
class FoundLease:
    """version: resourceVersion. holder: identity, "" for nobody. renewed_by: host of the last renewal.
    seconds: how long it holds without a change. epoch: of our own last renewal as the cluster has it, 0 for
    none; top: the highest of all consoles."""

    uid: str
    version: str
    holder: str
    renewed_by: str = ""
    seconds: int = 0
    transitions: int = 0
    epoch: int = 0
    top: int = 0


def read_lease(body: Json, identity: str) -> FoundLease:
    spec = body.get("spec") or {}
    noted = (body.get("metadata") or {}).get("annotations") or {}
    epochs = {key.removeprefix(EPOCH): _number(noted[key]) for key in noted if key.startswith(EPOCH)}
    return FoundLease(
        uid(body),
        version(body),
        str(spec.get("holderIdentity") or "")[:LONGEST_NAME],
        str(noted.get(RENEWED_BY, ""))[:LONGEST_NAME],
        _number(spec.get("leaseDurationSeconds")),
        _number(spec.get("leaseTransitions")),
        epochs.get(identity, 0),
        max(epochs.values(), default=0),
    )


def lease_body(
    found: FoundLease | None, *, identity: str, host: str, epoch: int, now: datetime, seconds: int
) -> Json:
    """found: what stands there, which then guards the patch; None to make a new one."""
    is_taken = found is None or found.holder != identity
    moment = f"{now:%Y-%m-%dT%H:%M:%S.%f}Z"
    spec: Json = {"holderIdentity": identity, "leaseDurationSeconds": seconds, "renewTime": moment}
    if is_taken:
        spec |= {"acquireTime": moment, "leaseTransitions": found.transitions + 1 if found else 0}
    metadata: Json = {
        "labels": {names.OWNED: STANDING},
        "annotations": {f"{EPOCH}{identity}": str(epoch), RENEWED_BY: host},
    }
    if found is None:
        metadata["name"] = NAME
    else:
        metadata |= {"uid": found.uid, "resourceVersion": found.version}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def tell_console(holder: str, host: str) -> str:
    """For people: which console that is."""
    return f"{holder} (last renewed by {host})" if host else holder


def _number(value: Any) -> int:
    """What is no number, or one that nobody could have counted to, was not written by a console."""
    try:
        found = int(str(value)[:LONGEST_NAME])
    except ValueError:
        return 0
    return found if 0 < found < HIGHEST else 0
