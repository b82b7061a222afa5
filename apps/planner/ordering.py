"""The order of the moves, and waves of moves that may run in parallel.

Every target has room in the original state, so any order fits; what remains is that no wave
takes more of a disruption budget or of a workload than it may lose at once.
Cycles cannot arise: a node that is cleared takes no arrivals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from apps.planner.inventory import Pod
from apps.planner.movability import MovabilityRules
from apps.planner.placement import PlannedMove
from apps.planner.snapshot import Snapshot


def order_moves(
    snapshot: Snapshot, rules: MovabilityRules, moves: Sequence[PlannedMove]
) -> tuple[tuple[int, PlannedMove], ...]:
    """(wave, move) in the order of execution: by wave, inside a wave as given."""
    used: list[Counter[str]] = []
    placed: list[tuple[int, PlannedMove]] = []
    for move in moves:
        limits = wave_limits(snapshot, rules, move.pod)
        wave = next(
            (at for at, spent in enumerate(used) if all(spent[name] < most for name, most in limits.items())),
            len(used),
        )
        if wave == len(used):
            used.append(Counter())
        used[wave].update(limits.keys())
        placed.append((wave + 1, move))
    return tuple(sorted(placed, key=lambda entry: entry[0]))


def wave_limits(snapshot: Snapshot, rules: MovabilityRules, pod: Pod) -> dict[str, int]:
    """How many pods may be away at once, by budget uid and by workload uid.

    Without a budget a workload of several replicas loses one at a time.
    """
    budgets = rules.budgets_of(pod)
    limits = {f"budget {budget.uid}": max(1, budget.disruptions_allowed) for budget in budgets}
    if not budgets and pod.workload:
        limits[f"workload {pod.workload}"] = 1
    if pod.spread or pod.pod_anti_affinity or pod.pod_affinity:
        # Such rules were judged one move after the other; in parallel the answers could differ.
        limits["rules between pods"] = 1
    return limits
