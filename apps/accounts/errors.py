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
