"""What waits in a snapshot, and why: the planner's answer, remembered for the pictures looked at last.

Nothing is stored: the answer follows from the snapshot alone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from apps.planner.snapshot import Snapshot
from apps.planner.waiting import WaitingWorkload, explain_pending

REMEMBERED = 8
_lock = threading.Lock()
_answers: OrderedDict[int, tuple[Snapshot, tuple[WaitingWorkload, ...]]] = OrderedDict()


def waiting_workloads(snapshot: Snapshot) -> tuple[WaitingWorkload, ...]:
    """Everything that waits, in the order of the queue, each with its reason."""
    with _lock:
        known = _answers.get(id(snapshot))
        if known is not None and known[0] is snapshot:
            _answers.move_to_end(id(snapshot))
            return known[1]
    found = explain_pending(snapshot)
    with _lock:
        # The snapshot is kept with its answer, so its id cannot be given to another one meanwhile.
        _answers[id(snapshot)] = (snapshot, found)
        while len(_answers) > REMEMBERED:
            _answers.popitem(last=False)
    return found


def waiting_workload(snapshot: Snapshot, key: str) -> WaitingWorkload | None:
    """One of them by its key ("namespace/name"), None if it does not wait."""
    return next((waiting for waiting in waiting_workloads(snapshot) if waiting.key == key), None)
