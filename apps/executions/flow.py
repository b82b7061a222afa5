"""Which steps may be looked at now. Pure but for one setting: the ledger in, steps out.

RUNNING       everything whose predecessors are finished: layouts get their names, cordons, GPUs that
              nobody uses are relaid, then all holds, nodes that moves land on are opened again, the moves
              wave by wave (the taint that keeps a target goes with the last of its moves), GPUs that the
              moves drained are relaid, then pods give way, then the hand-overs. The release of freed nodes
              comes after verification.
PAUSED, NEEDS_HUMAN, CANCELLING   only moves in flight, so that no evicted pod waits behind our gate
CANCELLING (nothing in flight) and ROLLING_BACK   what was done is undone, last first
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.conf import settings

from apps.executions.blueprint import MOVE_KINDS
from apps.executions.models import Step
from apps.executions.states import FINISHED, StepKind, StepState

UNDONE_KINDS = (
    StepKind.CORDON_NODE,
    StepKind.HOLD_TARGET,
    StepKind.HOLD_NODE,
    StepKind.STEER,
    StepKind.HAND_OVER,
    StepKind.RECONFIGURE_MIG,
    StepKind.NAME_LAYOUT,
    StepKind.LOWER_MEMORY,
)
LANDING_KINDS = (StepKind.EVICT_POD, StepKind.AWAIT_REPLACEMENT, StepKind.RELEASE)


@dataclass(frozen=True)
class Ledger:
    """The steps of one execution, in order."""

    steps: Sequence[Step]

    def of_move(self, move: int) -> list[Step]:
        """The move's own walk; its hold belongs to the preparation."""
        return self._walks.get(move, [])

    @cached_property
    def _walks(self) -> dict[int, list[Step]]:
        """Asked for each move of thousands, so the steps are gone through once."""
        found: dict[int, list[Step]] = defaultdict(list)
        for step in self.steps:
            if step.kind in MOVE_KINDS:
                found[step.move].append(step)
        return dict(found)

    @property
    def final(self) -> list[Step]:
        """The release of freed nodes that nobody waits for."""
        return [step for step in self.steps if _is_final(step)]

    @property
    def before_final(self) -> list[Step]:
        return [step for step in self.steps if not _is_final(step)]


def _is_final(step: Step) -> bool:
    return step.kind == StepKind.RELEASE and not step.move and not is_before_moves(step)


def is_before_moves(step: Step) -> bool:
    """A node's step that is done before the first pod moves, so that pods may land there."""
    return not step.move and bool(step.params.get("before_moves"))


def is_relaying(step: Step) -> bool:
    """A node is, or may be, between two layouts: nothing of its own accord may end that."""
    was_asked = step.kind == StepKind.RECONFIGURE_MIG and "relabel" in step.observed.get("sent", [])
    return was_asked and not is_finished(step) and _repair_of(step) != "done"


def goes_on_relaying(step: Step) -> bool:
    """What is at work there is watched even while nothing new may begin: the change, or its repair. The way
    back is not: a change would take the earlier label for somebody else's."""
    if step.state == StepState.COMPENSATING:
        return False
    was_issued = step.issued_at is not None and (step.intent_at is None or step.issued_at >= step.intent_at)
    return is_relaying(step) and (was_issued or _repair_of(step) == "asked")


def _repair_of(step: Step) -> str:
    """ "asked" by a person, "done" when the earlier layout is back, "" for none."""
    return str(step.observed.get("seen", {}).get("repair", ""))


def is_finished(step: Step) -> bool:
    return step.state in FINISHED


def steps_to_run(ledger: Ledger) -> list[Step]:
    """What a running execution may look at now."""
    open_steps = [step for step in ledger.before_final if not is_finished(step)]
    for kind in PREPARING:
        first = [step for step in open_steps if step.kind == kind and _prepares(step)]
        if first:
            return _few_at_once(ledger, first)
    moving = [step for step in open_steps if step.move]
    if not moving:
        return _few_at_once(ledger, _after_moves(open_steps))
    wave = min(step.wave for step in moving)
    moves = sorted({step.move for step in moving if step.wave == wave})
    return [*_holds_to_end(ledger, open_steps), *(_next_of(ledger, move) for move in moves)]


def _holds_to_end(ledger: Ledger, open_steps: list[Step]) -> list[Step]:
    """A target is closed to others no longer than until the last of its moves has landed."""
    waits = {s.move for s in ledger.steps if s.kind == StepKind.AWAIT_REPLACEMENT and not is_finished(s)}
    ending = [step for step in open_steps if step.kind == StepKind.RELEASE_NODE]
    return [step for step in ending if waits.isdisjoint(step.params["moves"])]


