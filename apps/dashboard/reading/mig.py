"""MIG in one cluster as its page shows it: strips per node, what is asked for, what is under way.

What follows from the picture alone is read once for everybody who looks (`look_at_mig`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.clusters.queries import answer_about
from apps.dashboard.drawings.mig import draw_gpu
from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.nodes import State, state_of
from apps.dashboard.reading.words import listing, plural
from apps.pending import queries as pending
from apps.planner.inventory import Node
from apps.planner.mig.changing import Change, Stage, read_change
from apps.planner.mig.demand import ProfileDemand, list_demand
from apps.planner.mig.use import GpuUse, InstanceUse, NodeUse, Use, is_capable, read_use, single_profile
from apps.planner.naming import shown_model
from apps.planner.rooms import is_open_node
from apps.planner.snapshot import Snapshot

MOST_FITS = 3
NOT_TOLD = {
    "layouts": "No node agent tells the layouts of this node, so only numbers are known: which GPU has which "
    "instance, and who holds it, is not. Cutting any of its GPUs anew needs the whole node drained.",
    "holders": "No source tells who holds which instance here: holder unknown on this node. Cutting any of "
    "its GPUs anew needs the whole node drained.",
    "starts": "The start slices are not known here: the instances are drawn side by side.",
}


STAGE_WORDS = {
    Stage.ASKED: "change asked for",
    Stage.PENDING: "change pending",
    Stage.REBOOTING: "rebooting",
    Stage.FAILED: "change failed",
    Stage.INVALID: "MIG-INVALID",
    Stage.WRONG: "success, but disagrees",
}


@dataclass(frozen=True, slots=True)
class MigNode:
    """One node that MIG can cut, with what is known about it."""

    use: NodeUse
    change: Change

    @property
    def node(self) -> Node:
        return self.use.node

    @property
    def state(self) -> State:
        """Asked each time, because it tells ages."""
        return state_of(self.node)

    @property
    def model(self) -> str:
        return shown_model(self.node.model)

    @property
    def stage_word(self) -> str:
        return STAGE_WORDS.get(self.change.stage, "")

    @property
    def stage_tone(self) -> str:
        return "info" if self.change.is_under_way else "bad"

    @property
    def is_used(self) -> bool:
        """Whether MIG is in use here at all: cut, offered, or being changed."""
        return bool(any(self.use.offered.values()) or any(gpu.is_cut for gpu in self.use.gpus))


@dataclass(frozen=True, slots=True)
class MigTotals:
    """Over all nodes that can be cut. nodes_untold: those of which only numbers are known. single,
    closed: instances that go by the name of whole GPUs (mig.strategy=single), and those on nodes that take
    no pods; neither are in the demand by profile."""

    nodes: int
    gpus: int
    cut: int
    instances: int
    in_use: int
    uncut: int
    nodes_untold: int
    single: int = 0
    closed: int = 0

    @property
    def idle(self) -> int:
        return max(0, self.instances - self.in_use)


@dataclass(frozen=True, slots=True)
class MigLook:
    nodes: tuple[MigNode, ...]
    demand: tuple[ProfileDemand, ...]
    totals: MigTotals
    models: Mapping[str, int]

    def node_named(self, name: str) -> MigNode | None:
        return next((one for one in self.nodes if one.node.name == name), None)


def look_at_mig(snapshot: Snapshot) -> MigLook:
    return answer_about(snapshot, "mig", lambda: _look(snapshot))


def _look(snapshot: Snapshot) -> MigLook:
    capable = (node for name, node in sorted(snapshot.nodes.items()) if is_capable(node))
    nodes = tuple(MigNode(read_use(node, snapshot.pods_on(node.name)), read_change(node)) for node in capable)
    models = Counter(one.use.model.name for one in nodes if one.use.model is not None)
    waiting = pending.waiting_workloads(snapshot)
    kept_out = {one.key for one in waiting if one.profiles and not one.nodes_that_fit}
    demand = list_demand(snapshot, [one.use for one in nodes], kept_out)
    return MigLook(nodes, demand, _count(nodes), dict(sorted(models.items())))


def _count(nodes: Sequence[MigNode]) -> MigTotals:
    gpus = [gpu for one in nodes for gpu in one.use.gpus]
    return MigTotals(
        nodes=len(nodes),
        gpus=len(gpus),
        cut=sum(gpu.is_cut for gpu in gpus),
        instances=sum(sum(one.use.offered.values()) for one in nodes),
        in_use=sum(sum(one.use.asked.values()) for one in nodes),
        uncut=sum(length for gpu in gpus for _, length in gpu.uncut),
        nodes_untold=sum(not one.use.has_layouts for one in nodes),
        single=sum(sum(one.use.offered.values()) for one in nodes if single_profile(one.node)),
        closed=sum(
            sum(one.use.offered.values())
            for one in nodes
            if not is_open_node(one.node) and not single_profile(one.node)
        ),
    )


@dataclass(frozen=True, slots=True)
class Strip:
    """One GPU, drawn. fits: what still fits beside what is cut, in words. lines: the picture in words."""

    index: int
    picture: str
    fits: str
    note: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """counts: by profile, (instances, in use); strips are empty where only counts are known."""

    mig: MigNode
    strips: tuple[Strip, ...]
    counts: tuple[tuple[str, int, int], ...]
    untold: str

    @property
    def is_quiet(self) -> bool:
        """Nothing is cut: one line says as much as eight strips."""
        return not self.counts and not any(gpu.is_cut for gpu in self.mig.use.gpus)


def draw_node(mig: MigNode, marks: Mapping[str, Mark], names: Mapping[str, str]) -> NodeRow:
    """names: of pods by uid, for the words beside the pictures."""
    use = mig.use
    strips = tuple(_strip(gpu, marks, names) for gpu in use.gpus) if use.has_layouts else ()
    profiles = sorted({*use.offered, *use.asked}, key=lambda name: (-use.offered.get(name, 0), name))
    counts = tuple(
        (name, use.offered.get(name, 0), use.asked.get(name, 0))
        for name in profiles
        if use.offered.get(name) or use.asked.get(name)
    )
    return NodeRow(mig, strips, counts, tell_untold(use))


def tell_untold(use: NodeUse) -> str:
    """What nobody tells about this node, "" if all is told."""
    if not use.has_layouts:
        return NOT_TOLD["layouts"]
    instances = [one for gpu in use.gpus for one in gpu.instances]
    if not use.has_holders and any(one.use is not Use.FREE for one in instances):
        return NOT_TOLD["holders"]
    return NOT_TOLD["starts"] if any(one.start is None for one in instances) else ""


def _strip(gpu: GpuUse, marks: Mapping[str, Mark], names: Mapping[str, str]) -> Strip:
    words = [_say(one, names) for one in gpu.instances] or [f"whole, not cut, {_say_use(gpu.use)}"]
    words += [f"{plural(length, 'memory slice')} uncut from {start}" for start, length in gpu.uncut]
    if not gpu.healthy:
        words.append("unhealthy")
    label = f"GPU {gpu.index}: {', '.join(words)}"
    note = "" if gpu.healthy else "unhealthy"
    return Strip(gpu.index, draw_gpu(gpu, marks, label), tell_fits(gpu), note, _list_instances(gpu, names))


def _list_instances(gpu: GpuUse, names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(profile and where it starts, who uses it) for every instance, and what is left uncut."""
    lines = [(_say_place(one), _say_who(one, names)) for one in gpu.instances]
    lines += [(f"uncut from {start}", plural(length, "memory slice")) for start, length in gpu.uncut]
    return tuple(lines)


