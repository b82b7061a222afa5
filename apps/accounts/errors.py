"""What accounts refuses. Each says what was refused, to whom and where.

Denied           the person may not do this
└── NotVisible   the person may not even know that it exists: told as absence (404)
"""

from __future__ import annotations

from typing import Any


class Denied(Exception):
    """is_recorded: whether the ledger has it already."""

    def __init__(
        self, message: str, *, actor: Any = None, action: str = "", cluster: str = "", subject: str = ""
    ) -> None:
        super().__init__(message)
        self.actor = actor
        self.action = action
        self.cluster = cluster
        self.subject = subject
        self.is_recorded = False


class NotVisible(Denied): ...


class UnusableName(Exception):
    """A person of that name exists already, or the name is not one."""


class LastAdmin(Exception):
    """Nobody could administer the console any more."""


class KeyReused(Exception):
    """An Idempotency-Key came with another request before."""


class KeyInFlight(Exception):
    """The first request with this Idempotency-Key has not been answered yet."""


class TokenRefused(Exception):
    """The token is unknown, expired, revoked, or ended with its person's password."""


class ScopeNeeded(Denied):
    """The token was not given the scope for this. scope: "" where no token may."""

    def __init__(self, message: str, *, scope: str = "", **facts: Any) -> None:
        super().__init__(message, **facts)
        self.scope = scope


class LoginTooOld(Denied):
    """Only a person who logged in to the browser a short while ago may."""


class UnusableToken(Exception):
    """What was asked for is no token."""


class TokenNameTaken(Exception):
    """The person has a token of that name."""


class TooManyRequests(Exception):
    """wait: seconds until the next one is welcome."""

    def __init__(self, message: str, *, wait: int) -> None:
        super().__init__(message)
        self.wait = wait


class PreconditionNeeded(Exception):
    """A change came without If-Match."""


class PreconditionFailed(Exception):
    """What is to be changed is no longer what was looked at."""
