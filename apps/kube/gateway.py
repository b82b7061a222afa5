"""What the rest of the project may ask of a cluster. The only door to Kubernetes.

`KubernetesGateway` (kubernetes_gateway.py) answers for a live cluster over HTTPS. Objects are the
API's own JSON (dicts); `translate` turns them into the planner's types. There is deliberately no
method that deletes a workload's pod, evicts without a UID, or sets a grace period of zero.
Every method may raise an error of `apps.kube.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from apps.kube.reviews import Rules

Json = dict[str, Any]
Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Kind:
    """Where a kind lives: ("", "v1", "pods", True) or ("apps", "v1", "replicasets", True).

    older: versions that older API servers serve instead, newest first.
    """

    group: str
    version: str
    plural: str
    namespaced: bool
    older: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return f"/api/{self.version}" if not self.group else f"/apis/{self.group}/{self.version}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def versions(self) -> tuple[Kind, ...]:
        """The same kind in every version that may be asked for, this one first."""
        return (self, *(replace(self, version=version) for version in self.older))


NODES = Kind("", "v1", "nodes", False)
PODS = Kind("", "v1", "pods", True)
NAMESPACES = Kind("", "v1", "namespaces", False)
CONFIG_MAPS = Kind("", "v1", "configmaps", True)
EVENTS = Kind("", "v1", "events", True)
REPLICASETS = Kind("apps", "v1", "replicasets", True)
DEPLOYMENTS = Kind("apps", "v1", "deployments", True)
STATEFULSETS = Kind("apps", "v1", "statefulsets", True)
DAEMONSETS = Kind("apps", "v1", "daemonsets", True)
JOBS = Kind("batch", "v1", "jobs", True)
CRON_JOBS = Kind("batch", "v1", "cronjobs", True)
BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", True)
PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "priorityclasses", False)
POD_GROUPS = Kind("scheduling.x-k8s.io", "v1alpha1", "podgroups", True)
VOLCANO_POD_GROUPS = Kind("scheduling.volcano.sh", "v1beta1", "podgroups", True)
KAI_POD_GROUPS = Kind("scheduling.run.ai", "v2alpha2", "podgroups", True)
NATIVE_POD_GROUPS = Kind("scheduling.k8s.io", "v1alpha3", "podgroups", True, ("v1alpha2",))
"""Kubernetes' own, from 1.36 on."""
NATIVE_WORKLOADS = Kind("scheduling.k8s.io", "v1alpha1", "workloads", True)
"""Kubernetes' own in 1.35, where the groups stand in the Workload."""
_KUEUE = ("v1beta2", "v1beta1")
CLUSTER_QUEUES = Kind("kueue.x-k8s.io", "v1", "clusterqueues", False, _KUEUE)
COHORTS = Kind("kueue.x-k8s.io", "v1", "cohorts", False, (*_KUEUE, "v1alpha1"))
LOCAL_QUEUES = Kind("kueue.x-k8s.io", "v1", "localqueues", True, _KUEUE)
FLAVORS = Kind("kueue.x-k8s.io", "v1", "resourceflavors", False, _KUEUE)
QUEUED_WORKLOADS = Kind("kueue.x-k8s.io", "v1", "workloads", True, _KUEUE)
KAI_QUEUES = Kind("scheduling.run.ai", "v2", "queues", False)
VOLCANO_QUEUES = Kind("scheduling.volcano.sh", "v1beta1", "queues", False)
ELASTIC_QUOTAS = Kind("scheduling.x-k8s.io", "v1alpha1", "elasticquotas", True)
KOORDINATOR_DEVICES = Kind("scheduling.koordinator.sh", "v1alpha1", "devices", False)
_BEFORE_V1 = ("v1beta2", "v1beta1")
RESOURCE_SLICES = Kind("resource.k8s.io", "v1", "resourceslices", False, _BEFORE_V1)
RESOURCE_CLAIMS = Kind("resource.k8s.io", "v1", "resourceclaims", True, _BEFORE_V1)
CLAIM_TEMPLATES = Kind("resource.k8s.io", "v1", "resourceclaimtemplates", True, _BEFORE_V1)
DEVICE_CLASSES = Kind("resource.k8s.io", "v1", "deviceclasses", False, _BEFORE_V1)
VOLUMES = Kind("", "v1", "persistentvolumes", False)
CLAIMS = Kind("", "v1", "persistentvolumeclaims", True)
QUOTAS = Kind("", "v1", "resourcequotas", True)
AUTOSCALERS = Kind("autoscaling", "v2", "horizontalpodautoscalers", True)
ALL_POD_GROUPS = (POD_GROUPS, VOLCANO_POD_GROUPS, KAI_POD_GROUPS, NATIVE_POD_GROUPS)
"""Four kinds of one name. The first goes before where two of them are named alike."""
QUEUE_KINDS = (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    FLAVORS,
    QUEUED_WORKLOADS,
    KAI_QUEUES,
    VOLCANO_QUEUES,
    ELASTIC_QUOTAS,
)
"""What hands out quota, where it is installed."""
DRA = (RESOURCE_SLICES, RESOURCE_CLAIMS, CLAIM_TEMPLATES)
"""What a picture of a live cluster reads of it; device classes are told of in dumps alone."""
WEBHOOKS = Kind("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", False)
POLICIES = Kind("admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", False)
BINDINGS = Kind("admissionregistration.k8s.io", "v1", "mutatingadmissionpolicybindings", False)
LEASES = Kind("coordination.k8s.io", "v1", "leases", True)
GPU_REQUESTS = Kind("defrag.gpu.internal", "v1alpha1", "gpurequests", True)
"""Our own kind: what a pod asks of its GPUs, named by its label."""
STEERINGS = Kind("defrag.gpu.internal", "v1alpha1", "steerings", True)
"""Our own kind: whose next pods the standing policy gates."""


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A whole LIST (all pages) and the revision that a watch goes on from."""

    objects: list[Json]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """type: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Json

    @property
    def revision(self) -> str:
        return str((self.object.get("metadata") or {}).get("resourceVersion") or "")

    @property
    def ends_list(self) -> bool:
        """The bookmark after which a watch that began with the list goes on with changes."""
        annotations = (self.object.get("metadata") or {}).get("annotations") or {}
        return self.type == "BOOKMARK" and annotations.get("k8s.io/initial-events-end") == "true"


