"""GPUs of a node cut anew by hypothesis: only legal layouts, only GPUs that nobody uses.

Not in here: other hypothetical changes, and how they are written (whatif_changes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from apps.planner.inventory import MigInstance, Node
from apps.planner.mig.catalogue import profile_resource
from apps.planner.mig.models import MigModel
from apps.planner.mig.named import resources_after
from apps.planner.mig.nodes import MIG_PREFIX, WHOLE_GPU, why_left_alone
from apps.planner.mig.placing import place_counts, why_unplaceable
from apps.planner.mig.use import GpuUse, Use, model_of, read_use
from apps.planner.plan import Reconfiguration
from apps.planner.snapshot import Snapshot

Counts = Mapping[str, int]


class BadChange(ValueError):
    """One sentence about a change that cannot be read or made: what, where, what to do."""


def cut_anew(snapshot: Snapshot, node: Node, index: int | None, counts: Counts) -> Snapshot:
    """The cluster with that GPU (None: every GPU of the node) cut to these instances by profile.

    Raises BadChange where the layout is not legal, the node is left alone, or somebody uses the GPU.
    """
    model = _model_to_cut(node)
    why = why_unplaceable(model, counts)
    if why:
        raise BadChange(f"{node.name}: no GPU can be cut so. {why}")
    chosen = [gpu.index for gpu in node.gpus if index in (None, gpu.index)]
    if not chosen:
        raise BadChange(f"{node.name} has no GPU {index}: it has {len(node.gpus)}, counted from 0.")
    seen = read_use(node, snapshot.pods_on(node.name))
    if not seen.has_layouts:
        raise BadChange(f"How the GPUs of {node.name} are cut now is not known, so neither is what is free.")
    for gpu in seen.gpus:
        if gpu.index in chosen:
            _refuse_in_use(snapshot, node, gpu)
    return replace(snapshot, nodes={**snapshot.nodes, node.name: _relaid(node, model, chosen, counts)})


def _model_to_cut(node: Node) -> MigModel:
    model, no_model = model_of(node)
    if model is None:
        raise BadChange(f"{node.name} cannot be cut by MIG: {no_model or 'its GPUs are of no known model.'}")
    why = why_left_alone(node)
    if why:
        raise BadChange(f"{node.name} is left as it is cut: {why}")
    return model


def _refuse_in_use(snapshot: Snapshot, node: Node, gpu: GpuUse) -> None:
    uses = [one.use for one in gpu.instances] or [gpu.use]
    if all(use is Use.FREE for use in uses):
        return
    uids = [*gpu.pod_uids, *(one.pod_uid for one in gpu.instances)]
    names = sorted({snapshot.pods[uid].key for uid in uids if uid in snapshot.pods})
    by = f"is used by {', '.join(names[:3])}" if names else "may be in use: nobody tells who holds it"
    raise BadChange(
        f"GPU {gpu.index} of {node.name} {by}, and only a drained GPU is cut anew: choose a free one, or "
        "make a plan of layouts, which moves who is there."
    )


def _relaid(node: Node, model: MigModel, chosen: Sequence[int], counts: Counts) -> Node:
    """The node with these GPUs cut so. Where the driver puts the instances is its own choice."""
    layout = place_counts(model, dict(counts)) or ()
    gpus = tuple(
        replace(
            gpu,
            instances=tuple(
                MigInstance(cut.profile, cut.start, f"{node.name}/{gpu.index}/{cut.start}") for cut in layout
            ),
        )
        if gpu.index in chosen
        else gpu
        for gpu in node.gpus
    )
    cuts = [
        Reconfiguration(
            order=0, node=node.name, gpu=gpu.key, index=gpu.index, reason="",
            before=Counter(one.profile for one in gpu.instances), after=dict(counts),
        )
        for gpu in node.gpus
        if gpu.index in chosen and gpu.healthy
    ]  # fmt: skip
    return replace(node, gpus=gpus, allocatable=_offers(node, cuts))


def _offers(node: Node, cuts: Sequence[Reconfiguration]) -> dict[str, int]:
    """resources_after takes a GPU off for each that is cut; one whose instances go comes back whole."""
    offers = resources_after(node, cuts)
    whole = offers.pop(WHOLE_GPU, 0) + sum(1 for cut in cuts if not cut.after)
    kept = {name: number for name, number in node.allocatable.items() if not name.startswith(MIG_PREFIX)}
    named = {profile_resource(name): number for name, number in offers.items()}
    return {**kept, WHOLE_GPU: whole, **named}
