"""What of the reading before goes on in the next: devices that fell silent, and since when a layout is so.

A device of which there are no samples any more (its exporter is paused while MIG is changed) is not idle and
not gone: it is shown with "no data since". Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from apps.prometheus.readings import NO_DATA, Device, Unit, key_of
from apps.telemetry.packing import Packed

FORGOTTEN_SECONDS = 24 * 3600.0


def next_reading(
    before: Packed | None, devices: Iterable[Device], *, at: float, metrics: tuple[str, ...]
) -> Packed:
    found = {device_key(one): one for one in devices}
    old = {device_key(one): one for one in before.devices} if before is not None else {}
    since = before.since if before is not None else {}
    kept = dict(found)
    for key, device in old.items():
        if key in found:
            continue
        silent = device.silent_since or device.at or at
        if at - silent < FORGOTTEN_SECONDS:
            kept[key] = silenced(device, silent)
    if before is None:
        return Packed(tuple(kept.values()), dict.fromkeys(kept, 0.0), metrics)
    spans = {key: _since(key, device, old, since, at) for key, device in kept.items()}
    return Packed(tuple(kept.values()), spans, metrics)


def device_key(device: Device) -> str:
    return device.uuid or f"{device.host}|{device.name}"


def silenced(device: Device, silent_since: float) -> Device:
    """Nothing of it is measured now."""
    units = tuple(
        Unit(
            instance=unit.instance,
            profile=unit.profile,
            missing={name: NO_DATA for name in ("used_mib", "free_mib", "utilisation")},
            at=unit.at,
        )
        for unit in device.units
    )
    return replace(
        device,
        units=units,
        power_watts=None,
        temperature_c=None,
        xid=None,
        other={},
        missing={},
        silent_since=silent_since,
    )


def _since(
    key: str, device: Device, old: Mapping[str, Device], since: Mapping[str, float], at: float
) -> float:
    before = old.get(key)
    if before is None or before.silent_since is not None or layout_of(before) != layout_of(device):
        return at
    return since.get(key, at)


def layout_of(device: Device) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((unit.instance, unit.profile) for unit in device.units))


def unit_since(packed: Packed) -> dict[str, float]:
    """For units of a cut GPU only: a whole GPU's past is its own, however long it was silent."""
    return {
        key_of(device, unit): packed.since.get(device_key(device), 0.0)
        for device in packed.devices
        for unit in device.units
        if unit.instance
    }
