"""What is installed in a cluster and what sits on it.

Frozen facts only. Nothing here decides, reads a database, looks at a clock or talks to a
cluster. Everything the planner knows about the world enters through these types.

Units: CPU in millicores, memory and ephemeral storage in bytes, every other resource as a
count. GPU shares in milli-GPU (1000 is one whole device), GPU memory in MiB, times in
seconds since the epoch (float, UTC). `None` always means "not known", never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from apps.planner.devices import (  # noqa: F401 (one door to all of the planner's facts)
    DeviceGroup,
    Gpu,
    HeldDevice,
    Holding,
    LinkClass,
    MigInstance,
    Source,
    Topology,
)
from apps.planner.terms import (  # noqa: F401 (one door to all of the planner's facts)
    LabelSelector,
    NodeTerm,
    PodTerm,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
)

Quantities = Mapping[str, int]
"""Resource name -> amount: "cpu" in millicores, "memory" in bytes, "pods" and extended resources counted."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the API server and its annotations tell it.

    uid: a node name is reused after re-creation, the uid never.
    hostname: value of the label kubernetes.io/hostname, "" if it has none.
    gpu_resource: the resource its whole GPUs are asked by ("nvidia.com/gpu"), "" without GPUs.
    model: GPU model without any sharing suffix ("A100-SXM4-80GB"), "" if unknown.
    gpus: in driver order; known even when only their number is known (then without uuid).
    sharing: "" for whole devices, else how one device is split between pods ("time-slicing", "mps", ...).
    shares_per_gpu: how many units of `gpu_resource` one physical GPU is advertised as (1 without sharing).
    mig_strategy: "single", "mixed", "none" or "" if nobody says.
    holdings: which pod holds which device; None when no source tells it ("unknown on this node").
    cordon: our own cordon annotation's raw JSON, "" if the cordon is somebody else's or absent.
    stale_since: set when the node's own facts are older than they may be, or it is not Ready.
    warnings: one sentence for each thing that could not be read or does not agree.
    drift: one sentence for each thing that the node showed before and does not show now (`planner.drift`).
    others: devices beside `gpus`, of another vendor or kind; shown and counted, never planned with.
    claimable: resource slices tell of its GPUs, so resource claims can be given them.
    reboot: a clause where its annotations say that somebody is rebooting it, "".
    kept: devices that claims keep although no pod uses them; nobody else can be given those.
    """

    name: str
    uid: str = ""
    resource_version: str = ""
    hostname: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    ready_reason: str = ""
    capacity: Quantities = field(default_factory=dict)
    allocatable: Quantities = field(default_factory=dict)
    vendor: str = ""
    model: str = ""
    gpu_resource: str = ""
    gpus: tuple[Gpu, ...] = ()
    sharing: str = ""
    shares_per_gpu: int = 1
    mig_strategy: str = ""
    topology: Topology | None = None
    holdings: tuple[Holding, ...] | None = None
    holdings_observed_at: float | None = None
    pool: str = ""
    rack: str = ""
    zone: str = ""
    cordon: str = ""
    created_at: float = 0.0
    stale_since: float | None = None
    warnings: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    others: tuple[DeviceGroup, ...] = ()
    claimable: bool = False
    kept: tuple[HeldDevice, ...] = ()
    reboot: str = ""


class Tie(StrEnum):
    """What ties a pod to its place in a way that rules ask about; its protections say it in a sentence. The
    last three are never read from a cluster: they stand for a waiver that lifts the rule (`waiving`)."""

    NO_OWNER = "no-owner"
    CLAIMS = "claims"
    SAVED_WORK = "saved-work"
    """Work that was saved on a GPU is restored on GPUs of the same model only."""
    MAY_BE_INTERRUPTED = "may-be-interrupted"
    OWNER_WAIVED = "owner-waived"
    PLANNED_ONLY = "planned-only"
    OFFERED = "offered"
    """Its owners say by an annotation that it may be moved; asked for where the policy wants that."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, by UID.

    gpu_milli: of each device it asks for; 0 where it asks for a share of the memory alone (gpu_memory_mib).
    requests: effective requests (max of app containers + sidecars and each init step), with
    "pods": 1 left out. phase: as Kubernetes says. holds_resources is derived, see `is_holding`.
    workload: uid of the controller owner that recreates it, "" for a bare pod.
    owner_kind: kind of that direct owner ("ReplicaSet", "StatefulSet", "Job", "DaemonSet", "Node", ...).
    gang: key "namespace/name" of its gang, "" if it belongs to none.
    link: wanted link class from the annotation defrag.gpu.internal/link, None without a wish.
    gates: names of scheduling gates. steering: our own annotation defrag.gpu.internal/migration.
    hold: True for a paper hold of ours (never load, never moved).
    protections: one sentence for each reason why nobody may move it without a waiver.
    warnings: what could not be read.
    devices: what its annotations and claims say it was given; empty if they say nothing.
    claims: keys "namespace/name" of the ResourceClaims it uses.
    reservation: True for a placeholder of a scheduler that keeps a device for the shares on it: no load,
    though its `devices` say which it keeps.
    ties: which of its protections are of a kind that rules ask about.
    volume_terms: of each of its volumes that is bound to a place, the node terms that reach it.
    scheduled_at, ready_at, finished_at: when it got its node, was Ready (again), was over; None if not told.
    expected_seconds: how long it says it runs, from Ready on; most_seconds: when it is ended at the latest,
    from its start on. image: of its first container.
    claim_wishes: one phrase for each claim with devices: "2 of mig.nvidia.com (1g.5gb, 2g.10gb) on one GPU".
    """

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    node_name: str = ""
    phase: str = "Pending"
    ready: bool = False
    terminating: bool = False
    requests: Quantities = field(default_factory=dict)
    gpu_milli: int = 1000
    gpu_memory_mib: int | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[NodeTerm, ...] = ()
    pod_affinity: tuple[PodTerm, ...] = ()
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[int, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    priority: int = 0
    priority_class: str = ""
    preemption_policy: str = "PreemptLowerPriority"
    scheduler: str = "default-scheduler"
    workload: str = ""
    owner_kind: str = ""
    gang: str = ""
    link: LinkClass | None = None
    gates: tuple[str, ...] = ()
    nominated_node: str = ""
    steering: str = ""
    hold: bool = False
    service: str = ""
    environment: str = ""
    grace_seconds: int = 30
    created_at: float = 0.0
    started_at: float | None = None
    checkpointed_at: float | None = None
    unschedulable_message: str = ""
    volumes_pin_node: bool = False
    protections: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    devices: tuple[HeldDevice, ...] = ()
    claims: tuple[str, ...] = ()
    reservation: bool = False
    claim_wishes: tuple[str, ...] = ()
    ties: tuple[Tie, ...] = ()
    volume_terms: tuple[tuple[NodeTerm, ...], ...] = ()
    scheduled_at: float | None = None
    ready_at: float | None = None
    finished_at: float | None = None
    expected_seconds: int | None = None
    most_seconds: int | None = None
    image: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_holding(self) -> bool:
        """Bound and not finished: its requests count on its node (terminating pods still hold)."""
        return bool(self.node_name) and self.phase not in ("Succeeded", "Failed")

    @property
    def is_being_moved(self) -> bool:
        """Steered and not landed yet. The steering's annotation stays for good: once the pod runs, it says
        how it came here and nothing more."""
        has_landed = self.is_holding and self.phase == "Running" and self.ready
        return bool(self.steering) and (bool(self.gates) or not has_landed)

    @property
    def is_pending(self) -> bool:
        """Waits for a node. Paper holds of ours do not count as waiting."""
        return not self.node_name and self.phase == "Pending" and not self.terminating and not self.hold


@dataclass(frozen=True, slots=True)
class Workload:
    """The owner that recreates pods (ReplicaSet, StatefulSet, Job, ...).

    parent: uid of its own controller (a ReplicaSet's Deployment), "". display: name a person
    knows it by (the Deployment's). updating: a rollout is under way. terminating: it is being deleted.
    queue: the Kueue queue that it names, "" for none.
    """

    uid: str
    kind: str
    namespace: str
    name: str
    parent: str = ""
    display: str = ""
    replicas: int | None = None
    ready_replicas: int | None = None
    min_ready_seconds: int = 0
    updating: bool = False
    protected: bool = False
    backoff_limit: int | None = None
    failed_pods: int = 0
    terminating: bool = False
    queue: str = ""


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget. observed: its status is up to date with its generation."""

    namespace: str
    name: str
    uid: str
    selector: LabelSelector | None
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed: bool = True
    always_allow_unhealthy: bool = False


FIRM_PRIORITY = 100
"""From here on KAI preempts nobody who does not say otherwise."""


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that start together or not at all.

    key: "namespace/name"; where PodGroups of two API groups share it, "@" and the group follow for all but
    the first of them. api_version: of its object, "" without one. subgroups: (name, least members).
    phase, queue: as its scheduler writes them. refusals: (reason, message) why it was not scheduled, as its
    scheduler writes them. preemptible: None where only its priority tells (KAI: below 100).
    """

    key: str
    min_members: int
    kind: str = "PodGroup"
    api_version: str = ""
    subgroups: tuple[tuple[str, int], ...] = ()
    phase: str = ""
    queue: str = ""
    refusals: tuple[tuple[str, str], ...] = ()
    preemptible: bool | None = None

    def is_preemptible(self, priority: int) -> bool:
        return priority < FIRM_PRIORITY if self.preemptible is None else self.preemptible
