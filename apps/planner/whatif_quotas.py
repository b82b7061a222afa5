"""A queue without its quota, by hypothesis: its shares have no bound, and whom only that kept is let in.

Not in here: whether a queue admits a workload (quota), other hypothetical changes (whatif_changes).
"""

from __future__ import annotations

from dataclasses import replace

from apps.planner.claims_on_queues import Claims
from apps.planner.queues import Admission, Controller, Queue, Share
from apps.planner.quota import judge_queues
from apps.planner.quota_words import NOT_ADMITTED
from apps.planner.snapshot import Snapshot
from apps.planner.waiting import list_waiting

ENDLESS = 1e15
"""More of anything than a cluster has."""
GATE = "kueue.x-k8s.io/"


def lift_quota(snapshot: Snapshot, queue: Queue) -> Snapshot:
    """What stands above the queue still bounds it."""
    others = {key: one for key, one in snapshot.queues.items() if key != queue.key}
    if queue.controller is Controller.KUBERNETES:
        return replace(snapshot, queues=others)
    shares = tuple(_unbounded(queue.controller, share) for share in queue.shares)
    return _let_in(replace(snapshot, queues={**others, queue.key: replace(queue, shares=shares)}))


def _unbounded(controller: Controller, share: Share) -> Share:
    """Kueue knows no share without a number; so much as nobody asks for, and none of it is lent."""
    if controller is Controller.KUEUE:
        return replace(share, quota=ENDLESS, most_borrowed=0.0, most_lent=0.0)
    return replace(share, quota=None, most_borrowed=None)


def _let_in(snapshot: Snapshot) -> Snapshot:
    """Those whom quota and order would let in now, as their controller would make them."""
    groups, claims = list_waiting(snapshot)[0], Claims(snapshot)
    admitted, freed = dict(snapshot.queued), []
    for key, refused in judge_queues(snapshot, groups.items()).items():
        if refused.code != NOT_ADMITTED:  # what is left to do is its controller's, and it would do it
            continue
        for pod in groups[key]:
            queued = claims.queued_for(pod)
            if queued is not None:
                admitted[queued.key] = replace(queued, state=Admission.ADMITTED)
            if pod.uid in snapshot.pods:
                freed.append(replace(pod, gates=tuple(g for g in pod.gates if not g.startswith(GATE))))
    return replace(snapshot, queued=admitted).with_pods(freed)
