"""Which role may do what. One pure table; who holds which role where is in `queries`.

Nothing here approves by itself, and an admin approves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from apps.accounts.models import Role


class Action(StrEnum):
    SEE = "see"
    PLAN = "plan"
    APPROVE = "approve"
    OPERATE = "operate"
    ADMINISTER = "administer"
    AUDIT = "audit"


RIGHTS: dict[Role, frozenset[Action]] = {
    Role.VIEWER: frozenset({Action.SEE}),
    Role.PLANNER: frozenset({Action.SEE, Action.PLAN}),
    Role.APPROVER: frozenset({Action.SEE, Action.APPROVE}),
    Role.OPERATOR: frozenset({Action.SEE, Action.OPERATE}),
    Role.ADMIN: frozenset({Action.SEE, Action.ADMINISTER}),
    Role.AUDITOR: frozenset({Action.SEE, Action.AUDIT}),
}


def roles_with(action: str) -> frozenset[Role]:
    """Roles that may do `action`. Raises ValueError for a word that is no action."""
    wanted = Action(action)
    return frozenset(role for role, actions in RIGHTS.items() if wanted in actions)


def actions_of(roles: Iterable[str]) -> frozenset[Action]:
    """Everything that these roles may do together."""
    return frozenset(action for role in roles for action in RIGHTS[Role(role)])
