"""Reads placement policies, signs of life and verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import QuerySet

from apps.accounts.queries import clusters_visible_to
from apps.clusters.models import Cluster
from apps.placing.models import ExtenderBeat, PlacementPolicy, Verdict
from apps.planner.resources import is_device_resource
from apps.planner.snapshot import Snapshot

if TYPE_CHECKING:
    from apps.accounts.queries import Person

SILENT_AFTER = timedelta(seconds=20)
"""An extender beats every few seconds; past this it is taken for gone."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a cluster's extender stands. is_alive: it beat lately. is_fresh: its picture is young enough to
    judge by. is_asked: a scheduler has asked it about a pod since it started. sentence: for people."""

    is_alive: bool
    is_fresh: bool
    is_asked: bool
    sentence: str


def placement_policy_of(cluster: Cluster) -> PlacementPolicy:
    """The cluster's; one with the defaults (and not stored) where nobody has set any."""
    found = PlacementPolicy.objects.select_related("cluster", "changed_by").filter(cluster=cluster).first()
    return found or PlacementPolicy(cluster=cluster)


def visible_clusters_with_placement(user: Person) -> QuerySet[Cluster]:
    related = ("placement_policy", "placement_policy__changed_by", "extender_beat")
    return (
        Cluster.objects.defer("credential").filter(pk__in=clusters_visible_to(user)).select_related(*related)
    )


def standing_of(cluster: Cluster, policy: PlacementPolicy, now: datetime) -> Standing:
    # Lists of clusters were read with their beats, and ask nothing here.
    if Cluster.extender_beat.is_cached(cluster):
        beat = getattr(cluster, "extender_beat", None)
    else:
        beat = ExtenderBeat.objects.filter(cluster=cluster).first()
    if beat is None:
        return Standing(False, False, False, "No extender of this cluster has ever said that it runs")
    if now - beat.beat_at > SILENT_AFTER:
        since = f"{beat.beat_at:%Y-%m-%d %H:%M:%S} UTC"
        return Standing(False, False, False, f"The extender has been silent since {since}")
    age = beat.picture_age_seconds
    is_fresh = age is not None and age <= policy.stale_after_seconds
    is_asked = beat.asked_at is not None
    words = "its picture has not been read yet" if age is None else f"its picture is {age:.0f} s old"
    asked = (
        f"last asked {beat.asked_at:%Y-%m-%d %H:%M:%S} UTC"
        if beat.asked_at
        else "no scheduler has asked it yet"
    )
    return Standing(True, is_fresh, is_asked, f"The extender runs: {words}, {asked}")


def verdicts_for(user: Person) -> QuerySet[Verdict]:
    """Of the clusters that `user` sees, newest first."""
    return Verdict.objects.filter(cluster_id__in=clusters_visible_to(user)).select_related("cluster")


def verdicts_of_pod(cluster: Cluster, pod_key: str, *, most: int = 20) -> list[Verdict]:
    """Newest first; of all pods that had this name."""
    return list(Verdict.objects.filter(cluster=cluster, pod_key=pod_key)[:most])


def device_resources(snapshot: Snapshot) -> list[str]:
    """What nodes offer and pods ask for of accelerators in the cluster, as the scheduler names it."""
    offered = (name for node in snapshot.nodes.values() for name in node.allocatable)
    asked = (name for pod in snapshot.pods.values() for name in pod.requests)
    return sorted(set(_devices((*offered, *asked))))


def _devices(names: Iterable[str]) -> Iterable[str]:
    return (name for name in names if "/" in name and is_device_resource(name))
