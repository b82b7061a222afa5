"""How far a search is, in numbers and in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from apps.planner.plan import Goal
from apps.plans.models import Plan
from apps.plans.queries import current_version
from apps.plans.states import PlanState

UNITS: dict[str, tuple[str, str, str, str]] = {
    Goal.FREE_NODES: ("node", "nodes", "freed", "free"),
    Goal.UNLOCK: ("GPU", "GPUs", "unlocked", "unlock"),
    Goal.LOWER_MEMORY: ("pod", "pods", "lowered", "lower"),
    Goal.MIG: ("compute slice", "compute slices", "served", "serve"),
}
"""What a goal counts: one, many, what was done to them, what could be."""


@dataclass(frozen=True, slots=True)
class Search:
    """achieved: of the best plan so far, None while there is none; moves: of that plan; bound: on `achieved`,
    None while none is known. seconds: how long it may last."""

    goal: str
    stage: str
    achieved: int | None
    moves: int
    bound: int | None
    seconds: float
    computing_since: datetime | None
    stop_asked_at: datetime | None

    @property
    def gap(self) -> float | None:
        """As of a plan: 0 where no plan can do better."""
        if self.achieved is None or self.bound is None:
            return None
        return max(0, self.bound - self.achieved) / max(1, self.bound)

    @property
    def sentence(self) -> str:
        """For example "7 nodes freed with 31 moves; no plan can free more than 9"."""
        if self.computing_since is None:
            return "Waits for a worker."
        return f"{self._best()}; {self._limit()}." if self.bound is not None else f"{self._best()}."

    def _best(self) -> str:
        if self.achieved is None:
            return "No plan yet"
        one, many, done, _ = UNITS[self.goal]
        moves = f"{self.moves} move{'' if self.moves == 1 else 's'}"
        return f"{self.achieved} {one if self.achieved == 1 else many} {done} with {moves}"

    def _limit(self) -> str:
        _, many, _, do = UNITS[self.goal]
        if self.bound == self.achieved:
            return f"no plan can {do} more"
        what = many if self.achieved is None else ""
        return " ".join(f"no plan can {do} more than {self.bound} {what}".split())


def search_of(plan: Plan) -> Search | None:
    """Of a draft that is, or waits to be, computed; None where nothing is searched."""
    waits = plan.state == PlanState.DRAFT and not plan.state_reason
    if not waits or current_version(plan) is not None:
        return None
    told = plan.search or {}
    return Search(
        goal=plan.request["goal"],
        stage=told.get("stage", ""),
        achieved=told.get("achieved"),
        moves=told.get("moves", 0),
        bound=told.get("bound"),
        seconds=float(plan.request["seconds"]),
        computing_since=plan.computing_since,
        stop_asked_at=plan.stop_asked_at,
    )
