"""The side panel of the grid: one node's GPUs as a list, and the sentence about what could be gained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.nodes import NodeView, gpu_pods
from apps.dashboard.reading.words import amount, plural, spans
from apps.planner.inventory import Pod
from apps.planner.movability import MovabilityRules
from apps.planner.naming import shown_model
from apps.planner.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Line:
    """One holder: where it sits ("0–3", "?" when not told), what it is, and one word about it."""

    where: str
    text: str
    note: str
    mark: Mark | None = None
    is_quiet: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    view: NodeView
    lines: tuple[Line, ...]
    group_words: str
    sentence: str
    blocked_percent: str | None

    @property
    def model(self) -> str:
        return shown_model(self.view.node.model)


def describe_node(snapshot: Snapshot, view: NodeView, marks: Mapping[str, Mark]) -> Panel:
    rules = MovabilityRules(snapshot)
    return Panel(
        view=view,
        lines=tuple(_lines(view, marks, rules)),
        group_words=_group_words(view),
        sentence=tell_gain(view, marks, rules),
        blocked_percent=None if view.blocked is None else f"{view.blocked * 100:.0f}",
    )


def _group_words(view: NodeView) -> str:
    if view.link is None:
        return "links not told"
    if view.seats.unplaced and view.free:
        return "seats not told"
    return f"{view.group}, {view.link_word}" if view.group else "none"


def _lines(view: NodeView, marks: Mapping[str, Mark], rules: MovabilityRules) -> list[Line]:
    seats = view.seats
    pods = {pod.uid: pod for pod in view.pods}
    lines: list[tuple[float, Line]] = []

    def holder(uid: str, at: float, where: str, lead: str = "") -> None:
        pod, mark = pods.get(uid), marks.get(uid)
        note = lead + _movable(pod, rules)
        lines.append((at, Line(where, mark.name if mark else pod.name if pod else "unknown pod", note, mark)))

    places: dict[str, list[int]] = {}
    for bar in seats.bars:
        places.setdefault(bar.pod_uid, []).extend(bar.positions)
    for uid, held in places.items():
        holder(uid, held[0], spans(held))
    for place, parts in seats.parts.items():
        word = (
            f"MIG, cut in {len(parts)}"
            if place in seats.cut_by_mig
            else f"shared by {sum(bool(p.pod_uid) for p in parts)}"
        )
        idle = sum(not part.pod_uid for part in parts)
        note = "" if not seats.is_told else f"{idle} idle" if idle else "all in use"
        lines.append((place, Line(str(place), word, note, is_quiet=True)))
    for place in seats.free:
        lines.append((place, Line(str(place), "free", "", is_quiet=True)))
    for place in seats.bad:
        lines.append((place + 0.5, Line(str(place), "unhealthy", "", is_quiet=True)))
    for uid, milli in seats.unplaced:
        holder(uid, len(lines) + 100, "?", f"{amount(milli)} GPU, ")
    return [line for _, line in sorted(lines, key=lambda pair: pair[0])]


def _movable(pod: Pod | None, rules: MovabilityRules) -> str:
    if pod is None:
        return ""
    return "movable" if rules.judge(pod).movable else "stays"


def tell_gain(view: NodeView, marks: Mapping[str, Mark], rules: MovabilityRules) -> str:
    """What moving its pods would win; for a node that takes no part, why."""
    if view.state.detail:
        return view.state.detail
    guests = gpu_pods(view)
    if view.is_whole or not guests:
        return "Free: nothing has to move."
    if view.worth:
        return f"Moving {plural(len(guests), 'pod')} frees all {view.seats.size - len(view.seats.bad)} GPUs."
    for pod in guests:
        verdict = rules.judge(pod)
        if not verdict.movable:
            name = marks[pod.uid].name if pod.uid in marks else pod.name
            return f"Cannot be freed by moving: {name} stays. {verdict.reasons[0]}"
    return "Nothing is gained by moving what runs here."
