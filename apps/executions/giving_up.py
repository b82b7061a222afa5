"""Giving back that does not get on: after a while a person has to know what failed and what is still held.

How often and how long is tried before: `stepping`. What the person may do then: `ways`.
"""

from __future__ import annotations

from collections.abc import Sequence

from apps.executions.decisions import Decision, stop
from apps.executions.models import Step
from apps.executions.stops import Held

SHOWN = 4


def give_up(step: Step, message: str, held: Sequence[Held], *, is_refused: bool) -> Decision:
    """A stop of an execution that is being stopped. message: the last error. is_refused: the cluster
    answered, so often, that it will not; else it did not answer until the step's deadline."""
    if is_refused:
        return stop(
            f"{step.target}: giving back is refused again and again. {message} {_tell(held)}",
            "Mend what the answer names (a right, an admission policy), then roll back again: everything is "
            "looked at anew. Or take away by hand what is still held and tell that you have dealt with it.",
            cause="undo-refused",
        )
    return stop(
        f"{step.target}: the cluster has not answered until the deadline of giving it back. {message} "
        f"{_tell(held)}",
        "When it answers again, roll back again: everything is looked at anew. If it is gone for good, tell "
        "that you have dealt with it.",
        cause="undo-unreachable",
    )


def _tell(held: Sequence[Held]) -> str:
    """By the ledger: the cluster itself cannot be asked."""
    told = list(dict.fromkeys(f"{one.kind} on {one.name}" for one in held))
    more = f" and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    return f"Still held: {', '.join(told[:SHOWN])}{more}." if told else "Nothing is still held by the ledger."
