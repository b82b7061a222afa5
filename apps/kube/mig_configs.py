"""Reads mig-parted configurations: a file of its own, or inside the GPU operator's ConfigMap.

Gives what the text says, entry by entry, with what is wrong in its form. Not in here: whether a GPU
can be cut that way (the placement tables know).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from apps.kube.yaml_text import BadYaml, load_yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DEEPEST = 4
MOST_CONFIGS = 1000
MOST_ENTRIES = 100
MOST_DEVICES = 256
MOST_FILTERS = 64
MOST_INSTANCES = 64
LONGEST_NAME = 253


class BadMigConfig(Exception):
    """The text is no mig-parted configuration; the message says where and why."""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """devices: "all" or indexes, None if unreadable. filters: PCI device ids, () for every model.

    counts: instances by profile. starts: (start slice, profile) where the text gives positions.
    faults: what is wrong with the form, whatever the GPU.
    """

    devices: str | tuple[int, ...] | None
    filters: tuple[str, ...]
    enabled: bool
    counts: Mapping[str, int] = field(default_factory=dict)
    starts: tuple[tuple[int, str], ...] = ()
    faults: tuple[str, ...] = ()


def find_configs(text: str) -> dict[str, tuple[ConfigEntry, ...]] | None:
    """Every configuration by name; None if the text is YAML of another kind. Raises BadMigConfig."""
    try:
        holders = [held for document in load_yaml(text) for held in _holders(document, text)]
    except BadYaml as error:
        raise BadMigConfig(str(error)) from error
    if not holders:
        return None
    found: dict[str, tuple[ConfigEntry, ...]] = {}
    doubled_in = {source: _doubled_keys(source) for source in {source for _, source in holders}}
    for holder, source in holders:
        configs = holder["mig-configs"]
        if not isinstance(configs, dict) or len(configs) > MOST_CONFIGS:
            raise BadMigConfig(f"mig-configs must be a map of at most {MOST_CONFIGS} configurations")
        if holder.get("version", "v1") != "v1":
            raise BadMigConfig(f"version must be v1, not {str(holder.get('version'))[:20]!r}")
        doubled = doubled_in[source]
        for name, entries in configs.items():
            if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
                raise BadMigConfig(f"{str(name)[:60]!r} is no name for a configuration")
            read = _read_entries(name, entries)
            twice = doubled.get(name, "")
            found[name] = tuple(replace(one, faults=(*one.faults, twice)) for one in read) if twice else read
    return found


def _holders(document: object, text: str, depth: int = DEEPEST) -> Iterator[tuple[Mapping[str, Any], str]]:
    """(what holds the configurations, the text that it stands in)."""
    if not isinstance(document, dict):
        return
    if "mig-configs" in document:
        yield document, text
    elif isinstance(document.get("items"), list) and depth > 0:
        for one in document["items"]:
            yield from _holders(one, text, depth - 1)
    elif document.get("kind") == "ConfigMap" and isinstance(document.get("data"), dict):
        for inside in document["data"].values():
            if isinstance(inside, str) and "mig-configs" in inside:
                for inner in load_yaml(inside):
                    if isinstance(inner, dict) and "mig-configs" in inner:
                        yield inner, inside


def _doubled_keys(text: str) -> dict[str, str]:
    """By configuration: what stands in it twice. mig-parted refuses that; in YAML the later one would win."""
    found: dict[str, str] = {}
    try:
        roots = list(yaml.compose_all(text, Loader=LOADER))
    except (yaml.YAMLError, ValueError, RecursionError):
        return found  # JSON that is no YAML
    for root in roots:
        seen: set[str] = set()
        for name, entries in _pairs(root, "mig-configs"):
            if name in seen:
                found[name] = "its name stands twice in the file"
            seen.add(name)
            for entry in entries.value if isinstance(entries, yaml.SequenceNode) else ():
                profiles = [key for key, _ in _pairs(entry, "mig-devices")]
                if len(set(profiles)) < len(profiles):
                    found.setdefault(name, "mig-devices names a profile twice")
    return found


def _pairs(node: object, wanted: str) -> Iterator[tuple[str, Any]]:
    """What stands in the map under this key, with its keys as they are written."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value == wanted and isinstance(value, yaml.MappingNode):
            yield from ((str(inner.value), told) for inner, told in value.value)


