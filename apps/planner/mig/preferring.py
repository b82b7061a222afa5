"""Among equal GPUs of a node, those that a named configuration of mig-parted cuts; else one is made.

Which of a node's idle GPUs is cut makes no difference to a plan, but a layout must have a name before it can
be applied. Not in here: which layouts a plan needs (planning).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from apps.planner.inventory import Gpu, Node
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.facts import idle_gpus
from apps.planner.mig.named import (
    Configs,
    Entry,
    Layouts,
    changed_gpus,
    find_named,
    present_layouts,
    told_layouts,
    wanted_layouts,
)
from apps.planner.mig.naming import merge_layouts, name_layout
from apps.planner.plan import NamedLayout, Plan, Reconfiguration
from apps.planner.snapshot import Snapshot

Idle = Callable[[], frozenset[tuple[str, int]]]
"""(node, index) of the GPUs that nobody uses; asked for where a cut has to lie on another GPU."""
Change = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]


def prefer_named(snapshot: Snapshot, plan: Plan, configs: Configs) -> Plan:
    """The same plan on other GPUs of the same nodes where only those have a name; where none has, with a
    configuration to be added. Nothing is known without configs: then the plan is given back as it is."""
    if not configs:
        return plan
    nodes: dict[str, list[Reconfiguration]] = {}
    for one in plan.reconfigurations:
        nodes.setdefault(one.node, []).append(one)
    made: list[NamedLayout] = []
    idle = cache(lambda: idle_gpus(snapshot))
    chosen: dict[int, Reconfiguration] = {}
    for name, cuts in nodes.items():
        found = _prefer(idle, snapshot.nodes[name], cuts, configs)
        if found is None:
            made.append(name_layout(snapshot.nodes[name], cuts))
        chosen |= {one.order: one for one in found or cuts}
    ordered = tuple(chosen[order] for order in sorted(chosen))
    layouts = merge_layouts(made)
    notes = [_tell_made(one) for one in layouts]
    return replace(plan, reconfigurations=ordered, relaxed=(*plan.relaxed, *notes), layouts=layouts)


def _prefer(
    idle: Idle, node: Node, cuts: Sequence[Reconfiguration], configs: Configs
) -> list[Reconfiguration] | None:
    """None where no name fits, whichever of the GPUs that are alike is cut."""
    model = MODELS[cuts[0].model]
    present = present_layouts(node)
    if find_named(configs, present, wanted_layouts(node, cuts), model):
        return list(cuts)
    if any(one.after_moves or one.whole_node for one in cuts):
        return None
    for _, entries in sorted(configs.items()):
        swapped = _swap(idle, node, cuts, entries, present)
        if swapped and find_named(configs, present, wanted_layouts(node, swapped), model):
            return swapped
    return None


def _swap(
    idle: Idle,
    node: Node,
    cuts: Sequence[Reconfiguration],
    entries: Sequence[Entry],
    present: Layouts,
) -> list[Reconfiguration] | None:
    """The cuts on the GPUs that these entries change, if they are the same cuts and nobody is there."""
    told = told_layouts(entries, present, MODELS[cuts[0].model])
    if told is None:
        return None
    wanted = {**present, **told}
    changed = sorted(changed_gpus(present, wanted))
    gpus = {gpu.index: gpu for gpu in node.gpus}
    if any((node.name, index) not in idle() for index in changed):
        return None
    if Counter(_change(present[index], wanted[index]) for index in changed) != Counter(
        _change(one.before, one.after) for one in cuts
    ):
        return None
    waiting = list(cuts)
    swapped = []
    for index in changed:
        change = _change(present[index], wanted[index])
        cut = next(one for one in waiting if _change(one.before, one.after) == change)
        waiting.remove(cut)
        swapped.append(_on(gpus[index], cut))
    return swapped


def _on(gpu: Gpu, cut: Reconfiguration) -> Reconfiguration:
    return replace(cut, index=gpu.index, gpu=gpu.uuid or str(gpu.index))


def _change(before: Mapping[str, int], after: Mapping[str, int]) -> Change:
    return tuple(sorted(before.items())), tuple(sorted(after.items()))


def _tell_made(one: NamedLayout) -> str:
    where = f"{', '.join(one.nodes[:3])}{f' and {len(one.nodes) - 3} more' if len(one.nodes) > 3 else ''}"
    return f"no named configuration cuts {where} so: {one.name} is added to mig-manager's ConfigMap first"
