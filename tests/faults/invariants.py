"""The safety rules as assertions over what was recorded, by their numbers; what they say is in `rules`.
Those that leave no trace in calls, ledger, audit chain or cluster are shown by other tests: docs/faults.md
has a line for each of the 44.

Each gives the violations that it finds, in words; none if the rule held.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

from tests.faults.records import Records
from tests.faults.rules import authority, capacity, execution, identity, mig, nodes, validity
from tests.faults.rules.reading import Violations

GROUPS = (identity, validity, capacity, nodes, mig, execution, authority)
INVARIANTS: dict[int, Callable[[Records], Violations]] = {
    int(found[1]): check
    for group in GROUPS
    for name, check in sorted(vars(group).items())
    if (found := re.match(r"invariant_(\d+)", name)) is not None
}


def find_violations(records: Records, *, without: tuple[int, ...] = ()) -> dict[int, list[str]]:
    """By number of the rule; empty if all held. without: rules that a fault breaks by itself."""
    found: dict[int, list[str]] = defaultdict(list)
    for number, check in INVARIANTS.items():
        if number not in without:
            found[number] += check(records)
    return {number: told for number, told in found.items() if told}
