"""Named configurations of mig-parted: which of them cuts a node exactly as wanted; else, what to add.

A node's layout is set by one name on one label, so a name stands for all GPUs of the node at once.
Not in here: reading a configuration's text (kube), choosing a layout (choosing).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
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


def find_named(
    configs: Configs, present: Layouts, wanted: Layouts, model: MigModel
) -> tuple[str, frozenset[int]] | None:
    """The configuration that leaves the node exactly as wanted, and the GPUs whose instances go by it.

    It must name every GPU that changes; of the others it may be silent (then they stay as they are). Where
    several fit: the one that touches the fewest GPUs, names the most, and the first by name.
    """
    changed = changed_gpus(present, wanted)
    fitting = []
    for name, entries in configs.items():
        told = _read(entries, wanted, model)
        if told is not None and changed <= told:
            touched = _touched(told, present, wanted)
            fitting.append((len(touched), -len(told), name, touched))
    return min(fitting)[2:] if fitting else None


def changed_gpus(present: Layouts, wanted: Layouts) -> frozenset[int]:
    return frozenset(index for index in wanted if dict(present.get(index, {})) != dict(wanted[index]))


def _touched(told: set[int], present: Layouts, wanted: Layouts) -> frozenset[int]:
    """mig-parted clears every GPU in MIG mode that it is told of, once any of the node's has to be switched
    into or out of MIG mode, or is not told of at all; else only those that are to be cut otherwise."""
    cut = {index for index in told if present.get(index)}
    changed = changed_gpus(present, wanted)
    is_switched = any(bool(present.get(index)) != bool(wanted[index]) for index in changed)
    return changed | cut if is_switched or len(told) < len(wanted) else changed


def entry_to_add(present: Layouts, wanted: Layouts, taken: Iterable[str]) -> str:
    """The line of YAML to add under `mig-configs` where no configuration fits."""
    told = told_to_add(present, wanted)
    name = _untaken(name_layouts(told), set(taken))
    return f"{name}: {write_entries(told, is_all=len(told) == len(wanted))}"


def told_to_add(present: Layouts, wanted: Layouts) -> Layouts:
    """What a configuration of its own says of a node's GPUs. It is silent about GPUs in MIG mode that would
    be cleared for nothing."""
    changed = changed_gpus(present, wanted)
    if _touched(set(wanted), present, wanted) == changed:
        return wanted
    return {index: counts for index, counts in wanted.items() if index in changed or not counts}


def _untaken(name: str, taken: Collection[str]) -> str:
    """The name, numbered if it is taken: long names are cut off, so several layouts may have one."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name[:59].rstrip('-.')}-{number}"
    return found


def _read(entries: Sequence[Entry], wanted: Layouts, model: MigModel) -> set[int] | None:
    """The GPUs that the entries name, each of them cut as wanted; None if one would be cut otherwise."""
    told = told_layouts(entries, wanted, model)
    if told is None or any(dict(told[index]) != dict(wanted[index]) for index in told):
        return None
    return set(told)


def told_layouts(entries: Sequence[Entry], indexes: Iterable[int], model: MigModel) -> Layouts | None:
    """How the entries cut the GPUs that they name, of these; None where that is not certain."""
    present = set(indexes)
    told: dict[int, Mapping[str, int]] = {}
    for entry in entries:
        speaks = _speaks_of(entry, model)
        if speaks is None or entry.faults or entry.devices is None:
            return None
        if not speaks:
            continue
        named = present if isinstance(entry.devices, str) else set(entry.devices) & present
        if named & set(told) or entry.enabled != bool(entry.counts):
            return None  # two entries for one GPU, or MIG mode without an instance
        told |= dict.fromkeys(named, entry.counts)
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


def present_layouts(node: Node) -> Layouts:
    """How every GPU of the node is cut now, as far as anybody tells."""
    return {gpu.index: dict(Counter(one.profile for one in gpu.instances)) for gpu in node.gpus}


def wanted_layouts(node: Node, cuts: Iterable[Reconfiguration]) -> Layouts:
    """How every GPU of the node is cut once these are done: the others as they are now."""
    return {**present_layouts(node), **{cut.index: dict(cut.after) for cut in cuts}}


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
        ("gpu" + "-".join(map(str, indexes)) if len(groups) > 1 else "gpus") + "-" + _short(dict(counts))
        for counts, indexes in groups
        if counts
    ]
    return ("-".join(words) or "all-disabled")[:63].strip("-.")


def write_entries(layouts: Layouts, *, is_all: bool, filters: Collection[str] = ()) -> str:
    """In flow style, so that it is one line. filters: PCI ids of the cards that are meant, () for all."""
    listed = ", ".join(f'"{one}"' for one in sorted(filters))
    meant = f"device-filter: [{listed}], " if listed else ""
    parts = []
    for counts, indexes in _group(layouts):
        devices = "all" if is_all and len(indexes) == len(layouts) else f"[{', '.join(map(str, indexes))}]"
        devices_part = f"devices: {devices}, mig-enabled: {'true' if counts else 'false'}"
        numbers = ", ".join(f'"{profile}": {number}' for profile, number in counts)
        parts.append("{" + meant + devices_part + (f", mig-devices: {{{numbers}}}" if counts else "") + "}")
    return f"[{', '.join(parts)}]"


def _group(layouts: Layouts) -> list[tuple[tuple[tuple[str, int], ...], list[int]]]:
    """GPUs cut alike, by their first index."""
    groups: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for index in sorted(layouts):
        groups.setdefault(tuple(sorted(layouts[index].items())), []).append(index)
    return list(groups.items())


def _short(counts: Mapping[str, int]) -> str:
    return "-".join(f"{number}x{profile}" for profile, number in sorted(counts.items())).replace("+", ".")
