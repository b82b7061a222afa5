"""The life of a plan, drawn once.

DRAFT --> PROPOSED --> APPROVED --> (EXPIRED | STALE | WITHDRAWN while not begun)
  |           |------> REJECTED
  |           |------> STALE      the cluster moved on before anyone decided
  |           |------> EXPIRED    nobody decided in time
  |-----------|------> WITHDRAWN  its author took it back
  |<----------|<- APPROVED        an edit asks for another version and voids what was decided

A draft without its version is being computed, or has its reason in `state_reason`:
COMPUTING --> STOPPING --> READY | EMPTY   (somebody wants the best plan found so far)
COMPUTING | STOPPING --> READY | EMPTY | FAILED
What happens to an approved plan afterwards is told by its execution; the plan never learns of it.
"""

from django.db import models


class PlanState(models.TextChoices):
    DRAFT = "draft"
    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    STALE = "stale"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


class Progress(models.TextChoices):
    """How far a version is."""

    COMPUTING = "computing"
    STOPPING = "stopping"
    READY = "ready"
    EMPTY = "empty"
    FAILED = "failed"


class SearchEnding(models.TextChoices):
    """What ended a search before the planner was through with it."""

    LIMIT = "limit", "its time limit"
    STOPPED = "stopped", "somebody's wish"


ALLOWED: dict[PlanState, set[PlanState]] = {
    PlanState.DRAFT: {PlanState.PROPOSED, PlanState.WITHDRAWN, PlanState.STALE, PlanState.DRAFT},
    PlanState.PROPOSED: {
        PlanState.APPROVED,
        PlanState.REJECTED,
        PlanState.STALE,
        PlanState.EXPIRED,
        PlanState.WITHDRAWN,
        PlanState.DRAFT,
    },
    PlanState.APPROVED: {PlanState.STALE, PlanState.EXPIRED, PlanState.WITHDRAWN, PlanState.DRAFT},
    PlanState.REJECTED: set(),
    PlanState.STALE: set(),
    PlanState.EXPIRED: set(),
    PlanState.WITHDRAWN: set(),
}