def _read_entries(name: str, entries: object) -> tuple[ConfigEntry, ...]:
    if not isinstance(entries, list) or not 0 < len(entries) <= MOST_ENTRIES:
        raise BadMigConfig(f"{name[:60]} must be a list of entries")
    if not all(isinstance(entry, dict) for entry in entries):
        raise BadMigConfig(f"{name[:60]}: each entry must be a map with devices, mig-enabled, mig-devices")
    return tuple(_read_entry(entry) for entry in entries)


def _read_entry(entry: Mapping[str, Any]) -> ConfigEntry:
    faults: list[str] = []
    devices = _read_devices(entry.get("devices"), faults)
    filters = entry.get("device-filter")
    listed = [filters] if isinstance(filters, str) else filters if isinstance(filters, list) else []
    is_list = 0 < len(listed) <= MOST_FILTERS and all(isinstance(one, str) for one in listed)
    if filters is not None and not is_list:
        faults.append("device-filter must be a PCI id or a list of them")
    enabled = entry.get("mig-enabled")
    if not isinstance(enabled, bool):
        faults.append("mig-enabled must be true or false")
    counts, starts = _read_instances(entry.get("mig-devices") or {}, faults)
    if counts and enabled is False:
        faults.append("mig-devices are named although MIG is switched off")
    return ConfigEntry(
        devices=devices,
        filters=tuple(str(one)[:40] for one in listed[:MOST_FILTERS]),
        enabled=enabled is True,
        counts=counts,
        starts=starts,
        faults=tuple(faults),
    )


def _read_devices(value: object, faults: list[str]) -> str | tuple[int, ...] | None:
    if value == "all":
        return "all"
    if isinstance(value, list) and len(value) <= MOST_DEVICES and all(_is_index(one) for one in value):
        if len(set(value)) != len(value):
            faults.append("devices names a GPU twice")
        return tuple(value)
    faults.append(f"devices must be all or a list of GPU indexes, not {str(value)[:40]}")
    return None


def _read_instances(value: object, faults: list[str]) -> tuple[dict[str, int], tuple[tuple[int, str], ...]]:
    """A map profile -> number, profile -> start slices, start slice -> profile, or a list of either."""
    counts: dict[str, int] = {}
    starts: list[tuple[int, str]] = []
    total = 0
    for profile, number, places in _instance_parts(value):
        total += number
        if not profile or number < 1 or total > MOST_INSTANCES:
            faults.append(f"mig-devices cannot be read at {str(profile)[:40]!r}: name a profile and a number")
            break
        counts[profile] = counts.get(profile, 0) + number
        starts += [(place, profile) for place in places]
    return counts, tuple(sorted(starts))


def _instance_parts(value: object) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    if isinstance(value, list):
        for one in value[: MOST_INSTANCES + 1]:
            if isinstance(one, str):
                yield one[:60], 1, ()
            elif isinstance(one, dict) and isinstance(one.get("profile"), str):
                place = one.get("start")
                yield one["profile"][:60], 1, (place,) if isinstance(place, int) and _is_index(place) else ()
            else:
                yield from _map_parts(one)
    else:
        yield from _map_parts(value)


def _map_parts(value: object) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    if not isinstance(value, dict):
        yield str(value)[:40], 0, ()
        return
    for key, told in value.items():
        if _is_index(key) and isinstance(told, str):
            yield told[:60], 1, (key,)
        elif isinstance(key, str) and isinstance(told, list) and all(_is_index(one) for one in told):
            yield key[:60], len(told), tuple(told)
        elif isinstance(key, str) and _is_index(told):
            yield key[:60], told, ()
        else:
            yield str(key)[:60], 0, ()


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_DEVICES
