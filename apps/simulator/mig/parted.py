"""What mig-parted does: reads named configurations, compares them with the GPUs, cuts the GPUs.

Works on a layout in memory, entry by entry in the order of the text, as the real tool does. Not here:
the label that names a configuration and all that stands around it (controllers/gpu_operator).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import yaml

from apps.planner.mig.models import MigModel
from apps.planner.mig.placing import place_counts
from apps.simulator.mig.layout import Instance, make_instance
from apps.simulator.mig.offers import mig_model
from apps.simulator.mig.setup import Setup

Json = dict[str, Any]
Cuts = dict[int, tuple[Instance, ...]]


class PartedError(Exception):
    """The tool ended with an error; the message is what it would have logged."""


class Stopped(PartedError):
    """cuts: the GPUs as they were left."""

    def __init__(self, message: str, cuts: Cuts) -> None:
        super().__init__(message)
        self.cuts = cuts


@dataclass(frozen=True, slots=True)
class Entry:
    """filters: PCI ids, () for every GPU. devices: indexes, None for all."""

    filters: tuple[str, ...]
    devices: tuple[int, ...] | None
    enabled: bool
    counts: dict[str, int]

    def covers(self, pci_id: str, index: int) -> bool:
        is_model = not self.filters or pci_id.lower() in self.filters
        return is_model and (self.devices is None or index in self.devices)


def read_config(text: str, name: str) -> tuple[Entry, ...]:
    """Raises PartedError when the text has no such configuration."""
    try:
        configs = yaml.safe_load(text)["mig-configs"]
        entries = configs[name]
        return tuple(_read_entry(each) for each in entries)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise PartedError(f"error selecting MIG config {name!r}: {error!r}") from None


def _read_entry(entry: Json) -> Entry:
    told = entry.get("device-filter") or ()
    filters = (told,) if isinstance(told, str) else tuple(told)
    devices = None if entry["devices"] == "all" else tuple(int(each) for each in entry["devices"])
    counts = {str(profile): int(number) for profile, number in (entry.get("mig-devices") or {}).items()}
    return Entry(tuple(each.lower() for each in filters), devices, bool(entry["mig-enabled"]), counts)


def cut_from_scratch(setup: Setup, config: tuple[Entry, ...]) -> Cuts:
    """The layout of idle GPUs to which a configuration was applied."""
    switched = replace(setup, layout=change_modes(setup, config, frozenset()))
    return cut_gpus(switched, config, frozenset())


def is_applied(setup: Setup, config: tuple[Entry, ...]) -> bool:
    """Every GPU is covered by an entry and cut as the last such entry says."""
    matched = dict.fromkeys(_present(setup), False)
    for index, entry in _walk(setup, config):
        cuts = setup.layout.get(index)
        if not entry.enabled:
            matched[index] = cuts is None
        else:
            matched[index] = cuts is not None and Counter(one.profile for one in cuts) == entry.counts
    return all(matched.values())


def needs_mode_change(setup: Setup, config: tuple[Entry, ...]) -> bool:
    matched = dict.fromkeys(_present(setup), False)
    for index, entry in _walk(setup, config):
        matched[index] = entry.enabled == (index in setup.layout)
    return not all(matched.values())


def change_modes(setup: Setup, config: tuple[Entry, ...], busy: frozenset[str]) -> Cuts:
    """Switches MIG on and off. If anything is to be switched, every covered GPU in MIG mode is cleared.

    busy: UUIDs of GPUs and instances that a process holds. Raises Stopped.
    """
    cuts: Cuts = dict(setup.layout)
    if not needs_mode_change(setup, config):
        return cuts
    is_pending = False
    for index, entry in _walk(setup, config):
        if index in cuts:
            _refuse_busy(cuts, index, busy, "error clearing existing MIG configurations")
            cuts[index] = ()
        if entry.enabled == (index in cuts):
            continue
        if setup.hardware.devices[index].uuid in busy:
            is_pending = True
        elif entry.enabled:
            cuts[index] = ()
        else:
            del cuts[index]
    if is_pending:
        # The driver leaves such a change pending; the reset of all GPUs that follows is refused.
        raise Stopped("error resetting all GPUs: In use by another client", cuts)
    return cuts


def cut_gpus(setup: Setup, config: tuple[Entry, ...], busy: frozenset[str]) -> Cuts:
    """Destroys and creates instances where the counts differ. Raises Stopped."""
    cuts: Cuts = dict(setup.layout)
    model = mig_model(setup.hardware.model)
    for index, entry in _walk(setup, config):
        if not entry.enabled and index not in cuts:
            continue
        if not entry.enabled:
            raise Stopped("MIG mode is currently enabled, but the configuration says disabled", cuts)
        if index not in cuts or model is None:
            raise Stopped("unable to apply MIG config with MIG mode disabled", cuts)
        if Counter(one.profile for one in cuts[index]) == entry.counts:
            continue
        _refuse_busy(cuts, index, busy, "error clearing MigConfig")
        cuts[index] = ()
        cuts[index] = _create(setup, model, index, entry, cuts)
    return cuts


def _create(setup: Setup, model: MigModel, index: int, entry: Entry, cuts: Cuts) -> tuple[Instance, ...]:
    placed = place_counts(model, entry.counts)
    if placed is None:
        raise Stopped(f"error attempting multiple config orderings: {entry.counts} on GPU {index}", cuts)
    return tuple(make_instance(setup.hardware.devices[index], cut.profile, cut.start) for cut in placed)


def _refuse_busy(cuts: Cuts, index: int, busy: frozenset[str], what: str) -> None:
    if any(one.uuid in busy for one in cuts[index]):
        raise Stopped(f"{what}: GPU {index}: In use by another client", cuts)


def _walk(setup: Setup, config: tuple[Entry, ...]) -> Iterator[tuple[int, Entry]]:
    for entry in config:
        for index in _present(setup):
            if entry.covers(setup.hardware.model.pci_id, index):
                yield index, entry


def _present(setup: Setup) -> list[int]:
    return [device.index for device in setup.hardware.devices if device.index not in setup.lost]
