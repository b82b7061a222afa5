"""A fresh picture of the cluster, built from LISTs made now: what preflight and verification go by.

The stored snapshots come from a watch and may lag; nothing is decided about an execution on those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from apps.kube.errors import Forbidden, NotFound
from apps.kube.gateway import (
    ALL_POD_GROUPS,
    BUDGETS,
    CLAIMS,
    DAEMONSETS,
    DEPLOYMENTS,
    DRA,
    GPU_REQUESTS,
    JOBS,
    KOORDINATOR_DEVICES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    VOLUMES,
    Kind,
)
from apps.kube.object_store import KeptObject
from apps.kube.translate import build_snapshot
from apps.planner.inventory import Pod
from apps.planner.snapshot import Snapshot

Json = dict[str, Any]
NEEDED = (NODES, PODS, NAMESPACES, REPLICASETS, STATEFULSETS, JOBS, BUDGETS)
"""Without these nothing is carried out. The rest may be missing or hidden in a cluster."""
HELPFUL = (DEPLOYMENTS, DAEMONSETS, CLAIMS, VOLUMES, *ALL_POD_GROUPS, *DRA, KOORDINATOR_DEVICES, GPU_REQUESTS)


def take_picture(
    list_objects: Callable[[Kind], Iterable[Json | KeptObject]], *, cluster: str, taken_at: float
) -> Snapshot:
    """Raises KubeError if a needed part cannot be read; a helpful one is told as a problem."""
    objects: dict[Kind, Iterable[Json | KeptObject]] = {kind: list_objects(kind) for kind in NEEDED}
    problems = []
    for kind in HELPFUL:
        try:
            objects[kind] = list_objects(kind)
        except NotFound:
            objects[kind] = ()
        except Forbidden as error:
            problems.append(str(error))
    return build_snapshot(cluster, objects, taken_at, problems)


def read_pods(objects: dict[Kind, Iterable[Json]]) -> dict[str, Pod]:
    """The planner's view of some pods, by UID; Jobs and pod groups tell which gang they belong to."""
    return dict(build_snapshot("", objects, 0.0).pods)
