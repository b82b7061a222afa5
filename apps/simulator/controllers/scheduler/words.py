"""The sentences of the scheduler: why a pod fits nowhere. Pure."""

from __future__ import annotations

from collections import Counter

from apps.simulator.controllers.scheduler.filters import Verdict

NO_VICTIMS = "No preemption victims found for incoming pod."
NOT_HELPFUL = "Preemption is not helpful for scheduling."


def explain(total: int, verdicts: dict[str, Verdict]) -> str:
    """ "0/3 nodes are available: 3 Insufficient nvidia.com/gpu." """
    if not total:
        return "no nodes available to schedule pods"
    counts = Counter(reason for verdict in verdicts.values() for reason in verdict.reasons)
    if not counts:
        # Only an extender refuses nodes without a word.
        return f"0/{total} nodes are available:"
    parts = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{total} nodes are available: {', '.join(parts)}."


def explain_preemption(total: int, verdicts: dict[str, Verdict], refusal: str) -> str:
    if not total:
        return ""
    if refusal:
        return f" preemption: {refusal}"
    helpless = sum(1 for verdict in verdicts.values() if not verdict.resolvable)
    parts = []
    if total - helpless:
        parts.append(f"{total - helpless} {NO_VICTIMS[:-1]}")
    if helpless:
        parts.append(f"{helpless} {NOT_HELPFUL[:-1]}")
    return f" preemption: 0/{total} nodes are available: {', '.join(sorted(parts))}."
