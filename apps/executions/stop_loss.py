"""Failures in a row on one cluster, whichever executions they befall, and the kill switch after too many.

Counted in the transactions that write them, so that no crash loses one; any success begins the count anew.
What never touched the cluster (a plan that went stale, a refused preflight) is no failure, nor is what a
person decides.
"""

from __future__ import annotations

from django.conf import settings

from apps.clusters.models import Cluster
from apps.executions.models import FailureCount
from apps.plans import services as plan_services


def count_failure(cluster: Cluster, execution_id: int, reason: str) -> bool:
    """Inside the transaction that stops the execution. True if the cluster was stopped by this one."""
    FailureCount.objects.get_or_create(cluster=cluster)
    row = FailureCount.objects.select_for_update(no_key=True).get(cluster=cluster)
    row.in_row += 1
    row.executions = [*dict.fromkeys([*row.executions, execution_id])][-LONGEST:]
    most = settings.EXECUTION_FAILURES_BEFORE_STOP
    is_over = row.in_row >= most
    if is_over:
        numbers = ", ".join(str(number) for number in row.executions)
        words = f"{row.in_row} failures in a row (execution {numbers}); the last: {reason}"
        is_over = plan_services.stop_cluster_by_itself(cluster=cluster, reason=words)
        row.in_row, row.executions = 0, []  # once an admin has released it, the count begins anew
    row.save()
    return is_over


def count_success(cluster: Cluster) -> None:
    """A pod has landed, a node came out as planned, an execution ended well."""
    FailureCount.objects.filter(cluster=cluster, in_row__gt=0).update(in_row=0, executions=[])


LONGEST = 10
