"""Hypothetical changes to a cluster: nodes added, removed or cordoned, GPUs cut anew. Each is one short text.

    add:3:a100-01            three more nodes like a100-01, or of a GPU model whose nodes are all alike
    remove:a100-02           the node is gone; what its owners recreate waits for another place
    cordon:a100-02           nothing new starts there
    quota:Kueue/team-a       the queue has no quota of its own any more; what is above it still bounds it
    layout:mig-01:0:3g.40gb=2       GPU 0 is cut so; "all" for every GPU, "whole" for no instances

They are tried one after the other on a snapshot that nobody ever plans or acts on. Not in here: what comes of
them (whatif_effect), which layouts are legal (whatif_layouts).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from apps.planner.inventory import Node, Pod
from apps.planner.mig.nodes import MIG_PREFIX
from apps.planner.naming import family_of, shown_model
from apps.planner.snapshot import Snapshot
from apps.planner.whatif_layouts import BadChange, cut_anew
from apps.planner.whatif_quotas import lift_quota

MOST_CHANGES = 20
MOST_ADDED = 1000
"""Nodes, of all changes together."""
MOST_LETTERS = 400
HOSTNAME = "kubernetes.io/hostname"
PASSING = "node.kubernetes.io/"
"""Taints by which Kubernetes says how a node is just now; a new one starts without them."""
FORMS = (
    "add:NUMBER:NODE or GPU model, remove:NODE, cordon:NODE, layout:NODE:GPU:PROFILE=NUMBER,... "
    "(GPU: its index or all; whole for no instances), quota:QUEUE"
)


@dataclass(frozen=True, slots=True)
class Change:
    """One change. text: as it is written. name: of the node (or model) that it is about. number: nodes that
    are added. gpu: index, None for all. counts: instances by profile."""

    text: str
    kind: str
    name: str
    number: int = 0
    gpu: int | None = None
    counts: tuple[tuple[str, int], ...] = ()

    @property
    def words(self) -> str:
        """ "3 nodes like a100-01 added"."""
        if self.kind == "add":
            return f"{self.number} {'node' if self.number == 1 else 'nodes'} like {self.name} added"
        if self.kind == "layout":
            cut = " + ".join(f"{number} × {name}" for name, number in self.counts) or "whole GPUs"
            what = "every GPU" if self.gpu is None else f"GPU {self.gpu}"
            return (
                f"{what} of {self.name} cut to {cut}" if self.counts else f"{what} of {self.name} left whole"
            )
        if self.kind == "quota":
            return f"queue {self.name} without its quota"
        return f"{self.name} {'removed' if self.kind == 'remove' else 'cordoned'}"


def read_changes(texts: Iterable[str]) -> tuple[Change, ...]:
    """Raises BadChange for the first that cannot be read."""
    told = [text.strip() for text in texts if text.strip()]
    if len(told) > MOST_CHANGES:
        raise BadChange(f"At most {MOST_CHANGES} changes can be tried at once, not {len(told)}.")
    return tuple(_read(text) for text in told)


def apply_changes(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    """The cluster as it would be. Raises BadChange where one cannot be made in it."""
    added = sum(one.number for one in changes if one.kind == "add")
    if added > MOST_ADDED:
        raise BadChange(f"At most {MOST_ADDED} nodes can be added, not {added}.")
    for change in changes:
        snapshot = _MAKERS[change.kind](snapshot, change)
    return snapshot


def added_nodes(before: Snapshot, after: Snapshot) -> frozenset[str]:
    """Names of nodes that only the changes made."""
    return frozenset(name for name in after.nodes if name not in before.nodes)


def _read(text: str) -> Change:
    kind, _, rest = text[: MOST_LETTERS + 1].partition(":")
    reader = _READERS.get(kind)
    if reader is None or len(text) > MOST_LETTERS or not rest:
        raise BadChange(f"{_brief(text)} is no change: write it as {FORMS}.")
    return reader(text, rest)


def _read_add(text: str, rest: str) -> Change:
    number, _, name = rest.partition(":")
    if not re.fullmatch(r"[0-9]{1,4}", number) or not 1 <= int(number) <= MOST_ADDED or not name:
        raise BadChange(f"{_brief(text)}: write add:NUMBER:NODE, with 1 to {MOST_ADDED} nodes to add.")
    return Change(text, "add", name, number=int(number))


def _read_node(text: str, rest: str) -> Change:
    return Change(text, text.partition(":")[0], rest)


def _read_layout(text: str, rest: str) -> Change:
    parts = rest.split(":")
    form = "write layout:NODE:GPU:PROFILE=NUMBER,... such as layout:mig-01:0:3g.40gb=2"
    if len(parts) != 3 or not re.fullmatch(r"all|[0-9]{1,3}", parts[1]):
        raise BadChange(f"{_brief(text)}: {form}; GPU is its index, or all.")
    name, gpu, told = parts
    counts: dict[str, int] = {}
    for one in [] if told == "whole" else told.split(","):
        found = re.fullmatch(r"([0-9]{1,2}g\.[0-9]{1,4}gb[-+.a-z]{0,12})=([0-9]{1,2})", one.strip())
        if not found:
            raise BadChange(f"{_brief(text)}: {form}; whole leaves the GPU without instances.")
        counts[found[1]] = counts.get(found[1], 0) + int(found[2])
    index = None if gpu == "all" else int(gpu)
    return Change(text, "layout", name, gpu=index, counts=tuple(sorted(counts.items())))


def _add(snapshot: Snapshot, change: Change) -> Snapshot:
    like = _node_like(snapshot, change.name)
    names = (f"{like.name}+{at}" for at in itertools.count(1))
    free = (name for name in names if name not in snapshot.nodes)
    made = [_copy(like, name) for name in itertools.islice(free, change.number)]
    return replace(snapshot, nodes={**snapshot.nodes, **{node.name: node for node in made}})


def _node_like(snapshot: Snapshot, name: str) -> Node:
    """That node, or the first of a GPU model's nodes where they are all alike."""
    if name in snapshot.nodes:
        return snapshot.nodes[name]
    asked = name.lower()
    kinds: dict[object, Node] = {}
    for key in sorted(snapshot.nodes):
        node = snapshot.nodes[key]
        names = (node.model, shown_model(node.model), family_of(node.model))
        if node.model and asked in [one.lower() for one in names]:
            kinds.setdefault(_kind(node), node)
    if not kinds:
        raise BadChange(f"There is no node and no GPU model {_brief(name)} here: name one of its nodes.")
    if len(kinds) > 1:
        some = ", ".join(node.name for node in list(kinds.values())[:3])
        raise BadChange(
            f"Nodes with {_brief(name)} are of {len(kinds)} kinds: name the node to copy, such as {some}."
        )
    return next(iter(kinds.values()))


