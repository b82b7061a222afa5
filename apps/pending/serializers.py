"""The shape of what waits, on the wire."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.clusters.models import Cluster
from apps.clusters.node_facts import as_time
from apps.pending.unblocking import known_sentence
from apps.planner.queue_order import Place
from apps.planner.waiting import WaitingWorkload


class WaitPointSerializer(serializers.Serializer):
    """Of the pods that got their node from `since` until `until`."""

    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    started = serializers.IntegerField()
    p50_seconds = serializers.FloatField(allow_null=True)
    p90_seconds = serializers.FloatField(allow_null=True)


class WaitTrendSerializer(serializers.Serializer):
    """Waits of the pods with devices of one queue (or namespace) and one shape, over time."""

    queue = serializers.CharField()
    shape = serializers.CharField()
    started = serializers.IntegerField(
        help_text="pods that got a node in the range; each one of a gang counts"
    )
    workloads = serializers.IntegerField(help_text="gangs and single pods that these are of")
    left = serializers.IntegerField(help_text="pods that went without ever getting one")
    p50_seconds = serializers.FloatField(allow_null=True)
    p90_seconds = serializers.FloatField(allow_null=True)
    points = WaitPointSerializer(many=True)


class ExpectedStartSerializer(serializers.Serializer):
    """By replaying the ends that are known; both moments are null where it is not known."""

    placed_at = serializers.DateTimeField(allow_null=True)
    ready_at = serializers.DateTimeField(allow_null=True)
    is_latest = serializers.BooleanField(help_text="it hangs on a deadline: it may well be sooner")
    words = serializers.CharField(help_text="what it rests on, or why it is not known")


class CountSerializer(serializers.Serializer):
    nodes = serializers.IntegerField()
    words = serializers.CharField()


class LinksSerializer(serializers.Serializer):
    what_if = serializers.CharField()
    verdicts = serializers.CharField(help_text="of its first pod; empty where nobody has made it yet")


class SchedulerSerializer(serializers.Serializer):
    """What the pods' own scheduler said last, and where it stands in that scheduler's order."""

    name = serializers.CharField()
    position = serializers.IntegerField(
        allow_null=True, help_text="by priority, then age, among all that waits for it; null if it is gated"
    )
    message = serializers.CharField(help_text="as it stands in the pod's condition PodScheduled")
    nodes = serializers.IntegerField(allow_null=True, help_text="that it counted; null without counts")
    counts = CountSerializer(many=True)
    preemption = serializers.CharField(help_text="what it says of preemption")
    difference = serializers.CharField(
        help_text="where it differs from the counts of the snapshot, and why; empty where they agree"
    )


class WaitingWorkloadSerializer(serializers.Serializer):
    """A gang or a single pod that waits, in the order of the queue.

    node_counts: reason to number of nodes; a node may have several reasons.
    """

    position = serializers.SerializerMethodField(
        help_text="in the fair order (priority, then shares, weights and ageing); null if it can never run"
    )
    position_words = serializers.SerializerMethodField(help_text="why it stands there")
    tenant = serializers.SerializerMethodField(help_text="whose share counts: a queue, else a namespace")
    tenant_share = serializers.SerializerMethodField(
        help_text="of the tenant's dominant resource, 0 to 1, by what it runs now"
    )
    weight = serializers.SerializerMethodField(help_text="of its layer, without ageing")
    scheduler = serializers.SerializerMethodField()
    expected_start = serializers.SerializerMethodField()
    can_never_run = serializers.BooleanField(source="never")
    key = serializers.CharField()
    display = serializers.CharField()
    namespace = serializers.CharField()
    pod_uids = serializers.SerializerMethodField(
        help_text="empty where nobody has made its pods yet, since a queue has not admitted it"
    )
    pods = serializers.IntegerField(source="pod_count", help_text="that it asks for")
    gpus_per_pod = serializers.IntegerField()
    gpus = serializers.IntegerField()
    link = serializers.CharField()
    mig_instances_per_pod = serializers.DictField(
        child=serializers.IntegerField(), source="profiles", help_text="by MIG profile; empty without"
    )
    queue = serializers.CharField(help_text="of the queue controller that its pods name; empty without")
    model = serializers.CharField()
    gpu_wish = serializers.CharField(help_text="what its GPURequest asks of each GPU; empty without one")
    waiting_since = serializers.SerializerMethodField()
    wait_seconds = serializers.SerializerMethodField(help_text="when the snapshot was taken; null: not known")
    priority = serializers.IntegerField()
    reason_code = serializers.CharField()
    sentence = serializers.CharField()
    node_counts = serializers.DictField(child=serializers.IntegerField())
    free_gpus = serializers.IntegerField()
    best_node = serializers.CharField()
    best_node_free_gpus = serializers.IntegerField(source="best_node_free")
    nodes_that_fit = serializers.IntegerField()
    links = serializers.SerializerMethodField(
        help_text="what_if: every node's verdict on it now, a page; verdicts: the extender's answers"
    )
    unblocking = serializers.SerializerMethodField(
        help_text="what would let it start, as the planner last said; empty till asked: ?unblocking=true"
    )

    def _place(self, waiting: WaitingWorkload) -> Place | None:
        return self.context.get("places", {}).get(waiting.key)

    def get_position(self, waiting: WaitingWorkload) -> int | None:
        place = self._place(waiting)
        return place.position if place else None

    def get_position_words(self, waiting: WaitingWorkload) -> str:
        place = self._place(waiting)
        return place.words if place else ""

    def get_tenant(self, waiting: WaitingWorkload) -> str:
        place = self._place(waiting)
        return place.tenant if place else ""

    def get_tenant_share(self, waiting: WaitingWorkload) -> float | None:
        place = self._place(waiting)
        return round(place.share, 4) if place else None

    def get_weight(self, waiting: WaitingWorkload) -> float | None:
        place = self._place(waiting)
        return place.weight if place else None

    def get_wait_seconds(self, waiting: WaitingWorkload) -> float | None:
        place = self._place(waiting)
        return place.waited_seconds if place else None

    @extend_schema_field(ExpectedStartSerializer(allow_null=True))
    def get_expected_start(self, waiting: WaitingWorkload) -> Any:
        """null: it came since the last replay, or none was asked for."""
        start = self.context.get("starts", {}).get(waiting.key)
        if start is None:
            return None
        moments = {"placed_at": start.placed_at, "ready_at": start.ready_at}
        times = {name: as_time(at) if at is not None else None for name, at in moments.items()}
        told = {**times, "is_latest": start.is_latest, "words": start.words}
        return ExpectedStartSerializer(told).data

    @extend_schema_field(SchedulerSerializer)
    def get_scheduler(self, waiting: WaitingWorkload) -> dict[str, Any]:
        place, said = self._place(waiting), waiting.saying
        return {
            "name": said.scheduler,
            "position": place.scheduler_position if place else None,
            "message": said.message,
            "nodes": said.nodes,
            "counts": [{"nodes": number, "words": words} for number, words in said.counts],
            "preemption": said.preemption,
            "difference": waiting.differs,
        }

    def get_pod_uids(self, waiting: WaitingWorkload) -> list[str]:
        return list(waiting.pods) if waiting.has_pods else []

    @extend_schema_field(LinksSerializer)
    def get_links(self, waiting: WaitingWorkload) -> dict[str, str]:
        cluster: Cluster | None = self.context.get("cluster")
        if cluster is None:
            return {}
        here, first = quote(cluster.name), waiting.pods[0] if waiting.has_pods else ""
        of_pod = f"/api/v1/verdicts/?{urlencode({'cluster': cluster.name, 'pod_uid': first})}"
        return {
            "what_if": f"/clusters/{here}/what-if/?{urlencode({'workload': waiting.key})}",
            "verdicts": of_pod if first else "",
        }

    def get_unblocking(self, waiting: WaitingWorkload) -> str:
        cluster: Cluster | None = self.context.get("cluster")
        return known_sentence(cluster, waiting) if cluster is not None else ""

    def get_waiting_since(self, waiting: object) -> str:
        moment = as_time(getattr(waiting, "since", 0.0))
        return moment.isoformat().replace("+00:00", "Z") if moment else ""
