"""A fragmented little cluster on a real control plane: real API server, owners, scheduler; our kubelets.

Four nodes of 8 A100s. `web` (2 x 2 GPUs, a budget of one at a time) sits on gpu-1, `tuner` (2) and
`batch` (1) on gpu-2, the protected `pinned` on gpu-3 (4) and gpu-4 (2); `big`, a gang of 2 x 8, waits.
Four moves, no fewer, empty gpu-1 and gpu-2 for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import yaml

from apps.simulator.client import KubernetesClient
from apps.simulator.controllers.kubelet.fleet import KubeletFleet
from apps.simulator.runner import ControlPlane as Controllers
from tests.cluster_fixtures import wait_until
from tests.control_plane import ControlPlane

NAMESPACE = "work"
MODEL = "NVIDIA-A100-SXM4-80GB"
SECONDS = 60
STRANGER = {"stranger": "yes"}
CONSOLE_LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpu-defrag/leases/console"
BUDGETS = "/apis/policy/v1/namespaces/work/poddisruptionbudgets"
PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/work/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/work/statefulsets",
    "Job": "/apis/batch/v1/namespaces/work/jobs",
}


DEPLOY = Path(__file__).parents[2] / "deploy"
STEERINGS = "/apis/defrag.gpu.internal/v1alpha1/namespaces/gpu-defrag/steerings"
ADMISSION = "/apis/admissionregistration.k8s.io/v1/"
RBAC = "/apis/rbac.authorization.k8s.io/v1/"
PLACES = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "MutatingAdmissionPolicy": f"{ADMISSION}mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{ADMISSION}mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": f"{ADMISSION}validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}validatingadmissionpolicybindings",
    "ClusterRole": f"{RBAC}clusterroles",
    "ClusterRoleBinding": f"{RBAC}clusterrolebindings",
    "Role": f"{RBAC}namespaces/{{namespace}}/roles",
    "RoleBinding": f"{RBAC}namespaces/{{namespace}}/rolebindings",
}


def apply_manifests(plane: ControlPlane, *names: str) -> None:
    """As `kubectl apply` of these files of deploy/ would; what is there already is left as it is."""
    if not exists(plane, "/api/v1/namespaces/gpu-defrag"):
        plane.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "gpu-defrag"}})
    for body in _read_manifests(*names):
        where = _place_of(body)
        if not exists(plane, f"{where}/{body['metadata']['name']}"):
            plane.ask("POST", where, body)
        if body["kind"] == "CustomResourceDefinition":
            wait_until(lambda: exists(plane, STEERINGS), seconds=SECONDS, what="the kind Steering")


def delete_manifests(plane: ControlPlane, *names: str) -> None:
    """In the opposite order, so that no policy is without its kind."""
    for body in reversed(_read_manifests(*names)):
        plane.ask("DELETE", f"{_place_of(body)}/{body['metadata']['name']}")


def _read_manifests(*names: str) -> list[dict[str, Any]]:
    texts = [(DEPLOY / name).read_text() for name in names]
    return [body for text in texts for body in yaml.safe_load_all(text) if body]


def _place_of(body: dict[str, Any]) -> str:
    return PLACES[body["kind"]].format(namespace=body["metadata"].get("namespace", ""))


class Kubelets:
    """Our kubelets against a real API server, in a thread with an event loop of its own."""

    def __init__(self, plane: ControlPlane, *, time_scale: float) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        client = KubernetesClient(server=plane.url, ca_pem=plane.certificate.ca_pem, token=plane.token)
        self._controllers = Controllers(client, time_scale=time_scale, programs=[KubeletFleet])
        self._await(self._controllers.start())

    def stop(self) -> None:
        self._await(self._controllers.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _await(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


def furnish(plane: ControlPlane) -> None:
    """Make the nodes, and place each workload by letting the scheduler see only the node meant for it."""
    if not exists(plane, f"/api/v1/namespaces/{NAMESPACE}"):
        plane.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    wait_until(lambda: exists(plane, account), seconds=SECONDS, what="the namespace's service account")
    for number in range(1, 5):
        marks = {"sim.gpu.internal/hardware": "a100-sxm4-80gb:8"}
        body = {"metadata": {"name": f"gpu-{number}", "annotations": marks}}
        plane.ask("POST", "/api/v1/nodes", body)
    wait_until(lambda: len(ready_nodes(plane)) == 4, seconds=SECONDS, what="four Ready nodes")
    open_only(plane, "gpu-1")
    create(plane, "Deployment", "web", gpus=2, replicas=2)
    selector = {"matchLabels": {"app": "web"}}
    budget = {"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": selector}}
    plane.ask("POST", BUDGETS, budget)
    await_running(plane, 2)
    open_only(plane, "gpu-2")
    create(plane, "StatefulSet", "tuner", gpus=2, replicas=1)
    create(plane, "Job", "batch", gpus=1, replicas=1)
    await_running(plane, 4)
    for number, gpus in ((3, 4), (4, 2)):
        open_only(plane, f"gpu-{number}")
        create(plane, "StatefulSet", f"pinned-{number}", gpus=gpus, replicas=1, protect="true")
        await_running(plane, number + 2)
    open_only(plane, "gpu-1", "gpu-2", "gpu-3", "gpu-4")
    create(plane, "Job", "big", gpus=8, replicas=2, gang="true", link="nvlink")
    wait_until(lambda: len(pending(plane)) == 2, seconds=SECONDS, what="the gang waits")


def create(plane: ControlPlane, kind: str, name: str, *, gpus: int, replicas: int, **marks: str) -> None:
    amounts = {"nvidia.com/gpu": str(gpus), "cpu": "2"}
    spec: dict[str, Any] = {
        "nodeSelector": {"nvidia.com/gpu.product": MODEL},
        "containers": [{"name": "main", "image": "registry.invalid/work", "resources": {"limits": amounts}}],
    }
    annotations = {f"defrag.gpu.internal/{key}": value for key, value in marks.items()}
    template = {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": spec}
    owner: dict[str, Any] = {"template": template}
    if kind == "Job":
        spec["restartPolicy"] = "Never"
        owner |= {"parallelism": replicas, "completions": replicas}
    else:
        owner |= {"replicas": replicas, "selector": {"matchLabels": {"app": name}}}
    if kind == "StatefulSet":
        owner["serviceName"] = name
    plane.ask("POST", PATHS[kind], {"metadata": {"name": name}, "spec": owner})


def open_only(plane: ControlPlane, *names: str) -> None:
    for number in range(1, 5):
        name = f"gpu-{number}"
        body = {"spec": {"unschedulable": None if name in names else True}}
        plane.ask("PATCH", f"/api/v1/nodes/{name}", body)

    def agreed() -> bool:
        """The taint follows the cordon a moment later, and the scheduler goes by both."""
        nodes = plane.ask("GET", "/api/v1/nodes")["items"]
        return {node["metadata"]["name"] for node in nodes if not node["spec"].get("taints")} == set(names)

    wait_until(agreed, seconds=SECONDS, what="the taints of the cordons")


def clear(plane: ControlPlane) -> None:
    """Nothing is left of what `furnish` and a story made, so that the next one begins anew."""
    for path in (*PATHS.values(), BUDGETS):
        for owner in plane.ask("GET", path)["items"]:
            body = {"propagationPolicy": "Background"}
            plane.ask("DELETE", f"{path}/{owner['metadata']['name']}", body)

    def are_gone() -> bool:
        found = pods(plane)
        for pod in found:
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
            with contextlib.suppress(OSError):  # it may go by itself at this very moment
                plane.ask("DELETE", path, {"gracePeriodSeconds": 0})
        return not found

    wait_until(are_gone, seconds=SECONDS, what="no pod is left")
    with contextlib.suppress(OSError):  # each story's console is a new one, with a database of its own
        plane.ask("DELETE", CONSOLE_LEASE)
    for node in plane.ask("GET", "/api/v1/nodes")["items"]:
        plane.ask("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")


def make_stranger(plane: ControlPlane, name: str, *, gpus: int = 1, **spec: Any) -> None:
    """A pod of nobody's, labelled so that it can be told from the others."""
    limits = {"nvidia.com/gpu": str(gpus), "cpu": "1"}
    container = {"name": "main", "image": "registry.invalid/work", "resources": {"limits": limits}}
    body = {"metadata": {"name": name, "labels": STRANGER}, "spec": {"containers": [container], **spec}}
    plane.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)


def strangers(plane: ControlPlane) -> list[dict[str, Any]]:
    return [pod for pod in pods(plane) if (pod["metadata"].get("labels") or {}).items() >= STRANGER.items()]


def exists(plane: ControlPlane, path: str) -> bool:
    try:
        return bool(plane.ask("GET", path))
    except OSError:
        return False


def ready_nodes(plane: ControlPlane) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in plane.ask("GET", "/api/v1/nodes")["items"]
        if node["status"].get("allocatable", {}).get("nvidia.com/gpu") == "8"
        and any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
    ]


def pods(plane: ControlPlane) -> list[dict[str, Any]]:
    return list(plane.ask("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"])


def pending(plane: ControlPlane) -> list[dict[str, Any]]:
    return [
        pod for pod in pods(plane) if pod["status"]["phase"] == "Pending" and not pod["spec"].get("nodeName")
    ]


def await_running(plane: ControlPlane, count: int) -> None:
    def running() -> bool:
        return sum(pod["status"]["phase"] == "Running" for pod in pods(plane)) == count

    wait_until(running, seconds=SECONDS, what=f"{count} running pods")
