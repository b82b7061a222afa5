"""The objects of the mixed estate that tell of devices beside the nodes: DRA's and Koordinator's."""

from __future__ import annotations

from typing import Any

from apps.simulator.scenes.mixed_nodes import uuid_of

Json = dict[str, Any]

DRIVER = "gpu.nvidia.com"
NODE = "dra-h100"
KOORDINATOR_NODE = "koordinator-h800"
GPUS = 4


def device_class() -> Json:
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
    return {"spec": {"selectors": [{"cel": {"expression": expression}}]}}


def slices() -> list[Json]:
    """An older generation of the pool, which no longer counts, and the newest one."""
    return [
        {"name": f"{NODE}-{DRIVER}-old", "spec": _slice_spec(1, GPUS + 4)},
        {"name": f"{NODE}-{DRIVER}-new", "spec": _slice_spec(2, GPUS)},
    ]


def _slice_spec(generation: int, count: int) -> Json:
    return {
        "driver": DRIVER,
        "nodeName": NODE,
        "pool": {"name": NODE, "generation": generation, "resourceSliceCount": 1},
        "devices": [_device(at) for at in range(count)],
    }


def _device(at: int) -> Json:
    words = {
        "type": "gpu",
        "uuid": uuid_of(NODE, at),
        "productName": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "resource.kubernetes.io/pcieRoot": f"pci0000:{at // 2:02x}",
    }
    return {
        "name": f"gpu-{at}",
        "attributes": {name: {"string": value} for name, value in words.items()},
        "capacity": {"memory": {"value": "81559Mi"}},
    }


def claim_spec() -> Json:
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": 1}}]}}


def claim_status(device: int, pods: list[Json]) -> Json:
    """pods: those that may use it, one or several."""
    result = {"request": "gpu", "driver": DRIVER, "pool": NODE, "device": f"gpu-{device}"}
    reserved = [
        {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in pods
    ]
    return {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}


def device_kind() -> Json:
    """Koordinator's CustomResourceDefinition, without its schema's details."""
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": loose, "status": loose}}
    return {
        "spec": {
            "group": "scheduling.koordinator.sh",
            "scope": "Cluster",
            "names": {"kind": "Device", "listKind": "DeviceList", "plural": "devices", "singular": "device"},
            "versions": [
                {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        }
    }


def device_spec() -> Json:
    """What koordlet tells of the GPUs of its node; the last one is not healthy."""
    return {
        "devices": [
            {
                "type": "gpu",
                "id": uuid_of(KOORDINATOR_NODE, at),
                "minor": at,
                "health": at != 7,
                "resources": {
                    "koordinator.sh/gpu-core": "100",
                    "koordinator.sh/gpu-memory": "80Gi",
                    "koordinator.sh/gpu-memory-ratio": "100",
                },
                "topology": {
                    "socketID": at // 4,
                    "nodeID": at // 4,
                    "pcieID": f"pci0000:{at // 2:02x}",
                    "busID": f"0000:{at + 16:02x}:00.0",
                },
            }
            for at in range(8)
        ]
    }
