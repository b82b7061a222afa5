"""What alerts there are, the worst first."""

from django.db import models


class Kind(models.TextChoices):
    AUDIT_BROKEN = "audit-broken", "The audit chain is broken"
    SAFE_MODE = "safe-mode", "The cluster is newer than this database"
    NEEDS_PERSON = "needs-person", "An execution needs a person"
    CORDON_OVERDUE = "cordon-overdue", "A cordon of ours is past its deadline"
    GATED_LONG = "gated-long", "A pod is kept by our gate for over 60 s"
    HOLD_LOST = "hold-lost", "A hold was lost"
    NOT_VISITED = "not-visited", "An open execution is not looked at"
    PAUSED_BY_SWITCH = "paused-by-switch", "Executions are stopped by the kill switch"
    REPLACEMENT_PENDING = "replacement-pending", "A replacement is Pending for over 5 min"
    MIG_PENDING = "mig-pending", "A MIG change takes over 10 min"
    WATCH_OLD = "watch-old", "The cluster was not heard from for over 120 s"
    EXTENDER_AWAY = "extender-away", "The scheduler extender does not answer"
    OTHER_CONSOLE = "other-console", "Another console has the cluster"
    STEERING_AWAY = "steering-away", "Replacements cannot be steered"


BAD = {
    Kind.AUDIT_BROKEN,
    Kind.SAFE_MODE,
    Kind.NEEDS_PERSON,
    Kind.CORDON_OVERDUE,
    Kind.GATED_LONG,
    Kind.HOLD_LOST,
    Kind.NOT_VISITED,
}
"""Somebody's pods or nodes may stand still until a person looks. The others are warnings."""
