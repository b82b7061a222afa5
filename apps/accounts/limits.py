"""What an API token allows at most: scopes, and clusters. Pure; what its person may do is in `rights`.

No token approves, and none looks after clusters, people or tokens: that takes a person in a browser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import models


class Scope(models.TextChoices):
    READ = "read"
    PLAN = "plan:write"
    CONTROL = "execution:control"


ACTIONS: dict[str, frozenset[str]] = {
    Scope.READ: frozenset({"see", "audit"}),
    Scope.PLAN: frozenset({"see", "plan", "approve"}),
    Scope.CONTROL: frozenset({"see", "operate"}),
}
""""approve" is there for rejecting: approving itself asks for a login in the browser."""


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """clusters: ids of those it is limited to; None for every cluster that its person sees."""

    token_id: int
    name: str
    scopes: frozenset[str]
    clusters: frozenset[int] | None

    def allow(self, action: str, cluster_id: int | None) -> bool:
        """cluster_id None asks for the console as a whole, which a limited token never gets."""
        within = self.clusters is None or cluster_id in self.clusters
        return within and any(action in ACTIONS[scope] for scope in self.scopes)


def limits_of(person: Any) -> TokenLimits | None:
    """None for somebody in the browser (or at the command line), whose roles alone decide."""
    return getattr(person, "token", None)
