"""What the page of one node says beside its drawings: facts, pods with movability, what fits now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apps.dashboard.reading.device_rows import unit_word
from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.nodes import NodeView, gpu_pods
from apps.dashboard.reading.occupancy import Occupancy, asked_milli
from apps.dashboard.reading.times import duration, seconds_since
from apps.dashboard.reading.words import amount, plural, spans
from apps.planner.gpu_wishes import request_of, tell_request
from apps.planner.inventory import Node, Pod
from apps.planner.movability import MovabilityRules
from apps.planner.naming import shown_model
from apps.planner.resources import asks_gpu, is_device_resource
from apps.planner.snapshot import Snapshot
from apps.planner.topology import best_group, knows_every_link, knows_links, largest_group

GIB = 2**30


@dataclass(frozen=True, slots=True)
class PodLine:
    """gpus: "GPU 0–3", or how many of unknown seats. verdict: Movable, Stays or Ignored."""

    pod: Pod
    mark: Mark | None
    gpus: str
    requests: str
    verdict: str
    tone: str
    symbol: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    what: str
    where: str


def list_pods(snapshot: Snapshot, view: NodeView, marks: Mapping[str, Mark]) -> list[PodLine]:
    """GPU pods first, then the rest; DaemonSet pods without GPUs are ignored by every plan."""
    rules = MovabilityRules(snapshot)
    guests = gpu_pods(view)
    rest = sorted((pod for pod in view.pods if pod not in guests), key=lambda pod: pod.key)
    return [_pod_line(view, pod, marks.get(pod.uid), rules) for pod in [*guests, *rest]]


def _pod_line(view: NodeView, pod: Pod, mark: Mark | None, rules: MovabilityRules) -> PodLine:
    verdict = rules.judge(pod)
    word, tone, symbol = ("Movable", "ok", "ok") if verdict.movable else ("Stays", "", "lock")
    if pod.owner_kind == "DaemonSet" and not asks_gpu(pod):
        word, tone, symbol = "Ignored", "", "ring"
    reasons = verdict.reasons or _terms(pod, rules)
    if word == "Ignored":
        reasons = reasons[:1]
    wish = tell_request(request_of(rules.snapshot, pod))
    asked = f"{_requests(pod)} · each GPU: {wish}" if wish else _requests(pod)
    return PodLine(pod, mark, _seats(view, pod), asked, word, tone, symbol, reasons)


def _terms(pod: Pod, rules: MovabilityRules) -> tuple[str, ...]:
    """What a movable pod may lose, and what its budget allows."""
    since = seconds_since(pod.checkpointed_at)
    checkpoint = f"checkpoint {duration(since)} ago" if since is not None else "no checkpoint known"
    budgets = rules.budgets_of(pod)
    budget = budgets[0] if budgets else None
    allowed = (
        f"budget {budget.name} allows {budget.disruptions_allowed}" if budget else "no disruption budget"
    )
    return (f"{allowed}, {checkpoint}",)


def _seats(view: NodeView, pod: Pod) -> str:
    places = view.seats.positions_of(pod.uid)
    if places:
        return f"GPU {spans(view.node.gpus[place].index for place in places)}"
    if beside := _seats_beside(view, pod):
        return beside
    if view.node.shares_per_gpu > 1 and (units := pod.requests.get(view.node.gpu_resource, 0)):
        return f"{plural(units, unit_word(view.ledger.main))}, unknown which"
    milli = dict(view.seats.unplaced).get(pod.uid) or asked_milli(view.node, pod)
    if milli:
        return f"{amount(milli)}, unknown which"
    if any(group.unlocated for group in view.ledger.others) and asks_gpu(pod):
        return "unknown which"
    return "1 MIG, unknown which" if asks_gpu(pod) else "none"


def _seats_beside(view: NodeView, pod: Pod) -> str:
    """Devices of another vendor or kind: "MLU370-X4 0"."""
    return ", ".join(
        f"{group.model or group.resource} {spans(row.index for row in held)}"
        for group in view.ledger.others
        if (held := [row for row in group.devices if any(one.pod_uid == pod.uid for one in row.takers)])
    )


def _requests(pod: Pod) -> str:
    words = []
    if pod.requests.get("cpu"):
        words.append(f"{amount(pod.requests['cpu'])} CPU")
    if pod.requests.get("memory"):
        words.append(f"{pod.requests['memory'] / GIB:,.1f} GiB".replace(".0 ", " "))
    words += [f"{count} × {name}" for name, count in sorted(pod.requests.items()) if is_device_resource(name)]
    return " · ".join(words) or "nothing"


def list_fits(view: NodeView) -> list[Fit]:
    """Which GPUs a pod of 1, 2, 4 or 8 would get now, by the closest link that the node has."""
    if not view.is_schedulable or view.link is None:
        return []
    fits = []
    for count in (2, 4, 8):
        if count > view.seats.size:
            continue
        what = f"{count} GPUs, {view.link_word}"
        everything = range(view.seats.size)
        group = best_group(view.node, view.seats.free, count, view.link)
        if group is not None:
            fits.append(Fit(what, spans(view.node.gpus[place].index for place in group)))
        elif largest_group(view.node, everything, view.link) < count:
            fits.append(Fit(what, "never here" if knows_every_link(view.node) else "not known"))
        else:
            fits.append(Fit(what, "not now"))
    loose = best_group(view.node, view.seats.free, 2, None)
    if loose is not None and best_group(view.node, view.seats.free, 2, view.link) is None:
        fits.append(Fit("2 GPUs, any link", spans(view.node.gpus[place].index for place in loose)))
    return fits


@dataclass(frozen=True, slots=True)
class Facts:
    state: str
    state_note: str
    gpus_note: str
    group: str
    group_note: str
    host: str
    host_note: str


def tell_facts(view: NodeView) -> Facts:
    node = view.node
    group, note = _group_fact(view)
    host, host_note = _host_fact(view)
    return Facts(
        state="Ready, with a warning" if view.state.word == "drift" else view.state.text.capitalize(),
        state_note=" · ".join(
            word for word in (shown_model(node.model), node.pool, node.rack, node.zone) if word
        )
        or "no pool told",
        gpus_note=_gpus_note(view),
        group=group,
        group_note=note,
        host=host,
        host_note=host_note,
    )


def _gpus_note(view: NodeView) -> str:
    seats = view.seats
    parts = [
        f"{len(seats.cut_by_mig)} cut by MIG" if seats.cut_by_mig else "",
        f"{seats.withheld} cut by MIG, not told which" if seats.withheld else "",
        f"{len(seats.bad)} unhealthy" if seats.bad else "",
        f"{len({place for bar in seats.bars for place in bar.positions})} held whole",
        f"{amount(_unplaced_milli(seats))} held, seats unknown" if seats.unplaced else "",
    ]
    return ", ".join(part for part in parts if part)


def _unplaced_milli(seats: Occupancy) -> int:
    return min(sum(milli for _, milli in seats.unplaced), 1000 * seats.size)


def _group_fact(view: NodeView) -> tuple[str, str]:
    if view.link is None:
        return "not known", "no topology metadata"
    if view.seats.unplaced and view.free:
        return "not known", "who holds which GPU is not told"
    group = best_group(view.node, view.seats.free, view.group, view.link) if view.group else None
    if not group:
        return "none", "nothing is free"
    indexes = spans(view.node.gpus[place].index for place in group)
    return str(view.group), f"GPU {indexes}, {view.link_word}"


def _host_fact(view: NodeView) -> tuple[str, str]:
    allocatable = view.node.allocatable
    if "cpu" not in allocatable:
        return "not known", "no allocatable CPU told"
    cpu = allocatable["cpu"] - sum(pod.requests.get("cpu", 0) for pod in view.pods)
    memory = allocatable.get("memory", 0) - sum(pod.requests.get("memory", 0) for pod in view.pods)
    word = f"{amount(max(cpu, 0))} CPU · {max(memory, 0) / GIB:,.0f} GiB"
    return (
        word,
        "overcommitted" if cpu < 0 or memory < 0 else f"of {amount(allocatable['cpu'])} CPU allocatable",
    )


def tell_resource(node: Node) -> str:
    """By what pods ask for its GPUs; a node whose GPUs only claims give out offers no resource."""
    if not node.gpu_resource:
        return "none"
    offers = any(count and is_device_resource(name) for name, count in node.capacity.items())
    return node.gpu_resource if offers else "by resource claims (DRA)"


def tell_links(node: Node) -> str:
    """Why there is no matrix, or "" if there is one."""
    if node.topology is None:
        return "No source tells how the GPUs of this node are linked (no GPU topology metadata)."
    if not knows_links(node):
        rows = len(node.topology.links)
        return f"The matrix speaks of {plural(rows, 'GPU')}, the node has {len(node.gpus)}: it is not used."
    return ""
