"""Asks the kubelet, over its socket on the node, which container was given which device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from apps.node_agent import messages

SECONDS = 10
LARGEST_ANSWER = 16 * 1024 * 1024
RESOURCES = "nvidia.com/"
CLAIM_DRIVER = "gpu.nvidia.com"


class KubeletUnreachable(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Grant:
    """One device of one container. device: the plugin's id, or the claim driver's name for it.

    claim: "namespace/name" of the ResourceClaim that gave it, "" for the device plugin's.
    """

    namespace: str
    pod: str
    container: str
    resource: str
    device: str
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Grants:
    """offered: the plugin's healthy ids by resource, None where the kubelet does not tell them."""

    given: tuple[Grant, ...]
    offered: dict[str, tuple[str, ...]] | None = field(default=None)


def read_grants(socket: Path) -> Grants:
    """Raises KubeletUnreachable."""
    options = [
        ("grpc.max_receive_message_length", LARGEST_ANSWER),
        # Over a socket the library would send its path, which is no valid name of a host.
        ("grpc.default_authority", "localhost"),
        ("grpc.enable_http_proxy", 0),
    ]
    with grpc.insecure_channel(f"unix:{socket}", options=options) as channel:
        try:
            request = messages.ListPodResourcesRequest()
            answer = _call(channel, "List", request, messages.ListPodResourcesResponse)
        except grpc.RpcError as error:
            raise KubeletUnreachable(
                f"the kubelet does not answer on {socket}: {_why(error)}. Is its folder mounted here?"
            ) from error
        given = tuple(_grants(answer.pod_resources))
        return Grants(
            given,
            _offered(channel) if any("::" in one.device or "/vgpu" in one.device for one in given) else None,
        )


def _call(channel: grpc.Channel, method: str, request: Any, answer: Any) -> Any:
    call = channel.unary_unary(
        f"{messages.SERVICE}/{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=answer.FromString,
    )
    return call(request, timeout=SECONDS)


def _grants(pods: Iterable[Any]) -> Iterator[Grant]:
    for pod in pods:
        for container in pod.containers:
            for devices in container.devices:
                if devices.resource_name.startswith(RESOURCES):
                    for device in devices.device_ids:
                        yield Grant(pod.namespace, pod.name, container.name, devices.resource_name, device)
            for claim in container.dynamic_resources:
                key = f"{claim.claim_namespace}/{claim.claim_name}"
                for one in claim.claim_resources:
                    if one.driver_name == CLAIM_DRIVER and one.device_name:
                        yield Grant(pod.namespace, pod.name, container.name, "", one.device_name, key)


def _offered(channel: grpc.Channel) -> dict[str, tuple[str, ...]] | None:
    """Asked only where GPUs are shared: it tells into how many parts each is dealt."""
    try:
        request = messages.AllocatableResourcesRequest()
        answer = _call(channel, "GetAllocatableResources", request, messages.AllocatableResourcesResponse)
    except grpc.RpcError:
        return None
    found: dict[str, tuple[str, ...]] = {}
    for one in answer.devices:
        found[one.resource_name] = (*found.get(one.resource_name, ()), *one.device_ids)
    return found


def _why(error: grpc.RpcError) -> str:
    code = error.code().name if isinstance(error, grpc.Call) else "no answer"
    return f"{code}: {error.details()[:200]}" if isinstance(error, grpc.Call) else code
