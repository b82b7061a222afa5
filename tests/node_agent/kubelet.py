"""A kubelet's PodResources service on a Unix socket, by gRPC.

It writes the bytes of its messages itself, by the field numbers of the published api.proto, and so checks the
agent's declaration of them.
"""

from concurrent.futures import ThreadPoolExecutor

import grpc


def field(number, value):
    """A text or message field in protobuf's wire form."""
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(number):
    found = b""
    while number > 0x7F:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def whole_number(number, value):
    return varint(number << 3) + varint(value)


def devices(resource, *ids):
    """ContainerDevices, with the NUMA nodes that a kubelet tells as well."""
    numa = field(1, whole_number(1, 1))
    return field(1, resource) + b"".join(field(2, one) for one in ids) + field(3, numa)


def claimed(claim, *names, driver="gpu.nvidia.com", namespace="team-a"):
    """DynamicResource."""
    cdi = field(1, "k8s.gpu.nvidia.com/claim=some-claim")
    resources = [field(1, cdi) + field(2, driver) + field(3, "node-a") + field(4, name) for name in names]
    return field(2, claim) + field(3, namespace) + b"".join(field(4, one) for one in resources)


def container(name, *given, claims=()):
    """ContainerResources, with exclusive CPUs (3, packed)."""
    held = b"".join(field(2, one) for one in given) + field(3, bytes([2, 3]))
    return field(1, name) + held + b"".join(field(5, one) for one in claims)


def pod(name, *containers, namespace="team-a"):
    return field(1, name) + field(2, namespace) + b"".join(field(3, one) for one in containers)


class Kubelet:
    """pods: of List. offered: devices of GetAllocatableResources; None: the call is switched off."""

    def __init__(self, socket):
        self.pods, self.offered, self.before_answer = [], (), lambda: None
        self.server = grpc.server(ThreadPoolExecutor(2))
        handlers = {"List": self._list, "GetAllocatableResources": self._allocatable}
        methods = {name: grpc.unary_unary_rpc_method_handler(call) for name, call in handlers.items()}
        service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", methods)
        self.server.add_generic_rpc_handlers((service,))
        assert self.server.add_insecure_port(f"unix:{socket}")
        self.server.start()

    def _list(self, request, context):
        assert request == b""
        self.before_answer()
        return b"".join(field(1, one) for one in self.pods)

    def _allocatable(self, request, context):
        if self.offered is None:
            context.abort(grpc.StatusCode.UNKNOWN, "API GetAllocatableResources is disabled")
        return b"".join(field(1, one) for one in self.offered)

    def stop(self):
        self.server.stop(None).wait(5)