def _few_at_once(ledger: Ledger, steps: list[Step]) -> list[Step]:
    """Of nodes to be relaid: one alone until it has come out as planned, then a few at once. What is wrong
    with a layout or with mig-manager costs one node, not all of them."""
    relaid = [step.state for step in ledger.steps if step.kind == StepKind.RECONFIGURE_MIG]
    most = settings.EXECUTION_MIG_NODES_AT_ONCE if StepState.VERIFIED in relaid else 1
    under_way = [step for step in steps if step.kind == StepKind.RECONFIGURE_MIG and not _is_fresh(step)]
    room = max(most - len(under_way), 0)
    found = []
    for step in steps:
        if step.kind == StepKind.RECONFIGURE_MIG and _is_fresh(step):
            if not room:
                continue
            room -= 1
        found.append(step)
    return found


def _is_fresh(step: Step) -> bool:
    return step.state == StepState.PENDING


AFTER_MOVES = (StepKind.RELEASE_NODE, StepKind.RECONFIGURE_MIG, StepKind.CHECKPOINT, StepKind.PREEMPT_POD)
"""One kind after the other: no pod gives way before all that do have saved their work."""


def _after_moves(open_steps: list[Step]) -> list[Step]:
    for kind in AFTER_MOVES:
        first = [step for step in open_steps if step.kind == kind]
        if first:
            return first
    return open_steps


PREPARING = (
    StepKind.NAME_LAYOUT,
    StepKind.CORDON_NODE,
    StepKind.RECONFIGURE_MIG,
    StepKind.HOLD_TARGET,
    StepKind.HOLD_NODE,
    StepKind.RELEASE,
)
"""Layouts that have no name get theirs before any node is closed: the kubelets take minutes to show it."""


def _prepares(step: Step) -> bool:
    """All cordons and holds, and of the other kinds what stands before the moves."""
    always = (StepKind.NAME_LAYOUT, StepKind.CORDON_NODE, StepKind.HOLD_TARGET, StepKind.HOLD_NODE)
    return step.kind in always or is_before_moves(step)


def steps_to_land(ledger: Ledger) -> list[Step]:
    """The next step of each move whose eviction went out; nothing new begins by them."""
    moves = sorted({step.move for step in ledger.steps if step.move})
    flying = [move for move in moves if is_in_flight(ledger, move)]
    found = [_next_of(ledger, move) for move in flying]
    return [step for step in found if step.kind in LANDING_KINDS]


def is_in_flight(ledger: Ledger, move: int) -> bool:
    """The eviction went out (or may have) and the move's traces are not yet released."""
    walk = ledger.of_move(move)
    evict = next((step for step in walk if step.kind == StepKind.EVICT_POD), None)
    went_out = evict is not None and is_in_flight_step(evict)
    return went_out and any(not is_finished(step) for step in walk)


def is_in_flight_step(evict: Step) -> bool:
    """The eviction went out, or may have."""
    return evict.state == StepState.VERIFIED or is_unsettled(evict)


def is_unsettled(step: Step) -> bool:
    """An eviction that was sent, or may have been, and whose effect has not been looked at yet."""
    was_sent = "evict" in step.observed.get("sent", [])
    return step.kind in (StepKind.EVICT_POD, StepKind.PREEMPT_POD) and was_sent and not is_finished(step)


def preemptions_to_settle(ledger: Ledger) -> list[Step]:
    """Pods that give way and whose eviction went out, or may have."""
    return [step for step in ledger.steps if _is_preemption_to_settle(step)]


def _is_preemption_to_settle(step: Step) -> bool:
    return step.kind == StepKind.PREEMPT_POD and is_unsettled(step)


def steps_to_drop(ledger: Ledger, *, keep_landing: bool) -> list[Step]:
    """Steps of a cancelled execution that never touched the cluster, or of which nothing is to be undone.

    keep_landing: moves in flight are still brought down, unless their step waits for a person.
    """
    flying = {step.move for step in steps_to_land(ledger)} if keep_landing else set()
    return [
        step
        for step in ledger.steps
        if not is_finished(step)
        and step.state != StepState.COMPENSATING
        and (step.kind not in UNDONE_KINDS or step.state == StepState.PENDING)
        and (step.move not in flying or not step.move or _waits_for_person(step))
        and not (keep_landing and _is_preemption_to_settle(step))
    ]


def _waits_for_person(step: Step) -> bool:
    return bool(step.observed.get("needs_person"))


def steps_to_undo(ledger: Ledger) -> list[Step]:
    """The last steps of one kind whose traces may still be in the cluster, last first.

    Those of one kind stand beside each other (all steerings, all holds), so they are undone together: each
    of many moves waits a moment for late pods, and none waits for another's moment.
    """
    found: list[Step] = []
    for step in reversed(ledger.steps):
        is_traceless = step.state in (StepState.PENDING, StepState.SUPERSEDED, StepState.COMPENSATED)
        if step.kind not in UNDONE_KINDS or is_traceless:
            continue
        if found and step.kind != found[0].kind:
            break
        found.append(step)
    return found


def _next_of(ledger: Ledger, move: int) -> Step:
    return next(step for step in ledger.of_move(move) if not is_finished(step))
