"""What a kubelet writes: pod statuses and node statuses, as JSON. Pure; no calls."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from apps.simulator.controllers.objects import make_condition
from apps.simulator.controllers.pace import now, to_text
from apps.simulator.hardware import Hardware

Json = dict[str, Any]

_NODE_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_DEFAULT_CAPACITY = {"cpu": "128", "memory": "1Ti", "ephemeral-storage": "2Ti", "pods": "110"}


def address_of(name: str, first: int) -> str:
    """A stable private address for a node (first: 172) or a pod (10)."""
    number = zlib.crc32(name.encode())
    second = number >> 16 & 255 if first == 10 else 16 + (number >> 16 & 15)  # 10.0.0.0/8 or 172.16.0.0/12
    return f"{first}.{second}.{number >> 8 & 255}.{number & 255}"


def running_status(pod: Json, started: str = "") -> Json:
    started = started or to_text(now())
    spec, meta = pod["spec"], pod["metadata"]
    address = address_of(meta["uid"], 10)
    status: Json = {
        "phase": "Running",
        "startTime": started,
        "hostIP": address_of(spec["nodeName"], 172),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": started}
            for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
        ],
        "containerStatuses": [
            _container_status(meta["uid"], each, {"running": {"startedAt": started}}, ready=True)
            for each in spec["containers"]
        ],
    }
    inits = spec.get("initContainers") or []
    if inits:
        status["initContainerStatuses"] = [_init_status(meta["uid"], each, started) for each in inits]
    return status


def finished_status(pod: Json, *, exit_code: int, reason: str) -> Json:
    """All containers ended with `exit_code`; the phase follows from it."""
    ended = to_text(now())
    began = (pod.get("status") or {}).get("startTime") or ended
    gone = "PodCompleted" if exit_code == 0 else "PodFailed"
    state = {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": began, "finishedAt": ended}}
    return {
        "phase": "Succeeded" if exit_code == 0 else "Failed",
        "startTime": began,
        "conditions": [
            make_condition("Ready", "False", gone),
            make_condition("ContainersReady", "False", gone),
        ],
        "containerStatuses": [
            _container_status(pod["metadata"]["uid"], each, state, ready=False)
            for each in pod["spec"]["containers"]
        ],
    }


def rejected_status(reason: str, message: str) -> Json:
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": to_text(now()),
    }


def node_conditions(since: str = "") -> list[Json]:
    moment = to_text(now())
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": moment,
            "lastTransitionTime": since or moment,
        }
        for kind, status, reason, message in _NODE_CONDITIONS
    ]


def node_status(node: Json, hardware: Hardware | None, offered: Mapping[str, tuple[int, int]]) -> Json:
    """offered: (capacity, allocatable) of each device resource."""
    name = node["metadata"]["name"]
    known = node.get("status") or {}
    capacity = {**_DEFAULT_CAPACITY, **(known.get("capacity") or {})}
    allocatable = {**capacity, **(known.get("allocatable") or {})}
    for resource, (count, healthy) in offered.items():
        capacity[resource] = str(count)
        allocatable[resource] = str(healthy)
    info = known.get("nodeInfo") or {}  # of a bare node object the API server makes one of empty texts
    old = {each["type"]: each for each in known.get("conditions") or []}
    conditions = node_conditions()
    for condition in conditions:
        before = old.get(condition["type"])
        if before and before["status"] == condition["status"] and before.get("lastTransitionTime"):
            condition["lastTransitionTime"] = before["lastTransitionTime"]
    return {
        "capacity": capacity,
        "allocatable": allocatable,
        "conditions": conditions,
        "addresses": [
            {"type": "InternalIP", "address": address_of(name, 172)},
            {"type": "Hostname", "address": name},
        ],
        "nodeInfo": info if info.get("kubeletVersion") else _node_info(name, hardware),
    }


def _node_info(name: str, hardware: Hardware | None) -> Json:
    arm = hardware is not None and not hardware.model.is_nvidia
    return {
        "machineID": f"{zlib.crc32(name.encode()):032x}",
        "systemUUID": f"{zlib.crc32(name.encode()):032x}",
        "bootID": f"{zlib.crc32(name[::-1].encode()):032x}",
        "kernelVersion": "6.1.0",
        "osImage": "Debian GNU/Linux 12 (bookworm)",
        "containerRuntimeVersion": "containerd://2.1.0",
        "kubeletVersion": "v1.36.2",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "arm64" if arm else "amd64",
    }


def _container_status(uid: str, container: Json, state: Json, *, ready: bool) -> Json:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"{image}@sha256:{zlib.crc32(image.encode()):064x}",
        "containerID": f"containerd://{zlib.crc32((uid + container['name']).encode()):064x}",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
    }


def _init_status(uid: str, container: Json, started: str) -> Json:
    if container.get("restartPolicy") == "Always":
        return _container_status(uid, container, {"running": {"startedAt": started}}, ready=True)
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": started}
    return {**_container_status(uid, container, {"terminated": ended}, ready=True), "started": False}
