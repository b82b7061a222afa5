"""One sentence about what would let a waiting workload start, from a plan made for it.

Not in here: making that plan (defrag, mig/planning).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from apps.planner.plan import Plan, Reconfiguration
from apps.planner.wording import count

MOST_NAMED = 3


def tell_unblocking(plan: Plan) -> str:
    """ "Moving ml/a and ml/b makes room on n1."; or why nothing within the limits would help."""
    if not plan.unlocked:
        return _tell_obstacle(plan)
    where = list_names(sorted({hand_over.node for hand_over in plan.hand_overs}))
    on = f" on {where}" if where else ""
    moved = f"moving {list_names([move.pod for move in plan.moves])}" if plan.moves else ""
    if plan.reconfigurations:
        after = f" after {moved}" if moved else ""
        return f"Cutting {_list_cuts(plan.reconfigurations)} anew{after} makes room{on}."
    return f"{moved.capitalize()[:1]}{moved[1:]} makes room{on}." if moved else f"There is room{on} now."


def tell_preemption(plan: Plan) -> str:
    """ "Only if ml/a and ml/b give way (priority up to 9, 3 GPUs, 1.2 h of work lost) could it start on n1."
    "" where nobody does."""
    if not plan.preemptions:
        return ""
    names = list_names([one.pod for one in plan.preemptions])
    verb = "gives" if len(plan.preemptions) == 1 else "give"
    gpus = sum(one.gpus for one in plan.preemptions)
    lost = sum(one.lost_seconds for one in plan.preemptions)
    priority = max(one.priority for one in plan.preemptions)
    where = list_names(sorted({hand_over.node for hand_over in plan.hand_overs}))
    first = f", after moving {list_names([move.pod for move in plan.moves])}" if plan.moves else ""
    took = f"{lost / 3600:.1f} h" if lost >= 3600 else f"{lost / 60:.0f} min"
    facts = f"priority up to {priority}, {count(gpus, 'GPU')}, {took} of work lost"
    return f"Only if {names} {verb} way ({facts}){first} could it start on {where}."


def part_for(plan: Plan, key: str, pod_uids: Collection[str]) -> Plan:
    """The part of a plan of layouts that serves one workload: its own hand-overs, and what is cut and
    moved on the nodes that they name."""
    if key not in plan.unlocked:
        refused = tuple(one for one in plan.refused if one.pod == key)
        return replace(
            plan,
            moves=(),
            unlocked=(),
            hand_overs=(),
            reconfigurations=(),
            refused=refused,
            sentence="" if refused else plan.sentence,
        )
    hand_overs = tuple(one for one in plan.hand_overs if one.pod_uid in pod_uids)
    nodes = {one.node for one in hand_overs}
    return replace(
        plan,
        unlocked=(key,),
        hand_overs=hand_overs,
        reconfigurations=tuple(one for one in plan.reconfigurations if one.node in nodes),
        moves=tuple(one for one in plan.moves if one.source in nodes),
    )


def _tell_obstacle(plan: Plan) -> str:
    """The planner's own words, and the first pod that would have to leave and may not."""
    said = plan.sentence or next((one.reason for one in plan.refused), "Nothing within the limits helps.")
    blocker = next((one for one in plan.refused if one.reason.startswith("On ")), None)
    if blocker is None:
        return said
    node, _, why = blocker.reason.removeprefix("On ").partition(": ")
    why = why[:1].lower() + why[1:] if why.startswith("It") else why
    return f"{said} {blocker.pod} on {node} stays: {why}"


def _list_cuts(cuts: Sequence[Reconfiguration]) -> str:
    if len(cuts) > MOST_NAMED:
        nodes = {cut.node for cut in cuts}
        return f"{count(len(cuts), 'GPU')} of {count(len(nodes), 'node')}"
    return list_names([f"GPU {cut.index} of {cut.node}" for cut in cuts])


def list_names(names: Sequence[str]) -> str:
    """ "a, b and c"; of many the first ones and how many more."""
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[: MOST_NAMED - 1])} and {len(names) - MOST_NAMED + 1} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
