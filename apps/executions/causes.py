"""Why an execution stands still: one row per cause, with what it means and the safe ways on.

`decisions.stop` and `decisions.blocked` name one for a step, `ledger.move_execution` for a whole execution.
What was seen in one case stands in the ledger; docs/runbooks.md has a section for each of these.
"""

from __future__ import annotations

from collections.abc import Mapping

from apps.executions.cause import Cause, Way
from apps.executions.causes_of_executions import OF_EXECUTIONS
from apps.executions.causes_of_mig import OF_MIG
from apps.executions.causes_of_steps import OF_STEPS

__all__ = ["CAUSES", "UNSORTED", "Cause", "Way", "cause_of"]
UNSORTED = Cause(
    "other",
    "A step stands still",
    "What was seen stands beside it; nobody has written a runbook for it yet.",
    "Read what was seen, look at the object it names with kubectl, then look again or cancel.",
    (Way.RESUME, Way.CANCEL, Way.ROLL_BACK),
)
CAUSES: Mapping[str, Cause] = {cause.code: cause for cause in (*OF_EXECUTIONS, *OF_STEPS, *OF_MIG, UNSORTED)}


def cause_of(code: str) -> Cause:
    """Never fails: an older row, or one of a newer console, may hold a code that is not known here."""
    return CAUSES.get(code, UNSORTED)
