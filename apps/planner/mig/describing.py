"""A choice of layouts, with its pods by name, as a plan that people read.

Not in here: how it was found (planning, choosing).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from apps.planner.costs import assess_risk
from apps.planner.inventory import Pod
from apps.planner.mig.blocks import Choice
from apps.planner.mig.catalogue import warn_about
from apps.planner.mig.facts import MigFacts
from apps.planner.mig.nodes import asked_profiles
from apps.planner.mig.seating import Seating
from apps.planner.ordering import order_moves
from apps.planner.plan import Goal, HandOver, Move, Plan, Reconfiguration, Refusal
from apps.planner.wording import count

MOST_REFUSALS = 200
DRAINED_FIRST = (
    "A GPU is relaid only when nobody uses it; moved pods land on instances that are idle now or on GPUs "
    "that are relaid before the moves, on another node that is not being drained itself."
)
CORDONED = (
    "A node is cordoned while any of its GPUs is relaid: its one label nvidia.com/mig.config sets them all, "
    "and its GPU operands pause meanwhile."
)
NO_SWAPS = (
    "Pods move only off GPUs that are relaid, and never between GPUs of one node: the kubelet could give them"
    " the instance that they left."
)
DRIVER_CHOOSES = "Layouts are planned by number; the driver chooses start slices, the kubelet instances."
WHOLE_ARE_CUT = "GPUs that are whole and idle now are cut: so many fewer are left for whole-GPU pods."
TOGETHER = "Pods with several instances are counted by instance and put on one node afterwards."


@dataclass(slots=True)
class Found:
    """seated: who goes where. exact: nothing had to be given up after the program."""

    choice: Choice
    seating: Seating
    refused: list[Refusal] = field(default_factory=list)
    unlocked: list[str] = field(default_factory=list)
    exact: bool = True


def as_plan(facts: MigFacts, waiting: Mapping[str, tuple[Pod, ...]], found: Found) -> Plan:
    choice = found.choice
    cuts = _describe_cuts(facts, found)
    moves = _describe_moves(facts, found)
    bound = choice.bound
    has_gain = bool(found.unlocked)
    return Plan(
        goal=Goal.MIG,
        moves=moves if has_gain else (),
        unlocked=tuple(found.unlocked),
        hand_overs=tuple(
            HandOver(pod.uid, pod.key, name, facts.snapshot.nodes[name].uid)
            for pod, name in found.seating.started
        ),
        reconfigurations=cuts if has_gain else (),
        cost=round(sum(move.cost for move in moves), 3) if has_gain else 0.0,
        lower_bound=bound if has_gain else 0.0,
        gap=max(0.0, len(cuts) - bound) / max(1.0, bound) if has_gain else 0.0,
        proven_optimal=choice.proven and found.exact,
        relaxed=_relaxed(facts, waiting, found),
        refused=tuple(found.refused[:MOST_REFUSALS]),
        sentence=_sentence(found, len(cuts), len(moves)),
        measures={
            "unlocked_pods": float(len(found.seating.started)),
            "whole_gpus_cut": float(choice.whole if has_gain else 0),
            "memory_slices_left_uncut": float(_left_uncut(facts, choice if has_gain else Choice())),
        },
    )


def _describe_cuts(facts: MigFacts, found: Found) -> tuple[Reconfiguration, ...]:
    """Those that nobody uses first, then those that the moves drain; by node and index."""
    choice, drained = found.choice, set(found.choice.drained)
    cuts: list[Reconfiguration] = []
    for key in sorted(choice.relaid, key=lambda key: (key in drained, key)):
        seat = facts.seats[key]
        for at, counts in sorted(choice.relaid[key].items()):
            gpu, model = seat.node.gpus[seat.positions[at]], seat.block.gpus[at].model
            cuts.append(
                Reconfiguration(
                    order=len(cuts) + 1,
                    node=seat.node.name,
                    gpu=gpu.uuid or str(gpu.index),
                    index=gpu.index,
                    before=dict(seat.block.gpus[at].counts),
                    after=dict(counts),
                    reason=_cut_reason(found, seat.node.name, dict(counts)),
                    model=model.name,
                    after_moves=key in drained,
                    whole_node=seat.whole_node,
                    needs_confirmation=not model.is_certain,
                    node_uid=seat.node.uid,
                )
            )
    return tuple(cuts)


def _cut_reason(found: Found, node: str, counts: dict[str, int]) -> str:
    guests = Counter(
        profile
        for pod, name in found.seating.started
        if name == node
        for profile in asked_profiles(pod)
        if profile in counts
    )
    words = ", ".join(f"{number} x {profile}" for profile, number in sorted(guests.items()))
    return f"{node} takes waiting pods: {words}." if words else "It takes pods that are moved."


def _describe_moves(facts: MigFacts, found: Found) -> tuple[Move, ...]:
    sources = {pod.uid: facts.seats[key] for key in found.choice.drained for pod in facts.seats[key].pods}
    described: list[Move] = []
    for wave, planned in order_moves(facts.snapshot, facts.rules, found.seating.moves):
        pod, seat = planned.pod, sources[planned.pod.uid]
        level, risk = assess_risk(facts.snapshot, pod, facts.policy)
        what = "the whole node is" if seat.whole_node else f"GPU {seat.node.gpus[seat.positions[0]].index} is"
        described.append(
            Move(
                order=len(described) + 1,
                wave=wave,
                pod_uid=pod.uid,
                pod=pod.key,
                source=planned.source,
                target=planned.target,
                gpus=0,
                cost=facts.cost(pod, seat.block.gpus[0].model),
                reason=f"On {planned.source} {what} drained to be cut anew.",
                risk=risk,
                risk_level=level,
                workload_uid=pod.workload,
                source_uid=seat.node.uid,
                target_uid=facts.snapshot.nodes[planned.target].uid,
            )
        )
    return tuple(described)


def _relaxed(facts: MigFacts, waiting: Mapping[str, tuple[Pod, ...]], found: Found) -> tuple[str, ...]:
    said = [DRAINED_FIRST, NO_SWAPS, DRIVER_CHOOSES]
    if found.choice.relaid:
        said.append(CORDONED)
    if found.choice.whole:
        said.append(WHOLE_ARE_CUT)
    if any(sum(asked_profiles(pod).values()) > 1 for pods in waiting.values() for pod in pods):
        said.append(TOGETHER)
    left = _left_uncut(facts, found.choice)
    if left:
        said.append(f"{count(left, 'memory slice')} of GPUs in MIG mode are left without an instance.")
    models = {facts.seats[key].block.gpus[0].model for key in found.choice.relaid}
    said += sorted(filter(None, map(warn_about, models)))
    return (*said, *facts.warnings)


def _left_uncut(facts: MigFacts, choice: Choice) -> int:
    """Memory slices without an instance on GPUs that are cut at all."""
    now = sum(
        gpu.uncut
        for seat in facts.seats.values()
        for gpu in seat.block.gpus
        if not gpu.whole and not seat.block.together
    )
    whole = sum(
        facts.seats[key].block.gpus[at].uncut
        for key, gpus in choice.relaid.items()
        for at in gpus
        if facts.seats[key].block.gpus[at].whole
    )
    return now + whole + choice.uncut


def _sentence(found: Found, cuts: int, moves: int) -> str:
    pods = len(found.seating.started)
    if not pods:
        return "No layouts within the limits let a waiting pod start."
    if not cuts:
        return f"{count(pods, 'waiting pod')} fit the MIG instances that are idle now; nothing is relaid."
    moved = f" after moving {count(moves, 'pod')}" if moves else ""
    return f"Relaying {count(cuts, 'GPU')}{moved} makes room for {count(pods, 'waiting pod')}."
