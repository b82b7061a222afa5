"""The GPUs that a plan cuts anew, node by node: before and after, what was found, how far it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.safestring import SafeString

from apps.dashboard.drawings.cuts import draw_cut, draw_untold
from apps.dashboard.reading.words import listing, plural
from apps.executions.models import Step
from apps.executions.states import StepKind
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.layouts import Cut, Layout
from apps.planner.mig.placing import place_counts
from apps.planner.plan import Plan, Reconfiguration
from apps.planner.snapshot import Snapshot

USUAL_SLICES = 8


@dataclass(frozen=True, slots=True)
class CutLine:
    cut: Reconfiguration
    before: SafeString
    after: SafeString
    before_words: str
    after_words: str


@dataclass(frozen=True, slots=True)
class NodeCuts:
    """when: once the moves drained them, or at once. verdict: (word, tone) of the preflight's look, None
    while nobody asked; message: what it found. step: of the execution, None on a plan's page."""

    node: str
    when: str
    lines: tuple[CutLine, ...]
    is_whole_node: bool
    needs_confirmation: bool
    verdict: tuple[str, str] | None = None
    message: str = ""
    step: Step | None = None

    @property
    def is_refused(self) -> bool:
        return self.verdict is not None and self.verdict[1] == "bad"


def list_cuts(
    plan: Plan,
    snapshot: Snapshot | None,
    *,
    found: Mapping[str, Any] | None = None,
    steps: Iterable[Step] = (),
) -> tuple[NodeCuts, ...]:
    """found: rows of the dry run by node uid."""
    mine = {step.params["node"]: step for step in steps if step.kind == StepKind.RECONFIGURE_MIG}
    nodes: dict[str, list[Reconfiguration]] = {}
    for one in plan.reconfigurations:
        nodes.setdefault(one.node, []).append(one)
    return tuple(
        _node_cuts(name, cuts, snapshot, (found or {}).get(cuts[0].node_uid), mine.get(name))
        for name, cuts in nodes.items()
    )


def _node_cuts(
    name: str, cuts: Sequence[Reconfiguration], snapshot: Snapshot | None, run: Any, step: Step | None
) -> NodeCuts:
    verdict = None
    if run is not None:
        verdict = ("can be cut", "ok") if run.allowed else ("refused", "bad")
    return NodeCuts(
        node=name,
        when="after the moves" if any(one.after_moves for one in cuts) else "used by nobody now",
        lines=tuple(_line(one, snapshot) for one in cuts),
        is_whole_node=any(one.whole_node for one in cuts),
        needs_confirmation=any(one.needs_confirmation for one in cuts),
        verdict=verdict,
        message=run.message if run is not None else "",
        step=step,
    )


def _line(cut: Reconfiguration, snapshot: Snapshot | None) -> CutLine:
    after = _placed(cut.model, cut.after)
    words = tell_counts(cut.after)
    is_untold = cut.whole_node and not cut.before
    before_words = "not told" if is_untold else tell_counts(cut.before)
    return CutLine(
        cut,
        draw_untold(_axis(cut.model), "before: not told")
        if is_untold
        else _draw(cut.model, _seen(cut, snapshot), f"before: {before_words}"),
        _draw(cut.model, after, f"after: {words}"),
        before_words,
        words,
    )


def tell_counts(counts: Mapping[str, int]) -> str:
    """For example "4 × 1g.10gb, 1 × 3g.40gb"."""
    return ", ".join(f"{number} × {name}" for name, number in sorted(counts.items())) or "whole GPU"


def _seen(cut: Reconfiguration, snapshot: Snapshot | None) -> Layout | None:
    """As it was seen in the plan's snapshot; by its numbers where the start slices are not known."""
    node = snapshot.nodes.get(cut.node) if snapshot else None
    gpu = next((gpu for gpu in node.gpus if gpu.index == cut.index), None) if node else None
    starts = [(one.start_slice, one.profile) for one in gpu.instances] if gpu else []
    if starts and all(start is not None for start, _ in starts):
        return tuple(sorted(Cut(start, profile) for start, profile in starts if start is not None))
    return _placed(cut.model, cut.before)


def _placed(model: str, counts: Mapping[str, int]) -> Layout | None:
    table = MODELS.get(model)
    return place_counts(table, counts) if table else None


def _draw(name: str, layout: Layout | None, label: str) -> SafeString:
    model = MODELS.get(name)
    if model is None or layout is None or any(cut.profile not in model.by_name for cut in layout):
        return draw_untold(_axis(name), label)
    return draw_cut(model, layout, label)


def _axis(name: str) -> int:
    model = MODELS.get(name)
    return model.axis if model is not None else USUAL_SLICES


def tell_what(plan: Plan) -> str:
    """What the buttons are about: "7 moves", "1 GPU cut anew and 2 moves", "2 moves and 1 preemption"."""
    cuts = f"{plural(len(plan.reconfigurations), 'GPU')} cut anew" if plan.reconfigurations else ""
    lost = plural(len(plan.preemptions), "preemption") if plan.preemptions else ""
    less = f"{plural(len(plan.lowerings), 'lower request')} of GPU memory" if plan.lowerings else ""
    moves = plural(len(plan.moves), "move") if plan.moves or not (cuts or lost or less) else ""
    return listing([words for words in (cuts, moves, lost, less) if words])
