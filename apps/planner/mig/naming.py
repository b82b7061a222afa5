"""A configuration of mig-parted for a layout that has no name yet: made by the plan, named by its own digest.

The same layout on the same model has the same name, so nodes share it and it is never written twice. Not in
here: writing it into the cluster (executions).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from apps.planner.inventory import Node
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.devices import ids_of_model
from apps.planner.mig.named import present_layouts, told_to_add, wanted_layouts, write_entries
from apps.planner.plan import NamedLayout, Reconfiguration

PREFIX = "gpu-defrag-"
"""Of names that the console made."""
DIGITS = 10


def name_layout(node: Node, cuts: list[Reconfiguration]) -> NamedLayout:
    """The configuration that cuts these GPUs and leaves the node's others as they are. For cards of the
    model only: given to another node by mistake it does nothing there."""
    model = MODELS[cuts[0].model]
    wanted = wanted_layouts(node, cuts)
    told = told_to_add(present_layouts(node), wanted)
    entries = write_entries(told, is_all=len(told) == len(wanted), filters=ids_of_model(model))
    name = PREFIX + hashlib.sha256(entries.encode()).hexdigest()[:DIGITS]
    return NamedLayout(name, f"{name}: {entries}", (node.name,))


def merge_layouts(found: Iterable[NamedLayout]) -> tuple[NamedLayout, ...]:
    """One for each name, with all of its nodes."""
    merged: dict[str, NamedLayout] = {}
    for one in found:
        known = merged.get(one.name)
        merged[one.name] = replace(known, nodes=(*known.nodes, *one.nodes)) if known else one
    return tuple(merged[name] for name in sorted(merged))
