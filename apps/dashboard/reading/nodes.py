"""One node as the pages show it: its state in a word, what is free, and how the free GPUs hang together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from apps.dashboard.reading.occupancy import Occupancy, asked_milli, occupy
from apps.dashboard.reading.times import duration, rough_duration, seconds_since
from apps.planner.inventory import LinkClass, Node, Pod
from apps.planner.ledger import ledger_of
from apps.planner.ledger_rows import NodeLedger
from apps.planner.resources import asks_gpu
from apps.planner.snapshot import Snapshot
from apps.planner.topology import BONDED, RANK, Codes, class_matrix, knows_links, largest_group, link_class

LINK_WORDS = {
    LinkClass.NVLINK: "NVLink",
    LinkClass.PCIE_SWITCH: "same PCIe switch",
    LinkClass.NUMA: "same NUMA node",
    LinkClass.NODE: "same node",
    LinkClass.UNKNOWN: "unknown link",
}


@dataclass(frozen=True, slots=True)
class State:
    """word: one of ready, cordoned, stale, not ready, drift. detail: the sentence for the panel."""

    word: str
    tone: str
    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class NodeView:
    """worth: free GPUs that become part of a whole free node for each pod moved, None when nothing is won.

    blocked: share (0 to 1) of the wanted shapes that cannot use a free GPU here, None when not
    measured. link: the class that `group` counts, None if unknown.
    """

    node: Node
    pods: tuple[Pod, ...]
    seats: Occupancy
    ledger: NodeLedger
    link: LinkClass | None
    group: int
    worth: float | None = None
    blocked: float | None = None

    @property
    def state(self) -> State:
        """Asked each time, because it tells ages."""
        return state_of(self.node)

    @property
    def is_schedulable(self) -> bool:
        return self.node.ready and not self.node.unschedulable and self.node.stale_since is None

    @property
    def free(self) -> int:
        return self.seats.free_count

    @property
    def used_milli(self) -> int:
        """Of the healthy and unhealthy devices together, what is held; an instance by its compute slices."""
        return self.ledger.allocated_milli

    @property
    def link_word(self) -> str:
        """The class that `group` counts, by the name that its codes have here; "" if unknown."""
        return "" if self.link is None else name_link(self.node, self.link)

    @property
    def is_whole(self) -> bool:
        """Every GPU of it is free."""
        return bool(self.seats.size) and self.free == self.seats.size


def view_node(
    snapshot: Snapshot, node: Node, worth: float | None = None, blocked: float | None = None
) -> NodeView:
    pods = snapshot.pods_on(node.name)
    ledger = ledger_of(node, pods)
    seats = occupy(node, pods, ledger)
    link = best_link(node)
    group = largest_group(node, seats.free, link) if link else 0
    return NodeView(node, pods, seats, ledger, link, group, worth, blocked)


def gpu_pods(view: NodeView) -> list[Pod]:
    """Pods that ask for or hold an accelerator, the largest first."""
    held = {uid for uid, _ in view.seats.unplaced}
    wanted = [
        pod for pod in view.pods if pod.uid in held or asks_gpu(pod) or view.seats.positions_of(pod.uid)
    ]
    return sorted(wanted, key=lambda pod: (-asked_milli(view.node, pod), pod.key))


def state_of(node: Node) -> State:
    if node.stale_since is not None and node.ready:
        seconds = seconds_since(node.stale_since) or 0
        age = duration(seconds)
        return State(
            "stale",
            "bad",
            f"stale {rough_duration(seconds)}",
            f"Its device plugin has not been alive for {age}: GPUs present, not schedulable; "
            "nothing is planned here until it reports again.",
        )
    if not node.ready:
        why = f" ({node.ready_reason})" if node.ready_reason else ""
        since = seconds_since(node.stale_since)
        why += f" for {duration(since)}" if since is not None else ""
        return State(
            "not ready",
            "bad",
            "not ready",
            f"Kubernetes says NotReady{why}: its GPUs cannot be used, and nothing is planned here.",
        )
    if node.unschedulable:
        return State("cordoned", "warn", "cordoned", _cordon_detail(node))
    if node.warnings:
        return State("drift", "warn", "warning", node.warnings[0])
    return State("ready", "ok", "ready")


def _cordon_detail(node: Node) -> str:
    if not node.cordon:
        return "Cordoned by somebody else: not schedulable, and the console will not remove the cordon."
    try:
        ours = json.loads(node.cordon)
    except ValueError:
        return "Cordoned, with a note of ours that cannot be read: a person should look at it."
    reason = ours.get("reason", "") if isinstance(ours, dict) else ""
    execution = ours.get("execution", "") if isinstance(ours, dict) else ""
    return f"Cordoned by the console for execution {execution}: {reason or 'no reason given'}."


def best_link(node: Node) -> LinkClass | None:
    """The closest class that any two GPUs of the node share; None when its links are not told."""
    if not knows_links(node) or node.topology is None:
        return None
    return _best_of(node.topology.links)


BONDS = {"NV": "NVLink", "MTL": "MTLink"}
"""By the beginning of a bonded code; any other code of that class is its own name."""


def name_link(node: Node, link: LinkClass) -> str:
    """The class in words, as the node's own codes call it: HCCS and XGMI are no NVLink."""
    if link is not LinkClass.NVLINK or node.topology is None:
        return LINK_WORDS[link]
    return _fast_word(node.topology.links)


@lru_cache(maxsize=1024)
def _fast_word(links: Codes) -> str:
    codes = Counter(
        code.strip().upper() for a, row in enumerate(links) for b, code in enumerate(row) if a != b
    )
    words: list[str] = []
    for code, _ in codes.most_common():
        if link_class(code) is LinkClass.NVLINK:
            bond = BONDED.match(code)
            word = BONDS.get(bond[1], bond[1]) if bond else code.removesuffix("_SW")
            words += [word] if word not in words else []
    return " or ".join(words) or LINK_WORDS[LinkClass.NVLINK]


@lru_cache(maxsize=1024)
def _best_of(links: Codes) -> LinkClass | None:
    found = {link_class(code) for a, row in enumerate(links) for b, code in enumerate(row) if a != b}
    found.discard(LinkClass.UNKNOWN)
    if not found:
        return LinkClass.NODE if len(links) == 1 else None
    return max(found, key=lambda kind: RANK[kind])


def group_sizes(view: NodeView) -> Mapping[int, int]:
    """For each free GPU: how many free GPUs, itself included, share its link domain."""
    if view.link is None or view.node.topology is None:
        return {}
    classes = class_matrix(view.node.topology)
    least = RANK[view.link]
    free = view.seats.free
    if view.group == len(free):
        return dict.fromkeys(free, view.group)
    return {
        a: 1
        + largest_group(view.node, [b for b in free if b != a and RANK[classes[a][b]] >= least], view.link)
        for a in free
    }


def links_note(node: Node) -> str:
    """ "NV12 all to all", "NV12 between some, PXB, SYS", "PCIe, no NVLink", "links not told"."""
    if not knows_links(node) or node.topology is None:
        return "links not told"
    return _note_of(node.topology.links)


@lru_cache(maxsize=1024)
def _note_of(links: Codes) -> str:
    codes = Counter(code for a, row in enumerate(links) for b, code in enumerate(row) if a != b)
    if not codes:
        return "one GPU a node"
    if len(codes) == 1:
        return f"{next(iter(codes))} all to all"
    if _best_of(links) is LinkClass.NVLINK:
        close = [code for code, _ in codes.most_common() if link_class(code) is LinkClass.NVLINK]
        return f"{close[0]} between some"
    return "PCIe, no NVLink"
