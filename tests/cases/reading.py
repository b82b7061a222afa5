"""Objects in the real format, read as the product reads them: dump -> snapshot -> ledger."""

from __future__ import annotations

import json
from typing import Any

from apps.clusters.dumps import read_dump_texts
from apps.planner.ledger import node_ledger
from apps.planner.ledger_rows import NodeLedger
from apps.planner.snapshot import Snapshot
from apps.prometheus.reading import Metrics, read_metrics

MATRIX, HOLDERS = "topology.gpu.internal/matrix", "topology.gpu.internal/holders"
SEEN_AT = "2026-01-02T00:00:00Z"


def read(*objects: dict[str, Any]) -> Snapshot:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    return read_dump_texts([("objects.json", text)])


def ledger(snapshot: Snapshot, name: str = "node-a") -> NodeLedger:
    return node_ledger(snapshot, snapshot.nodes[name])


def measured(*lines: str) -> Metrics:
    return read_metrics("scrape.txt", "\n".join(lines) + "\n")


def only_unit(*lines: str) -> Any:
    """Of a scrape with one device and one unit."""
    [device] = measured(*lines).devices
    [unit] = device.units
    return unit


def matrix(*uuids: str, mig: dict[str, Any] | None = None, **changes: Any) -> str:
    """The node agent's annotation for these GPUs. changes: to each of its gpus, by uuid."""
    size = range(len(uuids))
    return json.dumps(
        {
            "version": 1,
            "observed_at": SEEN_AT,
            "source": "nvml",
            "gpus": [
                {"index": at, "uuid": uuid, "healthy": True, **changes.get(uuid.replace("-", "_"), {})}
                for at, uuid in enumerate(uuids)
            ],
            "links": [["X" if one == other else "NV12" for other in size] for one in size],
            "mig": mig or {},
        }
    )


def holders(**devices: Any) -> str:
    """GPU_1=("uid", "pod"): who holds which device."""
    return json.dumps(
        {
            "version": 1,
            "observed_at": SEEN_AT,
            "devices": {
                key.replace("_", "-"): [
                    {"namespace": "team-a", "pod": name, "uid": uid, "container": "main", "milli": 1000}
                    for uid, name in pairs
                ]
                for key, pairs in devices.items()
            },
        }
    )
