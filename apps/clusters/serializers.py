"""The shape of clusters, snapshots and nodes on the wire. Credentials never appear here."""

from __future__ import annotations

from rest_framework import serializers

from apps.accounts.strict import StrictSerializer, Truth
from apps.clusters.gpu_facts import STATES
from apps.clusters.models import Cluster, Snapshot

LONGEST_KUBECONFIG = 64 * 1024
"""Far more than one cluster needs; the page takes longer ones, with many clusters in them."""


class ProblemSerializer(serializers.Serializer):
    kind = serializers.CharField()
    message = serializers.CharField()


class ClusterSerializer(serializers.ModelSerializer):
    """watched_at: when the watcher last heard from it. problems: what could not be read."""

    problems = ProblemSerializer(many=True)

    class Meta:
        model = Cluster
        fields = [
            "name",
            "server",
            "version",
            "is_active",
            "created_at",
            "watched_at",
            "watch_error",
            "problems",
        ]
        read_only_fields = fields


class ClusterRequestSerializer(StrictSerializer):
    """kubeconfig: read once, never shown again; only server, CA and token or certificate are kept."""

    name = serializers.CharField(max_length=63)
    kubeconfig = serializers.CharField(max_length=LONGEST_KUBECONFIG, write_only=True)


class ClusterChangeSerializer(StrictSerializer):
    is_active = Truth(help_text="false stops watching; what is known stays")


class CredentialSerializer(StrictSerializer):
    """is_rebuilt: the cluster was built anew under its old name, so its new identity is pinned."""

    kubeconfig = serializers.CharField(max_length=LONGEST_KUBECONFIG, write_only=True)
    is_rebuilt = Truth(default=False)


class SnapshotSerializer(serializers.ModelSerializer):
    cluster = serializers.CharField(source="cluster.name")
    summary = serializers.JSONField()

    class Meta:
        model = Snapshot
        fields = ["id", "cluster", "taken_at", "digest", "summary"]
        read_only_fields = fields


class NodeSerializer(serializers.Serializer):
    """One node of the newest snapshot. Null is "not known"."""

    name = serializers.CharField()
    uid = serializers.CharField()
    pool = serializers.CharField()
    rack = serializers.CharField()
    zone = serializers.CharField()
    vendor = serializers.CharField()
    model = serializers.CharField()
    is_ready = serializers.BooleanField()
    is_schedulable = serializers.BooleanField()
    is_cordoned_by_console = serializers.BooleanField()
    stale_since = serializers.DateTimeField(allow_null=True)
    gpu_resource = serializers.CharField()
    gpus_physical = serializers.IntegerField()
    gpus_schedulable = serializers.IntegerField()
    gpus_allocated = serializers.IntegerField()
    sharing = serializers.CharField()
    shares_per_gpu = serializers.IntegerField()
    mig_strategy = serializers.CharField()
    cpu_millicores = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    warnings = serializers.ListField(child=serializers.CharField())


class MigInstanceSerializer(serializers.Serializer):
    profile = serializers.CharField()
    start_slice = serializers.IntegerField(allow_null=True)
    uuid = serializers.CharField()


class HolderSerializer(serializers.Serializer):
    pod = serializers.CharField(help_text="namespace/name; empty if the pod is no longer known")
    pod_uid = serializers.CharField()
    device = serializers.CharField()
    milli = serializers.IntegerField()
    memory_mib = serializers.IntegerField(allow_null=True)


class GpuSerializer(serializers.Serializer):
    index = serializers.IntegerField()
    uuid = serializers.CharField()
    memory_mib = serializers.IntegerField(allow_null=True)
    numa = serializers.IntegerField(allow_null=True)
    pcie_switch = serializers.CharField(allow_null=True)
    is_healthy = serializers.BooleanField()
    mig_instances = MigInstanceSerializer(many=True)
    holders = HolderSerializer(many=True, allow_null=True, help_text="null where nobody tells who holds it")


class GpuRowSerializer(GpuSerializer):
    """A physical GPU with its node. state unknown: pods of the node hold some GPUs, nobody tells which.

    holders_source: who tells the holders, empty if nobody does; then holders is null.
    """

    node = serializers.CharField()
    pool = serializers.CharField()
    vendor = serializers.CharField()
    model = serializers.CharField()
    state = serializers.ChoiceField(choices=STATES)
    is_node_ready = serializers.BooleanField()
    is_node_schedulable = serializers.BooleanField()
    holders_source = serializers.CharField()
    holders_observed_at = serializers.DateTimeField(allow_null=True)


class NicSerializer(serializers.Serializer):
    name = serializers.CharField()
    numa = serializers.IntegerField(allow_null=True)


class TopologySerializer(serializers.Serializer):
    links = serializers.ListField(child=serializers.ListField(child=serializers.CharField()))
    nics = NicSerializer(many=True)
    nic_links = serializers.ListField(child=serializers.ListField(child=serializers.CharField()))
    source = serializers.CharField()  # type: ignore[assignment]
    observed_at = serializers.DateTimeField(allow_null=True)


class TaintSerializer(serializers.Serializer):
    key = serializers.CharField()
    value = serializers.CharField()
    effect = serializers.CharField()


class NodePodSerializer(serializers.Serializer):
    namespace = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField()
    workload = serializers.CharField()
    gang = serializers.CharField()
    priority = serializers.IntegerField()
    devices = serializers.DictField(child=serializers.IntegerField())
    cpu_millicores = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    started_at = serializers.DateTimeField(allow_null=True)
    is_terminating = serializers.BooleanField()
    is_movable = serializers.BooleanField()
    reasons = serializers.ListField(child=serializers.CharField(), help_text="why it may not be moved")


class NodeDetailSerializer(NodeSerializer):
    """Adds devices with their holders, the link matrix, and the pods with "movable, or why not"."""

    cluster = serializers.CharField()
    as_of = serializers.DateTimeField()
    allocatable = serializers.DictField(child=serializers.IntegerField())
    labels = serializers.DictField(child=serializers.CharField())
    taints = TaintSerializer(many=True)
    gpus = GpuSerializer(many=True)
    holders_observed_at = serializers.DateTimeField(allow_null=True)
    topology = TopologySerializer(allow_null=True)
    pods = NodePodSerializer(many=True)
