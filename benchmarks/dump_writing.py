"""A large cluster as `kubectl get nodes,pods,… -A -o json` (or yaml) writes it, object by object.

The objects of `large_cluster` are dressed with what a real API server fills in (probes, volumes, mounts,
container statuses, images of nodes, addresses, managed fields), so that they have their real size of a few
kB. Not in here: what is measured on it (reading).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import yaml

from apps.kube.dumps import KINDS
from apps.kube.gateway import NODES, PODS
from benchmarks.large_cluster import NOW, LargeCluster

Json = dict[str, Any]
NAMES = {kind: name for name, kind in KINDS.items()}
IMAGES = ("pytorch", "vllm-openai", "tritonserver", "cuda", "dcgm-exporter", "k8s-device-plugin", "pause")
REGISTRY = "images.example.com/platform"


def write_dump(
    path: Path, *, nodes: int, pods: int, seed: int, form: str, managed_fields: bool, lean: bool = False
) -> int:
    """form: "json" (indented, as kubectl writes it), "compact" or "yaml". lean: no field that nothing here
    reads, the hardest case, as there is no text to pass over. How many objects it wrote."""
    count = 0
    with path.open("wb") as file:
        file.write(b"apiVersion: v1\nitems:\n" if form == "yaml" else _head(form))
        for raw in _dressed(nodes, pods, seed, managed_fields, lean):
            _write(file, raw, form, is_first=not count)
            count += 1
        file.write(b'kind: List\nmetadata:\n  resourceVersion: ""\n' if form == "yaml" else _tail(form))
    return count


def _head(form: str) -> bytes:
    return (
        b'{\n    "apiVersion": "v1",\n    "items": [\n' if form == "json" else b'{"apiVersion":"v1","items":['
    )


def _tail(form: str) -> bytes:
    if form == "compact":
        return b'],"kind":"List","metadata":{"resourceVersion":""}}\n'
    return b'\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n'


def _write(file: BinaryIO, raw: Json, form: str, *, is_first: bool) -> None:
    if form == "yaml":
        file.write(yaml.dump([raw], Dumper=yaml.CSafeDumper, default_flow_style=False).encode())
        return
    text = msgspec.json.encode(raw, order="sorted")
    if form == "json":
        pretty = msgspec.json.format(text, indent=4).replace(b"\n", b"\n        ")
        text = b"        " + pretty
    file.write((b"" if is_first else b",\n" if form == "json" else b",") + text)


def _dressed(nodes: int, pods: int, seed: int, managed_fields: bool, lean: bool) -> Iterator[Json]:
    cluster = LargeCluster(nodes=nodes, pods=pods, seed=seed)
    rng = random.Random(seed)
    for kind, objects in cluster.objects.items():
        version = f"{kind.group}/{kind.version}" if kind.group else kind.version
        for raw in objects:
            found = {"apiVersion": version, "kind": NAMES[kind], **raw}
            if lean:
                yield found
                continue
            if kind == NODES:
                found = _dress_node(found, rng)
            elif kind == PODS:
                found = _dress_pod(found, rng)
            if managed_fields:
                found["metadata"]["managedFields"] = _managed(found)
            yield found


def _dress_node(node: Json, rng: random.Random) -> Json:
    name = node["metadata"]["name"]
    labels = node["metadata"]["labels"]
    labels |= {
        "beta.kubernetes.io/arch": "amd64",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
    }
    labels |= {
        "node.kubernetes.io/instance-type": "p4d.24xlarge",
        "topology.kubernetes.io/region": "region-a",
    }
    labels |= {f"feature.node.kubernetes.io/cpu-cpuid.{flag}": "true" for flag in _FLAGS}
    if "nvidia.com/gpu.product" in labels:
        labels |= {f"nvidia.com/gpu.deploy.{part}": "true" for part in _OPERANDS}
        labels |= {
            f"nvidia.com/cuda.driver-version.{part}": "12" for part in ("full", "major", "minor", "revision")
        }
    node["metadata"]["annotations"] |= {
        "csi.volume.kubernetes.io/nodeid": f'{{"ebs.csi.example.com":"i-{name}"}}',
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }
    node["spec"] |= {
        "podCIDR": "10.1.2.0/24",
        "podCIDRs": ["10.1.2.0/24"],
        "providerID": f"cloud:///region-a/{name}",
    }
    address = ".".join(str(rng.randrange(1, 250)) for _ in range(4))
    node["status"] |= {
        "addresses": [{"address": address, "type": "InternalIP"}, {"address": name, "type": "Hostname"}],
        "conditions": [
            *(_condition(kind, "False", f"kubelet has {kind}") for kind in _PRESSURES),
            *node["status"]["conditions"],
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "images": [
            {
                "names": [f"{at}@sha256:{rng.randbytes(32).hex()}", f"{at}:v{minor}"],
                "sizeBytes": rng.randrange(10**6, 10**10),
            }
            for at in (f"{REGISTRY}/{image}" for image in IMAGES)
            for minor in range(4)
        ],
        "nodeInfo": {
            "architecture": "amd64", "bootID": rng.randbytes(16).hex(), "containerRuntimeVersion": "containerd://1.7.27",
            "kernelVersion": "5.15.0-1084", "kubeProxyVersion": "v1.32.6", "kubeletVersion": "v1.32.6",
            "machineID": rng.randbytes(16).hex(), "operatingSystem": "linux", "osImage": "Ubuntu 22.04.5 LTS",
        },
    }  # fmt: skip
    return node


def _dress_pod(pod: Json, rng: random.Random) -> Json:
    spec, status, uid = pod["spec"], pod["status"], pod["metadata"]["uid"]
    pod["metadata"]["generateName"] = pod["metadata"]["name"][:-1]
    pod["metadata"]["annotations"] |= {
        "cni.projectcalico.org/containerID": rng.randbytes(32).hex(),
        "cni.projectcalico.org/podIP": "10.1.2.3/32",
        "kubectl.kubernetes.io/restartedAt": NOW,
        "prometheus.io/scrape": "true",
    }
    for container in spec["containers"]:
        container |= {
            "args": ["--model", "/models/current", "--port", "8000", "--log-level", "info"],
            "env": [{"name": f"SETTING_{number}", "value": f"value of {number}"} for number in range(12)]
            + [
                {"name": "POD", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}
            ],
            "imagePullPolicy": "IfNotPresent",
            "livenessProbe": _probe("/healthz"),
            "readinessProbe": _probe("/readyz"),
            "ports": [{"containerPort": 8000, "name": "http", "protocol": "TCP"}],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "terminationMessagePath": "/dev/termination-log",
            "volumeMounts": [
                {"mountPath": "/models", "name": "models"},
                {"mountPath": _TOKEN_PATH, "name": "kube-api-access-abcde", "readOnly": True},
            ],
        }
    spec |= {
        "dnsPolicy": "ClusterFirst", "enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority",
        "securityContext": {"fsGroup": 1000, "runAsUser": 1000}, "serviceAccount": "default",
        "serviceAccountName": "default",
        "volumes": [{"emptyDir": {"sizeLimit": "20Gi"}, "name": "models"}, _TOKEN_VOLUME],
    }  # fmt: skip
    if status["phase"] == "Running":
        status |= {
            "containerStatuses": [
                {
                    "containerID": f"containerd://{rng.randbytes(32).hex()}", "image": container["image"],
                    "imageID": f"{REGISTRY}/work@sha256:{rng.randbytes(32).hex()}", "lastState": {},
                    "name": container["name"], "ready": True, "restartCount": 0, "started": True,
                    "state": {"running": {"startedAt": NOW}},
                }
                for container in spec["containers"]
            ],
            "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}], "podIP": "10.1.2.3",
            "podIPs": [{"ip": "10.1.2.3"}], "qosClass": "Guaranteed", "observedGeneration": 1,
        }  # fmt: skip
    pod["metadata"]["annotations"]["example.com/trace"] = uid
    return pod


def _managed(raw: Json) -> list[Json]:
    """One entry of who set which field, as the API server keeps them (kubectl leaves them out by default)."""
    fields = {
        f"f:{part}": {f"f:{key}": {} for key in found}
        for part, found in raw.items()
        if isinstance(found, dict)
    }
    entry = {"apiVersion": raw["apiVersion"], "fieldsType": "FieldsV1", "operation": "Update", "time": NOW}
    return [{**entry, "manager": manager, "fieldsV1": fields} for manager in ("controller", "kubelet")]


def _probe(path: str) -> Json:
    return {
        "failureThreshold": 3, "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
        "initialDelaySeconds": 5, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1,
    }  # fmt: skip


def _condition(kind: str, status: str, message: str) -> Json:
    return {
        "lastHeartbeatTime": NOW, "lastTransitionTime": NOW, "message": message,
        "reason": f"KubeletHas{kind}", "status": status, "type": kind,
    }  # fmt: skip


_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
_FLAGS = (
    "ADX",
    "AESNI",
    "AVX",
    "AVX2",
    "AVX512BW",
    "AVX512F",
    "AVX512VNNI",
    "FMA3",
    "SHA",
    "VMX",
    "XSAVE",
    "XSAVEC",
)
_OPERANDS = ("container-toolkit", "dcgm", "dcgm-exporter", "device-plugin", "driver", "mig-manager", "nvsm")
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_VOLUME: Json = {
    "name": "kube-api-access-abcde",
    "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
            {
                "downwardAPI": {
                    "items": [
                        {
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                            "path": "namespace",
                        }
                    ]
                }
            },
        ],
    },
}
