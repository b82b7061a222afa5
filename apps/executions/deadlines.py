"""Until when what an execution made may stand in its cluster. Not in here: when a step is late."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from apps.executions.models import Execution


def traces_end(execution: Execution) -> datetime | None:
    """From then on a hold, gate or taint of it is stale; apps.gate_watchdog goes by it. A pod in the air is
    landed even past the execution's own deadline. None before it has one."""
    more = settings.EXECUTION_REPLACEMENT_SECONDS + settings.EXECUTION_HAND_OVER_SECONDS
    return execution.deadline_at + timedelta(seconds=more) if execution.deadline_at else None
