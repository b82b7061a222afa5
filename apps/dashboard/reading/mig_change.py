"""MIG changes under way: how far each is, since when, and which execution makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.clusters.models import Cluster
from apps.dashboard.mig_changes import changes_since, is_timed
from apps.dashboard.reading.mig import MigNode
from apps.executions.models import Step
from apps.executions.repairing import steps_to_repair
from apps.executions.states import TERMINAL, StepKind
from apps.planner.mig.changing import Change, Stage

STAGES = (
    ("asked", "label mig.config set"),
    ("paused", "operands paused"),
    ("cut", "GPUs cut anew"),
    ("back", "operands back"),
    ("verified", "offered as asked"),
)


@dataclass(frozen=True, slots=True)
class StageMark:
    """state: done, now, bad or todo."""

    name: str
    state: str
    words: str


@dataclass(frozen=True, slots=True)
class Running:
    """A change of one node. since: when it came to its present stage, None if nobody saw it. step: of
    the execution that makes it, None if none of ours does."""

    mig: MigNode
    marks: tuple[StageMark, ...]
    since: datetime | None
    step: Step | None = None

    @property
    def can_repair(self) -> bool:
        """Whether its execution offers to put the node back."""
        return self.step is not None and bool(steps_to_repair([self.step]))


def list_running(cluster: Cluster, nodes: Sequence[MigNode], since: Mapping[str, datetime]) -> list[Running]:
    """Changes under way or broken, and those that an execution is about to make."""
    steps = open_steps(cluster)
    return [
        Running(one, mark_stages(one.change), since.get(one.node.name), steps.get(one.node.name))
        for one in nodes
        if one.change.is_under_way or one.change.is_broken or one.node.name in steps
    ]


def open_steps(cluster: Cluster) -> dict[str, Step]:
    """The reconfiguring step of each node's open execution, by the node's name."""
    found = (
        Step.objects.filter(kind=StepKind.RECONFIGURE_MIG, execution__plan__cluster=cluster)
        .exclude(execution__state__in=TERMINAL)
        .select_related("execution")
        .order_by("-pk")
    )
    return {str(step.params.get("node", "")): step for step in found[:500]}


def mark_stages(change: Change) -> tuple[StageMark, ...]:
    """Five stages of a change, each done, under way, broken or still to come."""
    at, state = _progress(change)
    marks = []
    for number, (name, words) in enumerate(STAGES):
        mark = "done" if number < at else state if number == at else "todo"
        marks.append(StageMark(name, mark, words))
    return tuple(marks)


def _progress(change: Change) -> tuple[int, str]:
    """(stages that are done, what the next one is)."""
    if change.stage is Stage.PENDING:
        return (2, "now") if change.paused else (1, "now")
    return {
        Stage.NONE: (0, "todo"),
        Stage.ASKED: (0, "now"),
        Stage.REBOOTING: (2, "now"),
        Stage.FAILED: (2, "bad"),
        Stage.INVALID: (4, "bad"),
        Stage.WRONG: (3, "bad") if change.paused else (4, "bad"),
        Stage.DONE: (len(STAGES), "todo"),
    }[change.stage]


def find_since(cluster: Cluster, nodes: Sequence[MigNode]) -> dict[str, datetime]:
    """Since when each change has been in its present stage, by the node's name, where time matters and
    somebody saw its beginning."""
    busy = [one for one in nodes if is_timed(one.change)]
    known = changes_since(cluster) if busy else {}
    found: dict[str, datetime] = {}
    for one in busy:
        told = known.get((one.node.uid or one.node.name)[:64])
        if told is not None and told[:2] == (one.change.config, one.change.stage):
            found[one.node.name] = told[2]
    return found
