"""Frees pods that still wait behind our gate though the move that they were gated for is over.

An admission can take longer than a move's release looks for late pods (another webhook that hangs, say).
Such a pod would wait for ever. So would one that its owner makes while the execution stands still before the
eviction. The newest snapshot says where to look; the pod itself is read before it is freed. A gate of a move
whose pod was evicted, or of one that this database does not know, is left alone.
"""

from __future__ import annotations

import structlog
from django.db import transaction

from apps.audit import services as audit
from apps.clusters import queries as clusters
from apps.clusters.errors import ConnectionFailed
from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster
from apps.executions.flow import Ledger, is_in_flight
from apps.executions.models import Steering, Step
from apps.executions.names import GATE
from apps.executions.objects import ungate
from apps.executions.queries import in_safe_mode
from apps.executions.rounds import act_on_each
from apps.executions.sightings import is_gated, migration, uid
from apps.kube.errors import KubeError
from apps.kube.gateway import PODS, Gateway
from apps.planner.inventory import Pod

log = structlog.get_logger(__name__)


def free_strays() -> int:
    """Look at every watched cluster. Returns how many pods were freed."""
    return sum(act_on_each(clusters.active_clusters(), _sweep))


def _sweep(cluster: Cluster) -> int:
    row = clusters.latest_snapshot(cluster)
    seen = clusters.open_snapshot(row).pods.values() if row is not None else ()
    strays = [pod for pod in seen if GATE in pod.gates and _is_over(pod.steering)]
    if not strays or in_safe_mode(cluster.pk):
        return 0
    try:
        gateway = open_gateway(cluster)
    except ConnectionFailed as error:
        log.warning("pods behind our gate cannot be freed", cluster=cluster.name, reason=str(error))
        return 0
    try:
        return sum(_free(cluster, gateway, pod) for pod in strays)
    finally:
        gateway.close()


def _is_over(steering: str) -> bool:
    """No eviction of that owner's moves is in the air, so nobody needs a pod with this mark (`sharing`)."""
    row = Steering.objects.filter(name=steering).select_related("step").first()
    if row is None:
        return False
    steps = Ledger(list(Step.objects.filter(execution=row.step.execution_id)))
    same = {s.move for s in steps.steps if s.move and s.params.get("workload_uid") == row.owner_uid}
    return not any(is_in_flight(steps, move) for move in same)


def _free(cluster: Cluster, gateway: Gateway, pod: Pod) -> bool:
    try:
        found = gateway.get_object(PODS, pod.name, namespace=pod.namespace)
        if found is None or not is_gated(found) or not _is_over(migration(found)):
            return False
        with transaction.atomic(durable=True):
            detail = {"pod": pod.key, "uid": uid(found), "steering": migration(found)}
            audit.record(actor=None, action="pod.freed", subject=cluster, cluster=cluster.name, detail=detail)
        gateway.patch_object(PODS, pod.name, ungate(found), namespace=pod.namespace, strategic=True)
    except KubeError as error:
        log.warning(
            "a pod behind our gate was not freed", cluster=cluster.name, pod=pod.key, reason=str(error)
        )
        return False
    return True
