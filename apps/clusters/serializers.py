"""The shape of clusters, snapshots and nodes on the wire. Credentials never appear here."""

from __future__ import annotations

from rest_framework import serializers

from apps.accounts.strict import StrictSerializer, Truth
from apps.clusters.device_facts import STATES
from apps.clusters.models import Cluster, Snapshot
from apps.clusters.reading_serializers import DeviceReadingSerializer
from apps.planner.inventory import Source

INSTANCE_USES = ("free", "held", "unknown", "unhealthy")
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


class DeviceGroupSerializer(serializers.Serializer):
    """Devices of one kind beside a node's main ones. is_alive: whether their plugin speaks."""

    vendor = serializers.CharField()
    resource = serializers.CharField()
    model = serializers.CharField()
    is_alive = serializers.BooleanField(allow_null=True)
    physical = serializers.IntegerField()
    schedulable = serializers.IntegerField()
    allocated = serializers.FloatField()
    free = serializers.IntegerField()
    units_offered = serializers.IntegerField(allow_null=True)
    units_allocated = serializers.IntegerField()
    units_overcommitted = serializers.IntegerField()


class SharesSerializer(serializers.Serializer):
    """A resource that counts parts of GPUs, as its node offers it and pods ask for it."""

    resource = serializers.CharField()
    offered = serializers.IntegerField()
    allocated = serializers.IntegerField()


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
    gpus_physical = serializers.IntegerField(help_text="they stand in the node")
    gpus_schedulable = serializers.IntegerField(help_text="healthy and offered, on a node that is open")
    gpus_allocated = serializers.FloatField(help_text="held by pods; a share counts as its part")
    gpus_free = serializers.IntegerField(help_text="wholly free, to be had whole")
    gpus_stranded = serializers.FloatField(help_text="idle, but nobody can use it: stranded_because says why")
    stranded_because = serializers.ListField(child=serializers.CharField())
    gpus_unhealthy = serializers.IntegerField(help_text="unhealthy, or not offered by the kubelet")
    units_offered = serializers.IntegerField(
        allow_null=True, help_text="of gpu_resource; another number than GPUs where one is dealt into several"
    )
    units_allocated = serializers.IntegerField()
    units_overcommitted = serializers.IntegerField(help_text="asked beyond what is offered")
    shares_in = SharesSerializer(many=True, help_text="resources that count parts of the node's GPUs")
    pods_unlocated = serializers.IntegerField(help_text="pods whose device is unknown on this node")
    closed_because = serializers.CharField(help_text="why none is schedulable; empty for an open node")
    sharing = serializers.CharField()
    shares_per_gpu = serializers.IntegerField()
    mig_strategy = serializers.CharField()
    other_devices = DeviceGroupSerializer(
        many=True, help_text="of other vendors or kinds, beside gpu_resource"
    )
    drift = serializers.ListField(child=serializers.CharField(), help_text="what was here and is not now")
    cpu_millicores = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    warnings = serializers.ListField(child=serializers.CharField())


class MigInstanceSerializer(serializers.Serializer):
    profile = serializers.CharField()
    start_slice = serializers.IntegerField(allow_null=True)
    uuid = serializers.CharField()
    memory_mib = serializers.IntegerField(allow_null=True)
    use = serializers.ChoiceField(choices=INSTANCE_USES)


class HolderSerializer(serializers.Serializer):
    """Who holds a device, by whom that is known, and when it was seen (null: it stands in the pod itself)."""

    pod = serializers.CharField(help_text="namespace/name")
    pod_uid = serializers.CharField()
    container = serializers.CharField()
    device = serializers.CharField(help_text="uuid of the GPU or MIG instance, #index without one")
    milli = serializers.IntegerField(allow_null=True, help_text="null where no share of the cores is set")
    memory_mib = serializers.IntegerField(allow_null=True, help_text="null where no share of it is set")
    source = serializers.ChoiceField(choices=[str(one) for one in Source])  # type: ignore[assignment]
    observed_at = serializers.DateTimeField(allow_null=True)


