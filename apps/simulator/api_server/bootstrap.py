"""The objects that a new cluster has before anybody uses it."""

from __future__ import annotations

from typing import Any

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
SYSTEM_CLASSES = (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))

POD_GROUP_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
    "spec": {
        "group": "scheduling.x-k8s.io",
        "scope": "Namespaced",
        "names": {
            "plural": "podgroups",
            "singular": "podgroup",
            "kind": "PodGroup",
            "listKind": "PodGroupList",
            "shortNames": ["pg"],
        },
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "minMember": {"type": "integer", "minimum": 1},
                                    "minResources": {
                                        "type": "object",
                                        "additionalProperties": {"x-kubernetes-int-or-string": True},
                                    },
                                    "scheduleTimeoutSeconds": {"type": "integer"},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


GPU_REQUEST_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gpurequests.defrag.gpu.internal"},
    "spec": {
        "group": "defrag.gpu.internal",
        "scope": "Namespaced",
        "names": {
            "plural": "gpurequests",
            "singular": "gpurequest",
            "kind": "GPURequest",
            "listKind": "GPURequestList",
            "shortNames": ["gpureq"],
        },
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "additionalPrinterColumns": [
                    {"name": "Memory", "type": "integer", "jsonPath": ".spec.gpuMem"},
                    {"name": "Type", "type": "string", "jsonPath": ".spec.gpuType"},
                    {"name": "Preemptible", "type": "boolean", "jsonPath": ".spec.preemptible"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "gpuMem": {"type": "integer", "minimum": 1, "maximum": 1048576},
                                    "gpuType": {"type": "string", "maxLength": 120},
                                    "preemptible": {"type": "boolean"},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
"""As deploy/crds/gpurequests.yaml installs it (a test compares them)."""


def initial_objects() -> list[dict[str, Any]]:
    namespaces: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES
    ]
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        for name, value in SYSTEM_CLASSES
    ]
    return [*namespaces, *classes, POD_GROUP_CRD, GPU_REQUEST_CRD]
