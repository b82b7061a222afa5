"""Which device a series speaks of, and whose workload: every exporter's way of labelling.

A device is known by host and UUID (every host of some exporters calls its GPU "0"), a MIG instance by its
`GPU_I_ID` beside them. The exporter's own pod is never a workload.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apps.prometheus.metric_names import is_accelerators, vendor_of
from apps.prometheus.series import Series

Labels = Mapping[str, str]
_HOST = (
    *(
        "Hostname",
        "hostname",
        "exported_hostname",
        "node",
        "node_name",
        "nodename",
        "kubernetes_node",
        "nodeid",
    ),
    *("exported_node", "host", "kubernetes_io_hostname"),
)
_UUID = ("UUID", "uuid", "gpu_uuid", "GPU_UUID", "deviceuuid", "device_uuid", "accelerator_id", "vdie_id")
_SERIAL = ("device_id", "serial_number", "SERIAL_NUMBER", "sn")
_INDEX = (
    *("gpu", "gpu_id", "minor_number", "deviceidx", "device_index", "slot", "npu_id", "mlu", "npu", "card"),
    *("npuID", "deviceId", "index", "device"),
)
_OWN_INDEX = ("gpu_id", "minor_number", "deviceidx", "gpu")
_INSTANCE = ("GPU_I_ID", "gpu_i_id", "gpu_instance_id")
_PROFILE = ("GPU_I_PROFILE", "gpu_i_profile", "mig_profile")
_MODEL = (
    *("modelName", "model_name", "model", "card_model", "gpu_name", "product_name", "dev_name", "devicetype"),
    *("card_series", "deviceType", "name"),
)
_BUS = ("pci_bus_id", "pcie_bus_id", "pcieBus_number", "pcie_bus_info", "pci_bdf", "bus_id")
_WORKLOAD = (
    ("exported_pod", ("exported_namespace",), ("exported_container",)),
    ("podname", ("podnamespace",), ("ctrname",)),
    ("podName", ("namespace",), ("containerName",)),
    ("dcu_pod_name", ("dcu_pod_namespace",), ("container",)),
    ("kube_pod", ("kube_namespace",), ("kube_container",)),
    ("pod_name", ("exported_namespace", "pod_namespace", "namespace"), ("container_name",)),
)
_EXPORTER = re.compile(
    r"(^|[-_])(dcgm|exporter|npu-exporter|metrics-exporter|xpumanager|xpumd?|vgpu-monitor|device-plugin|"
    r"hami-scheduler|gpu-metrics)([-_]|$)"
)
_RESERVATION_NAMESPACES = {"runai-reservation", "kai-resource-reservation"}
_RESERVATION_PODS = ("runai-reservation-", "gpu-reservation-", "kai-reservation-")
_BARE_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PCI_NUMBER = re.compile(r"0x[0-9a-fA-F]{4}")
_NULL_UUID = re.compile(r"(?:[A-Za-z]+-)?[0-]*")


@dataclass(frozen=True, slots=True)
class Identity:
    """host: the node, "" if untold. uuid: "" if untold or blanked out. index: as labelled. scraped: address
    of the exporter, where Prometheus tells it. instance: GPU_I_ID, a tile, a partition; "" for the whole."""

    host: str
    uuid: str
    index: str
    scraped: str = ""
    instance: str = ""
    profile: str = ""
    model: str = ""
    bus_id: str = ""
    vendor: str = ""

    @property
    def name(self) -> str:
        """What tells it from the other devices of its host."""
        if self.uuid:
            return self.uuid
        return "#" + self.index if self.index else self.bus_id


@dataclass(frozen=True, slots=True)
class Workload:
    namespace: str
    pod: str
    container: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.pod}"

    @property
    def is_placeholder(self) -> bool:
        """Keeps a GPU for shares of it that run elsewhere: no load of its own."""
        return self.namespace in _RESERVATION_NAMESPACES or self.pod.startswith(_RESERVATION_PODS)


def identity_of(series: Series) -> Identity | None:
    """None for a series that is of no device."""
    labels, name = series.labels, series.name
    uuid = _first(labels, _UUID).partition("[")[0]  # HAMi adds a MIG place in brackets
    speaks = is_accelerators(name)
    if not speaks and not uuid.startswith(("GPU-", "MIG-")):
        return None
    if not uuid and speaks:
        uuid = _first(labels, _SERIAL)
        uuid = "" if uuid.isdecimal() and len(uuid) < 5 else uuid
    index = _index(labels)
    if not index and name.startswith(("npu_", "vnpu_")):
        index = labels.get("id", "")
    if index.startswith(("GPU-", "MIG-")):
        uuid, index = uuid or index, ""
    if _BARE_UUID.fullmatch(uuid) and name.startswith("nvidia_"):
        uuid = f"GPU-{uuid}"  # nvidia_gpu_exporter leaves the beginning out
    if uuid and _NULL_UUID.fullmatch(uuid):
        uuid = ""
    bus_id = _first(labels, _BUS)
    if not (uuid or index or bus_id):
        return None
    return Identity(
        host=_host(labels),
        uuid=uuid,
        index=index,
        scraped=labels.get("instance", ""),
        instance=_instance(labels),
        profile=_first(labels, _PROFILE),
        model=_model(labels),
        bus_id=bus_id,
        vendor=vendor_of(name) or ("nvidia" if uuid.startswith(("GPU-", "MIG-")) else ""),
    )


def _first(labels: Labels, names: Iterable[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _model(labels: Labels) -> str:
    """A name before a PCI number, which AMD's exporter tells as well."""
    told = [labels[name] for name in _MODEL if labels.get(name)]
    return next((one for one in told if not _PCI_NUMBER.fullmatch(one)), next(iter(told), ""))


