"""The messages of the kubelet's PodResources API, version 1, as far as they are read here.

From k8s.io/kubelet/pkg/apis/podresources/v1/api.proto. Declared by hand, in a pool of their own: no generated
file that is tied to one version of protobuf. Fields that are not named here are passed over.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "v1"
SERVICE = f"/{PACKAGE}.PodResourcesLister"
TEXT = ""
MESSAGES: dict[str, dict[str, tuple[int, str, bool]]] = {
    "ListPodResourcesRequest": {},
    "ListPodResourcesResponse": {"pod_resources": (1, "PodResources", True)},
    "PodResources": {
        "name": (1, TEXT, False),
        "namespace": (2, TEXT, False),
        "containers": (3, "ContainerResources", True),
    },
    "ContainerResources": {
        "name": (1, TEXT, False),
        "devices": (2, "ContainerDevices", True),
        "dynamic_resources": (5, "DynamicResource", True),
    },
    "ContainerDevices": {"resource_name": (1, TEXT, False), "device_ids": (2, TEXT, True)},
    "DynamicResource": {
        "claim_name": (2, TEXT, False),
        "claim_namespace": (3, TEXT, False),
        "claim_resources": (4, "ClaimResource", True),
    },
    "ClaimResource": {
        "driver_name": (2, TEXT, False),
        "pool_name": (3, TEXT, False),
        "device_name": (4, TEXT, False),
    },
    "AllocatableResourcesRequest": {},
    "AllocatableResourcesResponse": {"devices": (1, "ContainerDevices", True)},
}
"""Message -> field -> (number, kind of message or TEXT, whether it is repeated)."""


def _declare() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="podresources.proto", package=PACKAGE, syntax="proto3")
    field_of = descriptor_pb2.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, is_repeated) in fields.items():
            message.field.add(
                name=field,
                number=number,
                label=field_of.LABEL_REPEATED if is_repeated else field_of.LABEL_OPTIONAL,
                type=field_of.TYPE_MESSAGE if kind else field_of.TYPE_STRING,
                type_name=f".{PACKAGE}.{kind}" if kind else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in MESSAGES
    }


_CLASSES = _declare()
ListPodResourcesRequest = _CLASSES["ListPodResourcesRequest"]
ListPodResourcesResponse = _CLASSES["ListPodResourcesResponse"]
AllocatableResourcesRequest = _CLASSES["AllocatableResourcesRequest"]
AllocatableResourcesResponse = _CLASSES["AllocatableResourcesResponse"]
