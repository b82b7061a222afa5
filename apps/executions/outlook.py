"""What can be done with a plan after an execution of it ended without success. Words for people."""

from __future__ import annotations

from apps.executions.models import Execution


def tell_outlook(execution: Execution, *, is_touched: bool) -> str:
    """is_touched: pods were moved, so the cluster is not as it was approved any more."""
    plan = execution.plan
    if is_touched:
        return f"Plan {plan.pk} does not fit the cluster any more: to go on, ask for a new one."
    until = f" until {plan.expires_at:%Y-%m-%d %H:%M} UTC" if plan.expires_at is not None else ""
    return f"Plan {plan.pk} stays approved{until}: an operator can start it again."


def as_sentence(text: str) -> str:
    """With a stop at its end, for more to follow: what a person gave as the reason may have none."""
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?", "…")) else f"{text}."