def _host(labels: Labels) -> str:
    """An old dcgm-exporter writes its own pod's name where the node's should stand."""
    for name in _HOST:
        text = labels.get(name, "")
        if text and not looks_like_exporter(text) and text != labels.get("pod"):
            return text
    return ""


def _index(labels: Labels) -> str:
    for name in _INDEX:
        text = labels.get(name, "")
        if not text:
            continue
        if text.isdecimal():
            return text.lstrip("0") or "0"
        tail = re.fullmatch(r"[a-zA-Z/_-]{1,40}(\d{1,4})", text)
        if tail:
            return tail.group(1)
        if name in _OWN_INDEX:
            return text
    return ""


def _instance(labels: Labels) -> str:
    instance = _first(labels, _INSTANCE)
    if instance:
        return instance
    tile = labels.get("sub_dev", "")
    if tile:
        return f"tile{tile}"
    kind = labels.get("gpu_compute_partition_type", "").lower()
    part = labels.get("gpu_partition_id", "")
    return f"part{part}" if part and kind not in ("", "spx", "none") else ""


def looks_like_exporter(text: str) -> bool:
    return _EXPORTER.search(text.lower()) is not None


class Attribution:
    """Tells a workload from the exporter that speaks of it, by what all series of an answer show together."""

    def __init__(self, series: Iterable[Series]) -> None:
        self._renamed: set[str] = set()
        self._pods: dict[tuple[str, str], set[str]] = {}
        for one in series:
            labels = one.labels
            job = labels.get("job", "")
            if "exported_pod" in labels or "exported_namespace" in labels:
                self._renamed.add(job)
            if labels.get("instance") and labels.get("pod"):
                self._pods.setdefault((job, labels["instance"]), set()).add(labels["pod"])

    def workload_of(self, labels: Labels) -> Workload | None:
        for pod, namespaces, containers in _WORKLOAD:
            if labels.get(pod):
                return Workload(_first(labels, namespaces), labels[pod], _first(labels, containers))
        pod = labels.get("pod", "")
        if not pod or self._is_the_exporter(labels, pod):
            return None
        return Workload(labels.get("namespace", ""), pod, labels.get("container", ""))

    def _is_the_exporter(self, labels: Labels, pod: str) -> bool:
        if looks_like_exporter(pod) or labels.get("container", "") in ("exporter", "dcgm-exporter"):
            return True
        if pod in (labels.get("Hostname"), labels.get("hostname")):
            return True
        job, instance = labels.get("job", ""), labels.get("instance", "")
        if not instance:
            return False
        # Scraped by Prometheus, whose own `pod` label is that of the scraped pod. Only where one exporter
        # shows several pods are they its devices' holders.
        return job in self._renamed or len(self._pods.get((job, instance), ())) < 2
