"""Every read of telemetry: sources, the newest reading of a cluster, a node's devices, low use."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec
from django.conf import settings
from django.utils import timezone

from apps.clusters.models import Cluster
from apps.planner.inventory import Gpu, Node
from apps.planner.snapshot import Snapshot
from apps.prometheus.readings import Device, Unit, key_of
from apps.telemetry.advice import Held, LowUse, find_low_use, held_units
from apps.telemetry.carrying import unit_since
from apps.telemetry.models import Minute, Reading, Source
from apps.telemetry.packing import unpack, unpack_minutes
from apps.telemetry.windows import Use, average_use, too_few

OPEN_READINGS = 8


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """One device of a node as it was read. use: by unit instance ("" for the whole), over the window.

    source: where it comes from. taken_at: when Prometheus was asked; is_stale: longer ago than it should be.
    """

    device: Device
    use: dict[str, Use]
    source: str
    taken_at: datetime
    is_stale: bool


@dataclass(slots=True)
class Telemetry:
    """The newest reading of a cluster, opened."""

    source: str
    taken_at: datetime
    devices: tuple[Device, ...]
    use: dict[str, Use]
    by_uuid: dict[str, Device] = field(default_factory=dict)
    by_place: dict[tuple[str, str], list[Device]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for device in self.devices:
            if device.uuid:
                self.by_uuid[device.uuid] = device
            self.by_place.setdefault((device.host, device.index), []).append(device)

    @property
    def is_stale(self) -> bool:
        return (timezone.now() - self.taken_at).total_seconds() > settings.TELEMETRY_STALE_SECONDS

    def device_of(self, node: Node, gpu: Gpu) -> Device | None:
        """By UUID; by host and place only where one of the two has no UUID, and just one stands there."""
        if gpu.uuid and gpu.uuid in self.by_uuid:
            return self.by_uuid[gpu.uuid]
        for host in dict.fromkeys((node.name, node.hostname)):
            found = [
                one for one in self.by_place.get((host, str(gpu.index)), ()) if not (one.uuid and gpu.uuid)
            ]
            if host and len(found) == 1:
                return found[0]
        return None

    def use_of(self, device: Device, unit: Unit) -> Use:
        of = settings.TELEMETRY_WINDOW_MINUTES
        return self.use.get(key_of(device, unit)) or Use(None, 0, of, too_few(0, of))


def source_ids() -> list[int]:
    """Sources that are to be read now: of clusters that are watched."""
    rows = Source.objects.filter(cluster__is_active=True, cluster__source=Cluster.Source.API)
    return list(rows.values_list("pk", flat=True))


def source_of(cluster: Cluster) -> Source | None:
    """Where the cluster's telemetry comes from, without its secret; None if from nowhere."""
    return Source.objects.defer("credential").filter(cluster=cluster).first()


def minutes_known(cluster_id: int, since: float) -> list[datetime]:
    rows = Minute.objects.filter(cluster_id=cluster_id, minute__gte=datetime.fromtimestamp(since, UTC))
    return list(rows.values_list("minute", flat=True))


def open_telemetry(cluster: Cluster) -> Telemetry | None:
    """The newest reading; None where nothing was read yet. Kept open for those who ask again."""
    row = Reading.objects.defer("body").filter(cluster=cluster).first()
    if row is None:
        return None
    return _open_readings.get(cluster, row)


def device_readings(cluster: Cluster, node: Node) -> dict[str, DeviceReading]:
    """By `Gpu.key`; a GPU that no series speaks of is absent. Costs one small query."""
    telemetry = open_telemetry(cluster)
    if telemetry is None:
        return {}
    return readings_of(telemetry, node, devices_on(node))


def devices_on(node: Node) -> list[Gpu]:
    """Its GPUs, then those of its devices of other kinds that have a name of their own."""
    return [*node.gpus, *(gpu for group in node.others for gpu in group.gpus if gpu.uuid)]


def readings_of(telemetry: Telemetry, node: Node, gpus: Iterable[Gpu]) -> dict[str, DeviceReading]:
    found = {}
    for gpu in gpus:
        device = telemetry.device_of(node, gpu)
        if device is not None:
            use = {unit.instance: telemetry.use_of(device, unit) for unit in device.units}
            found[gpu.key] = DeviceReading(
                device, use, telemetry.source, telemetry.taken_at, telemetry.is_stale
            )
    return found


def low_use_among(telemetry: Telemetry, picture: Snapshot) -> LowUse:
    """Goes through every device of the cluster."""
    held: list[Held] = []
    for node in picture.nodes.values():
        gpus = {gpu.key: gpu for gpu in devices_on(node)}
        found = readings_of(telemetry, node, gpus.values())
        pods = {pod.uid: pod for pod in picture.pods_on(node.name)} if found else {}
        for key, reading in found.items():
            held += held_units(node, gpus[key], reading.device, pods, reading.use)
    return find_low_use(held, below=settings.LOW_USE_PERCENT)


def low_use_of(cluster: Cluster) -> tuple[LowUse, datetime] | None:
    """What was worked out last, and when; None before that. Costs one small query."""
    row = Reading.objects.only("low_use", "low_use_at").filter(cluster=cluster).first()
    if row is None or row.low_use is None or row.low_use_at is None:
        return None
    return msgspec.convert(row.low_use, LowUse), row.low_use_at


def _open(cluster: Cluster, row: Reading) -> Telemetry:
    packed = unpack(row.body)
    of = settings.TELEMETRY_WINDOW_MINUTES
    after = row.taken_at - timedelta(minutes=of)
    minutes = Minute.objects.filter(cluster=cluster, minute__gt=after, minute__lte=row.taken_at)
    use = average_use(
        ((one.minute.timestamp(), unpack_minutes(one.body)) for one in minutes),
        unit_since(packed),
        of=of,
        least=settings.TELEMETRY_LEAST_MINUTES,
    )
    address = Source.objects.filter(cluster=cluster).values_list("address", flat=True).first() or ""
    return Telemetry(address, row.taken_at, packed.devices, use)


class _OpenReadings:
    """The readings opened last, one per cluster; shared by the threads of this program."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[int, Telemetry] = OrderedDict()

    def get(self, cluster: Cluster, row: Reading) -> Telemetry:
        with self._lock:
            entry = self._entries.get(row.pk)
            if entry is not None and entry.taken_at == row.taken_at:
                self._entries.move_to_end(row.pk)
                return entry
        opened = _open(cluster, row)
        with self._lock:
            self._entries[row.pk] = opened
            self._entries.move_to_end(row.pk)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        return opened


_open_readings = _OpenReadings(OPEN_READINGS)
