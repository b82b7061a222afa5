"""The shape of what waits, on the wire."""

from __future__ import annotations

from rest_framework import serializers

from apps.clusters.models import Cluster
from apps.clusters.node_facts import as_time
from apps.pending.unblocking import known_sentence
from apps.planner.waiting import WaitingWorkload


class WaitingWorkloadSerializer(serializers.Serializer):
    """A gang or a single pod that waits, in the order of the queue.

    node_counts: reason to number of nodes; a node may have several reasons.
    """

    key = serializers.CharField()
    display = serializers.CharField()
    namespace = serializers.CharField()
    pod_uids = serializers.ListField(child=serializers.CharField(), source="pods")
    gpus_per_pod = serializers.IntegerField()
    gpus = serializers.IntegerField()
    link = serializers.CharField()
    mig_instances_per_pod = serializers.DictField(
        child=serializers.IntegerField(), source="profiles", help_text="by MIG profile; empty without"
    )
    queue = serializers.CharField(help_text="of the queue controller that its pods name; empty without")
    model = serializers.CharField()
    waiting_since = serializers.SerializerMethodField()
    priority = serializers.IntegerField()
    reason_code = serializers.CharField()
    sentence = serializers.CharField()
    node_counts = serializers.DictField(child=serializers.IntegerField())
    free_gpus = serializers.IntegerField()
    best_node = serializers.CharField()
    best_node_free_gpus = serializers.IntegerField(source="best_node_free")
    nodes_that_fit = serializers.IntegerField()
    unblocking = serializers.SerializerMethodField(
        help_text="what would let it start, as the planner last said; empty till asked: ?unblocking=true"
    )

    def get_unblocking(self, waiting: WaitingWorkload) -> str:
        cluster: Cluster | None = self.context.get("cluster")
        return known_sentence(cluster, waiting) if cluster is not None else ""

    def get_waiting_since(self, waiting: object) -> str:
        moment = as_time(getattr(waiting, "since", 0.0))
        return moment.isoformat().replace("+00:00", "Z") if moment else ""
