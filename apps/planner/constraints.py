"""The rules that other rooms ask for, under one roof: may it run there, may it leave, why does it wait.

Each rule's own module: fitting (a pod on a node), movability (leaving), waiting (pending).
"""

from apps.planner.fitting import Fitting, Reason, explain_reason, why_not
from apps.planner.movability import Movability, MovabilityRules, movability
from apps.planner.waiting import WaitingWorkload, explain_pending, group_pending

__all__ = [
    "Fitting",
    "Movability",
    "MovabilityRules",
    "Reason",
    "WaitingWorkload",
    "explain_pending",
    "explain_reason",
    "group_pending",
    "movability",
    "why_not",
]
