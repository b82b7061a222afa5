"""Reads a file about MIG (mig-parted, nvidia-smi, a node in YAML) and holds it against the tables.

The answer is the one that `read_mig` gives. Nothing here touches the database or a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apps.clusters.dumps import read_dump_texts
from apps.clusters.errors import BadDump
from apps.clusters.mig_listing_answer import Question, answer_listing
from apps.clusters.mig_listing_checks import COMPUTE_PREFIX
from apps.clusters.mig_node_answer import answer_node
from apps.kube.mig_configs import BadMigConfig, ConfigEntry, find_configs
from apps.kube.mig_listings import read_listing
from apps.planner.mig.catalogue import MODELS, resource_profile, warn_about
from apps.planner.mig.devices import model_of_device
from apps.planner.mig.layouts import Cut, why_illegal
from apps.planner.mig.models import MigModel
from apps.planner.mig.placing import why_unplaceable

EVERY = ""
VERSION_KEY = re.compile(r"[\"']?\bversion\b\\?[\"']?\s*:")
CONFIG_KEY = re.compile(r"^[ \t]*\"?mig-configs\"?\s*:", re.MULTILINE)


def read_mig_text(name: str, text: str, asked: Question | None = None) -> dict[str, Any]:
    """asked: hold it against this model only, and what is to be reached. Raises BadDump."""
    asked = asked or Question()
    if not CONFIG_KEY.search(text) and any(word in text for word in ("nvidia-smi", "GPU", "MIG")):
        listing = read_listing(text)
        if not listing.is_empty():
            return answer_listing(listing, asked)
        if listing.said and "kind:" not in text:
            raise BadDump(f"{name}: nvidia-smi lists nothing there, it said: {listing.said[0]}.")
    try:
        configs = find_configs(text)
    except BadMigConfig as error:
        if "kind: Node" not in text and '"Node"' not in text:
            raise BadDump(f"{name}: {error}.") from error
        configs = None
    if configs is not None:
        answer = _answer_configs(configs, asked.model)
        if not VERSION_KEY.search(text):
            answer["warnings"].append("no version is in it: mig-parted refuses a file without version: v1")
        return answer
    try:
        nodes = read_dump_texts([(name, text)]).nodes
    except BadDump as error:
        raise BadDump(
            f"{name}: neither a mig-parted configuration, nor a listing of nvidia-smi, nor a node."
        ) from error
    answers = [answer_node(nodes[one]) for one in sorted(nodes)]
    return {"kind": "nodes", "nodes": answers, **(answers[0] if len(answers) == 1 else {})}


def _answer_configs(configs: Mapping[str, tuple[ConfigEntry, ...]], model: MigModel | None) -> dict[str, Any]:
    reasons = {name: why_invalid(entries, model) for name, entries in configs.items()}
    profiles = sorted({one for entries in configs.values() for entry in entries for one in entry.counts})
    return {
        "kind": "mig-parted",
        "configs": list(configs),
        "n_configs": len(configs),
        "profiles": profiles,
        "filtered_configs": sorted(
            name for name, entries in configs.items() if any(entry.filters for entry in entries)
        ),
        "n_multi": sum(1 for entries in configs.values() if len(entries) > 1),
        "detail": {name: [_answer_entry(entry) for entry in entries] for name, entries in configs.items()},
        "valid": {name: not reason for name, reason in reasons.items()},
        "why": {name: reason for name, reason in reasons.items() if reason},
        "warnings": [*_uncertain(profiles, model), *_risky(configs)],
    }


def _answer_entry(entry: ConfigEntry) -> dict[str, Any]:
    devices = list(entry.devices) if isinstance(entry.devices, tuple) else entry.devices
    filters = entry.filters[0] if len(entry.filters) == 1 else list(entry.filters) or None
    answer: dict[str, Any] = {"devices": devices, "filter": filters, "inst": dict(entry.counts)}
    if entry.starts:
        answer["starts"] = [{"start": start, "profile": profile} for start, profile in entry.starts]
    return {**answer, "mig": entry.enabled}


def why_invalid(entries: Sequence[ConfigEntry], model: MigModel | None) -> str:
    """One sentence why no GPU could be cut by this configuration; "" if some could.

    Entries with a device-filter are held against the models that it names.
    """
    for entry in entries:
        if entry.faults:
            return f"{entry.faults[0]}."
    if _choose_twice(entries):
        return "Two entries choose the same GPU."
    return next(filter(None, (_why_uncuttable(entry, model) for entry in entries)), "")


def _choose_twice(entries: Sequence[ConfigEntry]) -> bool:
    """Whether two entries name one GPU of one model (bit n: GPU n; all bits: all GPUs). An entry without a
    filter speaks of every model."""
    chosen: dict[str, int] = {}
    for entry in entries:
        devices = entry.devices if isinstance(entry.devices, tuple) else ()
        bits = sum(1 << device for device in devices) if entry.devices != "all" else -1
        for pci_id in {one.strip().upper() for one in entry.filters} or {EVERY}:
            against = chosen if pci_id == EVERY else (pci_id, EVERY)
            if any(chosen.get(other, 0) & bits for other in against):
                return True
            chosen[pci_id] = chosen.get(pci_id, 0) | bits
    return False


def _why_uncuttable(entry: ConfigEntry, model: MigModel | None) -> str:
    if not entry.counts:
        return ""
    meant = {found for one in entry.filters if (found := model_of_device(one)) is not None}
    if entry.filters and not meant:
        return ""  # of GPUs that nobody here knows
    if model is not None and meant and model not in meant:
        return ""  # it speaks of other GPUs
    if model is not None:
        meant = {model}
    if meant:
        return next(
            filter(None, (_why_not_on(one, entry) for one in sorted(meant, key=lambda one: one.name))), ""
        )
    able = [one for one in MODELS.values() if set(entry.counts) <= set(one.by_name)]
    if not able:
        hints = "".join(_hint(name) for name in sorted(entry.counts))
        return f"No GPU model is known that has {', '.join(sorted(entry.counts))}.{hints}"
    reasons = [_why_not_on(one, entry) for one in able]
    return "" if "" in reasons else reasons[0]


def _hint(name: str) -> str:
    """What was probably meant, for a name that no table has; "" if nobody can tell."""
    if COMPUTE_PREFIX.fullmatch(name):
        return f" {name} names a compute instance: name the GPU instance that it lies in."
    meant = resource_profile(name.strip().lower().removeprefix("mig").lstrip(" -"))
    if meant != name and any(meant in model.by_name for model in MODELS.values()):
        return f" {name} is written {meant} here."
    return ""


def _why_not_on(model: MigModel, entry: ConfigEntry) -> str:
    if entry.starts and len(entry.starts) == sum(entry.counts.values()):
        return why_illegal(model, [Cut(start, profile) for start, profile in entry.starts])
    return why_unplaceable(model, entry.counts)


def _uncertain(profiles: Sequence[str], model: MigModel | None) -> list[str]:
    """Models whose tables are not certain and that alone have a profile that is named."""
    named = set(profiles)
    able = [model] if model else [one for one in MODELS.values() if named & set(one.by_name)]
    sure = {name for one in able if one.is_certain for name in one.by_name}
    return [
        warn_about(one) for one in able if not one.is_certain and (model or (named & set(one.by_name)) - sure)
    ]


def _risky(configs: Mapping[str, Sequence[ConfigEntry]]) -> Iterator[str]:
    """What mig-parted takes and people regret."""
    empty = [
        name for name, entries in configs.items() if any(one.enabled and not one.counts for one in entries)
    ]
    if empty:
        yield (
            f"{', '.join(empty)}: MIG is switched on without an instance; no pod can use such a GPU, and the "
            "device plugin or the operator's validator may fail on it."
        )
    strangers = sorted(
        {
            pci_id
            for entries in configs.values()
            for one in entries
            for pci_id in one.filters
            if one.counts and model_of_device(pci_id) is None
        }
    )
    if strangers:
        yield f"device-filter {', '.join(strangers)}: no GPU is known by that here, so nothing is checked."