def _kind(node: Node) -> object:
    """Equal for nodes that differ in nothing that a buyer would choose."""
    taints = tuple(one for one in node.taints if not one.key.startswith(PASSING))
    amounts = {name: number for name, number in node.capacity.items() if not name.startswith(MIG_PREFIX)}
    return (
        node.model,
        len(node.gpus),
        node.sharing,
        node.shares_per_gpu,
        repr(taints),
        repr(sorted(amounts.items())),
    )


def _copy(like: Node, name: str) -> Node:
    """A sound, empty node of the same make, cut as the other one is."""
    gpus = tuple(
        replace(
            gpu,
            uuid=f"{name}/{gpu.index}" if gpu.uuid else "",
            healthy=True,
            instances=tuple(
                replace(one, uuid=f"{name}/{gpu.index}/{at}" if one.uuid else "")
                for at, one in enumerate(gpu.instances)
            ),
        )
        for gpu in like.gpus
    )
    whole = like.capacity.get(like.gpu_resource, 0)
    sound = {like.gpu_resource: whole} if whole and not any(gpu.instances for gpu in gpus) else {}
    return replace(
        like,
        name=name,
        uid=name,
        resource_version="",
        hostname=name if like.hostname else "",
        labels={**like.labels, **({HOSTNAME: name} if HOSTNAME in like.labels else {})},
        taints=tuple(one for one in like.taints if not one.key.startswith(PASSING)),
        allocatable={**like.allocatable, **sound},
        gpus=gpus,
        holdings=() if like.holdings is not None else None,
        unschedulable=False,
        ready=True,
        ready_reason="",
        cordon="",
        stale_since=None,
        warnings=(),
        drift=(),
        kept=(),
        reboot="",
    )


def _remove(snapshot: Snapshot, change: Change) -> Snapshot:
    node = _named(snapshot, change)
    here = [pod for pod in snapshot.pods.values() if pod.node_name == node.name]
    again = {pod.uid: _anew(pod) for pod in here if _comes_again(pod)}
    gone = {pod.uid for pod in here} - set(again)
    pods = {uid: again.get(uid, pod) for uid, pod in snapshot.pods.items() if uid not in gone}
    nodes = {name: one for name, one in snapshot.nodes.items() if name != node.name}
    return replace(snapshot, nodes=nodes, pods=pods)


def _comes_again(pod: Pod) -> bool:
    """Whether its owner makes it anew, on another node."""
    is_tied = pod.owner_kind in ("DaemonSet", "Node") or pod.hold or pod.reservation
    return bool(pod.workload) and not is_tied and pod.is_holding and not pod.terminating


def _anew(pod: Pod) -> Pod:
    return replace(
        pod,
        node_name="",
        nominated_node="",
        phase="Pending",
        ready=False,
        started_at=None,
        devices=(),
        steering="",
    )


def _cordon(snapshot: Snapshot, change: Change) -> Snapshot:
    node = _named(snapshot, change)
    closed = replace(node, unschedulable=True, cordon="")
    return replace(snapshot, nodes={**snapshot.nodes, node.name: closed})


def _cut(snapshot: Snapshot, change: Change) -> Snapshot:
    return cut_anew(snapshot, _named(snapshot, change), change.gpu, dict(change.counts))


def _lift_quota(snapshot: Snapshot, change: Change) -> Snapshot:
    if change.name not in snapshot.queues:
        known = ", ".join(sorted(snapshot.queues)[:3])
        there = f"there are {known}" if known else "no queue with quota is known here"
        raise BadChange(f"{_brief(change.text)}: there is no queue {_brief(change.name)}; {there}.")
    return lift_quota(snapshot, snapshot.queues[change.name])


def _named(snapshot: Snapshot, change: Change) -> Node:
    node = snapshot.nodes.get(change.name)
    if node is None:
        raise BadChange(f"{_brief(change.text)}: there is no node {_brief(change.name)} in this cluster.")
    return node


def _brief(text: str) -> str:
    return repr(text[:60])


_READERS: Mapping[str, Callable[[str, str], Change]] = {
    "add": _read_add,
    "remove": _read_node,
    "cordon": _read_node,
    "layout": _read_layout,
    "quota": _read_node,
}
_MAKERS: Mapping[str, Callable[[Snapshot, Change], Snapshot]] = {
    "add": _add,
    "remove": _remove,
    "cordon": _cordon,
    "layout": _cut,
    "quota": _lift_quota,
}
