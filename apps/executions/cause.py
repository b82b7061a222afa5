"""What is said of one cause of a stop, and the ways on. Values only; the rows are in `causes`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Way(StrEnum):
    """What a person may do. Which of them are offered also depends on the state: see `ways`.

    RESUME     look again, with the whole time ahead, and go on
    CANCEL     land what is in the air, then give everything back
    ROLL_BACK  give everything back at once, last first
    SETTLE     a person has put right by hand what could not be undone: leave that step, undo the rest
    RESTART    start the approved plan again: nothing was touched
    WAIT       nothing to press: it goes on by itself
    ANEW       ask for a new plan
    """

    RESUME = "resume"
    CANCEL = "cancel"
    ROLL_BACK = "roll_back"
    SETTLE = "settle"
    RESTART = "restart"
    WAIT = "wait"
    ANEW = "ask_anew"


@dataclass(frozen=True, slots=True)
class Cause:
    """code: stands in the ledger and in links. meaning: what it says about the cluster. runbook: what to
    do first. ways: the safe ones, the usual one first."""

    code: str
    title: str
    meaning: str
    runbook: str
    ways: tuple[Way, ...]


AGAIN = (Way.RESUME, Way.CANCEL, Way.ROLL_BACK)
"""It may have passed: look once more."""
GIVE_UP = (Way.CANCEL, Way.ROLL_BACK, Way.RESUME)
"""The plan does not fit any more; resuming only helps who has put it right by hand."""
BY_ITSELF = (Way.WAIT, Way.CANCEL, Way.ROLL_BACK)
LEFT = (Way.ROLL_BACK, Way.SETTLE)
"""What is being given back stands still: try once more, or tell that it was dealt with."""
