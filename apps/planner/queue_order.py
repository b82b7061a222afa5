"""In which order it would be fair to start what waits, each place with its reasons in words.

Priority comes first, as kube-scheduler has it. Among equal priorities: the smallest dominant share of the
tenant over the workload's weight (weighted DRF), where the weight grows with the wait. Gangs stand whole.
Beside it stands the order that the pods' own scheduler takes: priority, then age.

What cannot start whatever is free (a gate, missing members, a quota) keeps its place, but does not push its
tenant's other workloads back, and no more does what has waited longer than `place_seconds`: only what runs
counts against anybody for good. Not in here: whether something fits (waiting), when it will start
(expected_start).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from apps.planner.inventory import Pod
from apps.planner.plain import say_duration
from apps.planner.snapshot import Snapshot
from apps.planner.tenants import Demands, Holdings, Tenant, read_holdings, sum_amounts, tenant_of
from apps.planner.waiting import WaitingWorkload
from apps.planner.waiting_words import NOT_IN_TURN

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class OrderPolicy:
    """Weights are shares of the cluster between layers. busy_from: share of the GPUs that is held, above
    which the busy weights of the environments count.

    ageing_seconds: a wait of so long doubles the weight, of twice as long triples it; 0 for no ageing.
    place_seconds: what has waited for longer does not push back others of its tenant; 0 for ever.
    """

    online: float = 0.7
    offline: float = 0.3
    prod: float = 0.8
    dev: float = 0.2
    busy_prod: float = 0.9
    busy_dev: float = 0.1
    busy_from: float = 0.8
    ageing_seconds: float = HOUR
    place_seconds: float = 24 * HOUR

    def weight(self, environment: str, service: str, busy: float) -> float:
        """What is labelled as neither counts as dev, and as offline."""
        prod, dev = (self.busy_prod, self.busy_dev) if busy > self.busy_from else (self.prod, self.dev)
        return (prod if environment == "prod" else dev) * (
            self.online if service == "online" else self.offline
        )


DEFAULT_ORDER = OrderPolicy()


@dataclass(frozen=True, slots=True)
class Place:
    """Where one workload stands.

    position: from 1 in the fair order; None for what can never run here. scheduler_position: from 1 among
    all that waits for the same scheduler, by priority, then age; None for what that scheduler does not
    look at (a gate), or never places. share: of its tenant's dominant resource, 0 to 1, as it runs now.
    weight: of its layer, without ageing. waited_seconds: None where nothing tells since when.
    """

    key: str
    position: int | None
    scheduler_position: int | None
    scheduler: str
    tenant: str
    share: float
    dominant: str
    weight: float
    aged_weight: float
    waited_seconds: float | None
    words: str


@dataclass(slots=True)
class _Line:
    """One workload while the places are given out."""

    waiting: WaitingWorkload
    pod: Pod
    tenant: Tenant
    weight: float
    aged_weight: float
    waited: float | None
    amounts: Counter[str] = field(default_factory=Counter)

    @property
    def rank(self) -> tuple[float, float, str]:
        """Within one tenant: who weighs more, who came first, by name."""
        return -self.aged_weight, self.waiting.since, self.waiting.key


def order_queue(
    snapshot: Snapshot, waiting: Sequence[WaitingWorkload], policy: OrderPolicy = DEFAULT_ORDER
) -> Mapping[str, Place]:
    """The place of each by its key, the first in the fair order first; what can never run comes last."""
    demands = Demands(snapshot)
    holdings = read_holdings(snapshot, demands)
    shares_now = {tenant: holdings.share_of(tenant) for tenant in holdings.held}
    lines = [_line_of(snapshot, one, demands, holdings, policy) for one in waiting]
    in_turn = _scheduler_positions(lines)
    ordered = _give_places([line for line in lines if not line.waiting.never], holdings, policy)
    places: dict[str, Place] = {}
    for at, line in enumerate([*ordered, *(line for line in lines if line.waiting.never)], 1):
        share, dominant = shares_now.get(line.tenant, (0.0, ""))
        places[line.waiting.key] = Place(
            key=line.waiting.key,
            position=None if line.waiting.never else at,
            scheduler_position=in_turn.get(line.waiting.key),
            scheduler=line.pod.scheduler,
            tenant=line.tenant.words,
            share=share,
            dominant=dominant,
            weight=line.weight,
            aged_weight=line.aged_weight,
            waited_seconds=line.waited,
            words=_say(line, share, dominant, holdings.busy > policy.busy_from),
        )
    return places


def _line_of(
    snapshot: Snapshot, one: WaitingWorkload, demands: Demands, holdings: Holdings, policy: OrderPolicy
) -> _Line:
    pods = [snapshot.pod_that_waits(uid) for uid in one.pods]
    weights = [policy.weight(pod.environment, pod.service, holdings.busy) for pod in pods]
    weight = max(weights)
    waited = max(0.0, snapshot.taken_at - one.since) if one.since > 0 else None
    aged = 1.0 + (waited or 0.0) / policy.ageing_seconds if policy.ageing_seconds > 0 else 1.0
    return _Line(
        waiting=one,
        pod=pods[weights.index(weight)],
        tenant=tenant_of(snapshot, pods[0]),
        weight=round(weight, 9),
        aged_weight=round(weight * aged, 9),
        waited=waited,
        amounts=sum_amounts(demands, pods),
    )


def _give_places(lines: Sequence[_Line], holdings: Holdings, policy: OrderPolicy) -> list[_Line]:
    """Priority by priority; within one, whose tenant has least for its weight, counted up as they go."""
    ordered: list[_Line] = []
    for priority in sorted({line.waiting.priority for line in lines}, reverse=True):
        ordered += _share_out([line for line in lines if line.waiting.priority == priority], holdings, policy)
    return ordered


def _share_out(lines: Sequence[_Line], holdings: Holdings, policy: OrderPolicy) -> list[_Line]:
    """Only heads of tenants compete: within a tenant its share is the same for all, so the weight decides."""
    by_tenant: dict[Tenant, list[_Line]] = {}
    for line in sorted(lines, key=lambda one: one.rank, reverse=True):
        by_tenant.setdefault(line.tenant, []).append(line)
    heads = [(_claim(queue[-1], holdings), tenant.words) for tenant, queue in by_tenant.items()]
    tenants = {tenant.words: tenant for tenant in by_tenant}
    heapify(heads)
    ordered: list[_Line] = []
    while heads:
        _, words = heappop(heads)
        queue = by_tenant[tenants[words]]
        line = queue.pop()
        ordered.append(line)
        if takes_its_turn(line.waiting, line.waited, policy):
            holdings.add(line.tenant, line.amounts)
        if queue:
            heappush(heads, (_claim(queue[-1], holdings), words))
    return ordered


def _claim(line: _Line, holdings: Holdings) -> tuple[float, float, float, str]:
    """The smaller, the sooner."""
    share, _ = holdings.share_of(line.tenant)
    # Rounded, so that the order of sums decides nothing.
    return (round(share / line.aged_weight, 9), *line.rank)


def takes_its_turn(waiting: WaitingWorkload, waited: float | None, policy: OrderPolicy) -> bool:
    """Whether others of its tenant stand further back because of it."""
    if waiting.reason_code in NOT_IN_TURN:
        return False
    return not policy.place_seconds or (waited or 0.0) <= policy.place_seconds


def _scheduler_positions(lines: Sequence[_Line]) -> dict[str, int]:
    """As kube-scheduler sorts its queue: priority, then age. Gated pods are not in it."""
    found: dict[str, int] = {}
    numbers = Counter[str]()
    for line in sorted(
        lines, key=lambda one: (-one.waiting.priority, one.waiting.since, one.waiting.pods[0])
    ):
        if line.waiting.has_pods and not line.waiting.never and not line.pod.gates:
            numbers[line.pod.scheduler] += 1
            found[line.waiting.key] = numbers[line.pod.scheduler]
    return found


def _say(line: _Line, share: float, dominant: str, is_busy: bool) -> str:
    """ "prod online, namespace ml has 12 % of its dominant resource (nvidia.com/gpu), waited 40 min by …"."""
    waiting, pod = line.waiting, line.pod
    if waiting.never:
        return "no place: it can never run here"
    labels = (pod.environment or "dev", pod.service or "offline")
    said = [" ".join(labels) + ("" if pod.environment and pod.service else " (not labelled)")]
    if waiting.priority:
        said.insert(0, f"priority {waiting.priority}")
    if dominant:
        said.append(f"{line.tenant.words} has {_percent(share)} of its dominant resource ({dominant})")
    else:
        said.append(f"{line.tenant.words} holds nothing yet")
    if line.waited is not None:
        said.append(f"waited {say_duration(line.waited)} by the snapshot")
    if is_busy and pod.environment == "prod":
        said.append("prod weighs more while the GPUs are nearly full")
    if len(waiting.pods) > 1:
        said.append(f"{len(waiting.pods)} pods at once")
    if waiting.reason_code in NOT_IN_TURN:
        said.append(NOT_IN_TURN[waiting.reason_code])
    return ", ".join(said)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else "under 1 %"