def tell_fits(gpu: GpuUse) -> str:
    """ "fits 1 × 2g.10gb or 2 × 1g.5gb more", each profile alone; the largest first."""
    if not gpu.is_cut:
        return ""
    if gpu.more is None:
        return f"What still fits is not known: {gpu.trouble}"
    found = [f"{number} × {name}" for name, number in gpu.more.items() if number]
    if not found:
        return "nothing more fits"
    ordered = found[::-1]
    more = f" or {len(ordered) - MOST_FITS} more profiles" if len(ordered) > MOST_FITS else ""
    return f"still fits {' or '.join(ordered[:MOST_FITS])}{more}"


def _say(one: InstanceUse, names: Mapping[str, str]) -> str:
    return f"{_say_place(one)} {_say_who(one, names)}"


def _say_place(one: InstanceUse) -> str:
    return one.profile if one.start is None else f"{one.profile} at {one.start}"


def _say_who(one: InstanceUse, names: Mapping[str, str]) -> str:
    if one.pod_uid:
        return names.get(one.pod_uid, "unknown pod")
    return _say_use(one.use)


def _say_use(use: Use) -> str:
    return {Use.HELD: "in use, by whom is not told", Use.FREE: "free", Use.UNKNOWN: "holder unknown"}[use]


def tell_demand(look: MigLook) -> str:
    """The one sentence on top: what waits, what is free, what that means."""
    asked = [one for one in look.demand if one.wanted]
    if not asked:
        idle = look.totals.idle
        verb = "is" if idle == 1 else "are"
        return f"Nothing waits for MIG instances; {plural(idle, 'instance')} {verb} free."
    missing = [one for one in asked if one.missing]
    pods = sum(one.pods for one in asked)
    head = f"{plural(pods, 'pod')} {'waits' if pods == 1 else 'wait'} for MIG instances."
    if not missing:
        return f"{head} As many as they ask for are idle: they wait for the scheduler, or for another rule."
    short = listing([f"{one.missing} × {one.profile}" for one in missing])
    total = sum(one.missing for one in missing)
    room = listing([f"{min(one.more, one.missing)} × {one.profile}" for one in missing if one.more])
    tail = f" Uncut memory slices have room for {room}." if room else " Nothing uncut has room for them."
    others = [one.profile for one in missing if one.idle and one.kept_out]
    if others:
        tail += f" The {listing(others)} that are free stand on nodes that these pods may not use."
    return f"{head} {short} {'is' if total == 1 else 'are'} missing.{tail}"
