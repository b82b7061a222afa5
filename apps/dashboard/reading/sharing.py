"""How a node whose GPUs are shared in time is divided: slots, whose they are, and what is not told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apps.dashboard.drawings.sharing import draw_slots
from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.nodes import NodeView
from apps.dashboard.reading.words import plural
from apps.planner.inventory import Pod
from apps.planner.room import deals_by_device

MOST_DRAWN = 512
WORDS = {"time-slicing": "time-slicing", "mps": "MPS"}
COSTS = {
    "time-slicing": "Slots take turns on the whole GPU (5 to 15 % lost to switching). Memory is not divided: "
    "one pod can take it all.",
    "mps": "Slots run side by side; each is given its part of the memory and of the compute.",
}


@dataclass(frozen=True, slots=True)
class Shared:
    """The slots of one GPU; of all together (index None) where nobody tells which GPU a pod is on."""

    index: int | None
    picture: str
    used: int
    total: int


@dataclass(frozen=True, slots=True)
class Sharing:
    word: str
    shares: int
    used: int
    total: int
    rows: tuple[Shared, ...]
    cost: str
    is_told: bool


def read_sharing(view: NodeView, marks: Mapping[str, Mark]) -> Sharing | None:
    """None for a node whose GPUs are not shared in time; shares of cores and memory are told by device."""
    node = view.node
    if node.shares_per_gpu <= 1 or deals_by_device(node):
        return None
    users = [pod for pod in view.pods if not pod.hold and slots_of(view, pod)]
    total, used = node.shares_per_gpu * len(node.gpus), sum(slots_of(view, pod) for pod in users)
    rows = _by_gpu(view, users, marks)
    is_told = bool(rows)
    if not rows:
        taken = [marks.get(pod.uid) for pod in users for _ in range(slots_of(view, pod))]
        rows = (_draw(None, taken, total),)
    word = WORDS.get(node.sharing, node.sharing or "shared")
    return Sharing(word, node.shares_per_gpu, used, total, rows, COSTS.get(node.sharing, ""), is_told)


def slots_of(view: NodeView, pod: Pod) -> int:
    return pod.requests.get(view.node.gpu_resource, 0)


def _by_gpu(view: NodeView, users: list[Pod], marks: Mapping[str, Mark]) -> tuple[Shared, ...]:
    """A row per GPU, if some source tells for every slot which GPU it is on."""
    node = view.node
    place = {gpu.uuid: at for at, gpu in enumerate(node.gpus) if gpu.uuid}
    known = {pod.uid for pod in users}
    held: dict[int, list[str]] = {at: [] for at in range(len(node.gpus))}
    for holding in node.holdings or ():
        if holding.device in place and holding.pod_uid in known:
            held[place[holding.device]].append(holding.pod_uid)
    told = sum(map(len, held.values()))
    if node.holdings is None or told != sum(slots_of(view, pod) for pod in users):
        return ()
    return tuple(
        _draw(gpu.index, [marks.get(uid) for uid in held[at]], node.shares_per_gpu)
        for at, gpu in enumerate(node.gpus)
    )


def _draw(index: int | None, taken: list[Mark | None], total: int) -> Shared:
    where = "All GPUs" if index is None else f"GPU {index}"
    names = sorted({mark.name for mark in taken if mark is not None})
    label = f"{where}: {len(taken)} of {plural(total, 'slot')} in use"
    label += f", by {', '.join(names)}" if names else ""
    return Shared(index, draw_slots(taken[:MOST_DRAWN], min(total, MOST_DRAWN), label), len(taken), total)
