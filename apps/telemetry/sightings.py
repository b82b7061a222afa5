"""Who holds which device by the exporters' labels, for the watcher's picture: the last of its sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from django.utils import timezone

from apps.clusters.models import Cluster
from apps.prometheus.readings import Device
from apps.telemetry.queries import open_telemetry

FRESH_SECONDS = 120.0
GRAIN_SECONDS = 300.0
"""The time of a sighting moves on in steps, or every reading would be a new picture of the cluster."""
Sighting = tuple[str, str, str, str, float]


def sightings_of(cluster: Cluster) -> dict[str, list[Sighting]]:
    """By node: (namespace, pod, device, container, seen at). None of a reading that is old."""
    telemetry = open_telemetry(cluster)
    if telemetry is None or (timezone.now() - telemetry.taken_at).total_seconds() > FRESH_SECONDS:
        return {}
    return sightings_in(telemetry.devices, at=telemetry.taken_at.timestamp())


def sightings_in(devices: Iterable[Device], *, at: float) -> dict[str, list[Sighting]]:
    """An exporter tells the number of a MIG instance, not its UUID: which one its pod holds is not known, so
    holders of instances are left out. So are devices of which there is no data any more."""
    seen_at = at - at % GRAIN_SECONDS
    found: dict[str, list[Sighting]] = defaultdict(list)
    for device in devices:
        if device.silent_since is not None or device.is_cut or not (device.uuid and device.host):
            continue
        for unit in device.units:
            found[device.host] += [
                (one.namespace, one.pod, device.uuid, one.container, seen_at) for one in unit.workloads
            ]
    return dict(found)
