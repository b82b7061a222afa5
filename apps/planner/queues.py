"""Queues that hand out quota, and what asks them for it: facts alone, as their controllers tell them.

Kueue's ClusterQueues and Cohorts, KAI's and Volcano's Queues, elastic quotas, and the ResourceQuotas of
namespaces are all a `Queue` here. Not in here: whether a workload would be admitted (quota), and what would
have to move for it (defrag).

Amounts are in the planner's units: CPU in millicores, memory in bytes, everything else counted. They may have
a fraction, since KAI's quota of GPUs has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from apps.planner.inventory import Pod, Taint, Toleration


class Controller(StrEnum):
    """Who hands out a queue's quota."""

    KUEUE = "Kueue"
    KAI = "KAI"
    VOLCANO = "Volcano"
    SCHEDULER_PLUGINS = "scheduler-plugins"
    KUBERNETES = "Kubernetes"
    """Its API server counts the quota of a namespace when pods are created."""


class Admission(StrEnum):
    """How far a queued workload has come with its queue."""

    WAITING = "waiting"
    RESERVED = "reserved"
    """It has quota and waits for checks beside quota."""
    ADMITTED = "admitted"
    FINISHED = "finished"
    INACTIVE = "inactive"
    """Somebody, or its controller, switched it off: it is not tried again."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a queue may use of one resource of one flavor.

    flavor: "" where its controller knows none. group: flavors of one group are given for all of the group's
    resources together. quota: its own, None without a bound. used: as its controller says.
    most_borrowed: beyond the quota at most, None without a bound. most_lent: of what it leaves unused at
    most, None for all. weight: by which it takes part in what nobody's quota claims. firm: of `used`, by what
    may not be preempted, where the controller tells it.
    """

    flavor: str
    resource: str
    quota: float | None
    used: float = 0.0
    most_borrowed: float | None = None
    most_lent: float | None = None
    group: int = 0
    weight: float = 1.0
    firm: float = 0.0

    @property
    def borrowed(self) -> float:
        return max(0.0, self.used - self.quota) if self.quota is not None else 0.0

    @property
    def limit(self) -> float | None:
        """The most that it may ever use; None where nothing bounds it but what others leave."""
        if self.quota is None or self.most_borrowed is None:
            return None
        return self.quota + self.most_borrowed


@dataclass(frozen=True, slots=True)
class Queue:
    """key: controller and name, "Kueue/team-a"; with its namespace where it lies in one.

    kind: of its object ("ClusterQueue", "Cohort", "Queue", "ResourceQuota", "ElasticQuota").
    parent: key of the queue that it borrows from, "" without. is_strict: who is in front and cannot be
    admitted keeps all behind it waiting. stopped: a clause that says why it admits nobody now, "" if it does.
    shares: in the order in which flavors are tried. namespaces: whose workloads it takes, as far as told.
    pending, admitted: how many workloads, as its controller counts them; None where it does not.
    warnings: what could not be read of it.
    """

    key: str
    controller: Controller
    kind: str
    name: str
    namespace: str = ""
    parent: str = ""
    is_strict: bool = False
    stopped: str = ""
    shares: tuple[Share, ...] = ()
    namespaces: tuple[str, ...] = ()
    pending: int | None = None
    admitted: int | None = None
    priority: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entrance:
    """The name by which a namespace's workloads ask for a queue: Kueue's LocalQueue.

    key: "namespace/name". queue: key of the queue behind it. stopped: as of `Queue`."""

    key: str
    queue: str
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Flavor:
    """Kueue's ResourceFlavor: a kind of nodes. labels: that its nodes have."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods alike that a queued workload wants. pod: any one of them, as it would be made; nobody has yet."""

    name: str
    count: int
    pod: Pod


@dataclass(frozen=True, slots=True)
class QueuedWorkload:
    """What asks a queue for admission, with or without pods: Kueue's Workload.

    key: "namespace/name". entrance: key of the LocalQueue it names. queue: key of the queue that gave it
    quota, "" before. owners: UIDs of the objects it stands for (a Job, or the pods themselves); owner_kind,
    owner_name: of the first of them. reason, message: of the condition that tells its state, as written.
    evicted: reason why it lost its place, "" if it did not. tried_again_at: not before, None where nothing
    is said. held: (flavor, resource, amount) that is reserved for it. checks: names of the admission checks
    that are not ready.
    """

    key: str
    uid: str
    entrance: str
    queue: str = ""
    owners: tuple[str, ...] = ()
    owner_kind: str = ""
    owner_name: str = ""
    priority: int = 0
    created_at: float = 0.0
    pod_sets: tuple[PodSet, ...] = ()
    state: Admission = Admission.WAITING
    reason: str = ""
    message: str = ""
    evicted: str = ""
    tried_again_at: float | None = None
    held: tuple[tuple[str, str, float], ...] = ()
    checks: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """A request stated by our own kind GPURequest. key: "namespace/name". memory_mib: per GPU, None without.
    model: "" for any. preemptible: None where nothing is said. problem: a clause where it cannot be honoured,
    "" if it can."""

    key: str
    memory_mib: int | None = None
    model: str = ""
    preemptible: bool | None = None
    problem: str = ""
    uid: str = ""
