"""Questions that people ask about a snapshot again and again: where would it go, what would make room.

The planner answers; the last answers are kept, since a page asks with every refresh. A request never plans
itself: one question at a time is planned beside the requests, for SECONDS at most, and whoever asked waits a
moment for it. Who was turned away gets that answer when he asks again soon, though the cluster has moved on.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any, TypeVar, cast

from django.conf import settings

from apps.clusters.models import Cluster
from apps.fragmentation.queries import wanted_at
from apps.planner.defrag import plan_unlock
from apps.planner.fallback import Candidate, FallbackLimits, describe, list_candidates
from apps.planner.mig.nodes import asked_profiles
from apps.planner.mig.planning import plan_mig
from apps.planner.plan import Lowering, Plan
from apps.planner.resources import demand_of
from apps.planner.snapshot import Snapshot
from apps.planner.unblocking import part_for
from apps.planner.waiting import WaitingWorkload, list_waiting
from apps.planner.whatif import Shape, Verdict, rank_for_pod, rank_nodes, room_for
from apps.planner.whatif_changes import Change, apply_changes
from apps.planner.whatif_effect import Effect, compare_clusters

SECONDS = 2.0
MAX_MOVES = 50
REMEMBERED = 8
MOST_OWED = 32
"""So many questions at most are planned or wait for it, or for somebody to fetch their answer."""
OWED_SECONDS = 120.0
"""So long after the question its answer waits to be fetched; then the cluster is asked about as it is."""
MOST_WEIGHED = 20
Answer = TypeVar("Answer")
_lock = threading.Lock()
_pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="planner")
_owed: OrderedDict[tuple[str, str, object], tuple[float, Future[Any]]] = OrderedDict()
_answers: OrderedDict[tuple[int, str, object], tuple[Snapshot, object]] = OrderedDict()


class PlannerBusy(Exception):
    """Other questions are being planned; ask again in a moment."""


def rank(snapshot: Snapshot, shape: Shape) -> tuple[Verdict, ...]:
    """Every node's verdict on a shape, the best node first."""
    return _remember(snapshot, "rank", shape, lambda: rank_nodes(snapshot, shape))


def rank_waiting(snapshot: Snapshot, key: str) -> tuple[Verdict, ...] | None:
    """The same for a workload that waits, by its largest member; None if it does not wait."""
    pods = list_waiting(snapshot)[0].get(key)
    if pods is None:
        return None
    pod = max(pods, key=lambda one: (demand_of(one).gpus, sum(asked_profiles(one).values()), one.uid))
    return _remember(snapshot, "rank-waiting", key, lambda: rank_for_pod(snapshot, pod))


def change(snapshot: Snapshot, changes: tuple[Change, ...]) -> Snapshot:
    """The cluster under hypothetical changes: one picture, each time it is asked for. Raises BadChange."""
    if not changes:
        return snapshot
    return _remember(snapshot, "changed", changes, lambda: apply_changes(snapshot, changes))


def weigh_changes(cluster: Cluster, snapshot: Snapshot, changes: tuple[Change, ...]) -> Effect:
    """What they would do, measured against what the cluster wants now. Raises PlannerBusy, BadChange."""
    after, wanted = change(snapshot, changes), wanted_at(cluster, snapshot).workload
    return beside(
        snapshot,
        "effect",
        changes,
        lambda: compare_clusters(snapshot, after, workload=wanted, deadline=_deadline()),
    )


def make_room(snapshot: Snapshot, shape: Shape, changes: tuple[Change, ...] = ()) -> Plan:
    """What would have to move, or be cut anew, for all pods of a shape. changes: that the snapshot has."""
    return beside(
        snapshot,
        "room",
        (shape, changes),
        lambda: room_for(snapshot, shape, max_moves=MAX_MOVES, deadline=_deadline()),
    )


def weigh_fallbacks(
    snapshot: Snapshot, limits: FallbackLimits
) -> tuple[tuple[Candidate, Lowering | None], ...]:
    """What has waited long and asks for much GPU memory, in the order of the queue. Of the first MOST_WEIGHED
    that are offered less: what that would change, as far as there is time. Raises PlannerBusy."""
    return beside(snapshot, "fallbacks", limits, lambda: _weigh_fallbacks(snapshot, limits, _deadline()))


def _weigh_fallbacks(
    snapshot: Snapshot, limits: FallbackLimits, deadline: Callable[[], bool]
) -> tuple[tuple[Candidate, Lowering | None], ...]:
    found = list_candidates(snapshot, limits)
    offered = [one.key for one in found if one.after is not None][:MOST_WEIGHED]
    weighed = {
        one.key: describe(snapshot, one, deadline) for one in found if one.key in offered and not deadline()
    }
    return tuple((one, weighed.get(one.key)) for one in found)


