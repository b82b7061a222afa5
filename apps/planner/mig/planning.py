"""The goal mig: layouts and moves so that the MIG instances that pods ask for are there.

Not in here: how the choice is made (choosing), who may go where (seating, fitting).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from apps.planner.costs import DEFAULT_COSTS, CostPolicy
from apps.planner.defrag import find_obstacle
from apps.planner.inventory import Pod
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.choosing import choose_layouts
from apps.planner.mig.describing import Found, as_plan
from apps.planner.mig.facts import MigFacts
from apps.planner.mig.nodes import MOST_INSTANCES, asked_profiles
from apps.planner.mig.seating import Seating
from apps.planner.mig.wanting import Wanted, count_instances, list_wants, start_all
from apps.planner.plan import Goal, Plan, Refusal
from apps.planner.program import Deadline
from apps.planner.progress import Progress, Tell, tell_nobody
from apps.planner.quota import judge_queues
from apps.planner.snapshot import Snapshot
from apps.planner.waiting import group_pending

MOST_ROUNDS = 20
MOST_NAMED = 3
MOST_GPUS = 64  # on one node


def plan_mig(
    snapshot: Snapshot,
    *,
    max_moves: int,
    deadline: Deadline,
    policy: CostPolicy = DEFAULT_COSTS,
    tell: Tell = tell_nobody,
) -> Plan:
    """Serve as much of the pending demand as can be, then the fewest reconfigurations, then the
    fewest moves, then the least left uncut."""
    tell(Progress("Reading the layouts."))
    facts = MigFacts(snapshot, policy)
    waiting, refused = _waiting(snapshot)
    if not waiting:
        sentence = "No pending pod asks for a MIG instance that room would let start."
        return Plan(Goal.MIG, refused=tuple(refused), sentence=sentence, relaxed=tuple(facts.warnings))
    found = _search(facts, waiting, max_moves, deadline, tell)
    kept = {key: waiting[key] for key in found.unlocked}
    if kept and not found.exact and any(count_instances(waiting[one.pod]) > 1 for one in found.refused):
        # What started in part was given back: plan once more, without cutting anything for it.
        again = _search(facts, kept, max_moves, deadline, tell)
        if len(again.unlocked) == len(kept):
            again.refused, again.exact = found.refused, False
            found = again
    found.refused = [*refused, *found.refused]
    return as_plan(facts, waiting, found)


def _waiting(snapshot: Snapshot) -> tuple[dict[str, tuple[Pod, ...]], list[Refusal]]:
    """Pending workloads that ask for MIG instances, in the order of the queue."""
    known = {name for model in MODELS.values() for name in model.by_name}
    waiting: dict[str, tuple[Pod, ...]] = {}
    refused: list[Refusal] = []
    groups = group_pending(snapshot)
    refusals = judge_queues(snapshot, groups)
    for key, pods in groups:
        asked = {profile for pod in pods for profile in asked_profiles(pod)}
        if not asked:
            continue
        obstacle = refusals[key].sentence if key in refusals else find_obstacle(snapshot, key, pods)
        if asked - known:
            obstacle = f"No GPU model is known to have the MIG profile {min(asked - known)[:40]}."
        elif max(count_instances([pod]) for pod in pods) > MOST_INSTANCES * MOST_GPUS:
            obstacle = "It asks for more MIG instances than any node has."
        if obstacle:
            refused.append(Refusal(key, obstacle))
        else:
            waiting[key] = pods
    return waiting, refused


def _search(
    facts: MigFacts, waiting: dict[str, tuple[Pod, ...]], max_moves: int, deadline: Deadline, tell: Tell
) -> Found:
    """Chooses by counts, seats by name; a block whose pod finds no node is left alone in the next round."""
    wanted = list_wants(facts, waiting)
    blocks = {key: seat.block for key, seat in facts.seats.items()}
    exact = True
    for _ in range(MOST_ROUNDS):
        choice = choose_layouts(
            blocks.values(),
            wanted.wants,
            deadline=deadline,
            max_moves=max_moves,
            may_drain=facts.may_drain,
            cost_of=facts.drain_cost,
            tell=tell,
        )
        seating = Seating(facts, choice)
        leaving = [pod for key in choice.drained for pod in facts.seats[key].pods]
        stuck = seating.move_all(leaving)
        if stuck is None:
            return _start(facts, waiting, wanted, Found(choice, seating, exact=exact))
        exact = False
        for key in choice.drained:
            if stuck in facts.seats[key].pods:
                blocks[key] = replace(blocks[key], fixed=True)
    choice = choose_layouts(
        [replace(block, fixed=True) if block.used else block for block in blocks.values()],
        wanted.wants,
        deadline=deadline,
        max_moves=0,
    )
    return _start(facts, waiting, wanted, Found(choice, Seating(facts, choice), exact=False))


def _start(facts: MigFacts, waiting: dict[str, tuple[Pod, ...]], wanted: Wanted, found: Found) -> Found:
    found.unlocked = start_all(facts, waiting, wanted, found.choice, found.seating)
    begun = set(found.unlocked)
    found.refused = [Refusal(key, _why_not(facts, pods)) for key, pods in waiting.items() if key not in begun]
    missing = sum(count_instances(pods) for key, pods in waiting.items() if key not in begun)
    if missing > sum(found.choice.unmet.values()):
        found.exact = False
    return found


def _why_not(facts: MigFacts, pods: Sequence[Pod]) -> str:
    asked = Counter(profile for pod in pods for profile in asked_profiles(pod))
    names = " and ".join(sorted(asked))
    models = {gpu.model for seat in facts.seats.values() for gpu in seat.block.gpus}
    if not any(all(name in model.by_name for name in asked) for model in models):
        return f"No GPU that may be cut here has the MIG profile {names}."
    if not any(facts.allowed_groups(pod) for pod in pods):
        return "Its selectors, affinities and tolerations allow no node with MIG."
    return f"No layouts within the limits leave room for it ({names}).{_who_stays(facts, set(asked))}"


def _who_stays(facts: MigFacts, asked: set[str]) -> str:
    """The first pods on GPUs that could be cut for it, each with why it may not leave, if so."""
    said: list[str] = []
    for seat in facts.seats.values():
        if asked <= set(seat.block.gpus[0].model.by_name):
            for pod in seat.pods:
                reasons = facts.rules.judge(pod).reasons
                said.append(f"{pod.key} on {seat.node.name}" + (f" ({reasons[0]})" if reasons else ""))
    more = f" and {len(said) - MOST_NAMED} more" if len(said) > MOST_NAMED else ""
    return f" In use by {', '.join(said[:MOST_NAMED])}{more}." if said else ""
