"""Named configurations of mig-parted: which of them cuts a node exactly as wanted; else, what to add.

A node's layout is set by one name on one label, so a name stands for all GPUs of the node at once.
Not in here: reading a configuration's text (kube), choosing a layout (choosing).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from apps.planner.inventory import Node
from apps.planner.mig.devices import ids_of_model, model_of_device
from apps.planner.mig.models import MigModel
from apps.planner.mig.nodes import WHOLE_GPU, offered_profiles
from apps.planner.plan import Reconfiguration

Layouts = Mapping[int, Mapping[str, int]]
"""By GPU index: instances by profile; empty is a whole GPU, MIG switched off."""


class Entry(Protocol):
    """One entry of a named configuration. devices: "all" or indexes; None if unreadable.
    filters: PCI device ids, () for every model. faults: what is wrong with its form."""

    @property
    def devices(self) -> str | tuple[int, ...] | None: ...
    @property
    def filters(self) -> tuple[str, ...]: ...
    @property
    def enabled(self) -> bool: ...
    @property
    def counts(self) -> Mapping[str, int]: ...
    @property
    def faults(self) -> tuple[str, ...]: ...


Configs = Mapping[str, Sequence[Entry]]


def find_named(configs: Configs, wanted: Layouts, model: MigModel, *, relaid: frozenset[int]) -> str:
    """The configuration that leaves the node exactly as wanted, "" if there is none.

    relaid: GPUs that it must name; of the others it may be silent (then they stay as they are). Where
    several fit, one that names every GPU, then the first by name.
    """
    fitting = []
    for name, entries in configs.items():
        told = _read(entries, wanted, model)
        if told is not None and relaid <= told:
            fitting.append((len(wanted) - len(told), name))
    return min(fitting)[1] if fitting else ""


def _read(entries: Sequence[Entry], wanted: Layouts, model: MigModel) -> set[int] | None:
    """The GPUs that the entries name, each of them cut as wanted; None if one would be cut otherwise."""
    told: set[int] = set()
    for entry in entries:
        speaks = _speaks_of(entry, model)
        if speaks is None or entry.faults or entry.devices is None:
            return None
        if not speaks:
            continue
        named = set(wanted) if isinstance(entry.devices, str) else set(entry.devices) & set(wanted)
        if named & told:
            return None  # two entries for one GPU: which of them counts is not ours to guess
        told |= named
        for index in named:
            if entry.enabled != bool(wanted[index]) or dict(entry.counts) != dict(wanted[index]):
                return None
    return told


def _speaks_of(entry: Entry, model: MigModel) -> bool | None:
    """Whether its device-filter chooses GPUs of this model; None where only some of the model's cards
    are named: which of them the node has is not known."""
    if not entry.filters:
        return True
    named = {one.strip().upper() for one in entry.filters if model_of_device(one) is model}
    if not named:
        return False
    return True if named >= ids_of_model(model) else None


def wanted_layouts(node: Node, cuts: Iterable[Reconfiguration]) -> Layouts:
    """How every GPU of the node is cut once these are done: the others as they are now."""
    layouts: dict[int, dict[str, int]] = {}
    for gpu in node.gpus:
        layouts[gpu.index] = {}
        for one in gpu.instances:
            layouts[gpu.index][one.profile] = layouts[gpu.index].get(one.profile, 0) + 1
    for cut in cuts:
        layouts[cut.index] = dict(cut.after)
    return layouts


def resources_after(node: Node, cuts: Iterable[Reconfiguration]) -> dict[str, int]:
    """What the kubelet is to offer of whole GPUs and of MIG instances, by profile and WHOLE_GPU."""
    offers = {**offered_profiles(node), WHOLE_GPU: node.allocatable.get(WHOLE_GPU, 0)}
    is_known = any(gpu.instances for gpu in node.gpus)
    if not is_known:
        offers = {WHOLE_GPU: offers[WHOLE_GPU]}
    for cut in cuts:
        if not cut.before:
            offers[WHOLE_GPU] = max(offers[WHOLE_GPU] - 1, 0)
        for profile, number in cut.before.items():
            offers[profile] = offers.get(profile, 0) - number
        for profile, number in cut.after.items():
            offers[profile] = offers.get(profile, 0) + number
    return {name: number for name, number in sorted(offers.items()) if number > 0 or name == WHOLE_GPU}


def name_layouts(layouts: Layouts) -> str:
    """A name for the configuration of a node that has these layouts."""
    groups = _group(layouts)
    words = [
        ("gpu" + "-".join(map(str, indexes)) if len(groups) > 1 else "all") + "-" + _short(dict(counts))
        for counts, indexes in groups
        if counts
    ]
    return ("-".join(words) or "all-disabled")[:63].strip("-.")


def write_entry(layouts: Layouts, name: str) -> str:
    """The entry to add under `mig-configs`, as one line of YAML (flow style)."""
    parts = []
    for counts, indexes in _group(layouts):
        devices = "all" if len(indexes) == len(layouts) else f"[{', '.join(map(str, indexes))}]"
        devices_part = f"devices: {devices}, mig-enabled: {'true' if counts else 'false'}"
        numbers = ", ".join(f'"{profile}": {number}' for profile, number in counts)
        parts.append("{" + devices_part + (f", mig-devices: {{{numbers}}}" if counts else "") + "}")
    return f"{name}: [{', '.join(parts)}]"


def _group(layouts: Layouts) -> list[tuple[tuple[tuple[str, int], ...], list[int]]]:
    """GPUs cut alike, by their first index."""
    groups: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for index in sorted(layouts):
        groups.setdefault(tuple(sorted(layouts[index].items())), []).append(index)
    return list(groups.items())


def _short(counts: Mapping[str, int]) -> str:
    return "-".join(f"{number}x{profile}" for profile, number in sorted(counts.items())).replace("+", ".")
