"""The resource kinds that the server knows, built in or added by a CustomResourceDefinition.

A Kind says how its URLs, updates and deletions differ from those of other kinds; the behaviour
itself is in the rooms that ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind in one version. `storage` names the table shared by all versions of a kind."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    has_generation: bool = False
    unconditional: bool = True  # a PUT without resourceVersion is taken
    creates_on_put: bool = False
    returns_deleted: bool = False  # DELETE answers with the object, not with a Status
    fields: tuple[str, ...] = ("spec", "status")  # top-level fields besides metadata
    custom: bool = False
    schema: dict[str, Any] | None = None
    columns: tuple[dict[str, Any], ...] = ()
    stored: bool = True
    storage_name: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """plural.group, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage(self) -> str:
        return self.storage_name or self.resource

    @property
    def prefix(self) -> bytes:
        """What comes before a stored body to make a whole object of it."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()


WORKLOAD: dict[str, Any] = {"has_generation": True, "subresources": ("status", "scale")}

BUILT_IN: tuple[Kind, ...] = (
    Kind("", "v1", "Node", "nodes", False, ("no",), ("status",)),
    Kind(
        "", "v1", "Pod", "pods", True, ("po",),
        ("status", "binding", "eviction", "log"), True, returns_deleted=True,
    ),
    Kind("", "v1", "Namespace", "namespaces", False, ("ns",), ("status", "finalize")),
    Kind(
        "", "v1", "Event", "events", True, ("ev",), storage_name="events",
        fields=(
            "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count",
            "type", "eventTime", "series", "action", "related", "reportingComponent", "reportingInstance",
        ),
    ),
    Kind(
        "events.k8s.io", "v1", "Event", "events", True, ("ev",), storage_name="events",
        fields=(
            "regarding", "reason", "note", "deprecatedSource", "deprecatedFirstTimestamp",
            "deprecatedLastTimestamp", "deprecatedCount", "type", "eventTime", "series", "action",
            "related", "reportingController", "reportingInstance",
        ),
    ),
    Kind("", "v1", "ConfigMap", "configmaps", True, ("cm",), fields=("data", "binaryData", "immutable")),
    Kind("", "v1", "Secret", "secrets", fields=("data", "stringData", "type", "immutable")),
    Kind(
        "", "v1", "ServiceAccount", "serviceaccounts", True, ("sa",), returns_deleted=True,
        fields=("secrets", "imagePullSecrets", "automountServiceAccountToken"),
    ),
    Kind("", "v1", "Service", "services", True, ("svc",), ("status",), returns_deleted=True),
    Kind(
        "", "v1", "PersistentVolume", "persistentvolumes", False, ("pv",), ("status",), returns_deleted=True,
    ),
    Kind(
        "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, ("pvc",),
        ("status",), returns_deleted=True,
    ),
    Kind("", "v1", "ResourceQuota", "resourcequotas", True, ("quota",), ("status",), returns_deleted=True),
    Kind("", "v1", "LimitRange", "limitranges", True, ("limits",)),
    Kind(
        "coordination.k8s.io", "v1", "Lease", "leases",
        unconditional=False, creates_on_put=True, fields=("spec",),
    ),
    Kind("apps", "v1", "Deployment", "deployments", True, ("deploy",), **WORKLOAD),
    Kind("apps", "v1", "ReplicaSet", "replicasets", True, ("rs",), **WORKLOAD),
    Kind("apps", "v1", "StatefulSet", "statefulsets", True, ("sts",), **WORKLOAD),
    Kind("apps", "v1", "DaemonSet", "daemonsets", True, ("ds",), ("status",), True),
    Kind("batch", "v1", "Job", "jobs", True, (), ("status",), True),
    Kind(
        "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, ("pdb",),
        ("status",), True, unconditional=False,
    ),
    Kind(
        "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, ("pc",), (), True,
        fields=("value", "globalDefault", "description", "preemptionPolicy"),
    ),
    Kind(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions",
        False, ("crd", "crds"), ("status",), True, unconditional=False,
    ),
    Kind(
        "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations", False, (), (), True, fields=("webhooks",),
    ),
    Kind(
        "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations", False, (), (), True, fields=("webhooks",),
    ),
    Kind(
        "rbac.authorization.k8s.io", "v1", "Role", "roles", fields=("rules",),
    ),
    Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", fields=("subjects", "roleRef")),
    Kind(
        "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False,
        fields=("rules", "aggregationRule"),
    ),
    Kind(
        "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False,
        fields=("subjects", "roleRef"),
    ),
    Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, ("sc",), fields=(
        "provisioner", "parameters", "reclaimPolicy", "mountOptions", "allowVolumeExpansion",
        "volumeBindingMode", "allowedTopologies",
    )),
    Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False, (), (), True, fields=("spec",)),
    Kind(
        "resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True, (), ("status",),
        returns_deleted=True,
    ),
    Kind(
        "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates",
        returns_deleted=True, fields=("spec",),
    ),
    Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False, (), (), True, fields=("spec",)),
    Kind(
        "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False,
        stored=False,
    ),
    Kind(
        "authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False,
        stored=False,
    ),
    Kind(
        "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False,
        stored=False, fields=("status",),
    ),
    Kind("", "v1", "Binding", "bindings", fields=("target",), stored=False),
)  # fmt: skip


@dataclass
class KindTable:
    """All kinds served now, found by group, version and plural."""

    by_path: dict[tuple[str, str, str], Kind] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in BUILT_IN:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        self.by_path[kind.group, kind.version, kind.plural] = kind

    def remove_group_kind(self, group: str, plural: str) -> None:
        for path in [p for p in self.by_path if p[0] == group and p[2] == plural]:
            del self.by_path[path]

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self.by_path.get((group, version, plural))

    def by_kind(self, api_version: str, kind: str) -> Kind | None:
        """The kind that an object's apiVersion and kind name."""
        group, _, version = api_version.rpartition("/")
        for known in self.by_path.values():
            if known.group == group and known.version == version and known.kind == kind:
                return known
        return None

    def served(self, group: str, version: str) -> Iterator[Kind]:
        return (k for k in self.by_path.values() if k.group == group and k.version == version)

    def versions(self) -> dict[str, list[str]]:
        """Every named group with its versions, in the order in which they were added."""
        groups: dict[str, list[str]] = {}
        for kind in self.by_path.values():
            if kind.group and kind.version not in groups.setdefault(kind.group, []):
                groups[kind.group].append(kind.version)
        return groups
