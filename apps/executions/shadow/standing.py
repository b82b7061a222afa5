"""Is a cluster in shadow, and why? Asked by whoever starts anything."""

from __future__ import annotations

from apps.clusters.models import Cluster
from apps.executions.models import ClusterPreflight


def why_shadow(cluster: Cluster) -> str:
    """A clause for people, "" for a cluster on which plans may be started."""
    if not cluster.is_live:
        return ""
    if cluster.is_shadow:
        return (
            f"{cluster.name} is in shadow: plans are made and compared with what happens, none is started. "
            "An admin ends that on the page Preflight"
        )
    found = ClusterPreflight.objects.filter(cluster=cluster).values_list("may_evict", flat=True).first()
    if found is False:
        return (
            f"the console's credential for {cluster.name} may not evict pods, so the cluster is in shadow. "
            "Apply deploy/rbac/executor.yaml, then look again on the page Preflight"
        )
    return ""


def shadow_clusters() -> list[Cluster]:
    """Those that are watched, by name."""
    watched = Cluster.objects.defer("credential").filter(is_active=True, source=Cluster.Source.API)
    return [cluster for cluster in watched if why_shadow(cluster)]
