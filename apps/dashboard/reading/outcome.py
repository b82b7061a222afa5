"""Result against promise, once an execution has been verified or has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apps.executions.models import Execution
from apps.executions.states import TERMINAL, ExecutionState

STOPPED = {
    ExecutionState.CANCELLED: ("warn", "x", "It was cancelled."),
    ExecutionState.ROLLED_BACK: ("warn", "x", "It was rolled back."),
    ExecutionState.FAILED: ("bad", "oct", "It failed before anything was touched."),
}
"""What somebody stopped on purpose broke no promise."""


@dataclass(frozen=True, slots=True)
class Result:
    tone: str
    symbol: str
    head: str
    text: str
    promised: Sequence[str] = ()
    found: Sequence[str] = ()
    differences: Sequence[str] = ()


def tell_outcome(execution: Execution) -> Result | None:
    """None while nothing has been compared and the execution is still open."""
    outcome, state = execution.outcome, ExecutionState(execution.state)
    promised, found = outcome.get("promised", []), outcome.get("found", [])
    lost = outcome.get("differences", [])
    if state in STOPPED:
        tone, symbol, head = STOPPED[state]
        return Result(tone, symbol, head, execution.state_reason, promised, found, lost)
    if "matches" in outcome:
        if outcome["matches"]:
            return Result("ok", "ok", "It did what it promised.", "", promised, found, lost)
        return Result("bad", "oct", "It did not do what it promised.", "", promised, found, lost)
    if state not in TERMINAL:
        return None
    return Result("warn", "tri", "It ended without a comparison.", execution.state_reason)