class Gateway(Protocol):
    """Time-outs: connect 3 s, read 10 s unless settings say otherwise."""

    def version(self) -> str:
        """The server's gitVersion, for example "v1.36.2"."""

    def cluster_uid(self) -> str:
        """UID of the namespace kube-system: the identity of the cluster."""

    def list_objects(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> ObjectList: ...

    def list_reduced(
        self,
        kind: Kind,
        reduce: Callable[[Json], Kept],
        *,
        namespace: str | None = None,
        field_selector: str = "",
    ) -> tuple[list[Kept], str]:
        """All objects of a kind as `reduce` leaves them, page by page, so that the whole list is never in
        memory at once; and the revision that a watch goes on from."""

    def watch(
        self,
        kind: Kind,
        *,
        resource_version: str,
        seconds: int,
        namespace: str | None = None,
        begins_with_list: bool = False,
        silence_seconds: float | None = None,
        field_selector: str = "",
    ) -> Iterator[WatchEvent]:
        """One watch request. Raises Expired on 410; ends when the server ends it.

        begins_with_list: all objects come first as ADDED, as of now (resource_version is left out), then a
        bookmark that `ends_list`. Raises Invalid where the server cannot do that (before 1.34).
        silence_seconds: give it up after so long without even a bookmark; None: as the gateway was told."""

    def get_object(self, kind: Kind, name: str, *, namespace: str | None = None) -> Json | None:
        """None if there is no such object."""

    def create_object(
        self, kind: Kind, body: Json, *, namespace: str | None = None, dry_run: bool = False
    ) -> Json:
        """Raises AlreadyExists on 409 with that reason."""

    def patch_object(
        self,
        kind: Kind,
        name: str,
        body: Json,
        *,
        namespace: str | None = None,
        subresource: str = "",
        strategic: bool = False,
        dry_run: bool = False,
    ) -> Json:
        """Merge patch (or strategic merge). Put metadata.resourceVersion (and uid) in `body` to guard it."""

    def delete_own_object(
        self, kind: Kind, name: str, *, uid: str, namespace: str | None = None, seen: Json | None = None
    ) -> None:
        """Delete something this console made: refused unless it carries our label
        `defrag.gpu.internal/owned`. Gone already is fine; another UID raises Conflict.

        seen: the object as it was read just before; then it is not read again, and a change since then raises
        Conflict."""

    def evict_pod(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace_seconds: int | None = None,
        dry_run: bool = False,
        version: str = "",
    ) -> None:
        """Ask for the eviction of exactly this pod; with a version (its resourceVersion) only as it was seen.
        Raises BudgetExhausted (429 of a PDB, with its message and retry_after), MovedByItsOwner (429, and a
        live migration has begun), TooManyRequests (429 of fairness), SeveralBudgets (500), Conflict (409:
        another UID or version), NotFound (gone)."""

    def may(
        self, verb: str, kind: Kind, *, namespace: str = "", subresource: str = "", name: str = ""
    ) -> bool:
        """SelfSubjectAccessReview. name: of one object, for rights that are granted for that one alone."""

    def serves(self, kind: Kind) -> bool:
        """Whether the server has the kind at all, in any of its versions, whoever may read it."""

    def own_rules(self, namespace: str) -> Rules:
        """SelfSubjectRulesReview: all that the credential may in a namespace, as far as the server can list
        it. Whoever asks more than one question goes by `own_rights.OwnRights`."""

    def record_event(self, involved: Mapping[str, str], *, reason: str, message: str) -> None:
        """An Event on an owner's object, so that people hear of it."""
