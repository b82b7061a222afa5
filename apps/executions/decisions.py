"""What a step's module says after looking at the cluster. Plain values; nothing here reads or writes.

ACT      send `effect` (exactly one request that changes something), then look again
WAIT     nothing to send: the cluster is at work
DONE     what the step is for has been seen in the cluster
MOOT     it no longer matters: somebody else did it, or there is nothing to do (step: superseded)
BLOCKED  it cannot be done now; looked at again after `retry_seconds`
STOP     a person has to decide; `runbook` says what to do

BLOCKED and STOP name their cause: a code of `causes`, where its title, meaning and ways on stand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    ACT = "act"
    WAIT = "wait"
    DONE = "done"
    MOOT = "moot"
    BLOCKED = "blocked"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Decision:
    """effect: a word that `apply` knows. arguments: what that effect needs, from the same look.
    seen: facts to keep in the ledger (merged into what is kept already). reason: for people.
    is_patient: what is waited for takes the time it takes; the step's deadline does not end it.
    is_beginning: the step's time runs from this effect on, whatever it waited for before."""

    verdict: Verdict
    reason: str = ""
    effect: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)
    retry_seconds: float = 5.0
    runbook: str = ""
    cause: str = ""
    is_patient: bool = False
    is_beginning: bool = False


def act(effect: str, reason: str, *, seen: dict[str, Any] | None = None, **arguments: Any) -> Decision:
    return Decision(Verdict.ACT, reason, effect, arguments, seen or {})


def begin(effect: str, reason: str, *, seen: dict[str, Any] | None = None, **arguments: Any) -> Decision:
    """The effect from which on the step's whole time is ahead."""
    return Decision(Verdict.ACT, reason, effect, arguments, seen or {}, is_beginning=True)


def wait(reason: str, **seen: Any) -> Decision:
    return Decision(Verdict.WAIT, reason, seen=seen)


def wait_long(reason: str, **seen: Any) -> Decision:
    return Decision(Verdict.WAIT, reason, seen=seen, is_patient=True)


def wait_until_gone(what: str) -> Decision:
    """It is deleted already, and deleting it again would change nothing. Past the step's deadline a person is
    told."""
    return Decision(
        Verdict.WAIT,
        f"{what} is deleted and has not gone: its finalizers keep it",
        runbook=f"Find out who is to take the finalizers off {what}. It goes on by itself once it is gone.",
        cause="deletion-stuck",
    )


def done(reason: str, **seen: Any) -> Decision:
    return Decision(Verdict.DONE, reason, seen=seen)


def moot(reason: str, **seen: Any) -> Decision:
    return Decision(Verdict.MOOT, reason, seen=seen)


def blocked(
    reason: str, runbook: str, *, cause: str = "", retry_seconds: float = 5.0, **seen: Any
) -> Decision:
    """cause: a code of `causes`."""
    return Decision(
        Verdict.BLOCKED, reason, seen=seen, retry_seconds=retry_seconds, runbook=runbook, cause=cause
    )


def stop(reason: str, runbook: str, *, cause: str = "", **seen: Any) -> Decision:
    """cause: a code of `causes`."""
    return Decision(Verdict.STOP, reason, seen=seen, runbook=runbook, cause=cause)
