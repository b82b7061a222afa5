"""A gang moves whole or not at all: a plan that takes part of one below what it needs is refused.

A wave begins when the replacements of the one before stand, so the members that are gone at once are those of
the largest wave, and all that give way without a replacement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from apps.executions.checks.looking import Look, Objection


def check_gangs(look: Look) -> Iterator[Objection]:
    pods = look.picture.pods
    moved = Counter((pods[move.pod_uid].gang, move.wave) for move in look.plan.moves if move.pod_uid in pods)
    lost = Counter(pods[one.pod_uid].gang for one in look.plan.preemptions if one.pod_uid in pods)
    for key, gang in look.picture.gangs.items():
        at_once = max((count for (name, _), count in moved.items() if name == key), default=0) + lost[key]
        members = look.rules.members_of(key)
        if not at_once or gang.min_members < 2 or members - at_once >= gang.min_members:
            continue
        if lost[key] == members:
            continue  # it gives way as a whole
        part = f"all {members}" if at_once >= members else f"{at_once} of the {members}"
        yield Objection(
            f"The plan takes {part} members of gang {key} away at once, which needs {gang.min_members} "
            f"(minMember): {max(members - at_once, 0)} would be left and the gang would stop. Gangs move "
            "whole or not at all: ask for a plan that leaves it alone."
        )