def unlock(
    snapshot: Snapshot,
    waiting: WaitingWorkload,
    changes: tuple[Change, ...] = (),
    max_moves: int = MAX_MOVES,
) -> Plan:
    """What would let a waiting workload start. changes: that the snapshot has. Layouts are planned for all
    that wait for MIG instances, once; of that plan this is the part that serves the workload. max_moves: as
    many as a plan of that cluster may have, so that the plan made of it is the same."""
    if waiting.profiles and not waiting.gpus_per_pod:
        everything = beside(
            snapshot, "layouts", (changes, max_moves), lambda: _plan_layouts(snapshot, max_moves)
        )
        return part_for(everything, waiting.key, waiting.pods)
    subject = (waiting.key, changes, max_moves)
    return beside(snapshot, "unlock", subject, lambda: _unlock(snapshot, waiting.key, max_moves))


def advise_preemption(
    snapshot: Snapshot,
    waiting: WaitingWorkload,
    changes: tuple[Change, ...] = (),
    max_moves: int = MAX_MOVES,
) -> Plan | None:
    """Who would have to give way where no moves make room: advice, whether or not the policy allows it. None
    where nobody of a lower rank runs, or the workload never preempts. changes, max_moves: as in `unlock`."""
    pods = [snapshot.pods[uid] for uid in waiting.pods if uid in snapshot.pods]
    never = any(pod.preemption_policy == "Never" for pod in pods)
    lowest = min((pod.priority for pod in snapshot.pods.values() if pod.is_holding), default=None)
    if not waiting.gpus_per_pod or never or lowest is None or lowest >= waiting.priority:
        return None
    subject = (waiting.key, changes, max_moves)
    plan = beside(snapshot, "preempt", subject, lambda: _preempt(snapshot, waiting.key, max_moves))
    return plan if plan.preemptions else None


def _preempt(snapshot: Snapshot, key: str, max_moves: int) -> Plan:
    return plan_unlock(snapshot, workload=key, max_moves=max_moves, deadline=_deadline(), may_preempt=True)


def _unlock(snapshot: Snapshot, key: str, max_moves: int) -> Plan:
    return plan_unlock(snapshot, workload=key, max_moves=max_moves, deadline=_deadline())


def _plan_layouts(snapshot: Snapshot, max_moves: int) -> Plan:
    return plan_mig(snapshot, max_moves=max_moves, deadline=_deadline())


def beside(snapshot: Snapshot, what: str, subject: object, find: Callable[[], Answer]) -> Answer:
    """Found beside the request, one question at a time; whoever asks waits a moment for it."""
    key = (snapshot.cluster, what, subject)
    answer = _submit(key, lambda: _remember(snapshot, what, subject, find))
    try:
        found = answer.result(timeout=settings.PLANNER_PATIENCE_SECONDS)
    except NotYet:
        raise PlannerBusy("this is still being planned: ask again in a moment") from None
    except BaseException:
        _forget(key, answer)
        raise
    _forget(key, answer)
    return cast(Answer, found)


def _submit(key: tuple[str, str, object], find: Callable[[], object]) -> Future[Any]:
    """The answer that is owed to this question already, or one that is planned from now on."""
    now = time.monotonic()
    with _lock:
        ready = [(other, asked) for other, (asked, answer) in _owed.items() if answer.done()]
        for at, (other, asked) in enumerate(ready):
            if now - asked > OWED_SECONDS or at < len(ready) - MOST_OWED // 2:
                del _owed[other]
        if key not in _owed:
            if len(_owed) >= MOST_OWED:
                raise PlannerBusy("other questions are being planned: ask again in a moment")
            _owed[key] = now, _pool.submit(find)
        return _owed[key][1]


def _forget(key: tuple[str, str, object], answer: Future[Any]) -> None:
    with _lock:
        if key in _owed and _owed[key][1] is answer:
            del _owed[key]


def _remember(snapshot: Snapshot, what: str, subject: object, find: Callable[[], Answer]) -> Answer:
    key = (id(snapshot), what, subject)
    with _lock:
        known = _answers.get(key)
        if known is not None and known[0] is snapshot:
            _answers.move_to_end(key)
            return cast(Answer, known[1])
    found = find()
    with _lock:
        # The snapshot is kept with its answer, so its id cannot be given to another one meanwhile.
        _answers[key] = (snapshot, found)
        while len(_answers) > REMEMBERED:
            _answers.popitem(last=False)
    return found


def _deadline() -> Callable[[], bool]:
    end = time.monotonic() + SECONDS
    return lambda: time.monotonic() >= end