class GpuSerializer(serializers.Serializer):
    index = serializers.IntegerField()
    uuid = serializers.CharField()
    vendor = serializers.CharField()
    resource = serializers.CharField()
    model = serializers.CharField()
    memory_mib = serializers.IntegerField(allow_null=True, help_text="of the device")
    memory_allocated_mib = serializers.IntegerField(
        allow_null=True, help_text="given to pods, not what they use; null where memory is not divided"
    )
    memory_left_mib = serializers.IntegerField(allow_null=True)
    milli_allocated = serializers.IntegerField(
        help_text="of the takers that are known, the larger of cores and memory; 1000 is one device"
    )
    milli_left = serializers.IntegerField()
    units = serializers.IntegerField(allow_null=True, help_text="into how many units or turns it is dealt")
    units_allocated = serializers.IntegerField(allow_null=True)
    numa = serializers.IntegerField(allow_null=True)
    pcie_switch = serializers.CharField(allow_null=True)
    is_healthy = serializers.BooleanField()
    state = serializers.ChoiceField(choices=STATES)
    stranded_because = serializers.CharField(help_text="why nobody can use what is left; empty if one can")
    flags = serializers.ListField(child=serializers.CharField(), help_text="what does not add up")
    mig_instances = MigInstanceSerializer(many=True)
    holders = HolderSerializer(many=True, allow_null=True, help_text="null where nobody tells who holds it")
    holders_note = serializers.CharField(help_text='"unknown on this node" where holders is null')


class GpuRowSerializer(GpuSerializer):
    """A physical GPU with its node. state unknown: pods of the node hold some GPUs, nobody tells which.

    holders_source: who tells the holders ("scheduler, agent" if both do), empty if nobody does.
    """

    node = serializers.CharField()
    pool = serializers.CharField()
    is_node_ready = serializers.BooleanField()
    is_node_schedulable = serializers.BooleanField()
    holders_source = serializers.CharField()
    holders_observed_at = serializers.DateTimeField(allow_null=True)


class NicSerializer(serializers.Serializer):
    name = serializers.CharField()
    numa = serializers.IntegerField(allow_null=True)


class TopologySerializer(serializers.Serializer):
    """A link that nobody told is an empty text; `complete` is false where the table was cut or damaged."""

    links = serializers.ListField(child=serializers.ListField(child=serializers.CharField(allow_blank=True)))
    nics = NicSerializer(many=True)
    nic_links = serializers.ListField(
        child=serializers.ListField(child=serializers.CharField(allow_blank=True))
    )
    complete = serializers.BooleanField()
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


class UnlocatedSerializer(serializers.Serializer):
    pod = serializers.CharField()
    pod_uid = serializers.CharField()
    gpus = serializers.FloatField()
    units = serializers.IntegerField()
    mig_instances = serializers.DictField(child=serializers.IntegerField())
    device = serializers.CharField(help_text="unknown on this node")


class StraySerializer(serializers.Serializer):
    pod = serializers.CharField()
    device_of = serializers.CharField(help_text="who names the device")


class NodeDetailSerializer(NodeSerializer):
    """Adds devices with their holders, the link matrix, and the pods with "movable, or why not"."""

    cluster = serializers.CharField()
    as_of = serializers.DateTimeField()
    allocatable = serializers.DictField(child=serializers.IntegerField())
    labels = serializers.DictField(child=serializers.CharField())
    taints = TaintSerializer(many=True)
    gpus = GpuSerializer(many=True)
    telemetry = DeviceReadingSerializer(many=True, help_text="empty without a Prometheus")
    others = GpuSerializer(many=True, help_text="devices of other vendors or kinds")
    unlocated = UnlocatedSerializer(many=True, help_text="counted here, placed on no device")
    strays = StraySerializer(many=True, help_text="a source gives them a device that the node does not have")
    holders_observed_at = serializers.DateTimeField(allow_null=True)
    topology = TopologySerializer(allow_null=True)
    pods = NodePodSerializer(many=True)
